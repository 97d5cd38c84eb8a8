"""The list of methods, without torch: `plan`, `methods` and the report read only this.

Beside the built-in methods it holds those of capabilities, of installed plugins (entry points), of
modules that ``--method package.module:ATTRIBUTE`` names, and the code that options such as
``--trainer module:function`` name, of which nothing but that name is known. Where code from outside
is defined, ``module:NAME``, is called its home.
"""

from collections.abc import Iterable
from functools import cache
from importlib.metadata import entry_points

from fairaudit.capabilities.installed import CAPABILITIES
from fairaudit.config.options import AuditConfig
from fairaudit.errors import ConfigError, did_you_mean, said
from fairaudit.io.named_code import advice, hidden, import_named
from fairaudit.methods.dpsgd import DPSGD
from fairaudit.methods.dpsgd_f import DPSGD_F
from fairaudit.methods.dpsgd_matched import DPSGD_MATCHED
from fairaudit.methods.fairlens import FAIRLENS
from fairaudit.methods.global_adapt import GLOBAL_ADAPT
from fairaudit.methods.global_clip import GLOBAL
from fairaudit.methods.output_perturbation import EXACT_MINIMISER, OUTPUT_PERTURBATION
from fairaudit.methods.pate import PATE_HARD, PATE_HARD_CLEAN, PATE_SOFT, PATE_SOFT_CLEAN
from fairaudit.methods.reweight import REWEIGHT
from fairaudit.methods.sgd import SGD
from fairaudit.methods.spec import REFERENCE, Guarantee, MethodSpec, Variant

__all__ = [
    "BUILT_IN",
    "REFERENCE",
    "Guarantee",
    "MethodSpec",
    "Variant",
    "admit",
    "admit_own",
    "catalog",
    "find",
    "home_of",
]

GROUP = "fairaudit.methods"  # of entry points
_HOMES: dict[str, str] = {}  # name of a method from outside -> its home, module:NAME

BUILT_IN: tuple[MethodSpec, ...] = (
    SGD,
    DPSGD,
    DPSGD_MATCHED,
    GLOBAL,
    GLOBAL_ADAPT,
    DPSGD_F,
    REWEIGHT,
    FAIRLENS,
    EXACT_MINIMISER,
    OUTPUT_PERTURBATION,
    PATE_HARD_CLEAN,
    PATE_HARD,
    PATE_SOFT_CLEAN,
    PATE_SOFT,
)


@cache
def catalog() -> dict[str, MethodSpec]:
    """Every method's description by its name.

    First the built-in methods, then those of capabilities, then those of the entry points
    `fairaudit.methods`. Every call returns the same dict, to which :func:`admit` and
    :func:`admit_own` add.

    Raises:
        ConfigError: An entry point cannot be imported, is not a MethodSpec, or takes a name that is
            taken.
    """
    methods = {spec.name: spec for spec in BUILT_IN}
    for capability in CAPABILITIES:
        methods.update({spec.name: spec for spec in capability.methods()})
    for capability in CAPABILITIES:
        for name, more in capability.variants().items():
            methods[name] = methods[name].with_variants(more)
    for point in entry_points(group=GROUP):
        where = f"entry point {point.name!r} of group {GROUP}"
        try:
            spec = point.load()
        except BaseException as error:  # code from outside may raise anything, SystemExit too
            if isinstance(error, KeyboardInterrupt):
                raise
            if point.dist:
                dist = point.dist.name
            else:
                dist = "what installed it"
            raise ConfigError(
                f"{where} cannot be imported: {said(error)}", hint=f"repair or uninstall {dist}"
            ) from error
        if not isinstance(spec, MethodSpec) or spec.name in methods:
            raise ConfigError(
                f"{where} is no new method", hint="docs/extending.md says what a method is"
            )
        methods[spec.name], _HOMES[spec.name] = spec, point.value
    return methods


def home_of(spec: MethodSpec) -> str:
    """``module:NAME`` where a method from outside is defined; "" for a method of this program."""
    return _HOMES.get(spec.name, "")


def find(name: str) -> MethodSpec:
    """The method of that name, alias or home (``module:NAME``) in the catalog.

    It imports nothing for an unknown name: names may come from a file, such as a stored report, and
    reading a file must run no code. :func:`admit` imports what the user named.

    Raises:
        ConfigError: Unknown name.
    """
    methods = catalog()
    for spec in methods.values():
        names = (spec.name, *spec.aliases)
        # A home is a Python name, whose case counts.
        if name in names or name.lower() in names or name == _HOMES.get(spec.name):
            return spec
    raise ConfigError(f"unknown method {name!r}", hint=did_you_mean(name, methods))


def admit(names: Iterable[str]) -> None:
    """Import the methods that are named ``package.module:ATTRIBUTE`` and add them to the catalog.

    From then on :func:`find` finds them like all others. Names without a colon are passed over.

    Raises:
        ConfigError: The module cannot be imported, the attribute is no MethodSpec or a built-in
            method, or another method has its name.
    """
    for name in names:
        path, colon, attribute = name.partition(":")
        if not colon:
            continue
        methods = catalog()
        try:
            spec = getattr(import_named(path), attribute, None)
        except BaseException as error:  # code from outside may raise anything, SystemExit too
            if isinstance(error, KeyboardInterrupt):
                raise
            raise ConfigError(
                f"module {path!r} of --method cannot be imported: {said(error)}", hint=advice(path)
            ) from error
        if not isinstance(spec, MethodSpec):
            hint = hidden(path) or "docs/extending.md says what a method is"
            raise ConfigError(f"{name} is no MethodSpec", hint=hint)
        if any(spec is one for one in BUILT_IN):
            raise ConfigError(
                f"{name} is the built-in method {spec.name!r}", hint=f"--method {spec.name}"
            )
        # ``setdefault`` gives the method that had the name before, if one had. The same module may
        # be named twice; another method of that name may not.
        if methods.setdefault(spec.name, spec) is not spec and _HOMES.get(spec.name) != name:
            raise ConfigError(
                f"{name} is named {spec.name!r}, as another method is", hint="name it otherwise"
            )
        methods[spec.name], _HOMES[spec.name] = spec, name


def admit_own(config: AuditConfig) -> tuple[MethodSpec, ...]:
    """Add to the catalog the code that options name (``--trainer``, ``--synthesizer``).

    No such code is imported. A second call with the same options changes nothing, so everybody who
    needs these methods may call it.

    Returns:
        The descriptions that were added; empty where the options name no code.

    Raises:
        ConfigError: An option's value names no function, or two trainers would get one name.
    """
    methods = catalog()
    admitted: dict[str, MethodSpec] = {}
    for capability in CAPABILITIES:
        for spec in capability.own_methods(config):
            present = methods.get(spec.name, spec)
            if present.trainer != spec.trainer:
                raise ConfigError(
                    f"two trainers would be called {spec.name!r}: {present.trainer} and "
                    f"{spec.trainer}",
                    hint="name one of the modules otherwise",
                )
            methods[spec.name], _HOMES[spec.name] = spec, spec.trainer
            admitted[spec.name] = spec
    return tuple(admitted.values())
