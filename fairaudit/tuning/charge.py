"""A search around a method's default setting, and its noise: the whole of it meets its target."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from fairaudit.errors import ConfigError, PrivacyError
from fairaudit.methods.defaults import PublicSizes, Rule, Search
from fairaudit.methods.spec import MethodSpec
from fairaudit.privacy.events import Gaussian, PrivacyEvent
from fairaudit.privacy.selection import SCORE, Selection, SelectionEvent, base_epsilon
from fairaudit.tuning.search import EPOCHS, Choice, Coordinate, Form, Goal, Tuning, combinations
from fairaudit.tuning.validation_score import score_sensitivity

Sought = Callable[[float | None], Tuning]
# Of the number of tries, in order of preference. 1 is the geometric distribution; the logarithmic
# one (0) charges less for a mean and makes many searches of a single try: it is for targets that
# the other cannot meet. benchmarks/README.md has the figures.
SHAPES = (1.0, 0.0)


@dataclass(frozen=True, slots=True)
class Around:
    """What a search is built of before its noise is known.

    Args:
        spec: The method.
        resolved: From the epsilon of one training to the default setting, noise included; None: the
            noise is given.
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
            coordinates = self._coordinates(settings)
            forms = self._forms(settings, coordinates, base)
            by_threshold = self.spec.scales_by_threshold
            return Tuning(trials, goal, settings, coordinates, forms, 0.0, None, by_threshold)

        return sought

    def _coordinates(self, settings: Mapping[str, float]) -> dict[str, Coordinate]:
        """What the search varies.

        Each of the method's ranges around the default, within what is admitted.

        A method that scales by C/Z makes up for it in its step, so C changes nothing: it is left
        alone.
        """
        spec, found = self.spec, dict[str, Coordinate]()
        for name, search in spec.search.items():
            if name == EPOCHS:
                found[name] = _around(float(self.epochs), search, 1.0, math.inf, whole=True)
            elif not (spec.scales_by_threshold and name == "max_grad_norm"):
                setting = spec.setting(name)
                high = (
                    setting.high.value(self.sizes)
                    if isinstance(setting.high, Rule)
                    else setting.high
                )
                found[name] = _around(
                    settings[name], search, setting.low, high, whole=setting.whole
                )
        return found

    def _forms(
        self,
        settings: Mapping[str, float],
        coordinates: Mapping[str, Coordinate],
        base: float | None,
    ) -> dict[Choice, Form]:
        """What every combination of choices releases, each with noise calibrated for itself.

        Raises:
            ConfigError: A range would change what is released, which only choices may.
            PrivacyError: No noise meets ``base``.
        """
        forms: dict[Choice, Form] = {}
        for chosen, values, epochs in combinations(coordinates, self.epochs):
            own = {**settings, **values}
            if "noise_multiplier" in settings:
                own["noise_multiplier"] = (
                    settings["noise_multiplier"]
                    if base is None
                    else self.spec.mechanism.calibrated(
                        own, self.steps_per_epoch, epochs, delta=self.delta, target=base
                    )
                )
            event = self._event(own, epochs)
            for name, c in coordinates.items():
                for end in () if c.choices else (c.low, c.high):
                    if self._event({**own, name: end}, epochs) != event:
                        raise ConfigError(
                            f"{self.spec.name}: a range of {name} changes what is released, "
                            "so no charge covers it",
                            hint="let it search among choices: each is charged by itself",
                        )
            forms[chosen] = Form(epochs, own.get("noise_multiplier"), event)
        return forms

    def _event(self, settings: Mapping[str, float], epochs: int) -> PrivacyEvent | None:
        has_noise = "noise_multiplier" in settings
        return self.spec.events(settings, self.steps_per_epoch, epochs) if has_noise else None


def _around(default: float, search: Search, low: float, high: float, *, whole: bool) -> Coordinate:
    def at(factor: float) -> float:
        value = round(factor * default) if whole else factor * default
        return float(min(max(value, low), high))

    choices = tuple(at(factor) for factor in search.choices)
    if not choices and at(search.low_factor) <= 0.0:
        choices = (default,)  # nothing is log-uniform around 0
    return Coordinate(default, at(search.low_factor), at(search.high_factor), choices, whole)


class Charged(NamedTuple):
    """A search and what it costs.

    No charge where its trainings release nothing under a guarantee.
    """

    tuning: Tuning
    charge: SelectionEvent | None


def charged_search(sought: Sought, trials: int, delta: float, target: float | None) -> Charged:
    """The search whose best of K tries, K of mean ``trials``, meets a target.

    Args:
        sought: From the epsilon of one training (None: its noise is given) to the search.
        trials: Mean of K, and the candidates that are trained at a seed.
        delta: In (0, 1).
        target: Epsilon of the whole search; None: whatever the given noise costs.

    Raises:
        PrivacyError: No noise meets the target.
    """
    if target is None:
        selection, base = Selection(float(trials), SHAPES[0]), None
    else:
        selection, base = _affordable(sought, trials, delta, target)
    tuning = sought(base)
    if not tuning.events:
        return Charged(replace(tuning, selection=selection), None)
    cost = selection.epsilon(tuning.events, delta) if target is None else target
    score = Gaussian(SCORE, selection.score_noise(delta, cost))
    noise = score.noise_multiplier * score_sensitivity(tuning.goal)
    charge = SelectionEvent(selection, tuning.events, score)
    return Charged(replace(tuning, selection=selection, score_noise=noise), charge)


def _affordable(
    sought: Sought, trials: int, delta: float, target: float
) -> tuple[Selection, float]:
    """The first of ``SHAPES`` that meets the target, and the epsilon of one training.

    Raises: the last's.
    """
    unmet: PrivacyError | None = None
    for shape in SHAPES:
        selection = Selection(float(trials), shape)
        try:
            return selection, base_epsilon(
                selection, lambda base: sought(base).events, delta, target
            )
        except PrivacyError as error:
            unmet = error
    assert unmet is not None
    raise unmet


def uncharged_search(sought: Sought, trials: int, delta: float, target: float | None) -> Charged:
    """The search that releases the best of exactly ``trials``, at the noise of one training.

    Its charge is what the same trainings would cost with a random number of tries of that mean and
    noised
    scores: what the search as it is costs at the least. Arguments as of :func:`charged_search`.
    """
    tuning = sought(target)
    if not tuning.events:
        return Charged(tuning, None)
    selection = Selection(float(trials), SHAPES[0])
    cost = selection.epsilon(tuning.events, delta)
    score = Gaussian(SCORE, selection.score_noise(delta, cost))
    return Charged(tuning, SelectionEvent(selection, tuning.events, score))
