"""The arms of an audit: which numbers each trains with, and what it guarantees.

Both are known before any training. A *reference* is a method without privacy that others are
measured against. A *form* of a method is its default, or one of its variants (published forms that
are kept for reproduction). A *target* is the epsilon that an arm's noise is calibrated to.
C is the clipping bound; methods that *scale by C/Z* shrink every gradient by C over a threshold Z.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from pydantic import ConfigDict

from fairaudit.capabilities import added
from fairaudit.errors import ConfigError, PrivacyError, numbered
from fairaudit.methods.catalog import (
    REFERENCE,
    Guarantee,
    MethodSpec,
    Variant,
    admit,
    admit_outside,
    find,
)
from fairaudit.methods.defaults import effective_step
from fairaudit.planning.chosen import chosen_methods
from fairaudit.planning.guarantees import not_covered, of_one_training
from fairaudit.planning.search import ArmDraft, Search, Sought
from fairaudit.planning.settings import SettingsResolver, check_settings
from fairaudit.privacy.accounting import calibrate
from fairaudit.privacy.selection import SelectionEvent
from fairaudit.report.facts import ArmPlan, ArmPrivacy, Schedule

SELF_CHECK = "self-check"  # follows "#" in the key of an arm that checks another one
LARGEST_STEP = 1e30  # of a step that is scaled by a threshold; beyond it float32 overflows
LARGEST_COUNT_NOISE = 0.5  # sigma_c / qN, the noise in one step of log Z; beyond it exp() runs away


class Arm(ArmPlan):
    """One trained configuration of the audit, with what only its training needs to know.

    Args:
        search: How its settings are sought at each seed; None: ``settings`` are fixed.
        charge: What a charged search releases; ``privacy.event`` is then one training of it. None:
            no search, or one that is not charged.
        also_beside: Keys of other arms that its cost is measured against, beside ``reference``.
        supports_no_noise: It is trained by code of the user's own that says of itself that it can
            train without its noise.
    """

    search: Search | None = None
    charge: SelectionEvent | None = None
    also_beside: tuple[str, ...] = ()
    supports_no_noise: bool = False

    model_config = ConfigDict(arbitrary_types_allowed=True)

    @property
    def trials(self) -> int:
        """Trainings at each seed: the candidates of a search, else 1."""
        return 1 if self.search is None else self.search.trials

    @property
    def has_noisy_steps(self) -> bool:
        """Whether it trains by steps, with noise in each (a noise multiplier above 0)."""
        return find(self.method).without_noise(self.settings) is not None

    @property
    def has_twins(self) -> bool:
        """Whether twins of it can be trained, which split its cost into parts.

        The engine trains them of arms that are measured against plain SGD; code of the user's own
        only if it says that it can.
        """
        if self.supports_no_noise:
            return "#" not in self.key  # a self-check's difference is not split
        return self.reference == REFERENCE and self.has_noisy_steps


def make_schedule(numbers: SettingsResolver) -> Schedule:
    """The steps and epochs of every arm, from the options or else by rule.

    Raises:
        ConfigError: A batch larger than the training split.
    """
    config, sizes = numbers.config, numbers.sizes
    batch = config.batch_size or int(numbers.by_rule("batch_size"))
    if batch > sizes.n_public:
        raise ConfigError(
            f"batch size {batch:,} is larger than the "
            f"{numbered(sizes.n_public, 'training record')}",
            hint=f"use --batch-size {sizes.n_public} or less",
        )
    return Schedule(
        n_public=sizes.n_public,
        steps_per_epoch=math.ceil(sizes.n_public / batch),
        epochs=config.epochs or int(numbers.by_rule("epochs")),
    )


def make_arms(
    numbers: SettingsResolver, schedule: Schedule, delta: float, *, own_module: bool = False
) -> tuple[Arm, ...]:
    """All arms of the audit: references, then each method in each asked form at each target.

    Self-checks and arms of the user's own code are among them.

    Args:
        numbers: The options, and the rules for what they leave open.
        schedule, delta: Shared by all arms.
        own_module: The model has layers that the engine's layer table lacks; its guarantee then
            depends on the user's own code.

    Raises:
        ConfigError: Unknown method, variant or setting.
        PrivacyError: A target that cannot be met; a count noise too large for the batch.
    """
    config = numbers.config
    # From here on the catalog of this process has the methods that options name.
    admit(config.method)
    admit_outside(config)
    check_settings(numbers)
    for refuse in added("refuse"):
        refuse(config)
    chosen = chosen_methods(numbers)
    references = dict.fromkeys([REFERENCE, *(spec.reference for spec in chosen if spec.reference)])
    maker = _ArmMaker(numbers, schedule, delta, own_module)
    arms = [maker.arm(find(name), None, None) for name in references]
    targets: tuple[float | None, ...] = (
        config.epsilon if config.noise_multiplier is None else (None,)
    )
    if not targets:
        raise ConfigError(
            "no target epsilon is given", hint="use --epsilon 3, or --noise-multiplier SIGMA"
        )
    for target in targets:
        for spec in chosen:
            if spec.method_set and target != targets[0]:
                continue  # it has no epsilon: one arm serves all targets
            forms = [None, *(v.name for v in spec.variants if v.name in config.variant)]
            arms += [maker.arm(spec, form, target) for form in forms]
            if config.self_check and not spec.control_of and not spec.method_set:
                arms.append(self_check(arms[-len(forms)]))  # of the method itself, its first form
    for arms_of_capability in added("arms"):
        arms += arms_of_capability(config, targets, arms[0])
    by_key = {arm.key: arm for arm in arms}
    by_rule = []
    for arm in arms:
        # A control takes the step size of the arm that it reads: by rule if that one has it so.
        copied = by_key[arm.source] if arm.source is not None else arm
        source_settings = numbers.config.settings.get(copied.method, {})
        is_given = numbers.config.learning_rate is not None or "learning_rate" in source_settings
        update = {"step_by_rule": copied.has_noisy_steps and not is_given}
        by_rule.append(arm.model_copy(update=update))
    return tuple(by_rule)


@dataclass(frozen=True, slots=True)
class _ArmMaker:
    """Makes arms of methods; its fields are the arguments of :func:`make_arms`."""

    numbers: SettingsResolver
    schedule: Schedule
    delta: float
    own_module: bool

    def arm(self, spec: MethodSpec, form: str | None, target: float | None) -> Arm:
        """The arm of a method in one form at one target.

        Args:
            spec: The method.
            form: The variant's name; None: the default form.
            target: Epsilon that the noise must meet; None: the noise is given, or there is none.

        Raises: as :meth:`settings`.
        """
        config = self.numbers.config
        suffix = ""
        # The target is part of the key where there are several. A method that only its set asks for
        # has none.
        if target is not None and len(config.epsilon) > 1 and not spec.method_set:
            suffix = f"@{target:g}"
        variant = next((v for v in spec.variants if v.name == form), None)
        if spec.gaussian and target is None and config.epsilon:
            # --noise-multiplier is about gradients; this method adds noise to something else.
            target = config.epsilon[0]
        if "noise_multiplier" in self.numbers.own(spec):
            target = None  # noise that --settings gives this method replaces the audit's target

        resolved = partial(self.settings, spec, variant)
        length = self.schedule.steps_per_epoch, self.schedule.epochs
        draft = ArmDraft(spec, resolved, self.numbers.sizes, *length, self.delta)
        sought: Sought | None = None  # None where the settings are those of the options and rules
        for search_of in added("search"):
            sought = search_of(draft, config, target)
            if sought is not None:
                break
        search, charge = None, None
        if sought is None:
            settings = resolved(target)
        else:
            search, charge = sought
            settings = dict(search.settings)
        if variant and variant.guarantee is not Guarantee.ESTABLISHED:
            privacy = ArmPrivacy(
                guarantee=Guarantee.NOT_ESTABLISHED, reason=variant.reason, target_epsilon=target
            )
        else:
            event = spec.events(settings, *length)
            privacy = of_one_training(spec, event, self.delta, target, own_module=self.own_module)
            if search is not None:
                privacy = search.guarantee(privacy, charge, self.delta)
        source = f"{spec.control_of}{suffix}" if spec.control_of else None
        if privacy.epsilon is not None:
            items = tuple(not_covered(spec, config, source, search, own_module=self.own_module))
            privacy = privacy.model_copy(update={"not_covered": items})
        return Arm(
            key=f"{spec.name}{':' + form if form else ''}{suffix}",
            method=spec.name,
            variant=form,
            settings=settings,
            privacy=privacy,
            reference=spec.reference,
            source=source,
            reads_groups=spec.reads_groups or (variant is not None and variant.reads_groups),
            trainer=variant.trainer if variant else spec.trainer,
            repeats=config.repeats if spec.reference else 1,
            shares_samples=spec.trains_by_steps,
            search=search,
            # Where its reference is another method, it is measured against plain SGD as well.
            also_beside=() if spec.reference in (None, REFERENCE) else (REFERENCE,),
            charge=None if privacy.base_epsilon is None else charge,  # None: an uncharged search
        )

    def settings(
        self, spec: MethodSpec, variant: Variant | None, target: float | None
    ) -> dict[str, float]:
        """The arm's numbers by name, with the noise multiplier that meets the target.

        Args:
            spec, variant: The method, and its variant; None: the default form.
            target: Epsilon that the noise must meet; None: the noise is given.

        Raises:
            ConfigError: As :func:`_settings`.
            PrivacyError: No noise meets the target, or a threshold would follow noise alone.
        """
        numbers, schedule = self.numbers, self.schedule
        has_noise, sigma = "noise_multiplier" in spec.settings, 0.0
        if has_noise and target is None:
            given = numbers.own(spec).get("noise_multiplier", numbers.config.noise_multiplier)
            assert given is not None
            sigma = numbers.checked(spec, "noise_multiplier", given)
        if has_noise and spec.trains_by_steps:
            # Defaults read what noise the target asks of the gradient alone: one and the same for
            # every method that trains by noised steps, so that they keep one step. What the arm
            # itself needs, its other queries included, is calibrated below.
            if target is not None:
                sigma = calibrate(schedule.steps_per_epoch, schedule.steps, self.delta, target)
            sizes = replace(
                numbers.sizes,
                noise_multiplier=sigma,
                steps=schedule.steps,
                expected_batch_size=schedule.expected_batch_size,
            )
            numbers = replace(numbers, sizes=sizes)
        settings = _settings(numbers, spec, tuple(variant.settings) if variant else ())
        if has_noise:
            if target is not None:
                length = schedule.steps_per_epoch, schedule.epochs
                calibrated = spec.mechanism.calibrated
                sigma = calibrated(settings, *length, delta=self.delta, target=target)
            settings["noise_multiplier"] = sigma
        _refuse_noisy_counts(spec, settings, schedule)
        return settings


def _refuse_noisy_counts(
    spec: MethodSpec, settings: Mapping[str, float], schedule: Schedule
) -> None:
    """Refuse side queries whose noise is large beside the expected batch.

    Such a query counts records, and the threshold that scales every gradient follows the count; it
    would follow noise. Methods whose threshold does not scale gradients limit by themselves what a
    noised count can do, and are not refused.

    Raises:
        PrivacyError: A noise multiplier of a count over the expected batch size is above
            ``LARGEST_COUNT_NOISE``.
    """
    if not spec.scales_by_threshold:
        return
    expected = schedule.expected_batch_size
    for name in spec.side_queries.values():
        spread = settings[name] / expected  # of a noised count over the batch
        if spread <= LARGEST_COUNT_NOISE:
            continue
        # The schedule rounds a batch down to N / ceil(N / batch); the one named must survive that.
        steps = math.floor(schedule.n_public * LARGEST_COUNT_NOISE / settings[name])
        batch = ""
        if steps:
            batch = f"a batch size of {math.ceil(schedule.n_public / steps)} or more, or "
        largest = math.floor(LARGEST_COUNT_NOISE * expected * 1e3) / 1e3
        raise PrivacyError(
            f"{spec.name}: {name} {settings[name]:g} over the expected batch size "
            f"{expected:,.1f} is {spread:.2g}, above {LARGEST_COUNT_NOISE}: the threshold "
            "would follow noise alone",
            hint=f"use {batch}{name} of {largest:g} or less",
        )


def _settings(
    numbers: SettingsResolver, spec: MethodSpec, beside: tuple[str, ...]
) -> dict[str, float]:
    """The arm's numbers by name, without its noise multiplier.

    Each is what ``--settings`` says for the method (or for the one that it is a control or the
    reference of), else the option for all methods, else the default by rule. Where gradients are
    scaled by C/Z, the learning rate is multiplied by Z/C to make up for it, unless it was given
    for this method.

    Args:
        numbers: The options, and the rules for what they leave open.
        spec: The method.
        beside: Names of the settings that only its variant has.

    Raises:
        ConfigError: A number out of its range, or given twice; a step that float32 cannot hold.
    """
    config, asked = numbers.config, numbers.own(spec)
    shared: dict[str, float | None] = {
        "learning_rate": config.learning_rate,
        "max_grad_norm": config.max_grad_norm,
        "threshold": config.threshold,
    }
    # Setting -> the name in another convention under which it was given.
    converted = {c.into: name for name, c in spec.conversions.items() if name in asked}
    for target, name in converted.items():
        if target in asked:
            raise ConfigError(
                f"{spec.name}: {name} and {target} say the same twice", hint="give one of them"
            )
    settings: dict[str, float] = {}
    for name in (*spec.settings, *beside):
        if name != "noise_multiplier" and name not in converted:
            value = asked.get(name, shared.get(name))
            if value is None:
                value = numbers.default(spec, name)
                # Z is never below C: a larger bound that is given moves it along.
                if name == "threshold":
                    value = max(value, settings["max_grad_norm"])
            settings[name] = numbers.checked(spec, name, value)
    for name, given in converted.items():
        value = spec.conversions[given].value(asked[given], settings, numbers.sizes)
        settings[name] = numbers.checked(spec, name, value)
    scaled = find(spec.control_of) if spec.control_of else spec
    if "learning_rate" in asked or not scaled.scales_by_threshold:
        return settings
    bound = settings["max_grad_norm"]
    threshold = asked.get("threshold", config.threshold)
    if not threshold:
        threshold = max(numbers.default(scaled, "threshold"), bound)
    step = effective_step(settings["learning_rate"], threshold, bound)
    if not step <= LARGEST_STEP:
        raise ConfigError(
            f"{spec.name}: the step {step:g} that makes up for C/Z is too large",
            hint=f"a smaller learning rate or threshold, a larger clipping bound than {bound:g}",
        )
    return {**settings, "learning_rate": step}


def self_check(arm: Arm) -> Arm:
    """A second arm as the given private one, measured against it: its gap must be near zero.

    It has samples and noise of its own, so it tells how far equal trainings differ by chance.
    """
    changed = {"key": f"{arm.key}#{SELF_CHECK}", "reference": arm.key, "also_beside": ()}
    return arm.model_copy(update={**changed, "shares_samples": False})
