"""Given predictions -> Report, for ``fairaudit score``.

Nothing was trained, so nothing is said of training or privacy.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from fairaudit.analysis.build import RunMetadata, from_notice
from fairaudit.analysis.build_facts import data_facts
from fairaudit.analysis.disclosure import Disclosure
from fairaudit.analysis.family import reported
from fairaudit.analysis.text import REPORT_NOT_DP
from fairaudit.config.option_words import words_of
from fairaudit.config.options import AuditConfig
from fairaudit.data.dataset import Dataset
from fairaudit.errors import numbered
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
    SplitFacts,
    Tool,
)
from fairaudit.report.types.measured import Diagnostics, SklearnBaseline
from fairaudit.results.estimates import Comparison, Measured
from fairaudit.results.jobs import NUMERICS_VERSION, job_id

NOT_STATED = "none stated: predictions were given, and how they were made is not known"
_NOTHING_TRAINED = "predictions were given, nothing was trained"
_ONE_MODEL = (
    "One model was given for each method. The intervals cover the choice of test rows and nothing "
    "else: another training of the same method may give other figures."
)
_TEST_ROWS = (
    "The rows are taken to be test rows. Predictions on rows that a model was trained on make "
    "every figure look better than it is, and differently for each group."
)


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
    """The report on given predictions, with what an audit's has of measurements and findings."""
    dataset, config = results.dataset, results.config
    disclosure = Disclosure.of(config, dataset.groupings, dataset.unpredicted)
    lone = () if len(results.arms) > 1 else tuple(spec.name for spec in within_model())
    compared, changed = reported(results.comparisons, disclosure, lone)
    keys = list(results.arms)
    columns = [results.settings["y_pred"], results.settings["baseline_pred"]]
    arms = tuple(
        ArmFacts(
            key=key,
            method="given predictions",
            variant=None,
            settings={},
            privacy=ArmPrivacy(guarantee=Guarantee.NONE, reason=NOT_STATED),
            trainer="",
            reference=keys[0] if key != keys[0] else None,
            source=None,
            reads_groups=False,
            repeats=1,
            seeds_planned=count,
            failed=(),
            trainings=job_id({"given": [dataset.digest, columns, key]}),
        )
        for key, count in results.arms.items()
    )
    split = SplitFacts(
        given=True,
        test_size=None,
        balanced=False,
        keep={},
        train_rows=None,
        test_rows=dataset.n_rows,
    )
    data = data_facts(dataset, config, None, split)
    words = ["fairaudit", "score", str(results.settings["data"])]
    for name, value in results.settings.items():
        if name != "data" and value not in (None, False, 0, [], {}):
            words += words_of(name, value)
    report = Report(
        numerics_version=NUMERICS_VERSION,
        tool=Tool(name="fairaudit", version=metadata.version),
        created_utc=metadata.created_utc,
        status="complete",
        command=metadata.command,
        reproduce=shlex.join(words),
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
        arms=arms,
        sklearn_baseline=SklearnBaseline(
            arm=keys[0],
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
        warnings=tuple(map(from_notice, dataset.notices)),
        limitations=_limitations(results, compared),
        timing=dict(metadata.seconds),
    )
    return with_findings(report)


def _limitations(results: ScoreResults, shown: Sequence[Comparison]) -> tuple[Limitation, ...]:
    """What figures on given predictions do not say: a code and a sentence for each limitation."""
    counts = set(results.arms.values())
    texts = [("report_not_private", REPORT_NOT_DP), ("test_rows", _TEST_ROWS)]
    if counts == {1}:
        texts.append(("one_model", _ONE_MODEL))
    sizes = [group.n_test for one in shown for group in one.by_group if group.n_test]
    smallest = min(sizes, default=0)  # of the groups that are shown
    gaps = sum(len(comparison.gaps) for comparison in results.comparisons)
    limits = (
        f"{numbered(max(counts), 'model')} per method; "
        f"the smallest group has {numbered(smallest, 'row')}; "
        f"{numbered(gaps, 'gap was', 'gaps were')} computed, of which some stand out by chance."
    )
    texts.append(("statistics", limits))
    return tuple(Limitation(code=code, text=text) for code, text in texts)
