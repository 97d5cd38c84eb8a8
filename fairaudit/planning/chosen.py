"""Which methods an audit trains: those of ``--method`` whose needs data, model and options meet.

A *control* (``MethodSpec.control_of``) is a method that reads what another method released, so it
is trained after that one. A *set* (``MethodSpec.method_set``, as ``ablation``) is a name of
``--method`` that stands for several methods without privacy, which ``all`` leaves out.
"""

from collections.abc import Iterator
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


def chosen_methods(resolver: SettingsResolver) -> list[MethodSpec]:
    """The methods that ``--method`` asks for, once each, controls last; references are left out.

    A control brings the method that it reads along. A method that only ``all`` asks for and that
    cannot be trained is left out and noted in ``resolver.omitted``.

    Raises:
        ConfigError: A method that is named cannot be trained, or no method has a variant of
            ``--variant``.
    """
    asked = resolver.config.method
    specs = {spec.name: spec for spec in _named_methods(resolver)}
    for spec in catalog().values():
        if spec.method_set in asked:
            specs[spec.name] = spec
    if EVERY_METHOD in asked:
        for spec in _every_trainable_method(resolver):
            specs.setdefault(spec.name, spec)
    for spec in tuple(specs.values()):
        if spec.control_of:
            specs.setdefault(spec.control_of, find(spec.control_of))
    # Controls last: they read what the others released. sorted() keeps the order of equals.
    ordered = sorted(specs.values(), key=lambda spec: spec.control_of is not None)
    forms = {variant.name for spec in ordered for variant in spec.variants}
    for name in resolver.config.variant:
        if name not in forms:
            raise ConfigError(
                f"none of the chosen methods has a variant {name!r}", hint=did_you_mean(name, forms)
            )
    return ordered


def _named_methods(resolver: SettingsResolver) -> Iterator[MethodSpec]:
    """The methods that ``--method`` asks for by a name of their own; references are left out.

    Raises:
        ConfigError: One of them cannot be trained.
    """
    sets = method_sets()
    for name in resolver.config.method:
        if name == EVERY_METHOD or name in sets:
            continue
        spec = find(name)
        if spec.reference is None:  # a reference itself, which every audit has
            continue
        lacking = _lacking(resolver, spec)
        if lacking:
            raise ConfigError(f"{spec.name} {lacking.reason}", hint=lacking.remedy)
        yield spec


def _every_trainable_method(resolver: SettingsResolver) -> Iterator[MethodSpec]:
    """The methods that ``--method all`` stands for and that this audit can train.

    Those that it cannot train are noted in ``resolver.omitted``, of which the plan gives a notice.
    """
    for spec in catalog().values():
        # Not in `all`: methods of a set, code of the user's own, and references (always trained).
        if spec.method_set or spec.capability or spec.reference is None:
            continue
        lacking = _lacking(resolver, spec)
        if lacking:
            resolver.omitted[spec.name] = f"it {lacking.reason}"
        else:
            yield spec


def method_sets() -> set[str]:
    """Names of ``--method`` that stand for several methods, ``all`` aside."""
    return {spec.method_set for spec in catalog().values()} - {""}


def _lacking(resolver: SettingsResolver, spec: MethodSpec) -> Lacking | None:
    """Why the method cannot be trained by this audit; None where it can."""
    for capability in CAPABILITIES:
        lacking = capability.unsuited(spec, resolver.config)
        if lacking is not None:  # the method does not go with another option
            return lacking
    lacking = unmet(spec, resolver.sizes)
    if lacking is not None:
        return lacking
    # Without a target the noise comes from --noise-multiplier, which is about gradients. A method
    # with a Gaussian mechanism releases something else, so it would have no noise.
    has_noise = bool(resolver.config.epsilon) or "noise_multiplier" in resolver.given(spec)
    if spec.gaussian and not has_noise:
        return Lacking(
            "adds no noise to gradients, so --noise-multiplier does not set its noise",
            f"give --epsilon instead, or --settings {spec.name}.noise_multiplier=SIGMA",
        )
    return None
