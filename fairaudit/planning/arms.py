"""The arms of an audit.

Which numbers each trains with, and what it guarantees, before any training.
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

SELF_CHECK = "self-check"
LARGEST_STEP = 1e30  # of a step that is scaled by a threshold; beyond it float32 overflows
LARGEST_COUNT_NOISE = 0.5  # sigma_c / qN, the noise in one step of log Z; beyond it exp() runs away


class Arm(ArmPlan):
    """An arm with what trains it.

    Args:
        search: How its settings are sought at each seed; None: ``settings`` are its own.
        charge: What a charged search releases; ``privacy.event`` is then one training of it.
        also_beside: Keys of other arms that its cost is measured against, after ``reference``.
        supports_no_noise: Code that options name, which can be asked to train without its noise.
    """

    search: Search | None = None
    charge: SelectionEvent | None = None
    also_beside: tuple[str, ...] = ()
    supports_no_noise: bool = False

    model_config = ConfigDict(arbitrary_types_allowed=True)

    @property
    def trials(self) -> int:
        """Trainings at each seed."""
        return 1 if self.search is None else self.search.trials

    @property
    def has_noisy_steps(self) -> bool:
        """Whether it trains by steps that noise is added to."""
        return find(self.method).without_noise(self.settings) is not None

    @property
    def has_twins(self) -> bool:
        """Whether it can be trained without noise, and its steps alone, to split its cost."""
        if self.supports_no_noise:
            return "#" not in self.key
        return self.reference == REFERENCE and self.has_noisy_steps


def make_schedule(numbers: SettingsResolver) -> Schedule:
    """How long to train: the options, else the rules.

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
    """The references, then every method in every asked form and at every asked epsilon.

    ``own_module``: what is trained is a module that the layer table lacks.

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
    made = _Making(numbers, schedule, delta, own_module)
    arms = [made.arm(find(name), None, None) for name in references]
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
                continue  # no epsilon to sweep
            forms = [None, *(v.name for v in spec.variants if v.name in config.variant)]
            arms += [made.arm(spec, form, target) for form in forms]
            if config.self_check and not spec.control_of and not spec.method_set:
                arms.append(self_check(arms[-len(forms)]))  # of the method itself, its first form
    for arms_of_capability in added("arms"):
        arms += arms_of_capability(config, targets, arms[0])
    by_key = {arm.key: arm for arm in arms}
    by_rule = []
    for arm in arms:
        # A control takes the steps of the arm that it copies, by rule where that one does.
        copied = by_key[arm.source] if arm.source is not None else arm
        source_settings = numbers.config.settings.get(copied.method, {})
        is_given = numbers.config.learning_rate is not None or "learning_rate" in source_settings
        update = {"step_by_rule": copied.has_noisy_steps and not is_given}
        by_rule.append(arm.model_copy(update=update))
    return tuple(by_rule)


@dataclass(frozen=True, slots=True)
class _Making:
    """What arms are made of: numbers, schedule, delta, and whether a module of the user's own."""

    numbers: SettingsResolver
    schedule: Schedule
    delta: float
    own_module: bool

    def arm(
        self,
        spec: MethodSpec,
        form: str | None,
        target: float | None,
    ) -> Arm:
        """A method in one form at one epsilon; None: by the given noise."""
        config = self.numbers.config
        suffix = ""
        # A method that only its set asks for has no epsilon to sweep.
        if target is not None and len(config.epsilon) > 1 and not spec.method_set:
            suffix = f"@{target:g}"
        variant = next((v for v in spec.variants if v.name == form), None)
        if spec.gaussian and target is None and config.epsilon:
            target = config.epsilon[0]  # a gradient's noise multiplier says nothing about it
        if "noise_multiplier" in self.numbers.own(spec):
            target = None  # the method's own noise speaks louder than the audit's target

        resolved = partial(self.settings, spec, variant)
        length = self.schedule.steps_per_epoch, self.schedule.epochs
        draft = ArmDraft(
            spec,
            resolved,
            self.numbers.sizes,
            *length,
            self.delta,
        )
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
            privacy = of_one_training(
                spec,
                event,
                self.delta,
                target,
                own_module=self.own_module,
            )
            if search is not None:
                privacy = search.guarantee(privacy, charge, self.delta)
        source = f"{spec.control_of}{suffix}" if spec.control_of else None
        if privacy.epsilon is not None:
            items = tuple(
                not_covered(
                    spec,
                    config,
                    source,
                    search,
                    own_module=self.own_module,
                )
            )
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
            also_beside=() if spec.reference in (None, REFERENCE) else (REFERENCE,),
            charge=None if privacy.base_epsilon is None else charge,  # else the search is uncharged
        )

    def settings(
        self, spec: MethodSpec, variant: Variant | None, target: float | None
    ) -> dict[str, float]:
        """The arm's numbers, noise that meets the target included.

        Args:
            spec, variant: The method, and its published form or None.
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
                sigma = calibrated(
                    settings,
                    *length,
                    delta=self.delta,
                    target=target,
                )
            settings["noise_multiplier"] = sigma
        _refuse_noisy_counts(spec, settings, schedule)
        return settings


def _refuse_noisy_counts(
    spec: MethodSpec, settings: Mapping[str, float], schedule: Schedule
) -> None:
    """A threshold that scales every gradient must not follow the noise of its counts.

    Methods whose threshold does not scale bound by themselves what a noised count can do.

    Raises:
        PrivacyError: The noise of a count is large beside the expected batch.
    """
    if not spec.scales_by_threshold:
        return
    expected = schedule.expected_batch_size
    for name in spec.side_queries.values():
        spread = settings[name] / expected
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
    """The arm's numbers: its own setting, else the shared option, else the rule.

    A control takes the settings of the method that it controls, a reference those of its method;
    ``beside`` names a variant's own. Where gradients are scaled by C/Z, a step by rule or for all
    methods is made longer for it; one that is given for this method stands as it is.

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
        value = spec.conversions[given].value(
            asked[given],
            settings,
            numbers.sizes,
        )
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
    """A second private arm, measured against the first: its gap must be consistent with zero."""
    changed = {
        "key": f"{arm.key}#{SELF_CHECK}",
        "reference": arm.key,
        "also_beside": (),
    }
    return arm.model_copy(update={**changed, "shares_samples": False})
