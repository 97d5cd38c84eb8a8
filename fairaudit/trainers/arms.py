"""Trainers of the user's own as methods and arms; none of them is imported here."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, packages_distributions, version

from fairaudit.config.options import AuditConfig
from fairaudit.errors import ConfigError
from fairaudit.io.code_digest import has_file, imported_libraries
from fairaudit.methods.catalog import REFERENCE, admit_outside
from fairaudit.methods.spec import Guarantee, MethodSpec
from fairaudit.planning.arms import Arm, self_check
from fairaudit.report.facts import ArmPrivacy

CAPABILITY = "trainers"
REFERENCE_OF = "-reference"  # what a trainer trains without privacy


def methods(config: AuditConfig) -> Iterator[MethodSpec]:
    """The method that each trainer is, after its own reference where it trains one.

    Raises:
        ConfigError: A name that is none; an option that goes with no trainer.
    """
    if not config.trainer:
        return
    if config.tune is not None:
        raise ConfigError(
            "--tune varies settings of our methods, not of --trainer", hint="leave out one"
        )
    if config.noise_multiplier is not None:
        raise ConfigError(
            "--trainer is asked for an epsilon, and --noise-multiplier gives none",
            hint="use --epsilon",
        )
    for trainer in config.trainer:
        path, _, function = trainer.partition(":")
        if not function.isidentifier() or not all(part.isidentifier() for part in path.split(".")):
            raise ConfigError(
                f"--trainer {trainer!r} names no function", hint="use package.module:function"
            )
        name, reference = f"{path.rpartition('.')[2]}.{function}", REFERENCE
        if config.reference == "trainer":
            reference = f"{name}{REFERENCE_OF}"
            yield MethodSpec(
                name=reference,
                summary=f"{trainer} without privacy",
                source=trainer,
                guarantee=Guarantee.NONE,
                trainer=trainer,
                settings={},
                reference=None,
                reference_of=name,
                capability=CAPABILITY,
            )
        yield MethodSpec(
            name=name,
            summary=f"{trainer}, a trainer of the user's own",
            source=trainer,
            guarantee=Guarantee.CLAIMED,
            trainer=trainer,
            settings={},
            reference=reference,
            capability=CAPABILITY,
        )


def arms(config: AuditConfig, targets: Sequence[float | None]) -> Iterator[Arm]:
    """Every trainer at every epsilon that it is asked for, after its reference."""
    for spec in admit_outside(config):
        if spec.reference is None:
            yield _arm(config, spec, spec.name, None)
            continue
        for target in targets:
            key = spec.name
            if len(targets) > 1:
                key += f"@{target:g}"
            arm = _arm(config, spec, key, target)
            yield arm
            if config.self_check:
                yield self_check(arm)


def _arm(config: AuditConfig, spec: MethodSpec, key: str, target: float | None) -> Arm:
    reason, repeats = "trained by the user's own code without privacy", 1
    if target is not None:
        reason, repeats = "the trainer is asked for it; what it does is its own", config.repeats
    return Arm(
        key=key,
        method=spec.name,
        variant=None,
        settings={},
        privacy=ArmPrivacy(guarantee=spec.guarantee, reason=reason, target_epsilon=target),
        reference=spec.reference,
        source=None,
        reads_groups=config.trainer_groups,
        trainer=spec.trainer,
        repeats=repeats,
        shares_samples=False,
        is_own_code=True,
    )


def identity(config: AuditConfig, arm: Arm, delta: float) -> dict[str, object]:
    """What a training depends on beside its code.

    Raises:
        ConfigError: There is no such module.
    """
    target = arm.privacy.target_epsilon
    return {
        "libraries": _libraries(arm.trainer),
        "asked": None if target is None else [target, delta],
        "given": {
            "raw": config.raw,
            "groups": config.trainer_groups,
            "version": config.trainer_version,
        },
    }


def _libraries(trainer: str) -> dict[str, str]:
    """Versions of the distributions that a trainer's module imports, or the code beside it."""
    path = trainer.partition(":")[0]
    if not has_file(path):
        raise ConfigError(
            f"no module {path!r} of --trainer is found",
            hint="run where it lies, or name its folder in PYTHONPATH",
        )
    homes = packages_distributions()
    distributions: set[str] = set()
    for library in imported_libraries([path]):
        distributions.update(homes.get(library, ()))
    versions = dict.fromkeys(sorted(distributions), "")
    for name in versions:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions
