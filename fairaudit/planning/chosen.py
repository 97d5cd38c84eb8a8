"""Which methods an audit trains: those of ``--method`` whose needs data, model and options meet.

A *control* (``MethodSpec.control_of``) is a method that reads what another method released, so it
is trained after that one. A *set* (``MethodSpec.method_set``, as ``ablation``) is a name of
``--method`` that stands for several methods without privacy, which ``all`` leaves out.
"""

from typing import NamedTuple

from fairaudit.capabilities.installed import CAPABILITIES
from fairaudit.errors import ConfigError, did_you_mean
from fairaudit.methods.catalog import catalog, find
from fairaudit.methods.defaults import PublicSizes
from fairaudit.methods.spec import MethodSpec, Need
from fairaudit.planning.settings import SettingsResolver

EVERY_METHOD = "all"  # of --method
RECORDS_PER_TEACHER = 100  # at least, of PATE
CONVEX = "logistic"


class Lacking(NamedTuple):
    """Why a method cannot be trained, and what the user can do about it.

    Args:
        reason: A clause that follows the method's name in a sentence.
        remedy: The hint of the error.
    """

    reason: str
    remedy: str


def unmet(spec: MethodSpec, sizes: PublicSizes) -> Lacking | None:
    """The first need of the method that data and model do not meet; None where they meet all."""
    if Need.CONVEX_MODEL in spec.needs and sizes.model != CONVEX:
        return Lacking(
            f"needs a convex model, and the model is {sizes.model}", f"use --model {CONVEX}"
        )
    if Need.PUBLIC_POOL not in spec.needs:
        return None
    least = 2 * RECORDS_PER_TEACHER
    if sizes.n_public < least:
        reason = f"needs {least} training records for two teachers, and there are {sizes.n_public}"
        return Lacking(reason, "use a larger table")
    if sizes.pool < 1:
        return Lacking(
            "needs a student pool, and the test rows are too few to halve", "use --public-data"
        )
    return None


def chosen_methods(numbers: SettingsResolver) -> list[MethodSpec]:
    """The private methods that ``--method`` asks for, once each, controls last.

    A control brings the method that it reads along. A method that only ``all`` asks for and that
    cannot be trained is left out and noted in ``numbers.omitted``.

    Raises:
        ConfigError: A method that is named cannot be trained, or no method has a variant of
            ``--variant``.
    """
    config, sets = numbers.config, method_sets()
    specs = {}
    for name in config.method:
        spec = None if name == EVERY_METHOD or name in sets else find(name)
        if spec is not None and spec.reference is not None:  # else it is a reference: not private
            specs[spec.name] = spec
            lacking = _lacking(numbers, spec)
            if lacking:
                raise ConfigError(f"{spec.name} {lacking.reason}", hint=lacking.remedy)
    for spec in catalog().values():  # those that only the name of their set asks for, as `ablation`
        if spec.method_set in config.method:
            specs[spec.name] = spec
    for spec in catalog().values() if EVERY_METHOD in config.method else ():
        if spec.method_set or spec.capability or spec.reference is None:
            continue
        lacking = _lacking(numbers, spec)
        if lacking:  # a notice of the plan says so
            numbers.omitted[spec.name] = f"it {lacking.reason}"
        else:
            specs.setdefault(spec.name, spec)
    for spec in tuple(specs.values()):
        if spec.control_of:
            specs.setdefault(spec.control_of, find(spec.control_of))
    # Controls last: they read what the others released.
    ordered = sorted(specs.values(), key=lambda spec: spec.control_of is not None)
    forms = {variant.name for spec in ordered for variant in spec.variants}
    for name in config.variant:
        if name not in forms:
            raise ConfigError(
                f"none of the chosen methods has a variant {name!r}", hint=did_you_mean(name, forms)
            )
    return ordered


def method_sets() -> set[str]:
    """Names of ``--method`` that stand for several methods, ``all`` aside."""
    return {spec.method_set for spec in catalog().values()} - {""}


def _lacking(numbers: SettingsResolver, spec: MethodSpec) -> Lacking | None:
    """Why the method cannot be trained by this audit; None where it can.

    The reasons, in this order: it does not go with another option (a capability says so); data or
    model lack what it needs; it would have no noise, since ``--noise-multiplier`` sets that of
    gradients and this method releases something else.
    """
    for capability in CAPABILITIES:
        lacking = capability.unsuited(spec, numbers.config)
        if lacking is not None:
            return lacking
    noiseless = (
        spec.gaussian and not numbers.config.epsilon and "noise_multiplier" not in numbers.own(spec)
    )
    reason = "adds no noise to gradients, so --noise-multiplier does not set its noise"
    remedy = f"give --epsilon instead, or --settings {spec.name}.noise_multiplier=SIGMA"
    return unmet(spec, numbers.sizes) or (Lacking(reason, remedy) if noiseless else None)
