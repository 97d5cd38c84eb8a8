"""Trainers of the user's own as methods: what is known of ``module:function`` without importing it."""

from importlib.metadata import PackageNotFoundError, packages_distributions, version

from fairaudit.errors import ConfigError
from fairaudit.io.code_digest import has_file, imported_libraries
from fairaudit.methods.spec import REFERENCE, Guarantee, MethodSpec

REFERENCE_OF = "-reference"


def methods_of(trainer: str, *, own_reference: bool) -> tuple[MethodSpec, ...]:
    """The method that a trainer is, after its own reference where it trains one.

    Args:
        trainer: ``package.module:function``.
        own_reference: Whether its cost is measured against what it trains without privacy, else sgd.

    Raises:
        ConfigError: No such name.
    """
    path, _, function = trainer.partition(":")
    if not function.isidentifier() or not all(part.isidentifier() for part in path.split(".")):
        raise ConfigError(f"--trainer {trainer!r} names no function", hint="use package.module:function")
    name = f"{path.rpartition('.')[2]}.{function}"
    reference = MethodSpec(
        name=f"{name}{REFERENCE_OF}",
        summary=f"{trainer} without privacy",
        source=trainer,
        guarantee=Guarantee.NONE,
        trainer=trainer,
        settings={},
        reference=None,
        reference_of=name,
        own_code=True,
    )
    own = MethodSpec(
        name=name,
        summary=f"{trainer}, a trainer of the user's own",
        source=trainer,
        guarantee=Guarantee.CLAIMED,
        trainer=trainer,
        settings={},
        own_code=True,
        reference=reference.name if own_reference else REFERENCE,
    )
    return (reference, own) if own_reference else (own,)


def libraries_of(trainer: str) -> dict[str, str]:
    """Versions of the distributions that a trainer's module imports, or the code beside it that is its own.

    Raises:
        ConfigError: There is no such module.
    """
    path = trainer.partition(":")[0]
    if not has_file(path):
        raise ConfigError(
            f"no module {path!r} of --trainer is found",
            hint="run where it lies, or name its folder in PYTHONPATH",
        )
    homes = packages_distributions()
    found = {name for library in imported_libraries([path]) for name in homes.get(library, ())}
    return {name: _version(name) for name in sorted(found)}


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""
