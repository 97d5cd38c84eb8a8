"""Given predictions to a report: read, measure, judge, write. No training, no epsilon, no torch."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from pydantic import JsonValue

from fairaudit.analysis.build import run_metadata
from fairaudit.analysis.build_score import ScoreResults, build_score_report
from fairaudit.capabilities.installed import CAPABILITIES
from fairaudit.config.options import AuditConfig
from fairaudit.data.dataset import Dataset, Float32, Grouping, Int64
from fairaudit.data.predictions import Scored, load_scored
from fairaudit.errors import ConfigError
from fairaudit.gate.check import judged, refuse_without_baseline
from fairaudit.gate.grammar import parse_rules
from fairaudit.io.atomic import refuse_unusable
from fairaudit.messages.base import Message
from fairaudit.messages.data import TurnedProbability
from fairaudit.metrics.compare import (
    FIXED_SPLIT,
    ONE_MODEL,
    SEVERAL_SPLITS,
    Evaluation,
    compare,
    measure_reference,
    of_labels,
)
from fairaudit.metrics.within_model import ArmPredictions, LabelOutcome
from fairaudit.report.load import load_report
from fairaudit.report.model import Report, Study
from fairaudit.report.write import put_aside, where_put, write_report
from fairaudit.results.estimates import Measured

PREDICTIONS, BASELINE = "predictions", "baseline"
_LIBRARIES = ("numpy", "pyarrow", "scipy")
# What an audit and a scoring share; the report repeats these options.
_SHARED = (
    *("positive", "favourable", "group", "intersect", "bin", "contrast", "compare"),
    *("missing_values", "number_format", "suppress_below"),
    *("fail_on", "baseline", "inconclusive", "note"),
)


@dataclass(frozen=True, slots=True)
class ScoreConfig:
    """What to score.

    Args:
        shared: The options of an audit that apply: data, label (what was true), group, positive,
            favourable, intersect, bin, contrast, compare, missing_values, number_format,
            suppress_below, out, format and the gates.
        y_pred: Column of predictions, or one per class, separated by commas.
        baseline_pred: The same of the predictions that they are compared with; None: with nothing.
        seed_column: Column of seeds, where rows of several trainings follow each other; None:
            ``seed``, where there is one.
        row_column: Column that identifies a row at all seeds; None: its place in its seed does.
        classes: The classes in the order of the columns of probabilities; empty: the names of the
            columns say which is whose.
    """

    shared: AuditConfig
    y_pred: str
    baseline_pred: str | None = None
    seed_column: str | None = None
    row_column: str | None = None
    classes: tuple[str, ...] = ()


def score(config: ScoreConfig, *, command: Sequence[str] = ()) -> Report:
    """Measure given predictions by group, write the report and return it.

    With one seed the intervals are about that model on new people; with several they are about the
    recipe, as in an audit, and gates need five of them.

    Args:
        config: What to score.
        command: The words of the command as typed, which the report repeats.

    Raises:
        FairauditError: The table, a rule or the output cannot be used.
    """
    started = time.perf_counter()
    shared = config.shared
    if shared.label is None or not config.y_pred:
        raise ConfigError(
            "what was true and what was predicted must both be named", "--y-true COL --y-pred COL"
        )
    refuse_unusable(shared.out)
    rules = parse_rules(shared.fail_on)
    earlier = load_report(where_put(shared.baseline, shared.out)) if shared.baseline else None
    refuse_without_baseline(rules, has_baseline=earlier is not None)
    scored = load_scored(
        shared,
        config.y_pred,
        config.baseline_pred,
        config.seed_column,
        config.row_column,
        config.classes,
    )
    arms = {BASELINE: scored.baseline, PREDICTIONS: scored.predictions}
    comparisons: Sequence[Measured] = measure_scored(scored, shared.suppress_below)
    studies: dict[str, Study] = {}
    for capability in CAPABILITIES:
        comparisons, study = capability.scored(scored, comparisons)
        if study is not None:
            studies[capability.name] = study
    notices = list(scored.dataset.notices)
    for arm, column in ((PREDICTIONS, config.y_pred), (BASELINE, config.baseline_pred)):
        if column is not None:
            notice = turned_notice(comparisons, arm, column, scored.dataset)
            if notice is not None:
                notices.append(notice)
    results = ScoreResults(
        config=shared,
        settings=_settings(config),
        dataset=replace(scored.dataset, notices=tuple(notices)),
        arms={name: len(models) for name, models in arms.items() if models},  # -> seeds
        comparisons=comparisons,
        studies=studies,
    )
    seconds = {"scoring": time.perf_counter() - started}
    report = build_score_report(
        results, run_metadata(command, _LIBRARIES, workers=None, seconds=seconds)
    )
    report = judged(report, rules, earlier)
    put_aside(shared.out)
    return write_report(report, shared.out, shared.format)


def _settings(config: ScoreConfig) -> dict[str, JsonValue]:
    """The options that the report repeats, JSON-ready, in the order in which it shows them."""
    shared = config.shared.model_dump(mode="json", include={"data", *_SHARED})
    return {
        "data": shared.pop("data"),
        "y_true": config.shared.label,
        "y_pred": config.y_pred,
        "baseline_pred": config.baseline_pred,
        "seed_column": config.seed_column,
        "row_column": config.row_column,
        "classes": list(config.classes),
        **shared,
    }


def measure_scored(scored: Scored, suppressed_below: int = 0) -> tuple[Measured, ...]:
    """Compare given predictions by every grouping: costs against the baseline.

    Without a baseline the models are measured by themselves.

    Args:
        scored: The predictions of one model at each seed.
        suppressed_below: Groups of fewer rows are hidden.
    """
    dataset = scored.dataset
    outcome = LabelOutcome(len(dataset.classes), dataset.positive, dataset.favourable)
    estimand = FIXED_SPLIT if scored.same_rows else SEVERAL_SPLITS
    if len(scored.predictions) == 1:
        estimand = ONE_MODEL
    comparisons = []
    for grouping in dataset.groupings:
        on = Evaluation(dataset.labels, grouping, outcome, estimand, suppressed_below)
        given = _predictions(scored.predictions, scored.rows, grouping)
        if scored.baseline:
            baseline = _predictions(scored.baseline, scored.rows, grouping)
            comparisons.append(measure_reference(on, BASELINE, baseline))
            comparisons.append(compare(on, PREDICTIONS, BASELINE, given, baseline))
        else:
            comparisons.append(measure_reference(on, PREDICTIONS, given))
    if scored.are_labels:  # there are no probabilities, which some metrics need
        return tuple(map(of_labels, comparisons))
    return tuple(comparisons)


def turned_notice(
    comparisons: Sequence[Measured], arm: str, column: str, dataset: Dataset
) -> Message | None:
    """The warning that given probabilities may be those of the other of two classes; else None.

    The warning is given where the model ranks worse than chance: the whole interval of its AUC over
    all rows is below a half, and so is the AUC of every group that has one.

    Args:
        comparisons: What was measured of all models.
        arm: The model's key.
        column: What was given as its predictions.
        dataset: Its classes are the label's.
    """
    if len(dataset.classes) != 2 or dataset.positive is None:
        return None
    measured = [comparison for comparison in comparisons if comparison.arm == arm]
    overall = measured[0].overall.estimates.get("auc")  # all rows are the same in each grouping
    of_groups = [group.value("auc") for comparison in measured for group in comparison.by_group]
    known = [value for value in of_groups if value is not None]
    if overall is None or overall.high is None or overall.high >= 0.5:
        return None
    if any(value >= 0.5 for value in known):
        return None
    return TurnedProbability(
        column,
        auc=overall.value or 0.0,
        other=dataset.classes[1 - dataset.positive],
        are_several="," in column,
    )


def _predictions(
    arrays: Sequence[Float32], rows: Sequence[Int64], grouping: Grouping
) -> list[ArmPredictions]:
    """Given probabilities as the program's own models' predictions: one model at each seed.

    Args:
        arrays: Of each seed, probabilities of the classes ``[n, Y]``.
        rows: Of each seed, which rows of the dataset they are on, ``[n]``.
        grouping: Whose groups are counted; given predictions have no training rows of any.
    """
    none = np.zeros(len(grouping.names), dtype=np.int64)
    models = []
    for seed, array in enumerate(arrays):
        models.append(ArmPredictions(seed, rows[seed], array[None], none))  # [1, n, Y]: one repeat
    return models
