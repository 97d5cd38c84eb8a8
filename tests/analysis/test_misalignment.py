"""What was read of steps, in reports: numbers, gaps, rules, and why something was not read."""

import math

import numpy as np
import pandas as pd
import pytest
from audits import audited
from places import LOANS

from fairaudit.analysis.misalignment import IS_OFF, IS_SEARCH, NO_STEPS, TOO_FEW
from fairaudit.api import check_gates
from fairaudit.methods.catalog import catalog
from fairaudit.metrics.registry import of_steps
from fairaudit.report.frames import AuditReport

pytestmark = pytest.mark.usefixtures("quick_accountant")
NAMES = [spec.name for spec in of_steps()]
QUICK = {
    "data": LOANS,
    "noise_multiplier": 1.0,
    "max_grad_norm": 1.0,
    "epochs": 1,
    "batch_size": 400,
    "twins": "off",
    "diagnostics": "basic",
}


@pytest.fixture(scope="module")
def two(tmp_path_factory, request):
    """Two methods by two groupings at five seeds, one of them by coin flips: (report, results)."""
    folder = tmp_path_factory.mktemp("two")
    frame = pd.read_parquet(LOANS)
    rng = np.random.default_rng(3)
    frame["coin"] = np.where(rng.random(len(frame)) < 0.002, "rare", "usual")
    frame.to_parquet(folder / "people.parquet")
    given = {**QUICK, "data": folder / "people.parquet", "group": ("sex", "coin")}
    given |= {"label": "approved", "method": ("dpsgd", "global-adapt"), "seeds": 5}
    made = audited(folder / "out", **given)
    return made.report, made.plan, made.results


def comparison(report, arm, grouping):
    (found,) = [c for c in report.costs if (c.arm, c.grouping) == (arm, grouping)]
    return found


def test_every_private_method_has_every_reading_for_every_group_and_all_rows(two):
    report, _, _ = two
    for arm in ("dpsgd", "global-adapt"):
        for grouping in ("sex", "coin"):
            found = comparison(report, arm, grouping)
            for group in (*found.by_group, found.overall):
                if group.group == "rare":
                    continue
                for name in NAMES:
                    one = group.estimates[name]
                    assert one.ends is not None, (arm, group.group, name, one.reason)
                    assert one.low < one.value < one.high
                    assert one.n_seeds == 5
            kinds = {gap.kind for gap in found.gaps if gap.metric == "misalignment"}
            assert kinds == {"pair", "population", "max"}
    own = comparison(report, "sgd", "sex") if any(c.arm == "sgd" for c in report.costs) else None
    assert own is None


def test_a_mean_is_that_of_the_stored_readings(two):
    report, plan, results = two
    jobs = [job for job in plan.jobs if job.arm == "dpsgd"]
    series = np.stack([results[job.id].arrays["misalignment.0.misalignment"] for job in jobs])
    group = comparison(report, "dpsgd", "sex").by_group[1]
    of_seeds = np.nanmean(series[:, :, 0, 1, 0], 1)
    assert group.value("misalignment") == pytest.approx(of_seeds.mean(), rel=1e-5)
    left = np.nanmean(series[:, :, 0, 1, 1:], 1)  # [S, BLOCKS]
    off = left - left.mean(1, keepdims=True)
    records = 0.9 * (off.mean(0) ** 2).sum()
    seeds = of_seeds.var(ddof=1) / 5
    half = math.sqrt(2.776**2 * seeds + 2.262**2 * records)
    estimate = group.estimates["misalignment"]
    assert estimate.high - estimate.value == pytest.approx(half, rel=1e-3)


def test_a_pair_shares_only_what_two_seeds_share(two):
    report, plan, results = two
    jobs = [job for job in plan.jobs if job.arm == "dpsgd"]
    series = np.stack([results[job.id].arrays["misalignment.0.misalignment"] for job in jobs])
    means = np.nanmean(series[:, :, 0], 1)  # [S, K + 1, J]
    off = means[..., 1:] - means[..., 1:].mean(-1, keepdims=True)
    shared = 0.0
    for k in (0, 1):
        for s in range(5):
            for t in range(5):
                shared += 0.9 * (off[s, k] @ off[t, k]) / 20 if s != t else 0.0
    difference = means[:, 0, 0] - means[:, 1, 0]
    half = math.sqrt(2.776**2 * difference.var(ddof=1) / 5 + 2.262**2 * max(0.0, shared))
    found = comparison(report, "dpsgd", "sex")
    (gap,) = [g for g in found.gaps if (g.metric, g.kind) == ("misalignment", "pair")]
    assert gap.signed.high - gap.signed.value == pytest.approx(half, rel=1e-3)


def test_a_group_of_a_few_rows_is_undefined_with_its_reason_and_never_zero(two):
    report, _, _ = two
    (rare,) = [g for g in comparison(report, "dpsgd", "coin").by_group if g.group == "rare"]
    one = rare.estimates["misalignment"]
    assert one.value is None or one.reason
    (steps,) = [s for s in report.diagnostics.steps if (s.arm, s.grouping) == ("dpsgd", "coin")]
    (of_rare,) = [g for g in steps.groups if g.group == "rare"]
    assert of_rare.rows < 30
    assert of_rare.undefined > 0
    assert TOO_FEW in one.reason


def test_it_is_said_how_steps_were_read_and_curves_have_a_value_for_each(two):
    report, _, _ = two
    for steps in report.diagnostics.steps:
        assert steps.reason == ""
        assert steps.seeds == 5
        assert steps.batches == 4
        assert 1 <= len(steps.term_steps) <= len(steps.steps)
        assert set(steps.term_steps) <= set(steps.steps)
        assert steps.groups[-1].group == ""
        for group in steps.groups:
            for name in NAMES:
                assert len(group.curves[name]) == len(steps.steps)


def test_readings_are_metrics_of_frames_and_rules(two):
    report, _, _ = two
    report = AuditReport.of(report)
    frame = report.metrics()
    assert set(NAMES) <= set(frame.metric)
    row = frame[(frame.arm == "dpsgd") & (frame.group == "F") & (frame.metric == "misalignment")]
    assert row.unit.item() == "degrees"
    by_group = report.by_group()
    of_f = by_group[(by_group.arm == "dpsgd") & (by_group.group == "F")]
    assert of_f.misalignment.item() == pytest.approx(row["value"].item())
    assert of_f.misalignment_low.item() < of_f.misalignment.item() < of_f.misalignment_high.item()
    value = row["value"].item()
    rules = [
        f"misalignment@sex=F:dpsgd > {abs(value) + 100:.0f} degrees",
        f"misalignment@sex=F:dpsgd > {value - 100:.0f}",
        "clipped_share@sex=F:dpsgd >= 0",
        "misalignment_gap@sex:dpsgd > 170",
        "direction@sex=F:dpsgd > 10 nats",
        "magnitude@sex=M:dpsgd > 10",
        "misalignment@coin=rare:dpsgd > 5",
    ]
    outcomes = [str(gate.outcome) for gate in check_gates(report, rules).gates]
    assert outcomes[:6] == ["pass", "fail", "fail", "pass", "pass", "pass"]
    assert outcomes[6] == "inconclusive"


@pytest.mark.parametrize("name", sorted(catalog()))
def test_every_registered_method_has_a_value_or_a_named_reason(name, tmp_path):
    spec = catalog()[name]
    given = {**QUICK, "group": ("sex",), "seeds": 1, "method": (name,)}
    if not spec.trains_by_steps:
        del given["noise_multiplier"]
    if spec.control_of:
        given["method"] = (spec.control_of, name)
    if not spec.is_private:
        pytest.skip("a reference, which is no private arm")
    report = audited(tmp_path / "out", **given).report
    compared = [c for c in report.costs if c.arm.startswith(name)]
    assert compared
    for found in compared:
        for group in (*found.by_group, found.overall):
            for reading in NAMES:
                one = group.estimates[reading]
                assert (one.value is not None) or one.reason
                if not spec.trains_by_steps:
                    assert one.reason == NO_STEPS
                elif group.n_train > 200:
                    assert one.value is not None, (reading, one.reason)
    of_arm = [s for s in report.diagnostics.steps if s.arm.startswith(name)]
    assert of_arm
    for steps in of_arm:
        if not spec.trains_by_steps:
            held = {reading.name for reading in report.diagnostics.readings.get(steps.arm, ())}
            assert set(steps.method_readings) & held or not held


def test_where_nothing_is_read_the_reason_says_so(tmp_path):
    given = {**QUICK, "group": ("sex",), "seeds": 1, "method": ("dpsgd",)}
    off = audited(tmp_path / "off", **{**given, "diagnostics": "off"}).report
    (steps,) = off.diagnostics.steps
    assert steps.reason == IS_OFF
    assert off.costs[0].by_group[0].estimates["misalignment"].reason == IS_OFF
    searched = audited(tmp_path / "tuned", **given, tune=2).report
    reasons = {steps.reason for steps in searched.diagnostics.steps}
    assert reasons == {IS_SEARCH}


def test_readings_change_no_bit_of_a_training(tmp_path):
    trained = {}
    for level in ("off", "basic", "full"):
        given = {**QUICK, "group": ("sex",), "seeds": 1, "method": ("dpsgd", "dpsgd-f")}
        made = audited(tmp_path / level, **{**given, "diagnostics": level})
        trained[level] = {
            (job.arm, job.seed): made.results[job.id].facts["params_sha256"]
            for job in made.plan.jobs
        }
    assert trained["off"] == trained["basic"] == trained["full"]


def test_a_group_that_is_tested_alone_has_no_angle_and_others_are_read(tmp_path):
    """None of its rows is trained on; it stands between two others; small model and large."""
    rng = np.random.default_rng(2)
    group = np.array(["a", "b", "c"])[np.arange(300) % 3]
    frame = pd.DataFrame({"x": rng.normal(size=300), "z": rng.normal(size=300), "team": group})
    frame["y"] = (frame.x + rng.normal(size=300) > 0).astype(int)
    frame["part"] = np.where((group == "b") | (rng.random(300) < 0.3), "test", "train")
    frame.to_parquet(tmp_path / "people.parquet")
    given = {**QUICK, "data": tmp_path / "people.parquet", "group": ("team",), "label": "y"}
    given |= {"split_column": "part", "method": ("dpsgd",), "batch_size": 50, "seeds": 1}
    for number, diagnostics in enumerate(("basic", "full")):
        more = {"model": ("logistic", "mlp")[number], "diagnostics": diagnostics}
        found = comparison(audited(tmp_path / f"{number}", **given | more).report, "dpsgd", "team")
        first, absent, last = (one.estimates["misalignment"] for one in found.by_group)
        assert absent.value is None
        assert absent.reason == "no training row of this group"
        for one in (first, last):
            assert one.value is not None or one.reason.endswith(TOO_FEW)
        assert found.by_group[0].estimates["gradient_norm"].value > 0
