"""An audit with ``--leakage`` from plan to report: what is trained, kept, judged and told.

And without it.
"""

import json
import stat

import numpy as np
import pandas as pd
import pytest
from handmade import built
from jobs import run_here
from people import RECIPE, applicants

import fairaudit
from fairaudit.analysis.measure import measured
from fairaudit.audit import prepare
from fairaudit.config.options import AuditConfig
from fairaudit.config.value_sources import resolve_config
from fairaudit.data.inputs.split import draw_members, draw_split, leakage_rows
from fairaudit.data.tabular import load_dataset
from fairaudit.errors import ConfigError
from fairaudit.gate.check import check
from fairaudit.gate.grammar import parse_rule
from fairaudit.leakage.measure import measure_leakage
from fairaudit.planning.flow import Audit
from fairaudit.planning.plan import make_plan
from fairaudit.privacy.accounting import privacy_curve
from fairaudit.report.load import load_report
from fairaudit.report.messages.base import stored
from fairaudit.report.write import write_report

ATTACK = {**RECIPE, "method": ["dpsgd"], "diagnostics": "off", "leakage": True, "leakage_seeds": 8}

quick = pytest.mark.usefixtures("quick_accountant")


@pytest.fixture(scope="module")
def people_csv(tmp_path_factory):
    path = tmp_path_factory.mktemp("leakage") / "people.csv"
    applicants(400).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def attacked_folder(people_csv, tmp_path_factory):
    """Where an audit with attacks has run."""
    out = tmp_path_factory.mktemp("run") / "out"
    fairaudit.run_audit(people_csv, out=out, workers=1, format=["json"], **ATTACK)
    return out


@pytest.fixture(scope="module")
def report(attacked_folder):
    return load_report(attacked_folder / "report.json")


def planned(people_csv, **options):
    config = AuditConfig(**{"data": people_csv, **ATTACK, **options})
    return make_plan(config, load_dataset(config))


def train(plan):
    return {job.id: run_here(plan, job) for job in plan.jobs}


# --- who is a member
# ---------------------------------------------------------------------------------


def coins(people_csv, seeds=400, **options):
    config = AuditConfig(data=people_csv, **{**ATTACK, **options})
    data = load_dataset(config)
    rows = leakage_rows(data, config.split)
    drawn = [draw_members(data, config.split, seed) for seed in range(seeds)]
    for split in drawn:
        assert np.array_equal(np.sort(np.r_[split.train, split.test]), rows)
    return data, rows, np.array([np.isin(rows, split.train) for split in drawn])


def test_members_are_independent_coins(people_csv):
    """A half split that is stratified has no variance in its counts.

    Coins have a quarter of the rows.
    """
    data, rows, member = coins(people_csv)
    groups, seeds = data.groupings[0].groups[rows], len(member)
    cells = [np.ones(len(rows), bool), groups == 0, groups == 1, data.labels[rows] == 1]
    for cell in cells:
        counts = member[:, cell].sum(axis=1)
        n = cell.sum()
        # The variance of a sample variance of `seeds` normals is 2 sigma^4 / (seeds - 1).
        assert abs(counts.var(ddof=1) / (n / 4) - 1) < 4 * np.sqrt(2 / (seeds - 1))
        assert abs(counts.mean() - n / 2) < 4 * np.sqrt(n / 4 / seeds)
    config = AuditConfig(data=people_csv, **ATTACK)
    stratified = [len(draw_split(data, config.split, seed).train) for seed in range(20)]
    assert np.var(stratified) == 0  # the audit's own split would fail above
    signs = 2.0 * member - 1.0
    between_rows = signs.T @ signs / seeds - np.eye(len(rows))
    assert np.abs(between_rows).max() < 6 / np.sqrt(seeds)
    between_seeds = signs @ signs.T / len(rows) - np.eye(seeds)
    assert np.abs(between_seeds).max() < 6 / np.sqrt(len(rows))


def test_rows_that_options_leave_out_are_in_no_model(people_csv):
    data, rows, _ = coins(people_csv, seeds=3, balance=True)
    counts = np.bincount(data.groupings[0].groups[rows])
    assert counts[0] == counts[1] == np.bincount(data.groupings[0].groups).min()
    data, rows, _ = coins(people_csv, seeds=3, keep={"F": 0.5})
    kept, before = (
        np.bincount(data.groupings[0].groups[which]) for which in (rows, np.arange(data.n_rows))
    )
    assert (kept[0], kept[1]) == (round(before[0] / 2), before[1])


def test_a_given_split_is_not_followed(tmp_path):
    frame = applicants(300)
    frame["part"] = np.where(np.arange(300) < 200, "train", "test")
    frame.to_csv(tmp_path / "t.csv", index=False)
    _, rows, member = coins(tmp_path / "t.csv", seeds=50, split_column="part")
    assert len(rows) == 300
    assert member[:, :200].any()
    assert member[:, 200:].any()


# --- the plan
# ----------------------------------------------------------------------------------------


def test_the_plan_is_of_half_the_rows_at_the_audits_epsilon(people_csv):
    plan = planned(people_csv, noise_multiplier=None, epsilon=(2.0,), delta=None)
    half = plan.side_plans["leakage"]
    assert (half.training.n_public, half.config.leakage_seeds, len(half.jobs)) == (200, 8, 16)
    assert plan.training.n_public == 320
    assert half.training.delta == plan.training.delta
    released = [part.training.epsilon_if_all_released for part in (half, plan)]
    assert released[0] < released[1]  # the attacked models are counted, too
    own, audited = half.arm("dpsgd"), plan.arm("dpsgd")
    assert own.privacy.headline == pytest.approx(2.0, abs=0.01)
    assert own.settings["noise_multiplier"] != audited.settings["noise_multiplier"]
    assert half.twins == ()
    assert not {job.seed for job in half.jobs} & {
        job.seed for job in plan.jobs
    }  # no noise is used twice


@quick
def test_more_models_keep_those_that_are_there(people_csv):
    few, more = (
        planned(people_csv).side_plans["leakage"],
        planned(people_csv, leakage_seeds=12).side_plans["leakage"],
    )
    assert {job.id for job in few.jobs} < {job.id for job in more.jobs}
    assert not {job.id for job in few.jobs} & {job.id for job in planned(people_csv).jobs}


@quick
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tune": 2}, "--tune tries several"),
        ({"leakage": False, "leakage_seeds": 9}, "is about --leakage"),
        (
            {"trainer": ("light_trainer:train",), "noise_multiplier": None, "epsilon": (3.0,)},
            "--leakage attacks methods of this program",
        ),
        ({"batch_size": 250}, "larger than the 200 training records"),
    ],
)
def test_what_does_not_fit_is_refused(people_csv, options, message, tmp_path, monkeypatch):
    (tmp_path / "light_trainer.py").write_text("def train(data, privacy, seed): ...\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError, match=message):
        planned(people_csv, **options)


def test_few_models_or_rows_are_refused(people_csv, tmp_path):
    with pytest.raises(ValueError, match="greater than or equal to 8"):
        AuditConfig(data=people_csv, leakage_seeds=7)
    applicants(150).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(ConfigError, match="150 rows leave 75 to train on; 200 are needed"):
        planned(tmp_path / "t.csv")


@quick
def test_a_student_of_outsiders_is_not_attacked_and_one_of_public_records_is(people_csv, tmp_path):
    few = {"pate-hard": {"teachers": 3.0, "queries": 6.0}}
    options = {"method": ("dpsgd", "pate-hard"), "settings": few, "noise_multiplier": None}
    plan = planned(people_csv, **options, epsilon=(8.0,))
    assert {arm.method for arm in plan.side_plans["leakage"].arms} == {"sgd", "dpsgd"}
    notice = next(notice for notice in plan.notices if notice.code == "not_attacked")
    assert "pate-hard" in notice.text
    applicants(80, seed=1).drop(columns="y").to_csv(tmp_path / "public.csv", index=False)
    plan = planned(people_csv, **options, epsilon=(8.0,), public_data=tmp_path / "public.csv")
    assert "pate-hard" in {arm.method for arm in plan.side_plans["leakage"].arms}
    job = next(job for job in plan.side_plans["leakage"].jobs if job.arm == "pate-hard")
    arrays = run_here(plan.side_plans["leakage"], job).arrays
    assert arrays["confidence"].shape == (1, 400)
    assert np.isfinite(arrays["confidence"]).all()


@quick
def test_controls_and_self_checks_are_not_attacked(people_csv):
    plan = planned(people_csv, method=("global-adapt", "dpsgd-matched"), self_check=True)
    assert {arm.method for arm in plan.side_plans["leakage"].arms} == {"sgd", "global-adapt"}
    assert len(plan.side_plans["leakage"].arms) == 2
    assert not [notice for notice in plan.notices if notice.code == "not_attacked"]


# --- training
# ----------------------------------------------------------------------------------------


@quick
def test_a_job_leaves_how_sure_its_model_is_of_every_row(people_csv):
    plan = planned(
        people_csv, method=("output-perturbation",), noise_multiplier=None, epsilon=(5.0,)
    )
    job = plan.side_plans["leakage"].jobs[-1]
    result = run_here(plan.side_plans["leakage"], job)
    assert sorted(result.arrays) == ["confidence", "member", "rows"]
    rows, member = result.arrays["rows"], result.arrays["member"]
    assert np.array_equal(rows, np.arange(400))
    split = draw_members(load_dataset(plan.config), plan.config.split, job.seed)
    assert np.array_equal(np.flatnonzero(member), split.train)
    assert result.facts["n_train"] == member.sum()


@quick
def test_results_do_not_depend_on_what_is_attacked_beside(people_csv):
    """Equal to the bit, and the same files: ``--leakage`` trains more and changes nothing."""
    plan = planned(people_csv)
    plain = planned(people_csv, leakage=False, leakage_seeds=16)
    assert [job.id for job in plan.jobs] == [job.id for job in plain.jobs]
    assert not plain.side_plans
    first, second = (run_here(p, p.jobs[1]).arrays for p in (plan, plain))
    assert all(first[name].tobytes() == second[name].tobytes() for name in first)


@quick
def test_a_model_that_memorises_is_seen_and_a_private_one_is_below_its_ceiling(tmp_path):
    """Random labels on many columns: whatever is learned of them is memory."""
    draw = np.random.default_rng(3)
    frame = pd.DataFrame(draw.normal(size=(400, 120)), columns=[f"x{i}" for i in range(120)])
    frame["sex"], frame["y"] = draw.choice(["F", "M"], 400), draw.choice(["no", "yes"], 400)
    frame.to_csv(tmp_path / "t.csv", index=False)
    options = {"noise_multiplier": 8.0, "epochs": 40, "learning_rate": 0.5, "batch_size": 50}
    plan = planned(tmp_path / "t.csv", **options)
    found = measure_leakage(
        plan.side_plans["leakage"], load_dataset(plan.config), train(plan.side_plans["leakage"])
    )
    reference, private = (next(c for c in found if c.arm == arm) for arm in ("sgd", "dpsgd"))
    assert reference.overall.estimates["leakage_auc"].low > 0.65
    assert private.overall.estimates["change.leakage_auc"].high < -0.1
    event = plan.side_plans["leakage"].arm("dpsgd").privacy.event
    curve = privacy_curve(event)
    epsilons = np.linspace(curve.least, curve.most, 400)
    ceiling = min(curve.delta(e) + np.exp(e) * 0.05 for e in epsilons)
    assert private.overall.estimates["leakage_tpr"].low < ceiling < 0.2


# --- report and gates
# --------------------------------------------------------------------------------


def test_the_report_holds_each_arm_by_group(report):
    found = report.studies["leakage"]
    assert (found.rows, found.n_public) == (400, 200)
    assert [(arm.arm, arm.models_finished) for arm in found.arms] == [("sgd", 8), ("dpsgd", 8)]
    private = next(c for c in found.comparisons if c.arm == "dpsgd")
    assert [g.group for g in private.by_group] == ["F", "M"]
    for group in private.by_group:
        assert group.estimates["leakage_tpr"].ends
        assert group.estimates["leakage_tpr_at_1"].ends is None  # of 200 records or so
        assert "1000" in group.estimates["leakage_tpr_at_1"].reason.replace(",", "")
        assert group.estimates["reference.leakage_auc"].n_seeds == 8
    gap = next(g for g in private.gaps if g.metric == "leakage_tpr" and g.kind == "pair")
    assert gap.minimum_detectable > 0
    assert not [g for g in private.gaps if g.metric == "leakage_tpr_global"]
    ceiling = found.arm("dpsgd").at_most(0.05)
    assert 0.05 < ceiling < 1.0
    assert found.arm("sgd").ceiling == ()


def test_no_score_of_a_row_is_in_the_report_and_the_folder_is_private(attacked_folder, report):
    text = (attacked_folder / "report.json").read_text()
    assert '"confidence"' not in text
    assert '"member"' not in text
    waiting, longest = [json.loads(text)["studies"]["leakage"]], 0
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            longest = max(longest, len(value))
            waiting += value
        elif isinstance(value, dict):
            waiting += value.values()
    assert 0 < longest < 100  # nothing by row
    assert stat.S_IMODE((attacked_folder / "jobs").stat().st_mode) == 0o700
    assert all(
        stat.S_IMODE(path.stat().st_mode) == 0o600
        for path in (attacked_folder / "jobs").glob("*.safetensors")
    )


@pytest.mark.parametrize(
    ("rule", "outcome"),
    [
        ("leakage_tpr@sex=F > 0.6", "pass"),
        ("leakage_tpr@sex=F > 0.0001", "fail"),
        ("leakage_auc < 0.3", "pass"),
        ("leakage_gap > 60 points", "pass"),
        ("leakage_tpr_gap@sex=F,M > 0.6", "pass"),
        ("leakage_advantage:sgd > 0.9", "pass"),
        ("change.leakage_tpr@sex=M > 0.5", "pass"),
        ("leakage_tpr_at_1 > 0.5", "inconclusive"),
    ],
)
def test_rules_judge_it(report, rule, outcome):
    assert check(report, [parse_rule(rule)]).outcome == outcome


def test_a_second_run_trains_nothing_and_is_judged_by_the_rule(people_csv, attacked_folder):
    kept = list((attacked_folder / "jobs").glob("*.safetensors"))
    stamps = [path.stat().st_mtime_ns for path in kept]
    made = fairaudit.run_audit(
        people_csv,
        out=attacked_folder,
        workers=1,
        format=["json"],
        fail_on=["leakage_gap > 0.6"],
        **ATTACK,
    )
    assert [path.stat().st_mtime_ns for path in kept] == stamps
    private = next(c for c in made.studies["leakage"].comparisons if c.arm == "dpsgd")
    gap = next(g for g in private.gaps if g.metric == "leakage_tpr" and g.kind == "pair")
    assert made.verdict == "pass"
    assert gap.reading in ("detected", "not certain", "not detected")


def test_a_rule_about_it_without_it_is_refused(people_csv, report, tmp_path):
    rule = parse_rule("leakage_tpr > 0.1")
    with pytest.raises(ConfigError, match="is about leakage, and none is measured"):
        check(report.model_copy(update={"studies": {}}), [rule])
    plain = {"leakage": False, "leakage_seeds": 16, "fail_on": ["leakage_tpr > 0.1"]}
    with pytest.raises(ConfigError, match="is about leakage, and none is measured"):
        prepare(resolve_config({"data": people_csv, "out": tmp_path, **ATTACK, **plain}))


def test_a_method_that_was_not_attacked_is_named_by_the_rule(report):
    leakage = report.studies["leakage"].model_copy(
        update={
            "arms": report.studies["leakage"].arms[:1],
            "comparisons": tuple(
                c for c in report.studies["leakage"].comparisons if c.arm == "sgd"
            ),
        }
    )
    gate = check(
        report.model_copy(update={"studies": {"leakage": leakage}}),
        [parse_rule("leakage_tpr > 0.9")],
    ).gates[0]
    assert gate.outcome == "inconclusive"
    assert gate.left_out == ("dpsgd: it takes no part in leakage",)


def test_a_model_that_could_not_be_trained_leaves_rules_open(report):
    from fairaudit.report.types.facts import FailedSeed

    leakage = report.studies["leakage"]
    reference, private = leakage.arms
    lost = private.model_copy(update={"failed": (FailedSeed(seed=1, message="diverged"),)})
    leakage = leakage.model_copy(update={"arms": (reference, lost)})
    verdict = check(
        report.model_copy(update={"studies": {"leakage": leakage}}),
        [parse_rule("leakage_tpr > 0.9")],
    )
    assert verdict.outcome == "inconclusive"
    assert "1 of 8 models of dpsgd have no result" in verdict.gates[0].reason


def test_a_report_with_a_model_that_could_not_be_trained_is_partial_and_read_again(
    report, people_csv, tmp_path
):
    plan, data = planned(people_csv), load_dataset(AuditConfig(data=people_csv, **ATTACK))
    failures = {job.id: "diverged" for job in plan.side_plans["leakage"].jobs}
    resolved = resolve_config({"data": people_csv, "out": tmp_path, **ATTACK})
    results = {job.id: run_here(plan, job) for job in plan.jobs}
    findings = measured(Audit(resolved, plan, data, results, failures))
    write_report(built(findings), tmp_path, ["json"])
    assert load_report(tmp_path / "report.json").status == "partial"
    assert report.status == "complete"


@quick
def test_too_few_models_leave_no_number(people_csv):
    plan = planned(people_csv).side_plans["leakage"]
    data = load_dataset(plan.config)
    job = plan.jobs[0]
    found = measure_leakage(plan, data, {job.id: run_here(plan, job)})
    assert found[0].overall.estimates["leakage_auc"].value is None
    assert "8 are needed" in found[0].overall.reason


def test_more_than_epsilon_allows_is_a_finding(report):
    study = report.studies["leakage"]
    assert list(study.findings(report)) == []
    leaky = json.loads(study.model_dump_json())
    private = next(c for c in leaky["comparisons"] if c["arm"] == "dpsgd")
    private["by_group"][1]["estimates"]["leakage_tpr"] |= {"value": 0.95, "low": 0.9, "high": 1.0}
    (finding,) = map(stored, type(study).model_validate(leaky).findings(report))
    assert (finding.code, finding.arm, finding.groups) == ("above_ceiling", "dpsgd", ("M",))
    assert finding.text.startswith("In M the attack finds ")
