"""Audits that say who is decided by chance: on a given split, with ``--again``, of predictions.

And audits that cannot.
"""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from audits import audited
from jobs import run_here
from people import RECIPE, applicants

import fairaudit
from fairaudit.analysis.measure import measured
from fairaudit.audit import prepare
from fairaudit.config.options import AuditConfig
from fairaudit.config.value_sources import resolve_config
from fairaudit.data.inputs.split import draw_split
from fairaudit.data.tabular import load_dataset
from fairaudit.disagreement.plan import FIRST_SEED, MOST, rows_again
from fairaudit.errors import ConfigError
from fairaudit.gate.grammar import parse_rule
from fairaudit.planning.flow import Audit
from fairaudit.planning.plan import make_plan

ROWS, SEEDS = 600, 5
SHORT = {**RECIPE, "method": ["dpsgd"], "diagnostics": "off", "twins": "off", "seeds": SEEDS}
pytestmark = pytest.mark.usefixtures("quick_accountant")


@pytest.fixture(scope="module")
def split_csv(tmp_path_factory):
    """A table with a column that says who is a test row: every fourth."""
    path = tmp_path_factory.mktemp("chance") / "people.csv"
    frame = applicants(ROWS)
    frame["side"] = np.where(np.arange(ROWS) % 4 == 0, "test", "train")
    frame.to_csv(path, index=False)
    return path


def by_hand(answers, people):
    """Differing over tested pairs of trainings; ``answers``: of each training row -> class."""
    differing = tested = 0
    for one, other in combinations(answers, 2):
        for row in people:
            if row in one and row in other:
                tested += 1
                differing += one[row] != other[row]
    return differing / tested


def answers_of(plan, results, arm):
    """Of each training of an arm what its first repeat answers, by row."""
    found = []
    for job in plan.jobs:
        if job.arm == arm:
            arrays = results[job.id].arrays
            classes = np.asarray(arrays["probabilities"])[0].argmax(-1)
            found.append(dict(zip(arrays["test_rows"].tolist(), classes.tolist(), strict=True)))
    return found


def assert_as_by_hand(report, plan, dataset, results):
    grouping = dataset.groupings[0]
    for comparison in report.comparisons:
        ours = answers_of(plan, results, comparison.arm)
        for k, group in enumerate((*comparison.by_group, comparison.overall)):
            rows = range(dataset.n_rows)
            if group.group:
                rows = np.flatnonzero(grouping.groups == k).tolist()
            share = by_hand(ours, rows)
            assert group.value("disagreement") == pytest.approx(share, abs=1e-6)
            if comparison.reference:
                other = by_hand(answers_of(plan, results, comparison.reference), rows)
                assert group.value("reference.disagreement") == pytest.approx(other, abs=1e-6)
                assert group.value("disagreement_cost") == pytest.approx(share - other, abs=1e-6)
            assert group.estimates["disagreement"].ends is not None


def test_the_seeds_of_a_given_split_are_such_trainings(split_csv, tmp_path):
    made = audited(tmp_path, data=split_csv, split_column="side", **{**SHORT, "repeats": 2})
    report = made.report
    assert not made.plan.side_plans
    assert_as_by_hand(report, made.plan, made.dataset, made.results)
    study = report.studies["disagreement"]
    assert (study.source, study.planned, study.reason) == ("seeds", SEEDS, "")
    assert [(arm.arm, arm.finished) for arm in study.arms] == [("sgd", SEEDS), ("dpsgd", SEEDS)]
    gaps = [g for c in report.costs for g in c.gaps if g.metric == "disagreement_cost"]
    assert {gap.kind for gap in gaps} == {"pair", "population", "max"}
    assert all(gap.gated for gap in gaps)


def test_further_trainings_are_of_the_first_seeds_rows_and_pairs_among_themselves(
    split_csv, tmp_path
):
    options = {**SHORT, "seeds": 2, "again": 6, "seed": 3}
    made = audited(tmp_path, data=split_csv, drop=["side"], **options)
    report, plan, dataset, results = made.report, made.plan, made.dataset, made.results
    again = plan.side_plans["again"]
    first = draw_split(dataset, plan.config.split, 3)
    assert len(again.jobs) == 12
    for job in again.jobs:
        assert np.array_equal(results[job.id].arrays["test_rows"], first.test)
    # No two trainings are one, and none is one of the audit's.
    models = {results[job.id].arrays["probabilities"].tobytes() for job in results_jobs(plan)}
    assert len(models) == len(results_jobs(plan))
    assert_as_by_hand(report, again, dataset, results)
    assert report.studies["disagreement"].source == "again"


def results_jobs(plan):
    return [*plan.jobs, *plan.side_plans["again"].jobs]


def test_further_trainings_change_nothing_else(split_csv, tmp_path):
    both = []
    for name, more in (("without", {}), ("with", {"again": 3})):
        options = {**SHORT, "seeds": 2, **more}
        made = audited(tmp_path / name, data=split_csv, drop=["side"], **options)
        both.append((made.report, made.plan))
    (plain, planned), (added, with_again) = both
    assert [job.id for job in planned.jobs] == [job.id for job in with_again.jobs]
    for one, other in zip(plain.comparisons, added.comparisons, strict=True):
        for group, beside in zip(one.by_group, other.by_group, strict=True):
            for name, number in group.estimates.items():
                if "disagreement" not in name:
                    assert number == beside.estimates[name]


def test_seeds_give_further_trainings_of_their_own(split_csv):
    data = load_dataset(AuditConfig(data=split_csv, group=("sex",), drop=("side",)))
    options = AuditConfig(data=split_csv).split
    for first in (0, 1):
        for k in (0, 4):
            seed = FIRST_SEED + MOST * first + k
            split = rows_again(data, options, seed)
            assert np.array_equal(split.train, draw_split(data, options, first).train)
            assert split.seed == seed
    ids = set()
    for seed in (0, 1):
        config = AuditConfig(
            data=split_csv, **{**SHORT, "drop": ("side",), "again": 3, "seed": seed}
        )
        ids |= {job.id for job in make_plan(config, data).side_plans["again"].jobs}
    assert len(ids) == 12


def test_a_control_and_other_trainers_are_trained_again(split_csv, tmp_path):
    methods = ["global-adapt", "dpsgd-matched", "output-perturbation", "pate-hard"]
    options = {**SHORT, "seeds": 2, "again": 3, "method": methods, "epochs": 2}
    options |= {"noise_multiplier": None, "epsilon": [3.0]}
    made = audited(tmp_path, data=split_csv, drop=["side"], **options)
    report, plan, dataset, results = made.report, made.plan, made.dataset, made.results
    again = plan.side_plans["again"]
    assert {arm.key for arm in again.arms} == {arm.key for arm in plan.arms}
    # PATE's students take other test rows at each training, so people are tested by some.
    tested = [results[job.id].arrays["test_rows"] for job in again.jobs if job.arm == "pate-hard"]
    assert not np.array_equal(tested[0], tested[1])
    for comparison in report.costs:
        number = comparison.overall.estimates["disagreement_cost"]
        assert number.value is not None, (comparison.arm, comparison.reference, number.reason)
        own = by_hand(answers_of(again, results, comparison.arm), range(dataset.n_rows))
        if comparison.arm != "pate-hard":
            assert comparison.overall.value("disagreement") == pytest.approx(own, abs=1e-6)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, "each seed has training rows of its own"),
        ({"split_column": "side", "keep": {"F": 0.5}}, "each seed has training rows of its own"),
        ({"split_column": "side", "seeds": 2}, "2 trainings on the same rows; 3 are needed"),
    ],
)
def test_without_such_trainings_every_number_has_a_reason(split_csv, tmp_path, options, why):
    options = {
        **SHORT,
        "epochs": 1,
        **({} if "split_column" in options else {"drop": ["side"]}),
    } | {**options}
    report = audited(tmp_path, data=split_csv, **options).report
    for comparison in report.comparisons:
        for group in (*comparison.by_group, comparison.overall):
            number = group.estimates["disagreement"]
            assert number.value is None
            assert number.reason.startswith(why)
    assert not [g for c in report.comparisons for g in c.gaps if "disagreement" in g.metric]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"again": 3, "split_column": "side"}, "train on the same rows already"),
        ({"again": 3, "tune": 2}, "--tune tries several"),
    ],
)
def test_what_does_not_go_with_further_trainings_is_refused(split_csv, options, said):
    config = AuditConfig(data=split_csv, **{**SHORT, **options})
    with pytest.raises(ConfigError, match=said):
        make_plan(config, load_dataset(config))


def test_a_rule_that_cannot_be_judged_is_refused_before_training(split_csv, tmp_path):
    options = {**SHORT, "data": split_csv, "drop": ["side"], "out": tmp_path}
    rule = {"fail_on": ["disagreement_gap > 5 points"]}
    with pytest.raises(ConfigError, match="is about what is not measured") as refused:
        prepare(resolve_config({**options, **rule}))
    assert "--again 5" in refused.value.hint
    prepare(resolve_config({**options, **rule, "again": 5}))


def test_rules_read_numbers_costs_and_gaps(split_csv, tmp_path):
    rules = ["disagreement_gap > 99 points", "disagreement@sex=F > 0", "disagreement_cost > 0.99"]
    options = {**SHORT, "fail_on": rules}
    gates = audited(tmp_path, data=split_csv, split_column="side", **options).report.gates
    outcomes = [gate.outcome for gate in gates]
    assert outcomes[0] == outcomes[2] == "pass"
    assert outcomes[1] in ("fail", "inconclusive")


def test_a_training_that_failed_is_named_and_leaves_rules_open(split_csv, tmp_path):
    options = {**SHORT, "again": 6, "seeds": 5, "epochs": 1}
    made = prepare(
        resolve_config({**options, "data": split_csv, "drop": ["side"], "out": tmp_path})
    )
    results = {job.id: run_here(made.plan, job) for job in made.plan.every_job}
    lost = next(job for job in made.plan.side_plans["again"].jobs if job.arm == "dpsgd")
    del results[lost.id]
    audit = measured(Audit(made.resolved, made.plan, made.dataset, results, {lost.id: "diverged"}))
    study = audit.studies["disagreement"]
    assert study.unfinished == {"dpsgd": "1 of 6 further trainings of dpsgd have no result"}
    (warning,) = study.warnings()
    assert "diverged" in warning.text
    private = next(one for one in audit.comparisons if one.reference)
    assert private.overall.estimates["disagreement"].n_seeds == 5
    assert "1 training of dpsgd without a result" in private.overall.ungated["disagreement"]
    assert not any(g.gated for g in private.gaps if g.metric == "disagreement")


def long_table(rows, trainings, seed=0):
    """Predictions of several trainings in rows; of F by a coin, of M always the same."""
    draw = np.random.default_rng(seed)
    sex = np.repeat(["F", "M"], rows // 2)
    truth = draw.integers(0, 2, rows)
    parts = []
    for training in range(trainings):
        said = np.where(sex == "F", draw.integers(0, 2, rows), truth)
        # Trainings that are equal in every row would be one.
        base = np.where(np.arange(rows) == training, 1 - truth, truth)
        parts.append(
            pd.DataFrame({"seed": training, "sex": sex, "truth": truth, "said": said, "base": base})
        )
    return pd.concat(parts)


def test_given_predictions_of_several_trainings_are_compared(tmp_path):
    frame = long_table(400, 5)
    report = fairaudit.score_predictions(
        frame, label="truth", predictions="said", baseline="base", group="sex", out=tmp_path
    )
    (comparison,) = report.costs
    numbers = {group.group: group.value("disagreement") for group in comparison.by_group}
    assert numbers["F"] == pytest.approx(0.5, abs=0.05)
    assert numbers["M"] == 0
    upper = comparison.by_group[1].estimates["disagreement"].high
    assert (1 - upper) ** 200 == pytest.approx(0.05)
    assert report.studies["disagreement"].source == "given"


def test_given_predictions_of_one_training_or_of_other_rows_have_a_reason(tmp_path):
    frame = long_table(400, 3)
    frame["id"] = np.tile(np.arange(400), 3)
    other = frame[(frame["id"] + frame["seed"]) % 3 > 0]
    for table, why in ((frame[frame["seed"] == 0], "one training"), (other, "different rows")):
        report = fairaudit.score_predictions(
            table,
            label="truth",
            predictions="said",
            group="sex",
            row_column="id",
            out=tmp_path / why.replace(" ", ""),
        )
        number = report.comparisons[0].overall.estimates["disagreement"]
        assert number.value is None
        assert why in number.reason


def test_a_rule_on_what_privacy_adds_is_about_points_and_one_on_a_share_about_per_cent():
    assert "(2 points)" in parse_rule("disagreement_cost > 2 points").words()
    assert "(5 %)" in parse_rule("disagreement@sex=F > 0.05").words()
    assert "(5 points)" in parse_rule("disagreement_gap > 0.05").words()
