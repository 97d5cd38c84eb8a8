"""A search for release: K fresh candidates of the public prior, the best by a noised score kept.

To be used inside :func:`fairaudit.privacy.streams.from_operating_system`: K, candidates, coins and
noise are then drawn anew by every call, and nothing of a search outlives it but the candidate that
is kept.
"""

import numpy as np
import torch
from numpy.typing import NDArray

from fairaudit.errors import TrainingError
from fairaudit.execution.seed_data import SeedData
from fairaudit.execution.trained import DIVERGED, KeptTraining, Sanitised
from fairaudit.methods.base import Method, Task
from fairaudit.planning.arms import Arm
from fairaudit.privacy.noise import noise_stream
from fairaudit.privacy.streams import numpy_stream
from fairaudit.tuning.score import Score, make_score
from fairaudit.tuning.search import tuning_of
from fairaudit.tuning.trials import Division, divided_at, fit_task, is_right, train
from fairaudit.tuning.validation import VALIDATION_SHARE, validation_size, with_validation


def best_of_tries(
    arm: Arm, method: Method, task: Task, prepared: SeedData, *, n_fit: int
) -> KeptTraining:
    """Train and score K candidates, one after the other, and keep the best.

    K is drawn and told to nobody: if it were known, the best would tell that K - 1 others were
    worse. A losing candidate is dropped before the next one is trained.

    Args:
        arm: With a charged search.
        method, task: How a candidate trains.
        prepared: The data.
        n_fit: Training rows without those for validation, as they were planned: a public constant.

    Returns:
        The settings, epochs and model of the candidate with the best released score.

    Raises:
        TrainingError: Out of memory, or no row to train on. Nothing that a training does with the
            records raises an error, for that would be a release, too.
    """
    tuning, charge = tuning_of(arm), arm.charge
    assert charge is not None, f"{arm.key}: nothing is charged for its search"
    assert tuning.selection == charge.selection, f"{arm.key}: another number of tries is charged"
    validation = validation_coins(len(prepared.encoded.split.train))
    division = divided_at(validation, prepared, task.pool)
    if not len(division.fit):
        raise TrainingError("no row is left to train on", hint="use a larger table")
    grouping = prepared.dataset.groupings[0]
    rule = make_score(
        tuning.goal,
        # A public number: how many rows the plan has for validation beside the n_fit that train,
        # not how many the coins chose.
        validation_rows=validation_size(with_validation(n_fit)),
        n_groups=len(grouping.names),
        missing=grouping.missing,
    )
    noise_std = charge.score.noise_multiplier * rule.sensitivity
    kept: KeptTraining | None = None
    best = -np.inf
    for _ in range(charge.selection.draw(numpy_stream(0, "candidates", "tries"))):
        # The seed and the number are not read: the draw is from the operating system.
        candidate = tuning.candidate(0, 0)
        assert candidate.form.event in charge.trainings, f"{arm.key}: a training is not charged"
        (model,) = train(method, [fit_task(task, arm, candidate, division)], prepared)
        assert model.event in (candidate.form.event, DIVERGED), f"{arm.key} did {model.event}"
        score = released_score(rule, noise_std, model, prepared, division)
        if kept is None or score > best:  # the first is kept whatever its score is
            kept, best = KeptTraining(candidate.settings, candidate.form.epochs, model), score
        del model  # a loser is gone before the next one is trained
    assert kept is not None  # K is at least 1
    return kept


def validation_coins(rows: int) -> NDArray[np.int64]:
    """Draw the validation rows by a coin for each training row: their places ``[m]``, ascending.

    As coins are independent, adding or removing one row changes no other row's part.

    Args:
        rows: Number of training rows.
    """
    return np.flatnonzero(numpy_stream(0, "validation", "release").random(rows) < VALIDATION_SHARE)


def released_score(
    rule: Score, noise_std: float, model: Sanitised, prepared: SeedData, division: Division
) -> float:
    """A candidate's score on the validation rows, with noise that is drawn for it alone.

    Args:
        rule: Which counts of rows a score is made of.
        noise_std: Standard deviation of the noise on each count, in records.
        model: The candidate, trained.
        prepared, division: The data, and which rows are for validation.
    """
    rows = prepared.encoded.split.train[division.validation]
    groups = prepared.dataset.groupings[0].groups[rows]
    correct = is_right(model, prepared, division.validation)
    # [1, Q]; from the operating system, so the seed 0 is not read.
    noise = noise_stream(0, "query", "score", 1).fill(
        torch.empty(1, rule.counts, dtype=torch.float64)
    )
    return rule.release(correct, groups, noise_std, noise[0].numpy())
