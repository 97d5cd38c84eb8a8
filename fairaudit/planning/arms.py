"""The arms of an audit: which numbers each trains with, and what it guarantees, before any training."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fairaudit.config.options import AuditConfig
from fairaudit.errors import ConfigError, PrivacyError, numbered
from fairaudit.methods.catalog import REFERENCE, Guarantee, MethodSpec, admit, find
from fairaudit.methods.defaults import effective_step
from fairaudit.planning.chosen import chosen_methods, chosen_trainers, refuse_beside_a_search
from fairaudit.planning.guarantees import ArmPrivacy, of_one_training, of_search, of_trainer
from fairaudit.planning.settings import SettingsResolver, check_settings
from fairaudit.privacy.accounting import calibrate
from fairaudit.tuning.charge import Around, charged_search, uncharged_search
from fairaudit.tuning.search import Reuse, Tuning

SELF_CHECK = "self-check"
KEPT_STEPS = 8  # of a training, unless --diagnostics-every says otherwise
LARGEST_STEP = 1e30  # of a step that is scaled by a threshold; beyond it float32 overflows
LARGEST_COUNT_NOISE = 0.5  # sigma_c / qN, the noise in one step of log Z; beyond it exp() runs away


@dataclass(frozen=True, slots=True)
class Schedule:
    """How long every arm trains; one for the whole audit, so that arms can share their samples.

    Args:
        n_public: N, the number of training records: a public constant.
        steps_per_epoch: The sampling rate is 1 / steps_per_epoch.
        epochs: Passes; steps = epochs * steps_per_epoch.
    """

    n_public: int
    steps_per_epoch: int
    epochs: int

    @property
    def steps(self) -> int:
        """T, steps of one training, empty batches included."""
        return self.steps_per_epoch * self.epochs

    def kept(self, every: int | None) -> tuple[int, ...]:
        """Steps kept for readings after training: every so many, or eight from the first to the last."""
        if every is not None:
            return tuple(range(0, self.steps, every))
        if self.steps <= KEPT_STEPS:
            return tuple(range(self.steps))
        return tuple(round(i * (self.steps - 1) / (KEPT_STEPS - 1)) for i in range(KEPT_STEPS))

    @property
    def sample_rate(self) -> float:
        """q, the Poisson inclusion probability of each record."""
        return 1.0 / self.steps_per_epoch

    @property
    def expected_batch_size(self) -> float:
        """qN, the only divisor of a private release."""
        return self.n_public / self.steps_per_epoch


@dataclass(frozen=True, slots=True)
class Arm:
    """One column of the report: a method in one form at one epsilon, over all seeds.

    Args:
        key: ``method``, ``method:variant``, ``method@epsilon`` (sweeps), ``method#self-check``.
        method: Canonical method name.
        variant: Variant name or None.
        settings: Resolved numbers (learning_rate, max_grad_norm, noise_multiplier, ...).
        reference: Key of the arm that its cost is measured against, None for the reference.
        source: Key of the arm whose released thresholds it reads, or None.
        reads_groups: Group labels enter training.
        trainer: ``module:Class``.
        repeats: Private runs per seed; 1 for a reference.
        shares_samples: Its first repeat trains on the reference's Poisson sample (paired arms); a self-check
            arm draws its own.
        has_twin: It is trained once more without its noise, on the same streams.
        tuning: How its settings are sought at each seed; None: ``settings`` are its own.
        is_own_code: ``trainer`` is a function of the user's, asked for ``privacy.target_epsilon``.
        reuse: How it takes over a setting that another arm's search found at each seed, or None.
    """

    key: str
    method: str
    variant: str | None
    settings: Mapping[str, float]
    privacy: ArmPrivacy
    reference: str | None
    source: str | None
    reads_groups: bool
    trainer: str
    repeats: int
    shares_samples: bool = True
    has_twin: bool = False
    tuning: Tuning | None = None
    is_own_code: bool = False
    reuse: Reuse | None = None

    @property
    def has_noisy_steps(self) -> bool:
        """Whether it trains by steps that noise is added to."""
        return find(self.method).without_noise(self.settings) is not None


def make_schedule(numbers: SettingsResolver) -> Schedule:
    """How long to train: the options, else the rules.

    Raises:
        ConfigError: A batch larger than the training split.
    """
    config, sizes = numbers.config, numbers.sizes
    batch = config.batch_size or int(numbers.by_rule("batch_size"))
    if batch > sizes.n_public:
        raise ConfigError(
            f"batch size {batch:,} is larger than the {numbered(sizes.n_public, 'training record')}",
            hint=f"use --batch-size {sizes.n_public} or less",
        )
    return Schedule(
        n_public=sizes.n_public,
        steps_per_epoch=math.ceil(sizes.n_public / batch),
        epochs=config.epochs or int(numbers.by_rule("epochs")),
    )


def make_arms(numbers: SettingsResolver, schedule: Schedule, delta: float) -> tuple[Arm, ...]:
    """The references, then every method in every asked form and at every asked epsilon.

    Raises:
        ConfigError: Unknown method, variant or setting.
        PrivacyError: A target that cannot be met; a count noise too large for the batch.
    """
    config = numbers.config
    admit(config.method)
    trainers = chosen_trainers(config)
    check_settings(numbers)
    refuse_beside_a_search(config)
    chosen = chosen_methods(numbers)
    references = dict.fromkeys([REFERENCE, *(spec.reference for spec in chosen if spec.reference)])
    arms = [_arm(numbers, schedule, delta, find(name), None, None) for name in references]
    targets: tuple[float | None, ...] = config.epsilon if config.noise_multiplier is None else (None,)
    if not targets:
        raise ConfigError("no target epsilon is given", hint="use --epsilon 3, or --noise-multiplier SIGMA")
    for target in targets:
        for spec in chosen:
            if spec.ablation and target != targets[0]:
                continue  # no epsilon to sweep
            forms = [None, *(v.name for v in spec.variants if v.name in config.variant)]
            arms += [_arm(numbers, schedule, delta, spec, form, target) for form in forms]
            if config.self_check and not spec.control_of and not spec.ablation:
                arms.append(_self_check(arms[-len(forms)]))
    return (*arms, *_own_arms(config, trainers, targets))


def _own_arms(
    config: AuditConfig, trainers: Sequence[MethodSpec], targets: Sequence[float | None]
) -> Iterator[Arm]:
    """Every trainer of the user's own, its reference once and the trainer at every epsilon."""
    for spec in trainers:
        for target in targets if spec.reference else (None,):
            arm = Arm(
                key=f"{spec.name}@{target:g}" if target is not None and len(targets) > 1 else spec.name,
                method=spec.name,
                variant=None,
                settings={},
                privacy=of_trainer(spec, target),
                reference=spec.reference,
                source=None,
                reads_groups=config.trainer_groups,
                trainer=spec.trainer,
                repeats=config.repeats if spec.reference else 1,
                shares_samples=False,
                is_own_code=True,
            )
            yield arm
            if config.self_check and spec.reference:
                yield _self_check(arm)


def _arm(
    numbers: SettingsResolver,
    schedule: Schedule,
    delta: float,
    spec: MethodSpec,
    form: str | None,
    target: float | None,
) -> Arm:
    config = numbers.config
    suffix = f"@{target:g}" if target is not None and len(config.epsilon) > 1 and not spec.ablation else ""
    variant = next((v for v in spec.variants if v.name == form), None)
    if spec.gaussian and target is None and config.epsilon:
        target = config.epsilon[0]  # a gradient's noise multiplier says nothing about it
    if "noise_multiplier" in numbers.own(spec):
        target = None  # the method's own noise speaks louder than the audit's target

    def resolved(goal: float | None) -> dict[str, float]:
        known = _knowing_noise(numbers, spec, schedule, delta, goal)
        settings = _settings(known, spec, tuple(variant.settings) if variant else ())
        if "noise_multiplier" in spec.settings:
            length = schedule.steps_per_epoch, schedule.epochs
            settings["noise_multiplier"] = (
                _given_noise(known, spec)
                if goal is None
                else spec.mechanism.calibrated(settings, *length, delta=delta, target=goal)
            )
        _refuse_large_count_noise(spec, settings, schedule)
        return settings

    if config.tune is None:
        settings, found = resolved(target), None
    else:
        search = charged_search if config.tune_privacy == "charged" else uncharged_search
        around = Around(spec, resolved, numbers.sizes, schedule.steps_per_epoch, schedule.epochs, delta)
        found = search(around.search(config.tune, config.tune_for), config.tune, delta, target)
        settings = dict(found.tuning.settings)
    if variant and variant.guarantee is not Guarantee.ESTABLISHED:
        privacy = ArmPrivacy(Guarantee.NOT_ESTABLISHED, variant.reason, target_epsilon=target)
    else:
        event = spec.events(settings, schedule.steps_per_epoch, schedule.epochs)
        privacy = of_one_training(spec, event, delta, target)
        privacy = privacy if found is None else of_search(privacy, found, delta)
    return Arm(
        key=f"{spec.name}{':' + form if form else ''}{suffix}",
        method=spec.name,
        variant=form,
        settings=settings,
        privacy=privacy,
        reference=spec.reference,
        source=f"{spec.control_of}{suffix}" if spec.control_of else None,
        reads_groups=spec.reads_groups or (variant is not None and variant.reads_groups),
        trainer=variant.trainer if variant else spec.trainer,
        repeats=config.repeats if spec.reference else 1,
        shares_samples=spec.trains_by_steps,
        has_twin=config.twins and spec.reference == REFERENCE and spec.without_noise(settings) is not None,
        tuning=found.tuning if found else None,
    )


def _knowing_noise(
    numbers: SettingsResolver, spec: MethodSpec, schedule: Schedule, delta: float, target: float | None
) -> SettingsResolver:
    """The numbers, whose rules then read what noise the target asks of the gradient alone.

    It is one and the same for every method that trains by noised steps, so that they keep one step.
    """
    if "noise_multiplier" not in spec.settings or not spec.trains_by_steps:
        return numbers
    sigma = (
        _given_noise(numbers, spec)
        if target is None
        else calibrate(schedule.steps_per_epoch, schedule.steps, delta, target)
    )
    batch = schedule.expected_batch_size
    sizes = replace(numbers.sizes, noise_multiplier=sigma, steps=schedule.steps, expected_batch_size=batch)
    return replace(numbers, sizes=sizes)


def _settings(numbers: SettingsResolver, spec: MethodSpec, beside: tuple[str, ...]) -> dict[str, float]:
    """The arm's numbers: its own setting, else the shared option, else the rule.

    A control takes the settings of the method that it controls, a reference those of its method;
    ``beside`` names a variant's own.
    """
    config, own = numbers.config, numbers.own(spec)
    shared: dict[str, float | None] = {
        "learning_rate": config.learning_rate,
        "max_grad_norm": config.max_grad_norm,
        "threshold": config.threshold,
    }
    # Setting -> the name in another convention under which it was given.
    converted = {c.into: name for name, c in spec.conversions.items() if name in own}
    for into, name in converted.items():
        if into in own:
            raise ConfigError(f"{spec.name}: {name} and {into} say the same twice", hint="give one of them")
    settings: dict[str, float] = {}
    for name in (*spec.settings, *beside):
        if name != "noise_multiplier" and name not in converted:
            value = own.get(name, shared.get(name))
            if value is None:
                value = numbers.default(spec, name)
                # Z is never below C: a larger bound that is given moves it along.
                value = max(value, settings["max_grad_norm"]) if name == "threshold" else value
            settings[name] = numbers.checked(spec, name, value)
    for name, given in converted.items():
        value = spec.conversions[given].value(own[given], settings, numbers.sizes)
        settings[name] = numbers.checked(spec, name, value)
    scaled = find(spec.control_of) if spec.control_of else spec
    if scaled.scales_by_threshold and "learning_rate" not in own:
        bound = settings["max_grad_norm"]
        threshold = own.get("threshold", config.threshold) or max(numbers.default(scaled, "threshold"), bound)
        settings["learning_rate"] = effective_step(settings["learning_rate"], threshold, bound)
        if not settings["learning_rate"] <= LARGEST_STEP:
            raise ConfigError(
                f"{spec.name}: the step {settings['learning_rate']:g} that makes up for C/Z is too large",
                hint=f"a smaller learning rate or threshold, a larger clipping bound than "
                f"{settings['max_grad_norm']:g}",
            )
    return settings


def _given_noise(numbers: SettingsResolver, spec: MethodSpec) -> float:
    given = numbers.own(spec).get("noise_multiplier", numbers.config.noise_multiplier)
    assert given is not None
    return numbers.checked(spec, "noise_multiplier", given)


def _refuse_large_count_noise(spec: MethodSpec, settings: Mapping[str, float], schedule: Schedule) -> None:
    if not spec.scales_by_threshold:
        return  # other rules bound what a noised count can do
    for name in spec.side_queries.values():
        spread = settings[name] / schedule.expected_batch_size
        if spread > LARGEST_COUNT_NOISE:
            largest = LARGEST_COUNT_NOISE * schedule.expected_batch_size
            # The schedule rounds a batch down to N / ceil(N / batch); the one named must survive that.
            steps = math.floor(schedule.n_public * LARGEST_COUNT_NOISE / settings[name])
            batch = f"a batch size of {math.ceil(schedule.n_public / steps)} or more, or " if steps else ""
            raise PrivacyError(
                f"{spec.name}: {name} {settings[name]:g} over the expected batch size "
                f"{schedule.expected_batch_size:,.1f} is {spread:.2g}, above {LARGEST_COUNT_NOISE}: "
                "the threshold would follow noise alone",
                hint=f"use {batch}{name} of {math.floor(largest * 1e3) / 1e3:g} or less",
            )


def _self_check(arm: Arm) -> Arm:
    """A second private arm, measured against the first: its gap must be consistent with zero."""
    return replace(
        arm, key=f"{arm.key}#{SELF_CHECK}", reference=arm.key, shares_samples=False, has_twin=False
    )
