"""From a method's default setting and its ranges to a search around it."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product

from fairaudit.errors import ConfigError
from fairaudit.methods.defaults import PublicSizes, Search
from fairaudit.methods.spec import MethodSpec
from fairaudit.privacy.events import PrivacyEvent
from fairaudit.tuning.search import EPOCHS, Choice, Coordinate, Form, Goal, Tuning

Noise = Callable[[Mapping[str, float], int], float]  # settings and epochs to a noise multiplier
Sought = Callable[[float | None], Tuning]


@dataclass(frozen=True, slots=True)
class Around:
    """What a search is built of before its noise is known.

    Args:
        spec: The method.
        resolved: From the epsilon of one training to the default setting, noise included; None: the noise is
            given.
        sizes: What the ends of ranges may depend on.
        steps_per_epoch, epochs: The schedule.
        delta: In (0, 1).
    """

    spec: MethodSpec
    resolved: Callable[[float | None], dict[str, float]]
    sizes: PublicSizes
    steps_per_epoch: int
    epochs: int
    delta: float

    def search(self, trials: int, goal: Goal) -> Sought:
        """From the epsilon of one training to the search whose every candidate costs that."""

        def sought(base: float | None) -> Tuning:
            settings = self.resolved(base)
            coordinates = _coordinates_of(self.spec, settings, self.epochs, self.sizes)
            noise = self._noise(settings, base) if "noise_multiplier" in settings else None
            forms = _forms_of(self.spec, settings, coordinates, self.steps_per_epoch, self.epochs, noise)
            by_threshold = self.spec.scales_by_threshold
            return Tuning(trials, goal, settings, coordinates, forms, 0.0, None, by_threshold)

        return sought

    def _noise(self, settings: Mapping[str, float], base: float | None) -> Noise:
        def noise(own: Mapping[str, float], epochs: int) -> float:
            if base is None:
                return settings["noise_multiplier"]
            return self.spec.mechanism.calibrated(
                own, self.steps_per_epoch, epochs, delta=self.delta, target=base
            )

        return noise


def _coordinates_of(
    spec: MethodSpec, settings: Mapping[str, float], epochs: int, sizes: PublicSizes
) -> dict[str, Coordinate]:
    """What a method's search varies: each of its ranges around the default, within what is admitted.

    A method that scales by C/Z makes up for it in its step, so C changes nothing: it is left alone.
    """
    found: dict[str, Coordinate] = {}
    for name, search in spec.search.items():
        if name == EPOCHS:
            found[name] = _around(float(epochs), search, 1.0, math.inf, whole=True)
        elif not (spec.scales_by_threshold and name == "max_grad_norm"):
            setting = spec.setting(name)
            high = setting.high if isinstance(setting.high, int | float) else setting.high.value(sizes)
            found[name] = _around(settings[name], search, setting.low, high, whole=setting.whole)
    return found


def _around(default: float, search: Search, low: float, high: float, *, whole: bool) -> Coordinate:
    def at(factor: float) -> float:
        value = round(factor * default) if whole else factor * default
        return float(min(max(value, low), high))

    choices = tuple(at(factor) for factor in search.choices)
    if not choices and at(search.low_factor) <= 0.0:
        choices = (default,)  # nothing is log-uniform around 0
    return Coordinate(default, at(search.low_factor), at(search.high_factor), choices, whole)


def _forms_of(
    spec: MethodSpec,
    settings: Mapping[str, float],
    coordinates: Mapping[str, Coordinate],
    steps_per_epoch: int,
    epochs: int,
    noise: Noise | None,
) -> dict[Choice, Form]:
    """What every combination of choices releases, each with noise calibrated for itself.

    Args:
        spec, settings, coordinates: The method, its default setting, what is searched.
        steps_per_epoch, epochs: The schedule.
        noise: How noise is set; None for a method without.

    Raises:
        ConfigError: A range would change what is released, which only choices may.
        PrivacyError: As of ``noise``.
    """
    choices = {name: c.choices for name, c in coordinates.items() if c.choices}
    forms: dict[Choice, Form] = {}
    default = tuple(coordinates[name].default for name in choices)
    for chosen in dict.fromkeys([default, *product(*choices.values())]):
        values = dict(zip(choices, chosen, strict=True))
        length = int(values.pop(EPOCHS, epochs))
        own = {**settings, **values}
        if noise is not None:
            own["noise_multiplier"] = noise(own, length)
        event = _event(spec, own, steps_per_epoch, length)
        for name, c in coordinates.items():
            for end in () if c.choices else (c.low, c.high):
                if _event(spec, {**own, name: end}, steps_per_epoch, length) != event:
                    raise ConfigError(
                        f"{spec.name}: a range of {name} changes what is released, so no charge covers it",
                        hint="let it search among choices: each is charged by itself",
                    )
        forms[chosen] = Form(length, own.get("noise_multiplier"), event)
    return forms


def _event(
    spec: MethodSpec, settings: Mapping[str, float], steps_per_epoch: int, epochs: int
) -> PrivacyEvent | None:
    return spec.events(settings, steps_per_epoch, epochs) if "noise_multiplier" in settings else None
