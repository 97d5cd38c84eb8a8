"""One arm before its noise is known: the numbers that it trains with, once a target says so.

C is the clipping bound; methods that *scale by C/Z* shrink every gradient by C over a threshold Z.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from fairaudit.errors import ConfigError, PrivacyError
from fairaudit.methods.catalog import find
from fairaudit.methods.defaults import effective_step
from fairaudit.methods.spec import MethodSpec, Variant
from fairaudit.planning.settings import SettingsResolver
from fairaudit.privacy.accounting import calibrate
from fairaudit.report.types.facts import Schedule

LARGEST_STEP = 1e30  # of a step that is scaled by a threshold; beyond it float32 overflows
LARGEST_COUNT_NOISE = 0.5  # sigma_c / qN, the noise in one step of log Z; beyond it exp() runs away


@dataclass(frozen=True, slots=True)
class ArmDraft:
    """A method in one form, with the options and the schedule of its audit.

    Args:
        spec: The method.
        variant: Its published form; None: the default form.
        numbers: The options, and the rules for what they leave open.
        schedule: How long it trains.
        delta: In (0, 1).
    """

    spec: MethodSpec
    variant: Variant | None
    numbers: SettingsResolver
    schedule: Schedule
    delta: float

    def settings(self, target: float | None) -> dict[str, float]:
        """The arm's numbers by name, with the noise multiplier that meets the target.

        Args:
            target: Epsilon that the noise must meet; None: the noise is given.

        Raises:
            ConfigError: As :func:`_settings`.
            PrivacyError: No noise meets the target, or a threshold would follow noise alone.
        """
        spec, variant, schedule = self.spec, self.variant, self.schedule
        numbers = self.numbers
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
        refuse_noisy_counts(spec, settings, schedule)
        return settings


def refuse_noisy_counts(
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


def _lacks(numbers: SettingsResolver, spec: MethodSpec, name: str) -> bool:
    """Whether the model has not what this number is of, so that it is 0."""
    applies = spec.settings[name].applies
    return applies is not None and not applies(numbers.sizes)


def _settings(
    numbers: SettingsResolver, spec: MethodSpec, of_form: tuple[str, ...]
) -> dict[str, float]:
    """The arm's numbers by name, without its noise multiplier.

    Each is what ``--settings`` says for the method (or for the one that it is a control or the
    reference of), else the option for all methods, else the default by rule. Where gradients are
    scaled by C/Z, the learning rate is multiplied by Z/C to make up for it, unless it was given
    for this method.

    Args:
        numbers: The options, and the rules for what they leave open.
        spec: The method.
        of_form: Names of the settings that only its variant has.

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
    for name in (*spec.settings, *of_form):
        if name not in of_form and _lacks(numbers, spec, name):
            settings[name] = 0.0
            numbers.origins[name] = "0 for this model and bound"
        elif name != "noise_multiplier" and name not in converted:
            value = asked.get(name, shared.get(name))
            if value is None:
                value = numbers.default(spec, name)
                # Z is never below C: a larger bound that is given moves it along.
                if name == "threshold":
                    value = max(value, settings["max_grad_norm"])
            settings[name] = numbers.checked(spec, name, value)
            if name == "max_grad_norm":
                sizes = replace(numbers.sizes, max_grad_norm=settings[name])
                numbers = replace(numbers, sizes=sizes)
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
