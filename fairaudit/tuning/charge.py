"""A search's noise: what every training costs, so that the whole of it meets its target."""

from dataclasses import replace
from typing import NamedTuple

from fairaudit.privacy.events import Gaussian
from fairaudit.privacy.selection import SCORE, Selection, SelectionEvent, base_epsilon
from fairaudit.tuning.around import Sought
from fairaudit.tuning.search import Tuning
from fairaudit.tuning.validation_score import score_sensitivity

# Of the number of tries: 0 is the logarithmic distribution. It charges least for a mean, at the price of
# many short searches; docs/tuning.md 3 has the figures.
SHAPE = 0.0


class Charged(NamedTuple):
    """A search and what it costs; no charge where its trainings release nothing under a guarantee."""

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
    selection = Selection(float(trials), SHAPE)
    if target is None:
        tuning = sought(None)
    else:
        tuning = sought(base_epsilon(selection, lambda base: sought(base).events, delta, target))
    if not tuning.events:
        return Charged(replace(tuning, selection=selection), None)
    cost = selection.epsilon(tuning.events, delta) if target is None else target
    score = Gaussian(SCORE, selection.score_noise(delta, cost))
    noise = score.noise_multiplier * score_sensitivity(tuning.goal)
    charge = SelectionEvent(selection, tuning.events, score)
    return Charged(replace(tuning, selection=selection, score_noise=noise), charge)


def uncharged_search(sought: Sought, trials: int, delta: float, target: float | None) -> Charged:
    """The search that releases the best of exactly ``trials``, by exact scores, at the noise of one training.

    Its charge is what the same trainings would cost with a random number of tries of that mean and noised
    scores: what the search as it is costs at the least. Arguments as of :func:`charged_search`.
    """
    tuning = sought(target)
    if not tuning.events:
        return Charged(tuning, None)
    selection = Selection(float(trials), SHAPE)
    cost = selection.epsilon(tuning.events, delta)
    score = Gaussian(SCORE, selection.score_noise(delta, cost))
    return Charged(tuning, SelectionEvent(selection, tuning.events, score))
