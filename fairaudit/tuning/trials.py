"""One arm's search at one seed: train candidates on the fit rows, score on the validation rows."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from fairaudit.diagnostics.observers import FactorOfStep
from fairaudit.engine.pool import TrainingPool
from fairaudit.errors import OwnCodeError
from fairaudit.execution.outcomes import ROWS_AT_ONCE, on_test, training_counts
from fairaudit.execution.seed_data import SeedData
from fairaudit.execution.trained import DIVERGED, Sanitised, noiseless
from fairaudit.execution.twins import named, task_of_steps_alone
from fairaudit.methods.base import Method, Task, TrainedReplicates
from fairaudit.methods.steps_alone import StepsAlone
from fairaudit.metrics.within_model import record_correct
from fairaudit.planning.arms import Arm
from fairaudit.planning.search import TrainAt
from fairaudit.privacy.events import event_to_json
from fairaudit.privacy.noise import noise_stream
from fairaudit.results.jobs import STEP_FACT, WITHOUT_NOISE, Array, JobContent, StepTwin
from fairaudit.tuning.score import make_score
from fairaudit.tuning.search import Candidate, tuning_of
from fairaudit.tuning.validation import draw_validation


@dataclass(frozen=True, slots=True)
class Division:
    """The training rows in two: ``fit`` trains, ``validation`` scores; no record is in both.

    Args:
        fit, validation: Places among the seed's training rows, ascending.
        pool: The fit rows alone, ready to train on.
        records: The fit rows as places in the dataset.
    """

    fit: NDArray[np.int64]
    validation: NDArray[np.int64]
    pool: TrainingPool
    records: NDArray[np.int64]


def search(arm: Arm, method: Method, task: Task, prepared: SeedData) -> JobContent:
    """Train every candidate of a seed on the fit rows, and score it on the validation rows.

    Args:
        arm: With a search.
        method, task: How the arm trains; the task is that of its default on all training rows.
        prepared: The seed's data.

    Returns:
        Arrays: ``weights`` [n], the probability that each of n candidates is the one released,
        ``probabilities`` [n, test rows, Y] and the number of fit rows of each group. Facts:
        ``tuning``: numbers of fit and validation rows, and each candidate's settings, scores and
        weight; ``event``: what one training at the default setting releases, None where nothing is
        claimed.
    """
    tuning = tuning_of(arm)
    division, candidates = divide(prepared, task.pool), tuning.candidates(task.seed)
    tasks = [fit_task(task, arm, candidate, division) for candidate in candidates]
    models = train(method, tasks, prepared)
    # Each training must have released what was planned and, in a charged search (``arm.charge`` is
    # None in others), what is charged. A published form without a guarantee does as it was printed:
    # it has no event, though the plan has one for the method.
    is_printed = arm.variant is not None and arm.privacy.event is None
    for candidate, model in zip(candidates, models, strict=True):
        planned = candidate.form.event
        is_charged = arm.charge is None or planned in arm.charge.trainings
        assert is_charged, f"{arm.key}: an event is not charged"
        is_as_planned = is_printed or model.event in (planned, DIVERGED)
        assert is_as_planned, f"{arm.key} did {model.event}, planned {planned}"
    arrays = _outcomes(models, prepared, division)
    correct = [is_right(model, prepared, division.validation) for model in models]
    failed = [number for number, model in enumerate(models) if model.event == DIVERGED]
    weights, tuned = score_candidates(
        arm, task.seed, candidates, failed, np.stack(correct), prepared, division
    )
    event = event_to_json(arm.privacy.event) if arm.privacy.event else None
    return {"weights": weights, **arrays}, {"tuning": tuned, "event": event}


def search_own(arm: Arm, seed: int, prepared: SeedData, train_at: TrainAt) -> JobContent:
    """Train every candidate by code of the user's own, and score it as :func:`search` does.

    A candidate at which the code fails is taken for a model that predicts the same for everybody.

    Args:
        arm, seed: The arm and the seed whose candidates are tried.
        prepared: The seed's data.
        train_at: Trains the code at one setting.

    Returns:
        Arrays and facts, as of :func:`search`.

    Raises:
        OwnCodeError: The code fails at its default.
    """
    split, n_classes = prepared.encoded.split, len(prepared.dataset.classes)
    division, candidates = divide(prepared, prepared.pool), tuning_of(arm).candidates(seed)
    n, n_test, n_validation = len(candidates), len(split.test), len(division.validation)
    # What each candidate predicts: where it fails, every class with the same probability.
    test = np.full((n, n_test, n_classes), 1.0 / n_classes, np.float32)
    validation = np.full((n, n_validation, n_classes), 1.0 / n_classes, np.float32)
    failed = []
    for number, candidate in enumerate(candidates):
        try:
            run = train_at(number, candidate.settings, division.fit, division.validation)
        except OwnCodeError:
            if candidate.is_default:
                raise
            failed.append(number)
            continue
        test[number], validation[number] = run.test[:n_test], run.test[n_test:]
    labels = prepared.dataset.labels[split.train[division.validation]]
    correct = record_correct(validation, labels) == 1.0
    weights, tuned = score_candidates(arm, seed, candidates, failed, correct, prepared, division)
    arrays: dict[str, Array] = {
        "weights": weights,
        "probabilities": test,
        **training_counts(prepared, division.fit),
    }
    return arrays, {"tuning": tuned}


def score_candidates(
    arm: Arm,
    seed: int,
    candidates: Sequence[Candidate],
    failed: Collection[int],
    correct: NDArray[np.bool_],
    prepared: SeedData,
    division: Division,
) -> tuple[NDArray[np.float64], dict[str, object]]:
    """Score the candidates of a seed, and give each its weight.

    Args:
        arm, seed, candidates: The arm, its seed and the candidates trained there.
        failed: Numbers of the candidates that diverged or failed, and predict the same for all
            rows.
        correct, prepared, division: As of :func:`score`.

    Returns:
        The weights [n], sum 1: the probability that each candidate is the one released; and the
        fact ``tuning`` of :func:`search`.
    """
    tuning = tuning_of(arm)
    exact, released = score(arm, seed, correct, prepared, division)
    weights = tuning.weights(released)
    tried = []
    for candidate, weight in zip(candidates, weights, strict=True):
        facts = {
            "settings": dict(candidate.settings),
            "epochs": candidate.form.epochs,
            "is_default": candidate.is_default,
            "at_edge": list(tuning.at_edge(candidate)),
            "diverged": candidate.number in failed,
            "score": exact[candidate.number],
            "released_score": released[candidate.number],
            "weight": float(weight),
        }
        tried.append(facts)
    return weights, {
        "candidates": tried,
        "fit_rows": len(division.fit),
        "validation_rows": len(division.validation),
    }


def twins(
    arm: Arm, method: Method, task: Task, prepared: SeedData
) -> tuple[dict[str, Array], StepTwin]:
    """Train the twins of every candidate: without its noise, then its steps alone.

    Costs of twins are means over candidates too, weighted as in the arm's own search.

    Args:
        arm, method, task, prepared: As of :func:`search`.

    Returns:
        The arrays ``without_noise.NAME`` of the first twins and ``step.NAME`` of the second, and
        whether there are second ones.
    """
    division = divide(prepared, task.pool)
    tasks = []
    for candidate in tuning_of(arm).candidates(task.seed):
        tasks.append(fit_task(task, arm, candidate, division))
    noiseless_tasks = [noiseless(arm, candidate_task) for candidate_task in tasks]
    first_twins = method.fit_all(noiseless_tasks, [FactorOfStep()])  # None: it diverged
    models = sanitised(first_twins, prepared)
    assert all(model.event in (None, DIVERGED) for model in models), (
        f"a twin of {arm.key} released something"
    )
    arrays = named(WITHOUT_NOISE, _outcomes(models, prepared, division))
    step_tasks = []
    for candidate_task, first in zip(tasks, first_twins, strict=True):
        if first is None:
            continue
        step_task = task_of_steps_alone(arm, method, candidate_task, first)
        if step_task is None:  # the length of its steps cannot be told from clipping
            return arrays, StepTwin.NONE
        step_tasks.append(step_task)
    if not step_tasks:
        return arrays, StepTwin.NONE
    # Only of candidates whose first twin did not diverge, in their order.
    trained = iter(StepsAlone(method).fit_all(step_tasks))
    # A candidate that diverged with clipped steps counts as diverged without clipping, too.
    second_twins = [None if first is None else next(trained) for first in first_twins]
    arrays |= named(STEP_FACT, _outcomes(sanitised(second_twins, prepared), prepared, division))
    return arrays, StepTwin.TRAINED


def divide(prepared: SeedData, pool: TrainingPool) -> Division:
    """Divide a seed's training rows into fit and validation rows, the same for every arm.

    Args:
        prepared: The seed's data.
        pool: All of its training rows.
    """
    return divided_at(draw_validation(prepared.dataset, prepared.encoded.split), prepared, pool)


def divided_at(validation: NDArray[np.int64], prepared: SeedData, pool: TrainingPool) -> Division:
    """Divide the training rows: those at the given places are validation rows, the others fit rows.

    Args:
        validation: Places among the training rows, ascending, [m].
        prepared: The data.
        pool: All of the training rows.
    """
    split = prepared.encoded.split
    fit = np.setdiff1d(np.arange(len(split.train)), validation, assume_unique=True)
    return Division(fit, validation, pool.restricted_to(torch.from_numpy(fit)), split.train[fit])


def fit_task(task: Task, arm: Arm, candidate: Candidate, division: Division) -> Task:
    """The task that trains one candidate on the fit rows, with noise of its own.

    Args:
        task: That of the arm's default on all training rows.
        arm: Its candidates draw the same batches as those of the same number in all other arms,
            where the arm shares its samples.
        candidate: What is trained.
        division: The fit rows.
    """
    # Names the random streams: of noise by `arm`, of batches by `sampling`.
    name = f"{arm.key}/{candidate.number}"
    return replace(
        task,
        arm=name,
        settings=candidate.settings,
        epochs=candidate.form.epochs,
        pool=division.pool,
        records=division.records,
        sampling=[f"candidate/{candidate.number}" if arm.shares_samples else name],
        checkpoints=(),
    )


def train(method: Method, tasks: Sequence[Task], prepared: SeedData) -> list[Sanitised]:
    """Train every candidate; one that diverged becomes a model that predicts all classes alike."""
    return sanitised(method.fit_all(tasks), prepared)


def sanitised(models: Sequence[TrainedReplicates | None], prepared: SeedData) -> list[Sanitised]:
    """Make models that always predict: one that diverged, None, predicts all classes alike."""
    return [Sanitised(trained, len(prepared.dataset.classes)) for trained in models]


def score(
    arm: Arm, seed: int, correct: NDArray[np.bool_], prepared: SeedData, division: Division
) -> tuple[list[float], list[float]]:
    """Every candidate's score on the validation rows, exact and as released.

    Args:
        arm, seed: The arm and seed whose candidates are scored.
        correct: Whether each candidate is right on each of V validation rows, ``[n, V]``.
        prepared, division: The seed's data, and which rows are for validation.

    Returns:
        The exact scores [n], for the audit alone; and the released scores [n], which have noise
        where the search is charged, else are the same.
    """
    tuning = tuning_of(arm)
    grouping, n = prepared.dataset.groupings[0], tuning.trials
    rule = make_score(
        tuning.goal,
        validation_rows=len(division.validation),
        n_groups=len(grouping.names),
        missing=grouping.missing,
    )
    groups = grouping.groups[prepared.encoded.split.train[division.validation]]
    exact = [rule.release(correct_rows, groups, 0.0, None) for correct_rows in correct]
    if tuning.score_noise == 0.0:
        return exact, exact
    # Noise for all counts of all candidates [n, Q], each candidate's from a stream of its own.
    noise = noise_stream(seed, "query", f"{arm.key}/score", n)
    drawn = noise.fill(torch.empty(n, rule.counts, dtype=torch.float64)).numpy()
    released = []
    for correct_rows, count_noise in zip(correct, drawn, strict=True):
        released.append(rule.release(correct_rows, groups, tuning.score_noise, count_noise))
    return exact, released


def _outcomes(
    models: Sequence[Sanitised], prepared: SeedData, division: Division
) -> dict[str, Array]:
    """Arrays of n models: ``probabilities`` [n, test rows, Y], and each group's fit rows."""
    test = [on_test(model, prepared, 1) for model in models]
    counts = training_counts(prepared, division.fit)
    return {"probabilities": np.concatenate(test), **counts}


def is_right(model: Sanitised, prepared: SeedData, places: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether a model predicts the class of each training row at the V places, ``[V]``."""
    rows = prepared.encoded.split.train[places]
    labels, groups = prepared.dataset.labels[rows], prepared.dataset.groupings[0].groups[rows]
    correct = np.zeros(len(rows), np.bool_)
    for start in range(0, len(rows), ROWS_AT_ONCE):  # bounds the memory of a forward pass
        piece = slice(start, start + ROWS_AT_ONCE)
        inputs = torch.from_numpy(np.ascontiguousarray(prepared.encoded.train[places[piece]]))
        probabilities = model.probabilities(inputs, torch.from_numpy(groups[piece])).numpy()
        # [0]: a candidate has one repeat.
        correct[piece] = record_correct(probabilities, labels[piece])[0] == 1.0
    return correct
