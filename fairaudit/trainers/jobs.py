"""Trains a job by the user's own code: what the code is handed, and the arrays of its answers."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fairaudit.data.dataset import Int64
from fairaudit.execution.outcomes import training_counts
from fairaudit.execution.seed_data import SeedData
from fairaudit.execution.twins import named
from fairaudit.planning.arms import Arm
from fairaudit.planning.plan import Job, Plan
from fairaudit.results.jobs import STEP_FACT, WITHOUT_NOISE, JobContent, StepTwin
from fairaudit.trainers.answers import TrainerAnswer
from fairaudit.trainers.child import TrainerRequest
from fairaudit.trainers.contract import TrainingData
from fairaudit.trainers.handed import asked_of, run_seed, with_groups
from fairaudit.trainers.process import answer_of
from fairaudit.trainers.synthetic import train_on_table


def train(plan: Plan, job: Job, arm: Arm, prepared: SeedData) -> JobContent:
    """Train one job of the user's own code, at one seed.

    Its trainer is run as often as the job has repeats, or once for each candidate of a search; for
    a synthetic table our own model is trained.

    Args:
        plan, job, arm: The audit's plan, the job to train and its arm.
        prepared: The seed's data.

    Returns:
        Arrays and facts as a ``JobResult`` holds them. Where the job is of twins, its arrays are of
        trainings without noise, under ``without_noise.NAME``. The fact ``claimed`` has what each
        training claims of its privacy, None for nothing.

    Raises:
        OwnCodeError: The code failed, exceeded a limit, or predicted what is no probability.
    """
    if arm.trainer not in plan.config.trainer:  # a synthesizer's arm, or a given table's
        arrays, facts = train_on_table(plan, job, arm, prepared)
    elif arm.search is not None:
        arrays, facts = _search(plan, job, arm, prepared)
    else:
        arrays, facts = _train(plan, job, arm, prepared)
    if job.is_twins:
        # There is no twin of the steps alone, for the steps of the user's code are not seen.
        return named(WITHOUT_NOISE, arrays), {**facts, STEP_FACT: StepTwin.NONE}
    return arrays, facts


def _search(plan: Plan, job: Job, arm: Arm, prepared: SeedData) -> JobContent:
    """Train candidates with settings in the declared ranges at one seed, and weigh the best.

    Returns:
        Arrays of every candidate, with ``weights``: 1 for the one of the best score, else 0. Facts
        of the search. Nothing is claimed of the model that is kept, for its search is not charged.
    """
    assert arm.search is not None

    def train_at(
        number: int, settings: Mapping[str, float], fit: Int64, validation: Int64
    ) -> TrainerAnswer:
        """Train one candidate, and predict the test rows, then the validation rows.

        Args:
            number: Of the candidate; 0 is the default.
            settings: What the code is handed as its settings.
            fit: Places among the seed's training rows of those that it trains on, [n].
            validation: Places of the validation rows, [m].
        """
        request = _request(plan, job, arm, prepared, fit=fit, validation=validation)
        tried = replace(request, settings=settings, seed=run_seed(job, arm, number))
        return answer_of(tried, TrainerAnswer)

    arrays, facts = arm.search.train_own(arm, job.seed, prepared, train_at)
    return arrays, {"event": None, "claimed": [None], **facts}


def _train(plan: Plan, job: Job, arm: Arm, prepared: SeedData) -> JobContent:
    """Train each of the job's R repeats at one seed, on all training rows.

    Returns:
        Arrays: ``probabilities`` [R, n, Y] of the test rows, and training rows by group. Facts:
        ``claimed``, what each repeat claims of its privacy; at the first seed ``differs_by``, the
        largest difference of a probability between two trainings that were handed the same.
    """
    every_row, no_row = np.arange(len(prepared.encoded.split.train)), np.empty(0, np.int64)
    request = _request(plan, job, arm, prepared, fit=every_row, validation=no_row)
    runs = []
    for repeat in range(job.repeats):
        of_repeat = replace(request, seed=run_seed(job, arm, repeat))
        runs.append(answer_of(of_repeat, TrainerAnswer))
    arrays = {"probabilities": np.stack([run.test for run in runs]), **training_counts(prepared)}
    facts: dict[str, object] = {"event": None, "claimed": [run.claimed for run in runs]}
    # At the first seed the same is trained twice, to see whether the code is deterministic.
    if job.seed == plan.config.seed and not job.is_twins:
        again = answer_of(replace(request, seed=run_seed(job, arm, 0)), TrainerAnswer)
        facts["differs_by"] = float(np.abs(again.test - runs[0].test).max(initial=0.0))
    return arrays, facts


def _request(
    plan: Plan, job: Job, arm: Arm, prepared: SeedData, *, fit: Int64, validation: Int64
) -> TrainerRequest:
    """What the user's trainer is handed for one training, at its default settings.

    Args:
        plan, job, arm, prepared: The job of that arm, and the data of its seed.
        fit: Places among the training rows, of those that it trains on.
        validation: Places of those that it predicts after the test rows.
    """
    config, dataset, encoded = plan.config, prepared.dataset, prepared.encoded
    split, grouping = encoded.split, dataset.groupings[0]
    rows = split.train[fit]
    hidden = ""  # the group's column where rows lack it, so that an error about it can say why
    if config.raw:  # the file's columns as they are, in place of encoded numbers
        table = dataset.features
        if config.trainer_groups:
            table = with_groups(table, grouping)
        elif grouping.name not in table.column_names:
            hidden = grouping.name
        tested = np.concatenate([split.test, split.train[validation]])
        features, test = table.take(rows).to_pandas(), table.take(tested).to_pandas()
    else:
        features = _channels_first(encoded.train[fit])
        test = _channels_first(np.concatenate([encoded.test[:], encoded.train[validation]]))
    data = TrainingData(
        features=features,
        labels=dataset.labels[rows],
        groups=grouping.groups[rows] if config.trainer_groups else None,
        classes=tuple(dataset.classes),
        group_names=tuple(grouping.names) if config.trainer_groups else (),
        names=() if config.raw else tuple(encoded.names),
    )
    return TrainerRequest(
        trainer=arm.trainer,
        data=data,
        privacy=asked_of(plan, job, arm),
        settings={},
        test=test,
        hidden=hidden,
        memory=config.trainer_memory,
        timeout=config.trainer_timeout,
    )


def _channels_first(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Images [n, H, W, C] as [n, C, H, W], as the user's code gets them; other rows unchanged."""
    if rows.ndim == 4:
        return np.ascontiguousarray(np.moveaxis(rows, -1, 1))
    return rows
