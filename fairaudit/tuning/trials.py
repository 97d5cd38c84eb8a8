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
        method, task: How the arm trains, as it would on all training rows.
        prepared: The seed's data.

    Returns:
        Arrays: ``weights`` [n], the probability that each of n candidates is the one released,
        ``probabilities`` [n, test rows, Y] and how many rows of each group are fitted. Facts:
        ``tuning``: rows of both kinds, and of each candidate its settings, scores and weight;
        ``event``: what one training at the default setting releases, None where nothing is claimed.
    """
    tuning = tuning_of(arm)
    division, candidates = divide(prepared, task.pool), tuning.candidates(task.seed)
    tasks = [fit_task(task, arm, candidate, division) for candidate in candidates]
    models = train(method, tasks, prepared)
    # A published form without a guarantee does as it was printed, whatever a plan would charge.
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
    weights, tuned = judged(
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
    n, n_test = len(candidates), len(split.test)
    test = np.full((n, n_test, n_classes), 1.0 / n_classes, np.float32)
    # What each candidate predicts of the validation rows.
    uniform = np.full((n, len(division.validation), n_classes), 1.0 / n_classes, np.float32)
    failed = []
    for number, candidate in enumerate(candidates):
        try:
            run = train_at(number, candidate.settings, division.fit, division.validation)
        except OwnCodeError:
            if candidate.is_default:
                raise
            failed.append(number)
            continue
        test[number], uniform[number] = run.test[:n_test], run.test[n_test:]
    correct = (
        record_correct(uniform, prepared.dataset.labels[split.train[division.validation]]) == 1
    )
    weights, tuned = judged(arm, seed, candidates, failed, correct, prepared, division)
    arrays: dict[str, Array] = {
        "weights": weights,
        "probabilities": test,
        **training_counts(prepared, division.fit),
    }
    return arrays, {"tuning": tuned}


def judged(
    arm: Arm,
    seed: int,
    candidates: Sequence[Candidate],
    failed: Collection[int],
    correct: NDArray[np.bool_],
    prepared: SeedData,
    division: Division,
) -> tuple[NDArray[np.float64], dict[str, object]]:
    """Score the candidates of a seed: the chance that each is the one released, and facts of it.

    Args:
        arm, seed, candidates: The arm, its seed and the candidates trained there.
        failed: Numbers of the candidates that diverged or failed, and so say the same of everybody.
        correct, prepared, division: As of :func:`score`.

    Returns:
        The chances [n], sum 1, and the fact ``tuning`` of :func:`search`.
    """
    tuning = tuning_of(arm)
    exact, released = score(arm, seed, correct, prepared, division)
    weights = tuning.weights(released)
    tried = []
    for candidate, chance in zip(candidates, weights, strict=True):
        facts = {
            "settings": dict(candidate.settings),
            "epochs": candidate.form.epochs,
            "is_default": candidate.is_default,
            "at_edge": list(tuning.at_edge(candidate)),
            "diverged": candidate.number in failed,
            "score": exact[candidate.number],
            "released_score": released[candidate.number],
            "weight": float(chance),
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

    Their costs are weighted means too, by the weights of the arm's own search.

    Args:
        arm, method, task, prepared: As of :func:`search`.

    Returns:
        The arrays ``without_noise.NAME`` and ``step.NAME``, and what became of the second twin.
    """
    division = divide(prepared, task.pool)
    tasks = []
    for candidate in tuning_of(arm).candidates(task.seed):
        tasks.append(fit_task(task, arm, candidate, division))
    quiet = method.fit_all([noiseless(arm, own) for own in tasks], [FactorOfStep()])
    models = sanitised(quiet, prepared)
    assert all(model.event in (None, DIVERGED) for model in models), (
        f"a twin of {arm.key} released something"
    )
    arrays = named(WITHOUT_NOISE, _outcomes(models, prepared, division))
    stepping = []
    for own, without in zip(tasks, quiet, strict=True):
        if without is None:  # diverged
            continue
        steps = task_of_steps_alone(arm, method, own, without)
        if steps is None:  # the length of its steps cannot be told from clipping
            return arrays, StepTwin.NONE
        stepping.append(steps)
    if not stepping:
        return arrays, StepTwin.NONE
    alone = iter(StepsAlone(method).fit_all(stepping))
    # Where clipped steps diverge, the same steps without clipping do.
    last = [None if without is None else next(alone) for without in quiet]
    arrays |= named(STEP_FACT, _outcomes(sanitised(last, prepared), prepared, division))
    return arrays, StepTwin.TRAINED


def divide(prepared: SeedData, pool: TrainingPool) -> Division:
    """Divide a seed's training rows into fit and validation rows, the same for every arm.

    ``pool``: all of its training rows.
    """
    return divided_at(draw_validation(prepared.dataset, prepared.encoded.split), prepared, pool)


def divided_at(validation: NDArray[np.int64], prepared: SeedData, pool: TrainingPool) -> Division:
    """The training rows in two: validation rows at these places ``[m]``, ascending; others fit.

    ``pool``: all of the training rows.
    """
    split = prepared.encoded.split
    fit = np.setdiff1d(np.arange(len(split.train)), validation, assume_unique=True)
    return Division(fit, validation, pool.restricted_to(torch.from_numpy(fit)), split.train[fit])


def fit_task(task: Task, arm: Arm, candidate: Candidate, division: Division) -> Task:
    """The task that trains one candidate on the fit rows, with noise of its own.

    Arms that share their samples draw the same batches for the same number.
    """
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
    """Train every candidate; one that diverged becomes a model that says the same of everybody."""
    return sanitised(method.fit_all(tasks), prepared)


def sanitised(models: Sequence[TrainedReplicates | None], prepared: SeedData) -> list[Sanitised]:
    """Make trained models always predict: None, one that diverged, says the same of everybody."""
    return [Sanitised(trained, len(prepared.dataset.classes)) for trained in models]


def score(
    arm: Arm, seed: int, correct: NDArray[np.bool_], prepared: SeedData, division: Division
) -> tuple[list[float], list[float]]:
    """Every candidate's score on the validation rows: the exact ones, then the released ones.

    Exact scores are for the audit alone; released ones have noise where the search is charged.

    Args:
        arm, seed: The arm and seed whose candidates are scored.
        correct: Whether each candidate is right on each validation row, ``[n, V]``.
        prepared, division: The seed's data.
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
    exact = [rule.release(row, groups, 0.0, None) for row in correct]
    if tuning.score_noise == 0.0:
        return exact, exact
    # The counts of every candidate, noised at once: a row for each, from a stream of its own.
    noise = noise_stream(seed, "query", f"{arm.key}/score", n)
    drawn = noise.fill(torch.empty(n, rule.counts, dtype=torch.float64)).numpy()
    released = []
    for row, noise_row in zip(correct, drawn, strict=True):
        released.append(rule.release(row, groups, tuning.score_noise, noise_row))
    return exact, released


def _outcomes(
    models: Sequence[Sanitised], prepared: SeedData, division: Division
) -> dict[str, Array]:
    """Predictions of n models, ``probabilities`` [n, test rows, Y], and fit rows of each group."""
    test = [on_test(model, prepared, 1) for model in models]
    counts = training_counts(prepared, division.fit)
    return {"probabilities": np.concatenate(test), **counts}


def is_right(model: Sanitised, prepared: SeedData, places: NDArray[np.int64]) -> NDArray[np.bool_]:
    """For each training row at the V places, whether a model predicts its class, ``[V]``."""
    rows = prepared.encoded.split.train[places]
    labels, groups = prepared.dataset.labels[rows], prepared.dataset.groupings[0].groups[rows]
    correct = np.zeros(len(rows), np.bool_)
    for start in range(0, len(rows), ROWS_AT_ONCE):
        piece = slice(start, start + ROWS_AT_ONCE)
        inputs = torch.from_numpy(np.ascontiguousarray(prepared.encoded.train[places[piece]]))
        probabilities = model.probabilities(inputs, torch.from_numpy(groups[piece])).numpy()
        correct[piece] = record_correct(probabilities, labels[piece])[0] == 1.0
    return correct
