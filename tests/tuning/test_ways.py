"""The cost at default and tuned settings.

What is trained beside a search, what the report makes of it, what gates judge.
"""

import importlib
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from changed import replace as replaced
from dp_accounting import dp_event, rdp
from handmade import arm as handmade_arm
from handmade import comparison as handmade_comparison
from handmade import estimate
from jobs import run_here

from fairaudit.config.options import AuditConfig
from fairaudit.config.value_sources import resolve_config
from fairaudit.data.tabular import load_dataset
from fairaudit.gate.check import check
from fairaudit.gate.grammar import parse_rule
from fairaudit.gate.targets import find_targets
from fairaudit.planning.flow import Audit
from fairaudit.planning.plan import make_plan
from fairaudit.report.load import load_report
from fairaudit.report.messages.base import stored
from fairaudit.report.render.markdown import to_markdown
from fairaudit.results.estimates import key_of
from fairaudit.tuning.searched import ArmSearch, Searched, SearchedSeed, Tried
from fairaudit.tuning.study import Tuned, edges, raised_losses, tried_section

audits = importlib.import_module("audits")

LOANS = Path(__file__).resolve().parents[2] / "sample_data" / "loans.parquet"
FIXED = {
    "data": LOANS,
    "group": ("sex",),
    "seeds": 2,
    "epochs": 4,
    "batch_size": 512,
    "twins": "off",
    "diagnostics": "off",
    "method": ("dpsgd", "global-adapt"),
    "max_grad_norm": 1.0,
    "threshold": 2.0,
}
N = 3


def planned(tune=N, **given):
    config = AuditConfig(**{**FIXED, "noise_multiplier": 1.0, "tune": tune, **given})
    dataset = load_dataset(config)
    return make_plan(config, dataset)


def job_of(plan, arm, seed, way):
    return next(job for job in plan.every_job if (job.arm, job.seed, job.way) == (arm, seed, way))


@pytest.mark.parametrize("arm", ["sgd", "dpsgd", "global-adapt"])
def test_the_default_way_is_the_audit_without_a_search_to_the_bit(arm):
    tuned, plain = planned(), planned(tune=None)
    job, alone = job_of(tuned, arm, 1, "default"), job_of(plain, arm, 1, "")
    assert job.id == alone.id  # so a training that is there already is taken
    assert tuned.training.n_public == 3840 < tuned.side_plans["default"].training.n_public == 4800
    arrays = [run_here(plan, own).arrays for plan, own in ((tuned, job), (plain, alone))]
    assert arrays[0]["probabilities"].tobytes() == arrays[1]["probabilities"].tobytes()


def test_names_of_ways_go_before_the_epsilon():
    assert key_of("dpsgd", "default") == "dpsgd:default"
    assert key_of("dpsgd@3", "default") == "dpsgd:default@3"
    assert key_of("global:as-published@0.5", "default") == "global:as-published:default@0.5"
    assert key_of("dpsgd@3", "") == "dpsgd@3"


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """A whole audit with a search: its report as stored, and what it was made of."""
    given = {**FIXED, "noise_multiplier": 1.0, "tune": N}
    made = audits.audited(tmp_path_factory.mktemp("tuned"), **given)
    return made.report, made.plan, made.dataset, made.results


def accuracies(results, dataset, jobs):
    """By hand: share of right test rows of every model, [seeds][models][F, M, all]."""
    found = []
    for job in jobs:
        arrays = results[job.id].arrays
        rows = arrays["test_rows"]
        right = arrays["probabilities"].argmax(-1) == dataset.labels[rows]
        groups = dataset.groupings[0].groups[rows]
        found.append([[r[groups == 0].mean(), r[groups == 1].mean(), r.mean()] for r in right])
    return np.array(found)


def jobs_of(plan, arm, way):
    return sorted(
        (job for job in plan.every_job if (job.arm, job.way) == (arm, way)),
        key=lambda job: job.seed,
    )


@pytest.mark.parametrize("arm", ["dpsgd", "global-adapt"])
def test_costs_of_the_default_way_are_those_of_its_own_trainings(tuned, arm):
    report, plan, dataset, results = tuned
    own, reference = (
        accuracies(results, dataset, jobs_of(plan, a, "default"))[:, 0] for a in (arm, "sgd")
    )
    cost = (reference - own).mean(0)
    found = next(c for c in report.every_comparison if c.arm == key_of(arm, "default"))
    assert found.reference == "sgd:default"
    values = [g.estimates["privacy_cost"].value for g in (*found.by_group, found.overall)]
    assert values == pytest.approx(cost.tolist(), abs=1e-6)
    shown = re.search(rf"\| {arm} \| default \|.*", to_markdown(report))
    assert f"{100 * cost[2]:.1f} [" in shown[0].replace("-0.0", "0.0")


@pytest.mark.parametrize(
    ("rule", "arms"),
    [
        ("privacy_cost_gap > 0.5", {"dpsgd", "global-adapt"}),
        ("privacy_cost_gap@sex:dpsgd > 0.5", {"dpsgd"}),
        ("privacy_cost_gap@sex=F,M:dpsgd:default > 0.5", {"dpsgd:default"}),
        ("accuracy@sex=F:global-adapt:default < 0.1", {"global-adapt:default"}),
        ("epsilon:dpsgd:default > 3", {"dpsgd:default"}),
        ("epsilon > 3", {"dpsgd", "global-adapt"}),
    ],
)
def test_a_rule_judges_the_tuned_arm_unless_it_names_another(tuned, rule, arms):
    report = tuned[0]
    found = find_targets(parse_rule(rule), report).judged
    assert {target.arm for target in found} == arms
    assert check(report, [parse_rule(rule)]).gates  # every name is known


@pytest.mark.parametrize("arm", ["sgd", "dpsgd", "global-adapt"])
def test_what_searching_gains_is_the_tuned_accuracy_minus_the_default_ones(tuned, arm):
    report, plan, dataset, results = tuned
    default = accuracies(results, dataset, jobs_of(plan, arm, "default"))[:, 0]
    candidates = accuracies(results, dataset, jobs_of(plan, arm, ""))
    weights = np.array([results[job.id].arrays["weights"] for job in jobs_of(plan, arm, "")])
    gains = ((weights[..., None] * candidates).sum(1) - default).mean(0)
    found = Tuned.of(report).gain(arm, "sex")
    assert (found.arm, found.reference) == (f"{arm}:default", arm)
    told = [g.estimates["privacy_cost"] for g in (*found.by_group, found.overall)]
    assert [gain.value for gain in told] == pytest.approx(gains.tolist(), abs=1e-6)
    assert all(gain.low < gain.value < gain.high for gain in told)
    if arm != "sgd":
        lines = "".join(re.findall(rf"\| {arm} \| all rows \| .*", to_markdown(report)))
        assert f"| {100 * gains[2]:.1f} [".replace("-0.0", "0.0") in lines


def test_a_search_that_raises_the_loss_is_told_once_an_arm():
    """The default's loss minus the tuned one's: below 0, open, above 0; with its own interval."""
    gains = []
    for key, gain in (("dpsgd", -0.2), ("dpsgd", -0.3), ("global", -0.008), ("sgd", 0.2)):
        made = handmade_comparison(f"{key}:default", reference=key)
        known = {**made.overall.estimates, "excess_risk": estimate(gain, 0.01, "nats")}
        gains.append(replaced(made, overall=replaced(made.overall, estimates=known)))
    (raised,) = map(stored, raised_losses(SimpleNamespace(gains=gains)))
    assert (raised.code, raised.arm, raised.unit) == ("search_raised_loss", "dpsgd", "nats")
    added = raised.numbers["added"]
    assert (added.low, added.value, added.high) == pytest.approx((0.19, 0.2, 0.21))
    few = [replaced(g, overall=replaced(g.overall, ungated={"excess_risk": "few"})) for g in gains]
    assert not list(raised_losses(SimpleNamespace(gains=few)))


def test_candidates_are_told_as_they_were_tried(tuned):
    report, plan, _, results = tuned
    for arm in ("dpsgd", "global-adapt"):
        jobs = jobs_of(plan, arm, "")
        search = Tuned.of(report).search(arm)
        assert [seed.seed for seed in search.seeds] == [0, 1]
        for seed, job in zip(search.seeds, jobs, strict=True):
            facts = results[job.id].facts["tuning"]["candidates"]
            for tried, fact in zip(seed.tried, facts, strict=True):
                assert tried.released_score == pytest.approx(fact["released_score"], abs=1e-6)
                assert tried.weight == pytest.approx(fact["weight"], abs=1e-6)
                assert tried.settings == pytest.approx(fact["settings"], rel=1e-5)
            assert seed.best.weight == max(tried.weight for tried in seed.tried)
            assert [tried.selected for tried in seed.tried].count(True) == 1
    assert (
        "score" not in Tuned.of(report).search("sgd").seeds[0].tried[0].model_dump()
    )  # exact ones stay


def test_what_is_charged_follows_from_what_the_report_says(tuned):
    """By the library alone.

    The longest training at the noise that was given, and a row of a score.
    """
    report = tuned[0]
    search = Tuned.of(report).search("dpsgd")
    per_epoch, tries = report.training.steps_per_epoch, (search.mean_tries, search.shape_tries)
    held = report.privacy["dpsgd"]

    def charged(one):
        accountant = rdp.RdpAccountant()
        accountant.compose(dp_event.RepeatAndSelectDpEvent(one, *tries))
        return accountant.get_epsilon(held.delta)

    step = dp_event.PoissonSampledDpEvent(
        1 / per_epoch, dp_event.GaussianDpEvent(search.noise_multiplier)
    )
    longest = round(max(search.searched["epochs"].choices)) * per_epoch
    training = charged(dp_event.SelfComposedDpEvent(step, longest))
    score = charged(
        dp_event.GaussianDpEvent(search.score_noise)
    )  # a record counts once, or not at all
    assert held.epsilon.rdp == pytest.approx(max(training, score), rel=1e-3)
    assert Tuned.of(report).search("sgd").base_epsilon is None
    assert f"{search.mean_tries:g} tries on average" in held.reason


def tried(rate, *, at_edge=(), **given):
    fields = {"epochs": 4, "weight": 1.0, "selected": True, "diverged": False}
    return Tried(
        number=0,
        is_default=False,
        settings={"learning_rate": rate},
        released_score=0.5,
        at_edge=at_edge,
        **{**fields, **given},
    )


def search_of(*best):
    where = Searched(default=0.1, low=0.01, high=1.0, choices=())
    long = Searched(default=4, low=4, high=4, choices=(1, 2, 4, 8))
    return ArmSearch(
        arm="dpsgd",
        searched={"learning_rate": where, "epochs": long},
        mean_tries=3,
        shape_tries=0,
        base_epsilon=1,
        noise_multiplier=2,
        uncharged_noise_multiplier=1,
        score_noise=1,
        seeds=tuple(
            SearchedSeed(seed=s, fit_rows=8, validation_rows=2, tried=(one,))
            for s, one in enumerate(best)
        ),
    )


def test_the_table_of_best_settings_has_what_an_arm_searched_and_its_epochs(tuned):
    ours = search_of(tried(0.3))
    given = ours.model_copy(
        update={
            "arm": "own",
            "searched": {"width": ours.searched["learning_rate"]},
            "seeds": search_of(tried(0.4, epochs=8)).seeds,
        }
    )
    study = Tuned.of(tuned[0]).model_copy(update={"searches": (ours, given)})
    report = tuned[0].model_copy(update={"studies": {"tuning": study}})
    _, best = tried_section(Tuned.of(report)).blocks
    assert [column.title for column in best.columns[2:5]] == ["learning rate", "epochs", "width"]
    assert [row[2:5] for row in best.rows] == [("0.3", "4", "–"), ("–", "8", "–")]


def at_edges(*best, default=0.1, search=None):
    search = search or search_of(*best)
    where = search.searched["learning_rate"].model_copy(update={"default": default})
    search = search.model_copy(update={"searched": {**search.searched, "learning_rate": where}})
    told = Tuned(
        name="tuning",
        comparisons=(),
        trials=1,
        goal="accuracy",
        is_charged=True,
        searches=(search,),
    )
    found = edges(told, {"dpsgd": handmade_arm("dpsgd")})
    return [(f.code, f.reason, f.numbers["nearest"].value, f.advice.knob) for f in found]


def test_a_best_setting_at_the_edge_at_most_seeds_asks_for_a_wider_search():
    low, high = (tried(rate, at_edge=("learning_rate",)) for rate in (0.0101, 0.99))
    inside = tried(0.1)
    assert at_edges(inside, inside, high) == []
    assert at_edges(low, high) == []
    wider = ("at_edge", "learning_rate", 0.0101, "search wider")
    assert at_edges(low, low, inside) == [wider]
    epochs = tried(0.1, at_edge=("epochs",), epochs=8)
    assert at_edges(epochs, epochs) == [("at_edge", "epochs", 8.0, "search wider")]
    assert at_edges(high, high, default=1.0) == []  # nothing beyond the default is admitted


def test_a_learning_rate_counts_as_it_was_drawn_where_a_threshold_scales_it():
    # Four times the default threshold: the rate of the range's upper end trains as 3.96.
    drawn = tried(3.96, at_edge=("learning_rate",))
    drawn = drawn.model_copy(update={"settings": {"learning_rate": 3.96, "threshold": 4.0}})
    search = search_of(drawn, drawn)
    threshold = Searched(default=1.0, low=0.25, high=8.0, choices=())
    search = search.model_copy(update={"searched": {**search.searched, "threshold": threshold}})
    assert at_edges(search=search) == [("at_edge", "learning_rate", 0.99, "search wider")]


def test_a_way_that_failed_is_told_and_its_rules_are_open(tuned):
    report = tuned[0]
    default = Tuned.of(report).ways[0]
    lost = [
        arm.model_copy(update={"failed": ({"seed": 1, "message": "diverged"},)})
        if arm.key == "dpsgd:default"
        else arm
        for arm in default.arms
    ]
    ways_ = (default.model_copy(update={"arms": tuple(lost)}),)
    study = Tuned.of(report).model_copy(update={"ways": ways_})
    broken = report.model_copy(update={"studies": {"tuning": study}})
    (target,) = find_targets(parse_rule("epsilon:dpsgd:default > 0.5"), broken).judged
    assert "1 of 2 seeds of dpsgd:default have no result" in target.reading.reason
    (tuned_arm,) = find_targets(parse_rule("epsilon:dpsgd > 0.5"), broken).judged
    assert not tuned_arm.reading.reason


def test_a_way_without_a_result_makes_the_audit_partial_and_its_report_is_read_again(
    tuned, tmp_path
):
    report, plan, dataset, results = tuned
    options = {**FIXED, "noise_multiplier": 1.0, "tune": N, "out": tmp_path}
    made = Audit(resolve_config(options), plan, dataset)
    assert load_report(audits.reported(made, results)).status == report.status == "complete"
    lost = job_of(plan, "dpsgd", 1, "default").id
    fewer = {key: result for key, result in results.items() if key != lost}
    assert load_report(audits.reported(made, fewer)).status == "partial"


def test_workers_keep_one_encoding_for_all_ways():
    plan = planned()
    assert plan.side_plans["default"].config == plan.config
    assert replace(plan, side_plans={}).every_job == plan.jobs
    assert [job.seed for job in plan.every_job] == sorted(job.seed for job in plan.every_job)
