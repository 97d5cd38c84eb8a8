"""The list of methods, without torch: `plan`, `methods` and the report read only this."""

from functools import cache
from importlib.metadata import entry_points

from fairaudit.errors import ConfigError, did_you_mean
from fairaudit.methods.ablation import ABLATION
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

__all__ = ["BUILT_IN", "REFERENCE", "Guarantee", "MethodSpec", "Variant", "catalog", "find"]

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
    *ABLATION,
)


@cache
def catalog() -> dict[str, MethodSpec]:
    """Every method by name: the built-in ones, then those of the entry points `fairaudit.methods`.

    Raises:
        ConfigError: An entry point is not a MethodSpec, or takes a name that is taken.
    """
    methods = {spec.name: spec for spec in BUILT_IN}
    for point in entry_points(group="fairaudit.methods"):
        spec = point.load()
        if not isinstance(spec, MethodSpec) or spec.name in methods:
            raise ConfigError(f"entry point {point.name!r} of group fairaudit.methods is no new method")
        methods[spec.name] = spec
    return methods


def find(name: str) -> MethodSpec:
    """The method of that name or alias.

    Raises:
        ConfigError: Unknown name.
    """
    methods = catalog()
    for spec in methods.values():
        if name.lower() in (spec.name, *spec.aliases):
            return spec
    raise ConfigError(f"unknown method {name!r}", hint=did_you_mean(name, methods))
