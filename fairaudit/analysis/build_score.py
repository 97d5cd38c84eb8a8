"""Given predictions -> Report, for ``fairaudit score``.

Nothing was trained, so nothing is said of training or privacy.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from fairaudit.analysis.build import RunMetadata
from fairaudit.analysis.build_facts import data_facts
from fairaudit.analysis.disclosure import Disclosure
from fairaudit.analysis.family import reported
from fairaudit.config.option_words import words_of
from fairaudit.config.options import AuditConfig
from fairaudit.data.dataset import Dataset
from fairaudit.messages.base import Message
from fairaudit.messages.limits import GivenTestRows, OneModel, ReportNotPrivate, ScoredStatistics
from fairaudit.methods.spec import Guarantee
from fairaudit.metrics.registry import within_model
from fairaudit.report.conditions import with_findings
from fairaudit.report.model import Report, Study
from fairaudit.report.types.facts import (
    ArmFacts,
    ArmPrivacy,
    ExecutionFacts,
    Limitation,
    OptionValue,
    ReportWarning,
    SplitFacts,
    Tool,
)
from fairaudit.report.types.measured import Diagnostics, SklearnBaseline
from fairaudit.results.estimates import Comparison, Measured
from fairaudit.results.jobs import NUMERICS_VERSION, job_id

NOT_STATED = "none stated: predictions were given, and how they were made is not known"
_NOTHING_TRAINED = "predictions were given, nothing was trained"


@dataclass(frozen=True, slots=True)
class ScoreResults:
    """What was given and what was measured.

    Args:
        config: Options that scoring has in common with an audit.
        settings: The options of the command as given, which the report repeats.
        dataset: The rows.
        arms: Arm key -> number of models; the baseline first, if there is one.
        comparisons: What was measured, by arm and grouping.
        studies: What capabilities say of it, by name.
    """

    config: AuditConfig
    settings: Mapping[str, JsonValue]
    dataset: Dataset
    arms: Mapping[str, int]
    comparisons: Sequence[Measured]
    studies: Mapping[str, Study] = field(default_factory=dict)


def build_score_report(results: ScoreResults, metadata: RunMetadata) -> Report:
    """The report on given predictions: measurements and findings as in the report of an audit."""
    dataset, config = results.dataset, results.config
    disclosure = Disclosure.of(config, dataset.groupings, dataset.unpredicted)
    # Without a baseline there are no costs: the gaps within the one model are what is judged.
    judged_metrics: tuple[str, ...] = ()
    if len(results.arms) == 1:
        judged_metrics = tuple(spec.name for spec in within_model())
    compared, changed = reported(results.comparisons, disclosure, judged_metrics)
    split = SplitFacts(  # all rows are test rows, by whoever gave the predictions
        given=True,
        test_size=None,
        balanced=False,
        keep={},
        train_rows=None,
        test_rows=dataset.n_rows,
    )
    data = data_facts(dataset, config, None, split)
    report = Report(
        numerics_version=NUMERICS_VERSION,
        tool=Tool(name="fairaudit", version=metadata.version),
        created_utc=metadata.created_utc,
        status="complete",
        command=metadata.command,
        reproduce=_command(results.settings),
        config={
            name: OptionValue(value=value, origin="option")
            for name, value in results.settings.items()
        },
        environment=dict(metadata.environment),
        execution=ExecutionFacts(
            device="cpu",
            workers=None,
            executor="none",
            memory=None,
            resume=False,
            out=str(config.out),
        ),
        data=data.model_copy(update={"duplicate_rows": None}),  # not looked for
        training=None,
        arms=tuple(_arms(results)),
        sklearn_baseline=SklearnBaseline(
            arm=next(iter(results.arms)),
            reference_accuracy=None,
            baseline="none",
            baseline_accuracy=None,
            undertrained=None,
            n_seeds=0,
            reason=_NOTHING_TRAINED,
        ),
        comparisons=compared,
        changed=changed,
        studies=dict(results.studies),
        diagnostics=Diagnostics.model_validate({"level": "off", "arms": {}, "readings": {}}),
        warnings=tuple(map(ReportWarning.of, dataset.notices)),
        limitations=tuple(map(Limitation.of, _limitations(results, compared))),
        timing=dict(metadata.seconds),
    )
    return with_findings(report)


def _arms(results: ScoreResults) -> Iterator[ArmFacts]:
    """What the report says of each given model; the first one is the reference of the others."""
    first = next(iter(results.arms))
    columns = [results.settings["y_pred"], results.settings["baseline_pred"]]
    for key, count in results.arms.items():
        yield ArmFacts(
            key=key,
            method="given predictions",
            variant=None,
            settings={},
            privacy=ArmPrivacy(guarantee=Guarantee.NONE, reason=NOT_STATED),
            trainer="",
            reference=None if key == first else first,
            source=None,
            reads_groups=False,
            repeats=1,
            seeds_planned=count,  # each given model takes the place of a seed
            failed=(),
            # In the place of job ids: the same file and columns hold the same predictions.
            trainings=job_id({"given": [results.dataset.digest, columns, key]}),
        )


def _command(settings: Mapping[str, JsonValue]) -> str:
    """The command that makes this report again; options at their defaults are left out."""
    words = ["fairaudit", "score", str(settings["data"])]
    for name, value in settings.items():
        # "data" is there already, by its position; the tuple holds the defaults of options.
        if name != "data" and value not in (None, False, 0, [], {}):
            words += words_of(name, value)
    return shlex.join(words)


def _limitations(results: ScoreResults, shown: Sequence[Comparison]) -> Iterator[Message]:
    """What figures on given predictions do not say; ``shown``: the comparisons of the report."""
    models = max(results.arms.values())
    sizes = [group.n_test for one in shown for group in one.by_group if group.n_test]
    yield ReportNotPrivate()
    yield GivenTestRows()
    if set(results.arms.values()) == {1}:
        yield OneModel()
    gaps = sum(len(comparison.gaps) for comparison in results.comparisons)
    yield ScoredStatistics(min(sizes, default=0), gaps, models)
