"""One arm before its noise is known: the numbers that it trains with, once a target says so.

C is the clipping bound; methods that *scale by C/Z* shrink every gradient by C over a threshold Z.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from fairaudit.capabilities.installed import CAPABILITIES
from fairaudit.errors import ConfigError, PrivacyError
from fairaudit.methods.catalog import find
from fairaudit.methods.defaults import effective_step
from fairaudit.methods.spec import MethodSpec, Variant
from fairaudit.planning.search import CandidateSearch
from fairaudit.planning.settings import SettingsResolver
from fairaudit.privacy.accounting import calibrate
from fairaudit.report.types.facts import Schedule

LARGEST_STEP = 1e30  # of a step that is scaled by a threshold; beyond it float32 overflows
LARGEST_COUNT_NOISE = 0.5  # sigma_c / qN, the noise in one step of log Z; beyond it exp() runs away


@dataclass(frozen=True, slots=True)
class ArmDraft:
    """A method in one form (its default, or a variant), with its audit's options and schedule.

    Args:
        spec: The method.
        variant: Its published form; None: the default form.
        resolver: The options, and the rules for what they leave open.
        schedule: How long it trains.
        delta: In (0, 1).
    """

    spec: MethodSpec
    variant: Variant | None
    resolver: SettingsResolver
    schedule: Schedule
    delta: float

    def search(self, target: float | None) -> CandidateSearch | None:
        """How the arm's settings are sought, by the options; None where they are fixed.

        Args:
            target: Epsilon that the whole of it must meet; None: the noise is given.

        Raises:
            ConfigError: What is searched would change what is released.
            PrivacyError: No noise meets the target.
        """
        for capability in CAPABILITIES:
            search = capability.search(self, self.resolver.config, target)
            if search is not None:
                return search
        return None

    def settings(self, target: float | None) -> dict[str, float]:
        """The arm's numbers by name, with the noise multiplier that meets the target.

        Args:
            target: Epsilon that the noise must meet; None: the noise is given.

        Raises:
            ConfigError: As :func:`_settings_without_noise`.
            PrivacyError: No noise meets the target, or a threshold would follow noise alone.
        """
        spec, schedule = self.spec, self.schedule
        has_noise = "noise_multiplier" in spec.settings
        given_noise = self._given_noise() if has_noise and target is None else None
        resolver = self.resolver
        if has_noise and spec.trains_by_steps:
            resolver = self._with_public_noise(given_noise, target)
        settings = _settings_without_noise(
            resolver, spec, tuple(self.variant.settings) if self.variant else ()
        )
        if has_noise:
            if target is None:
                assert given_noise is not None
                settings["noise_multiplier"] = given_noise
            else:  # after the other settings, as these say what is released beside the gradient
                settings["noise_multiplier"] = spec.mechanism.calibrated(
                    settings,
                    schedule.steps_per_epoch,
                    schedule.epochs,
                    delta=self.delta,
                    target=target,
                )
        refuse_noisy_counts(spec, settings, schedule)
        return settings

    def _given_noise(self) -> float:
        """The noise multiplier of ``--settings`` for this method, else that of all methods.

        Raises:
            ConfigError: The noise multiplier is out of its range.
        """
        resolver, name = self.resolver, "noise_multiplier"
        noise = resolver.given(self.spec).get(name, resolver.config.noise_multiplier)
        assert noise is not None, "without a target the options give the noise"
        return resolver.checked(self.spec, name, noise)

    def _with_public_noise(self, noise: float | None, target: float | None) -> SettingsResolver:
        """The resolver, whose default rules may then read the noise and the schedule.

        For a target it is the noise of the gradient alone, the same for every method that trains by
        noised steps, so that their default steps are equal. The arm itself may need more, for its
        other queries; that is calibrated when its settings are known.

        Args:
            noise: The noise multiplier that is given; None: there is a target.
            target: Epsilon; None: the noise is given.
        """
        schedule = self.schedule
        if target is not None:
            noise = calibrate(schedule.steps_per_epoch, schedule.steps, self.delta, target)
        assert noise is not None
        sizes = replace(
            self.resolver.sizes,
            noise_multiplier=noise,
            steps=schedule.steps,
            expected_batch_size=schedule.expected_batch_size,
        )
        return replace(self.resolver, sizes=sizes)


def refuse_noisy_counts(
    spec: MethodSpec, settings: Mapping[str, float], schedule: Schedule
) -> None:
    """Refuse side queries whose noise is large beside the expected batch.

    Such a query counts records, and the threshold that scales every gradient follows the count; it
    would follow noise. Methods whose threshold does not scale gradients limit by themselves what a
    noised count can do, and are not refused.

    Args:
        spec: The method.
        settings: The arm's numbers by name, the noise multipliers of its queries included.
        schedule: For the expected batch size.

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
        # The schedule rounds a batch down to N / ceil(N / batch): what is left of the batch that
        # the hint names must be large enough.
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


def _is_unused(resolver: SettingsResolver, spec: MethodSpec, name: str) -> bool:
    """Whether a setting means nothing for this model and bound, so that its value is 0."""
    applies = spec.settings[name].applies
    return applies is not None and not applies(resolver.sizes)


def _settings_without_noise(
    resolver: SettingsResolver, spec: MethodSpec, of_form: tuple[str, ...]
) -> dict[str, float]:
    """The arm's numbers by name, without its noise multiplier.

    Each is what ``--settings`` says for the method (or for the one that it is a control or the
    reference of), else the option for all methods, else the default by rule.

    Args:
        resolver: The options, and the rules for what they leave open.
        spec: The method.
        of_form: Names of the settings that only its variant has.

    Raises:
        ConfigError: A number out of its range, or given twice; a step that float32 cannot hold.
    """
    config, given = resolver.config, resolver.given(spec)
    of_all_methods: dict[str, float | None] = {
        "learning_rate": config.learning_rate,
        "max_grad_norm": config.max_grad_norm,
        "threshold": config.threshold,
    }
    # Setting -> the name in another convention under which it was given.
    converted = {c.into: name for name, c in spec.conversions.items() if name in given}
    for setting, name in converted.items():
        if setting in given:
            raise ConfigError(
                f"{spec.name}: {name} and {setting} say the same twice", hint="give one of them"
            )
    settings: dict[str, float] = {}
    for name in (*spec.settings, *of_form):
        if name not in of_form and _is_unused(resolver, spec, name):
            settings[name] = 0.0
            resolver.origins[name] = "0 for this model and bound"
        elif name != "noise_multiplier" and name not in converted:
            value = given.get(name, of_all_methods.get(name))
            if value is None:
                value = resolver.default(spec, name)
                # Z is never below C: a larger bound that is given moves Z along.
                if name == "threshold":
                    value = max(value, settings["max_grad_norm"])
            settings[name] = resolver.checked(spec, name, value)
            if name == "max_grad_norm":  # the defaults of later settings may read the bound
                sizes = replace(resolver.sizes, max_grad_norm=settings[name])
                resolver = replace(resolver, sizes=sizes)
    for setting, name in converted.items():  # last: a conversion may read all other settings
        value = spec.conversions[name].value(given[name], settings, resolver.sizes)
        settings[setting] = resolver.checked(spec, setting, value)
    if "learning_rate" in given:  # by --settings: taken as it is, not scaled
        return settings
    return _with_scaled_step(resolver, spec, settings)


def _with_scaled_step(
    resolver: SettingsResolver, spec: MethodSpec, settings: dict[str, float]
) -> dict[str, float]:
    """The settings, with a learning rate that makes up for gradients which are scaled by C/Z.

    The rate is multiplied by Z/C, as :func:`effective_step` says. A method that does not scale by
    C/Z keeps its settings; a control takes the step of the method that it controls.

    Args:
        resolver: The options, and the rules for what they leave open.
        spec: The method.
        settings: The method's numbers, with the clipping bound C and the learning rate of all
            methods.

    Raises:
        ConfigError: The step is larger than ``LARGEST_STEP``.
    """
    scaled = find(spec.control_of) if spec.control_of else spec
    if not scaled.scales_by_threshold:
        return settings
    bound = settings["max_grad_norm"]
    threshold = resolver.given(spec).get("threshold", resolver.config.threshold)
    if not threshold:
        threshold = max(resolver.default(scaled, "threshold"), bound)
    step = effective_step(settings["learning_rate"], threshold, bound)
    if not step <= LARGEST_STEP:  # nan, too
        raise ConfigError(
            f"{spec.name}: the step {step:g} that makes up for C/Z is too large",
            hint=f"a smaller learning rate or threshold, a larger clipping bound than {bound:g}",
        )
    return {**settings, "learning_rate": step}
