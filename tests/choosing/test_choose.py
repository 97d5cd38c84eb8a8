"""The command on small tables.

What it refuses, its tests against a computation by hand, its files.
"""

import re
from dataclasses import replace

import changed
import numpy as np
import pytest
from people import earners
from places import trainings
from reports import report_of
from safetensors.numpy import load_file
from scipy import stats
from several import PRIVATE, cost, several

from fairaudit.choosing import tested as parts
from fairaudit.choosing.arm_outcome import lacks_limit, numbers_of, outcome_of, refuse_unfit
from fairaudit.choosing.choice import Choice
from fairaudit.choosing.choose import candidates, choose, exit_code
from fairaudit.choosing.lines import course_lines
from fairaudit.choosing.sequence import skewed_quantile
from fairaudit.cli import app
from fairaudit.cli.estimate import estimated_seconds, twin_seconds
from fairaudit.config.options import OF_OTHER_CODE
from fairaudit.config.value_sources import resolve_config
from fairaudit.errors import ConfigError
from fairaudit.gate.grammar import parse_rules
from fairaudit.planning.plan import narrowed
from fairaudit.report.load import load_report
from fairaudit.results.estimates import Interval

SMALL = {
    "group": ["sex"],
    "label": "approved",
    "method": ["dpsgd"],
    "epsilon": [8.0, 2.0],
    "epochs": 1,
    "batch_size": 64,
    "seeds": 5,
    "workers": 2,
    "twins": "off",
}


@pytest.fixture
def people_csv(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    earners().to_csv("people.csv", index=False)
    return tmp_path / "people.csv"


def resolved(data, *rules, **options):
    return resolve_config({**SMALL, "data": str(data), "fail_on": list(rules), **options})


def prepared(data, *rules, seeds_max=5, **options):
    return candidates(resolved(data, *rules, **options), seeds_max=seeds_max)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("privacy_cost_gap.mean > 0.02", "plain number without an interval"),
        ("privacy_cost_gap.ci_high > 0.02", "plain number"),
        ("privacy_cost_gap.delta > 0.02", "change since a report"),
        ("privacy_cost_gap:dpsgd > 0.02", "names an arm"),
        ("epsilon_if_all_released > 3", "all models"),
        ("reference.accuracy < 0.7", "use accuracy"),
    ],
)
def test_a_rule_that_no_test_can_be_made_of_is_refused_and_says_why(rule, said):
    with pytest.raises(ConfigError, match=said):
        refuse_unfit(parse_rules([rule]))


def test_a_choice_needs_a_rule():
    with pytest.raises(ConfigError, match="no rule is given"):
        refuse_unfit(())


def test_costs_gaps_accuracy_ratios_and_epsilon_are_accepted():
    costs = ["privacy_cost_gap > 2pt", "privacy_cost@sex=F > 3pt", "excess_risk_gap.noise > 0.1"]
    refuse_unfit(parse_rules([*costs, "accuracy < 0.7", "impact_ratio < 0.8", "epsilon > 3"]))


@pytest.mark.usefixtures("quick_accountant")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"noise_multiplier": 1.0, "epsilon": None}, "no epsilon to choose"),
        ({"inconclusive": "pass"}, "never counts as a pass"),
        ({"seeds": 3}, "first look needs 5"),
        ({"seeds": 30}, "--seeds 30 and --seeds-max 20"),
        ({"variant": ["as-published"]}, "dpsgd:as-published cannot be chosen"),
        ({"method": ["ablation"]}, "no method that could be chosen"),
    ],
)
def test_options_that_nothing_can_be_chosen_with_are_refused(people_csv, options, said):
    with pytest.raises(ConfigError, match=said):
        prepared(people_csv, "privacy_cost_gap > 2pt", seeds_max=20, **options)


def help_of(command, capsys):
    assert app.main([command, "--help"]) == 0
    return " ".join(capsys.readouterr().out.split())


# What `run` lists and `choose` does not -> how it is typed beside the rest, and why that is
# refused.
TYPED = {
    "raw": [],
    "reference": ["sgd"],
    "trainer_groups": [],
    "trainer_timeout": ["9"],
    "trainer_memory": ["9"],
}
REFUSED = {
    "noise-multiplier": (["1"], "no epsilon to choose"),
    "tune-privacy": (
        ["uncharged", "--tune", "4"],
        "cannot be chosen: established for one training",
    ),
    "leakage": ([], "trains no models to attack"),
    "leakage-seeds": (["20", "--leakage"], "trains no models to attack"),
    "again": (["5"], "trains nothing again on the same rows"),
    "baseline": (["x.json"], "is for rules about a change"),
    "inconclusive": (["pass"], "is for verdicts of gates"),
    **{
        option.field.replace("_", "-"): (TYPED.get(option.field, ["x"]), "is for code of yours")
        for option in OF_OTHER_CODE
    },
}


def test_help_lists_the_options_of_run_but_those_that_no_choice_is_made_with(capsys):
    run, own = (
        set(re.findall(r"--([a-z-]+)", help_of(each, capsys))) for each in ("run", "choose")
    )
    left_out = {name for name in run - own if not name.startswith("no-")}
    assert left_out == REFUSED.keys() | {"trust-claimed-epsilon"}
    assert {name for name in own - run if not name.startswith("no-")} == {"seeds-max"}


@pytest.mark.usefixtures("quick_accountant")
@pytest.mark.parametrize("option", REFUSED)
def test_what_help_leaves_out_is_refused_and_says_why(people_csv, option, capsys):
    values, said = REFUSED[option]
    words = f"choose --data {people_csv} --group sex --label approved --{option}".split()
    assert app.main([*words, *values, "--fail-on", "accuracy < 0.5"]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.usefixtures("quick_accountant")
def test_controls_are_trained_but_never_candidates_and_epsilons_fall(people_csv):
    found = prepared(
        people_csv,
        "privacy_cost_gap > 2pt",
        method=["dpsgd-matched", "dpsgd"],
        epsilon=[1.0, 8.0, 4.0],
    )
    assert {name: [a.key for a in arms] for name, arms in found.families.items()} == {
        "global-adapt": ["global-adapt@8", "global-adapt@4", "global-adapt@1"],
        "dpsgd": ["dpsgd@8", "dpsgd@4", "dpsgd@1"],
    }


@pytest.mark.parametrize(("rule", "stands"), [("epsilon > 9", False), ("accuracy < 0.1", True)])
def test_an_own_model_is_no_candidate_under_a_rule_about_epsilon(
    people_csv, monkeypatch, tmp_path, rule, stands
):
    """Its epsilon holds only if its module keeps nothing, for which somebody has to vouch."""
    code = "from own_models import residual as make\n"
    (tmp_path / "chosen_toy.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    options = {"model": "chosen_toy:make", "method": ["dpsgd"], "epsilon": [8.0]}
    assert prepared(people_csv, rule, trust_module=True, **options).families["dpsgd"]
    if stands:
        assert prepared(people_csv, rule, **options).families["dpsgd"]
    else:
        with pytest.raises(ConfigError, match="trust-module"):
            prepared(people_csv, rule, **options)


def test_the_first_look_has_ten_seeds_unless_seeds_are_given(people_csv):
    rule = "privacy_cost_gap > 2pt"
    assert prepared(people_csv, rule, seeds=None, seeds_max=20).looks == (10, 20)
    assert prepared(people_csv, rule, seeds=6, seeds_max=12).looks == (6, 12)
    assert len(prepared(people_csv, rule, seeds=6, seeds_max=12).prepared.plan.jobs) == 3 * 12


@pytest.mark.parametrize("twins", ["auto", "always", "off"])
def test_the_time_at_most_has_the_twins_of_the_arm_that_is_shown(people_csv, monkeypatch, twins):
    """They are trained at the end, at as many seeds as the last look has."""
    told = []
    monkeypatch.setattr("fairaudit.choosing.lines.duration_text", lambda s: told.append(s) or "")
    found = prepared(people_csv, "privacy_cost_gap > 2pt", twins=twins, epochs=200)
    list(course_lines(found, 1))
    least, most = told
    plan = found.prepared.plan
    assert least < most
    # A training of each arm's is followed by its two twins.
    of_arm = [twin_seconds(narrowed(plan, {f"dpsgd@{e}": 5}), 1) for e in (8, 2)]
    without = replace(plan, config=plan.config.model_copy(update={"twins": "off"}))
    expected = {"auto": max(of_arm), "always": sum(of_arm), "off": 0.0}[twins]
    assert most == pytest.approx(estimated_seconds(without, 1) + expected)
    assert (expected > 0.0) == (twins != "off")


def test_an_epsilon_that_a_rule_forbids_is_no_candidate_and_ends_no_method(people_csv):
    found = prepared(people_csv, "privacy_cost_gap > 2pt", "epsilon > 5")
    assert {name: [a.key for a in arms] for name, arms in found.families.items()} == {
        "dpsgd": ["dpsgd@2"]
    }
    with pytest.raises(ConfigError, match="every epsilon that was asked for breaks 'epsilon > 1'"):
        prepared(people_csv, "privacy_cost_gap > 2pt", "epsilon > 1")


@pytest.fixture(scope="module")
def chosen(tmp_path_factory):
    """A choice in a folder in which `run` trained the first arm before, and what was there then."""
    folder = tmp_path_factory.mktemp("choice")
    earners().to_csv(folder / "people.csv", index=False)
    rules = ("privacy_cost_gap > 0.9", "privacy_cost > 0.5")
    kept = {"out": str(folder / "out"), "format": ["json", "md", "html"]}
    from fairaudit.audit import audit

    audit(resolved(folder / "people.csv", **kept))
    before = trainings(folder / "out")
    seen = []
    found = prepared(folder / "people.csv", *rules, **kept)
    choice = Choice.of(choose(found, on_look=seen.append))
    return found, choice, folder / "out", before, seen


def test_the_smallest_epsilon_that_passes_is_recommended(chosen):
    _, choice, _, _, seen = chosen
    assert (choice.status, choice.arm, choice.nearest) == ("recommended", "dpsgd@2", None)
    assert [(t.arm, t.look, t.seeds, t.outcome) for t in choice.tests] == [
        ("dpsgd@8", 1, 5, "passes"),
        ("dpsgd@2", 1, 5, "passes"),
    ]
    assert tuple(seen) == choice.tests
    assert exit_code(choice) == 0


def test_finished_trainings_of_run_are_taken_and_only_read(chosen):
    _, _, out, before, _ = chosen
    assert len(before) == 15
    assert trainings(out) == before


def test_the_report_beside_it_is_of_every_arm_that_was_trained_with_its_gates(chosen):
    _, choice, out, _, _ = chosen
    report = load_report(out / "report.json")
    assert [arm.key for arm in report.arms] == ["sgd", "dpsgd@8", "dpsgd@2"]
    assert report.verdict == "pass"
    assert Choice.of(report) == choice.model_validate(choice.model_dump(mode="json"))
    assert report.reproduce.startswith("fairaudit choose ")
    assert report.config["seeds"].value == 5


def test_arms_of_several_looks_keep_their_own_seeds(chosen):
    """An arm that a first look decided is not trained again for the report."""
    plan = chosen[0].prepared.plan
    part = narrowed(plan, {"dpsgd@8": 2, "dpsgd@2": 4})
    seeds = {}
    for job in part.jobs:
        seeds.setdefault(job.arm, []).append(job.seed)
    assert seeds == {"sgd": [0, 1, 2, 3], "dpsgd@8": [0, 1], "dpsgd@2": [0, 1, 2, 3]}
    assert part.config.seeds == part.training.seeds == 4
    assert {job.id for job in part.jobs} < {job.id for job in plan.jobs}


def by_hand(found, out, arm, level):
    """The upper limit of the gap in cost, from the files of trainings alone."""
    table = earners()
    group, truth = (table["sex"] == "F").to_numpy(), table["approved"].to_numpy()
    assert found.prepared.dataset.labels.tolist() == truth.tolist()
    y, influences, total = [], [], np.zeros(len(table))
    tested_ever = np.zeros(len(table), dtype=bool)
    for seed in range(5):
        pair = [
            next(j for j in found.prepared.plan.jobs if (j.arm, j.seed) == (a, seed))
            for a in ("sgd", arm)
        ]
        files = [load_file(out / "jobs" / f"{job.id}.safetensors") for job in pair]
        rows = files[0]["test_rows"]
        lost = [f["probabilities"].mean(axis=0).argmax(axis=1) == truth[rows] for f in files]
        d = lost[0].astype(float) - lost[1].astype(float)
        psi, value = np.zeros(len(table)), 0.0
        for is_f, sign in ((True, 1.0), (False, -1.0)):
            here = group[rows] == is_f
            value += sign * d[here].mean()
            psi[rows[here]] = sign * (d[here] - d[here].mean()) / here.sum()
        y.append(value)
        influences.append(psi)
        total += psi / 5
        tested_ever[rows] = True
    floor = 0.0
    for side in (True, False):
        own = np.array(influences) * (group == side)
        pairs = [own[s] @ own[t] for s in range(5) for t in range(5) if s != t]
        steady = np.clip(np.mean(pairs) / (own**2).sum(1).mean(), 0, 1)
        floor += steady * 2 / ((tested_ever & (group == side)).sum() + 2) ** 2
    v_seed, v_rec = np.var(y, ddof=1) / 5, (total**2).sum() + floor
    half = np.sqrt(skewed_quantile(level, 5) ** 2 * v_seed + stats.norm.ppf(1 - level) ** 2 * v_rec)
    return abs(np.mean(y)), abs(np.mean(y)) + half


def test_the_limit_of_a_gap_is_that_of_the_trainings_by_hand(chosen):
    found, choice, out, _, _ = chosen
    assert choice.level == pytest.approx(0.05)  # one method, one look
    for test in choice.tests:
        gap = next(n for n in test.numbers if n.metric == "privacy_cost_gap")
        value, bound = by_hand(found, out, test.arm, choice.level)
        assert gap.value == pytest.approx(value, abs=1e-12)
        assert gap.bound == pytest.approx(bound, rel=1e-9)


def test_every_format_of_the_report_begins_with_the_answer(chosen):
    _, choice, out, _, _ = chosen
    text, page = (out / "report.md").read_text(), (out / "report.html").read_text()
    assert text.index("## Recommended: dpsgd at epsilon 2") < text.index("## ", 40) + 40
    for wanted in (choice.promise, *choice.conditions):
        assert wanted in text
    assert "Recommended: dpsgd at epsilon 2" in page


def test_a_second_choice_is_the_same_and_puts_the_first_aside(chosen):
    found, choice, out, _, _ = chosen
    assert Choice.of(choose(found)) == choice
    assert (out / "report.previous.json").is_file()


def test_what_breaks_or_cannot_be_told_is_no_recommendation(chosen):
    """On the trainings that are there.

    A limit that is surely broken, and one that seeds cannot tell.
    """
    found, _, out, _, _ = chosen
    broken = rejudged(found, "accuracy < 0.999")
    assert (broken.status, broken.arm, broken.nearest, exit_code(broken)) == (
        "none passes",
        None,
        "dpsgd@8",
        3,
    )
    assert len(broken.tests) == 1
    assert "breaks a rule" in broken.methods[0].ended
    open_one = rejudged(found, "privacy_cost_gap > 0.01")
    assert (open_one.status, open_one.arm, exit_code(open_one)) == ("undecided", None, 3)
    assert load_report(out / "report.json").verdict != "pass"
    assert exit_code(open_one.model_copy(update={"failed": ("dpsgd@8, seed 1: diverged",)})) == 4


def test_a_gap_is_said_with_its_sign_and_judged_by_its_size(chosen):
    found, *_ = chosen
    first, second = (
        rejudged(found, f"privacy_cost_gap@sex={groups} > 0.01").tests[0].numbers[0]
        for groups in ("F,M", "M,F")
    )
    assert (first.group, second.group) == ("F less M", "M less F")
    assert first.value == -second.value != 0
    assert first.bound == second.bound >= abs(first.value)
    assert first.outcome == second.outcome
    negative = min(first, second, key=lambda number: number.value)
    value, bound = 100 * negative.value, 100 * negative.bound
    assert parts.number_text(negative) == (
        f"privacy_cost_gap ({negative.group}) is {value:.1f} points, its size at most "
        f"{bound:.1f} points, limit 1.0 points"
    )


def rejudged(found, *rules):
    other = replace(found, prepared=replace(found.prepared, rules=parse_rules(rules)))
    return Choice.of(choose(other))


def settled(found, tests):
    """What is chosen after these tests, (arm, outcome, accuracy) each."""
    course, made = found.course, []
    for arm, outcome, accuracy in tests:
        number = parts.TestedNumber(
            rule="privacy_cost_gap > 0.02",
            metric="privacy_cost_gap",
            limit=0.02,
            reference="sgd",
            grouping="sex",
            group="",
            unit="fraction",
            is_size=True,
            value=0.019 if outcome == "undecided" else 0.05,
            bound=0.03,
            other_bound=0.021,
            outcome=outcome,
            reason="",
        )
        interval = Interval(value=accuracy, low=accuracy - 0.01, high=accuracy + 0.01)
        made.append(
            parts.Tested(
                method=arm.partition("@")[0],
                arm=arm,
                target_epsilon=float(arm.partition("@")[2]),
                epsilon=None,
                look=1,
                seeds=5,
                outcome=outcome,
                numbers=(number,),
                left_out=(),
                gap=interval,
                cost=interval,
                cost_group="F",
                accuracy=interval,
                trainings="",
            )
        )
        course.enter(arm, outcome)
    return found.choice(course, made, ())


def test_of_two_methods_the_smaller_epsilon_then_the_more_accurate_is_recommended(people_csv):
    methods = ["dpsgd", "global-adapt"]
    found = prepared(people_csv, "privacy_cost_gap > 2pt", method=methods)
    first = [("dpsgd@8", "passes", 0.7), ("global-adapt@8", "passes", 0.9)]
    for dpsgd, adapt, wanted in ((0.7, 0.9, "global-adapt@2"), (0.9, 0.7, "dpsgd@2")):
        last = [("dpsgd@2", "passes", dpsgd), ("global-adapt@2", "passes", adapt)]
        assert settled(found, [*first, *last]).arm == wanted
    worse = [("global-adapt@2", "breaks", 0.9), ("dpsgd@2", "passes", 0.6)]
    assert settled(found, [*first, *worse]).arm == "dpsgd@2"


def test_a_choice_is_undecided_where_one_method_of_two_is(people_csv):
    found = prepared(people_csv, "privacy_cost_gap > 2pt", method=["dpsgd", "global-adapt"])
    one = settled(found, [("dpsgd@8", "breaks", 0.9), ("global-adapt@8", "undecided", 0.8)])
    assert (one.status, one.arm, one.nearest) == ("undecided", None, "global-adapt@8")
    both = settled(found, [("dpsgd@8", "breaks", 0.9), ("global-adapt@8", "breaks", 0.8)])
    assert both.status == "none passes"


def bounded(gap):
    """As it comes from measuring: with the conservative variance, which no file holds."""
    sized = changed.replace(gap.signed, training_sd=0.01, records_sd=0.005, conservative_sd=0.006)
    return changed.replace(gap, signed=sized)


def test_of_three_groups_every_pair_must_pass_by_its_own_interval():
    report = several()
    shown = next(c for c in report.costs if c.grouping == "region" and c.arm == PRIVATE[0])
    moved = changed.replace(shown, gaps=tuple(map(bounded, shown.gaps)))
    report = report.model_copy(
        update={"comparisons": (*(c for c in report.comparisons if c is not shown), moved)}
    )
    judged = numbers_of(
        parse_rules(["privacy_cost_gap@region > 2pt"]), unfailed(report), shown.arm, 0.0125
    )
    assert {frozenset(n.group.split(" less ")) for n in judged} == {
        frozenset(pair) for pair in ("EN", "ES", "NS")
    }
    assert all(n.value >= 0 for n in judged)  # each the larger less the other
    for number in judged:
        a, b = number.group.split(" less ")
        size = cost(shown.arm, "region", a) - cost(shown.arm, "region", b)
        assert number.value == pytest.approx(size, abs=1e-6)
        half = np.hypot(skewed_quantile(0.0125, 5) * 0.01, stats.norm.ppf(0.9875) * 0.006)
        assert number.bound == pytest.approx(size + half, abs=1e-6)
        assert number.outcome == ("passes" if size + half <= 0.02 else number.outcome)
    assert outcome_of(judged) != "passes"


def test_an_epsilon_is_judged_as_it_is():
    report = several()
    for limit, wanted in ((0.01, "breaks"), (1000, "passes")):
        (number,) = numbers_of(
            parse_rules([f"epsilon > {limit}"]), unfailed(report), PRIVATE[0], 0.0125
        )
        assert number.outcome == wanted


def unfailed(report):
    return report.model_copy(
        update={"arms": tuple(changed.replace(a, failed=()) for a in report.arms)}
    )


def test_an_arm_with_a_failed_training_cannot_be_judged():
    report = several()
    judged = numbers_of(parse_rules(["privacy_cost_gap > 90pt"]), report, PRIVATE[0], 0.0125)
    assert outcome_of(judged) == "undecided"
    assert lacks_limit(judged)
    assert "have no result" in judged[0].reason


def test_a_number_without_interval_is_never_a_pass():
    report = report_of()  # as it is read from a file, which holds no conservative variance
    numbers = numbers_of(
        parse_rules(["privacy_cost_gap > 0.9"]), report, report.costs[0].arm, 0.0125
    )
    assert outcome_of(numbers) == "undecided"
    assert lacks_limit(numbers)
