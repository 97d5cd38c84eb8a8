import numpy as np
import pyarrow as pa
import pytest
from changed import replace
from handmade import (
    arm,
    built,
    comparison,
    dataset,
    findings,
    gap,
    measure,
    metadata,
    plan,
    privacy,
    resolved,
    results,
)

from fairaudit.analysis.build import build_report
from fairaudit.analysis.disclosure import Disclosure
from fairaudit.analysis.family import reported
from fairaudit.data.dataset import image_column
from fairaudit.data.groups import NamedPair
from fairaudit.methods.catalog import Guarantee
from fairaudit.planning.flow import Audit
from fairaudit.report.model import VOLATILE


def report_of(found):
    return built(found)


def codes(report):
    return [warning.code for warning in report.warnings]


def audit_of(arms, comparisons, **options):
    settled = resolved(**options)
    made = plan(settled.config, tuple(arms))
    return Audit(settled, made, dataset(), results(made), {}, tuple(comparisons))


def test_a_failed_seed_makes_the_report_partial_and_is_named():
    found = findings()
    kept = {k: v for k, v in found.results.items() if k != "global-adapt-3"}
    report = report_of(
        replace(found, results=kept, failures={"global-adapt-3": "diverged at step 12"})
    )
    assert report.status == "partial"
    assert report.arms[1].failed[0].seed == 3
    assert report.arms[1].seeds_planned == 5
    assert "seed_failed" in codes(report)


def test_two_audits_in_which_no_training_of_a_method_finished_share_none():
    whole = report_of(findings())
    (private,) = (arm.key for arm in whole.arms if arm.reference is not None)
    assert whole.shares_trainings(whole, private)
    found = findings()
    failed = {job.id: "diverged at step 12" for job in found.plan.jobs if job.arm == private}
    kept = {key: result for key, result in found.results.items() if key not in failed}
    lost = report_of(replace(found, results=kept, failures=failed, comparisons=()))
    assert not lost.shares_trainings(lost, private)
    assert lost.shares_trainings(whole, "sgd")


def test_two_runs_of_one_command_differ_in_the_volatile_fields_only():
    a = report_of(findings()).model_dump(mode="json")
    other = metadata(
        created_utc="2030-01-01T00:00:00+00:00",
        command=("x",),
        workers=7,
        seconds={"training": 9.0},
        environment={},
    )
    b = build_report(findings(workers=7, out="elsewhere", memory=64), other).model_dump(mode="json")
    assert {k for k in a if a[k] != b[k]} - set(VOLATILE) == set()
    assert {k for k in a if a[k] != b[k]} >= {"created_utc", "command", "execution", "timing"}


def test_a_reference_below_the_baseline_warns_that_costs_are_understated():
    settled = resolved()
    made = plan(settled.config)
    weak = {
        key: replace(r, arrays={**r.arrays, "probabilities": 1 - r.arrays["probabilities"]})
        for key, r in results(made, sklearn_baseline=0.9).items()
    }
    report = report_of(Audit(settled, made, dataset(), weak, {}, (comparison(),)))
    assert report.sklearn_baseline.undertrained is True
    assert report.sklearn_baseline.reference_accuracy == 0.0
    assert "reference_undertrained" in [finding.code for finding in report.findings]
    assert report_of(findings()).sklearn_baseline.undertrained is False


TABLE, IMAGES = None, (8, 8, 1)


@pytest.mark.parametrize(
    ("model", "shape", "fitted", "told"),
    [
        ("mlp", TABLE, 0.9, "scikit-learn logistic regression, same rows and inputs"),
        ("own:make", TABLE, 0.9, "scikit-learn logistic regression, same rows and inputs"),
        ("logistic", IMAGES, 0.9, "scikit-learn logistic regression on the pixels of 7 of "),
        ("cnn", IMAGES, None, "none"),
        ("mlp", IMAGES, None, "none"),
    ],
)
def test_a_network_on_a_table_stands_beside_a_linear_model_and_one_on_images_does_not(
    model, shape, fitted, told
):
    """The worker fits one or none (tests/test_worker.py); here one is named and judged by."""
    settled = resolved()
    made = plan(settled.config)
    made = replace(made, training=replace(made.training, model=model))
    weak = {}
    for key, found in results(made, sklearn_baseline=fitted).items():
        wrong = {**found.arrays, "probabilities": 1 - found.arrays["probabilities"]}
        facts = dict(found.facts)
        if "sklearn_baseline" in facts:
            facts["sklearn_baseline"] = {"accuracy": fitted, "train_rows": 7.0}
        weak[key] = replace(found, arrays=wrong, facts=facts)
    data = dataset()
    if shape is not None:
        pixels = np.zeros((data.n_rows, *shape), np.uint8)
        data = replace(data, features=pa.table({"image": image_column(pixels)}))
    report = report_of(Audit(settled, made, data, weak, {}, (comparison(),)))
    check = report.sklearn_baseline
    assert check.baseline.startswith(told)
    assert check.undertrained is (None if fitted is None else True)
    said = [f.text for f in report.findings if f.code == "reference_undertrained"]
    assert len(said) == (fitted is not None)
    assert all(f"right, {told}" in text for text in said)


def test_a_threshold_method_without_its_control_says_so_and_how():
    report = report_of(findings())
    assert "control_not_run" in codes(report)


def test_only_an_established_arm_has_an_epsilon():
    published = arm(
        "dpsgd:as-published", privacy=privacy(Guarantee.NOT_ESTABLISHED, "divides by |B|")
    )
    report = report_of(
        audit_of([arm("sgd", reference=None), arm("dpsgd"), published], [comparison("dpsgd")])
    )
    assert report.privacy["dpsgd"].epsilon is not None
    assert report.training.epsilon_if_all_released == 9.8765432198
    for key in ("sgd", "dpsgd:as-published"):
        facts = report.privacy[key]
        assert (facts.epsilon, facts.delta, facts.attack) == (None, None, ())
        assert facts.reason


def test_small_groups_are_suppressed_everywhere_they_are_counted():
    small = comparison()
    small = replace(small, by_group=(measure("F", 0.04, n_test=7), small.by_group[1]))
    found = replace(findings(suppress_below=12), comparisons=(small,))
    report = report_of(found)
    record = report.comparisons[0]
    assert record.by_group[0].n_test is None
    assert record.by_group[0].estimates == {}
    assert "suppressed" in record.by_group[0].reason
    assert record.gaps == ()
    assert report.data.missing["income"] == {"F": None, "M": None}
    assert [g.rows for g in report.data.groupings[0].groups] == [None, None]
    assert "suppression" in [limitation.code for limitation in report.limitations]


@pytest.mark.parametrize(("names", "kept"), [("abc", 6), ("abcd", 4)])
def test_of_many_groups_rates_of_one_class_the_largest_gap_and_the_named_pairs_are_told(
    names, kept
):
    kinds = [("a", "b", "pair"), ("a", "c", "pair"), ("a", "", "population"), ("a", "c", "max")]
    gaps = [gap(a, b, 0.02, kind=kind, metric="tpr[2]") for a, b, kind in kinds]
    costs = [gap("a", "c", 0.02), gap("a", "", 0.02, kind="population")]
    compared = replace(
        comparison(), gaps=(*gaps, *costs), by_group=tuple(measure(name, 0.01) for name in names)
    )
    found = Disclosure(named=[NamedPair("sex", "b", "a")]).of_measured(compared).gaps
    assert len(found) == kept
    assert [(g.metric, g.kind, g.named) for g in found][:1] == [("tpr[2]", "pair", True)]
    assert {(g.metric, g.kind) for g in found} >= {
        ("tpr[2]", "max"),
        ("privacy_cost", "pair"),
        ("privacy_cost", "population"),
    }


def test_a_pair_that_was_named_beforehand_is_read_by_its_own_interval():
    """In a metric of the model itself, which shares its 5 % with its other pairs alone."""
    pair = gap("F", "M", 0.02, metric="accuracy", direction="")  # 0.003 to 0.037 by itself
    compared = replace(comparison(), gaps=(pair,))
    for named, said in (([NamedPair("sex", "M", "F")], "worse for M"), ([], "")):
        (one,) = reported([compared], Disclosure(named=named)).comparisons
        assert one.gaps[0].direction == said


def test_curves_are_averaged_over_seeds_and_windows_without_absent_groups():
    curves = {c.name: c for c in report_of(findings()).diagnostics.arms["global-adapt"]}
    assert curves["loss"].columns == ("F", "M")
    assert curves["loss"].values[1] == (0.5, None)
    assert len(curves["threshold"].steps) == 60
    steps = curves["threshold"].steps
    assert (steps[0], steps[-1]) == (3, 396)  # centres of windows
    line = np.linspace(50, 3, 400)
    assert curves["threshold"].values[0] == pytest.approx((line[:7].mean(),), rel=1e-5)
    assert curves["threshold"].columns == ("",)


@pytest.mark.parametrize(("seeds", "told"), [(1, False), (2, True), (9, True), (10, False)])
def test_many_groups_are_warned_of_where_there_are_intervals_to_be_wide(seeds, told):
    names = ("a", "b", "c")
    settled = resolved(seeds=seeds)
    made = plan(settled.config)
    compared = comparison(costs=(0.1, 0.05, 0.0), names=names)
    found = Audit(settled, made, dataset(names), results(made), {}, (compared,))
    report = built(found)
    assert told == ("many_groups" in [warning.code for warning in report.warnings])
