"""A search around a method's default setting, with noise so that the whole of it meets its target.

A search trains candidates, settings drawn around the default, and releases the best by its score.
Every candidate's noise is calibrated to one epsilon, the base; a charged search takes the base so
small that the search as a whole costs the target. Of an uncharged search each training costs it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING  # noqa: TID251 - a plan loads no PyTorch

from fairaudit.config.options import AuditConfig
from fairaudit.errors import ConfigError, PrivacyError
from fairaudit.methods.defaults import Rule, Search
from fairaudit.planning.arms import Arm
from fairaudit.planning.draft import ArmDraft
from fairaudit.privacy.events import Gaussian, PrivacyEvent
from fairaudit.privacy.selection import SCORE, Selection, SelectionEvent, base_epsilon, score_noise
from fairaudit.results.jobs import Array, JobContent, StepTwin
from fairaudit.tuning.score import score_sensitivity
from fairaudit.tuning.search import EPOCHS, Choice, Coordinate, Form, Goal, Tuning, combinations

if TYPE_CHECKING:
    from fairaudit.execution.seed_data import SeedData
    from fairaudit.execution.trained import KeptTraining
    from fairaudit.methods.base import Method, Task

# The base epsilon -> the search whose candidates each cost that; None: their noise is given.
FromEpsilon = Callable[[float | None], Tuning]
# (combination of choices, settings with these choices, epochs) -> noise multiplier of a training.
NoiseAt = Callable[[Choice, Mapping[str, float], int], float]
# Shapes of the distribution of the number of tries, in order of preference. 1 is the geometric one;
# the logarithmic one (0) charges less for a mean and makes many searches of a single try: it is for
# targets that the other cannot meet. benchmarks/README.md has the figures.
SHAPES = (1.0, 0.0)


class SettingsTuning(Tuning):
    """A search among settings of a method of this program, whose candidates are trained here."""

    __slots__ = ()

    def train(self, arm: Arm, method: Method, task: Task, prepared: SeedData) -> JobContent:
        """Train every candidate on the fit rows, and score it on the validation rows."""
        from fairaudit.tuning.trials import search

        return search(arm, method, task, prepared)

    def train_twins(
        self, arm: Arm, method: Method, task: Task, prepared: SeedData
    ) -> tuple[dict[str, Array], StepTwin]:
        """Train every candidate without its noise, then its steps alone."""
        from fairaudit.tuning.trials import twins

        return twins(arm, method, task, prepared)

    def train_for_release(
        self, arm: Arm, method: Method, task: Task, prepared: SeedData, *, n_fit: int
    ) -> KeptTraining:
        """Train and score as many fresh candidates as the charge draws, and keep the best."""
        from fairaudit.tuning.release import best_of_tries

        return best_of_tries(arm, method, task, prepared, n_fit=n_fit)


def search_of(draft: ArmDraft, config: AuditConfig, target: float | None) -> Tuning | None:
    """The search for one arm's settings, and what it is charged; None without ``--tune``.

    Args:
        draft: The arm as it is known before its noise is.
        config: The options.
        target: Epsilon of the whole search, or of each training of one that is not charged; None:
            the noise is given.

    Raises:
        ConfigError: A range would change what is released, which only choices may.
        PrivacyError: No noise meets the target.
    """
    if config.tune is None:
        return None
    search_at = search_around(draft, config.tune, config.tune_for)
    if config.tune_privacy == "charged":
        return charged_search(search_at, config.tune, draft.delta, target)
    return uncharged_search(search_at, config.tune, draft.delta, target)


def search_around(draft: ArmDraft, trials: int, goal: Goal) -> FromEpsilon:
    """Make the function that gives a search around the default setting for each base epsilon.

    A search is made anew for each base that is tried: the noise of its candidates, and defaults
    that follow from the noise, depend on it.

    Args:
        draft: The arm as it is known before its noise is.
        trials: Candidates at each seed.
        goal: What they are scored by.
    """

    def search_at(base: float | None) -> Tuning:
        """The search around the default setting at ``base``, a candidate's epsilon; not charged."""
        settings = draft.settings(base)

        def noise_at(choice: Choice, form_settings: Mapping[str, float], epochs: int) -> float:
            """The noise multiplier with which these settings cost ``base``; the given one if None.

            ``form_settings`` hold the values of the combination ``choice`` already, so ``choice``
            is not read here.
            """
            if base is None:
                return form_settings["noise_multiplier"]
            return draft.spec.mechanism.calibrated(
                form_settings,
                draft.schedule.steps_per_epoch,
                epochs,
                delta=draft.delta,
                target=base,
            )

        return uncharged(draft, trials, goal, settings, noise_at)

    return search_at


def uncharged(
    draft: ArmDraft, trials: int, goal: Goal, settings: Mapping[str, float], noise_at: NoiseAt
) -> Tuning:
    """The search around a default setting that releases the best of all candidates by exact scores.

    :func:`charged` makes a charged one of it.

    Args:
        draft: The arm whose settings are searched.
        trials: Candidates at each seed.
        goal: What they are scored by.
        settings: The default setting.
        noise_at: The noise of each form.

    Raises: as :func:`search_of`.
    """
    coordinates = search_coordinates(draft, settings)
    return SettingsTuning(
        trials,
        goal,
        settings,
        coordinates,
        _forms(draft, settings, coordinates, noise_at),
        score_noise=0.0,
        selection=None,
        scales_by_threshold=draft.spec.scales_by_threshold,
    )


def charged(tuning: Tuning, selection: Selection, score_noise_multiplier: float) -> Tuning:
    """The same search, releasing the best of a random number of tries by scores with noise.

    Args:
        tuning: The search, not charged.
        selection: The distribution of the number of tries.
        score_noise_multiplier: Standard deviation of the noise on each count of a score, over the
            sensitivity of the counts.
    """
    score = Gaussian(SCORE, score_noise_multiplier)
    return replace(
        tuning,
        selection=selection,
        score_noise=score_noise_multiplier * score_sensitivity(tuning.goal),
        charge=SelectionEvent(selection, tuning.events, score),
    )


def search_coordinates(draft: ArmDraft, settings: Mapping[str, float]) -> dict[str, Coordinate]:
    """What the search varies: name of a setting, or ``epochs`` -> what it is drawn from.

    A method that scales gradients by C/Z, C its clipping bound and Z its threshold, takes a step
    that makes up for this factor. Another C would change nothing, so C is not searched there.

    Args:
        draft: The arm whose settings are searched.
        settings: The default setting, which each range lies around.
    """
    spec = draft.spec
    coordinates: dict[str, Coordinate] = {}
    for name, search in spec.search.items():
        if name == EPOCHS:
            coordinates[name] = _around(
                float(draft.schedule.epochs), search, 1.0, math.inf, whole=True
            )
        elif not (spec.scales_by_threshold and name == "max_grad_norm"):
            setting = spec.settings[name]
            high = setting.high
            if isinstance(high, Rule):  # the largest value depends on the sizes of the data
                high = high.value(draft.resolver.sizes)
            coordinates[name] = _around(
                settings[name], search, setting.low, high, whole=setting.whole
            )
    return coordinates


def _forms(
    draft: ArmDraft,
    settings: Mapping[str, float],
    coordinates: Mapping[str, Coordinate],
    noise_at: NoiseAt,
) -> dict[Choice, Form]:
    """Every combination of choices -> the form of its trainings: epochs, noise, what they release.

    What a training releases may depend on choices, but not on where in a range a setting lies. So
    the events of these forms are all that must be charged.

    Args:
        draft: The arm whose settings are searched.
        settings: The default setting.
        coordinates: What is searched: ranges, or choices.
        noise_at: The noise of each form.

    Raises: as :func:`search_of`.
    """
    has_noise = "noise_multiplier" in settings

    def event_of(values: Mapping[str, float], epochs: int) -> PrivacyEvent | None:
        """What a training with these settings releases; None of a method without noise."""
        if not has_noise:  # no guarantee, so nothing to charge
            return None
        return draft.spec.events(values, draft.schedule.steps_per_epoch, epochs)

    forms: dict[Choice, Form] = {}
    for choice, values, epochs in combinations(coordinates, draft.schedule.epochs):
        form_settings = {**settings, **values}
        if has_noise:
            form_settings["noise_multiplier"] = noise_at(choice, form_settings, epochs)
        event = event_of(form_settings, epochs)
        # Choices are charged one by one; over a range the event must be the same at both ends.
        for name, coordinate in coordinates.items():
            if coordinate.choices:
                continue
            for end in (coordinate.low, coordinate.high):
                if event_of({**form_settings, name: end}, epochs) != event:
                    raise ConfigError(
                        f"{draft.spec.name}: a range of {name} changes what is released, "
                        "so no charge covers it",
                        hint="let it search among choices: each is charged by itself",
                    )
        forms[choice] = Form(epochs, form_settings.get("noise_multiplier"), event)
    return forms


def _around(default: float, search: Search, low: float, high: float, *, whole: bool) -> Coordinate:
    """The range or choices of one setting: multiples of its default, cut to admitted values.

    Args:
        default: The setting's default.
        search: Which multiples of it.
        low, high: The least and the largest value that is admitted.
        whole: The setting is a whole number.
    """

    def at(factor: float) -> float:
        """The value at that multiple of the default."""
        value = round(factor * default) if whole else factor * default
        return float(min(max(value, low), high))

    choices = tuple(at(factor) for factor in search.choices)
    if not choices and at(search.low_factor) <= 0.0:
        choices = (default,)  # a range from 0 has no log scale
    return Coordinate(default, at(search.low_factor), at(search.high_factor), choices, whole)


def charged_search(
    search_at: FromEpsilon, trials: int, delta: float, target: float | None
) -> Tuning:
    """A search that releases the best of K tries at a target epsilon, and what it is charged.

    K is random, with mean ``trials``. The charge is None of a method without noise, which has no
    guarantee.

    Args:
        search_at: From the epsilon of one training (None: its noise is given) to the search.
        trials: Mean of K, and the candidates that are trained at a seed.
        delta: In (0, 1).
        target: Epsilon of the whole search; None: whatever the given noise costs.

    Raises:
        PrivacyError: No noise meets the target.
    """
    base: float | None = None  # epsilon of each training; None: its noise is given
    if target is None:
        selection = Selection(float(trials), SHAPES[0])
    else:
        selection, base = _calibrated(search_at, trials, delta, target)
    tuning = search_at(base)
    if not tuning.events:  # no guarantee, so nothing to charge
        return replace(tuning, selection=selection)
    # A fit record enters trainings alone, a validation record scores alone, and epsilon is the
    # larger of their two. So scores get the noise with which the validation records' epsilon equals
    # the search's.
    cost = selection.epsilon(tuning.events, delta) if target is None else target
    return charged(tuning, selection, score_noise(selection, delta, cost))


def _calibrated(
    search_at: FromEpsilon, trials: int, delta: float, target: float
) -> tuple[Selection, float]:
    """The distribution of the number of tries, and the base with which the search meets its target.

    The shape of the distribution is the first of ``SHAPES`` with which some noise meets the target.

    Args:
        search_at, trials, delta, target: As of :func:`charged_search`.

    Raises:
        PrivacyError: With none of these shapes does any noise meet the target.
    """
    for shape in SHAPES:
        selection = Selection(float(trials), shape)
        try:
            base = base_epsilon(selection, lambda base: search_at(base).events, delta, target)
        except PrivacyError:
            if shape == SHAPES[-1]:
                raise
        else:
            return selection, base
    raise AssertionError("there is a last shape")


def uncharged_search(
    search_at: FromEpsilon, trials: int, delta: float, target: float | None
) -> Tuning:
    """A search that releases the best of exactly ``trials`` by exact scores, and what that costs.

    Each training has the noise of an ordinary one. The charge only tells readers the least that
    such a search costs: it is that of the same trainings with noised scores and a random number of
    tries, of mean ``trials``. It is None of a method without noise.

    Args:
        search_at, trials, delta: As of :func:`charged_search`.
        target: Epsilon of each training; None: its noise is given.
    """
    tuning = search_at(target)
    if not tuning.events:
        return tuning
    selection = Selection(float(trials), SHAPES[0])
    cost = selection.epsilon(tuning.events, delta)
    score = Gaussian(SCORE, score_noise(selection, delta, cost))
    return replace(tuning, charge=SelectionEvent(selection, tuning.events, score))
