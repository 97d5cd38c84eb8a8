"""Given predictions of several seeds, as a folder or with a column of seeds: the figures of an audit."""

import numpy as np
import pandas as pd
import pytest

import fairaudit
from fairaudit.errors import FairauditError
from fairaudit.metrics.compare import FIXED_SPLIT, SEVERAL_SPLITS
from fairaudit.results.jobs import read_result

SEEDS = 5


def people(rows=500):
    draw = np.random.default_rng(3)
    frame = pd.DataFrame({"x": draw.normal(size=rows), "sex": draw.choice(["F", "M"], rows, p=[0.4, 0.6])})
    frame["paid"] = (frame["x"] * np.where(frame["sex"] == "F", 1, 2) + draw.normal(size=rows) > 0).astype(
        int
    )
    return frame


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    """An audit's report, and what it predicted of its test rows as one long table."""
    out = tmp_path_factory.mktemp("audited") / "out"
    frame = people()
    options = {"group": "sex", "label": "paid", "method": "dpsgd", "epsilon": 1, "seeds": SEEDS, "epochs": 2}
    quiet = {"twins": False, "diagnostics": "off", "workers": 1, "format": "json", "out": out}
    report = fairaudit.run_audit(frame, **options, **quiet)
    parts = []
    plan = fairaudit.plan_audit(frame, **options, **quiet)
    for seed in range(SEEDS):
        of = {job.arm: read_result(out / "jobs", job.id).arrays for job in plan.jobs if job.seed == seed}
        rows = of["sgd"]["test_rows"]
        part = frame.iloc[rows][["sex", "paid"]].assign(seed=seed, id=rows)
        part["private"] = of["dpsgd"]["probabilities"][0, :, 1].astype(float)
        part["plain"] = of["sgd"]["probabilities"][0, :, 1].astype(float)
        parts.append(part.sample(frac=1, random_state=seed))  # rows are told by their id, not by their place
    return report, pd.concat(parts, ignore_index=True)


def scored(tmp_path, data, **options):
    given = {"group": "sex", "label": "paid", "predictions": "private", "baseline": "plain", "format": "json"}
    return fairaudit.score_predictions(data, **{**given, "out": tmp_path / "scored", **options})


def cost_of(report, arm):
    return next(c for c in report.comparisons if c.arm == arm and c.reference)


METRICS = ("privacy_cost", "excess_risk", "accuracy", "reference.accuracy", "tpr", "auc", "loss")


@pytest.mark.parametrize("form", ["column", "folder"])
def test_the_intervals_are_those_of_the_audit_that_predicted(tmp_path, audited, form):
    report, table = audited
    data, extra = table, {"row_column": "id"}
    if form == "folder":
        data = tmp_path / "by_seed"
        data.mkdir()
        for seed, part in table.groupby("seed"):
            part.drop(columns="seed").to_parquet(data / f"seed-{seed}.parquet", index=False)
    found, expected = cost_of(scored(tmp_path, data, **extra), "predictions"), cost_of(report, "dpsgd")
    assert found.estimand == expected.estimand == SEVERAL_SPLITS
    pairs = zip((found.overall, *found.by_group), (expected.overall, *expected.by_group), strict=True)
    for mine, theirs in pairs:
        assert (mine.group, mine.n_test) == (theirs.group, theirs.n_test)
        for metric in METRICS:
            a, b = mine.estimates[metric], theirs.estimates[metric]
            # The audit keeps float32; the class of the other probability is 1 minus it.
            assert [a.value, a.low, a.high] == pytest.approx([b.value, b.low, b.high], abs=2e-6), metric
            assert a.n_seeds == b.n_seeds == SEEDS
    for gap in ("privacy_cost", "excess_risk"):
        a, b = (next(g for g in c.gaps if g.metric == gap and g.kind == "max") for c in (found, expected))
        assert [a.absolute.value, a.absolute.low, a.absolute.high] == pytest.approx(
            [b.absolute.value, b.absolute.low, b.absolute.high], abs=2e-6
        )


def same_rows(table, rows=150):
    """The same people at every seed, in the same order."""
    draw = np.random.default_rng(0)
    base = table.drop_duplicates("id").head(rows)[["sex", "paid"]]
    return pd.concat(
        [base.assign(seed=s, private=draw.random(rows), plain=draw.random(rows)) for s in range(SEEDS)],
        ignore_index=True,
    )


def test_without_a_column_of_rows_their_order_tells_them_and_columns_per_seed_say_the_same(tmp_path, audited):
    table = same_rows(audited[1])
    found = cost_of(scored(tmp_path, table), "predictions")
    wide = table[table["seed"] == 0][["sex", "paid"]].reset_index(drop=True)
    for seed, part in table.groupby("seed"):
        wide[[f"p{seed}", f"b{seed}"]] = part[["private", "plain"]].to_numpy()
    names = {"predictions": [f"p{s}" for s in range(SEEDS)], "baseline": [f"b{s}" for s in range(SEEDS)]}
    expected = cost_of(scored(tmp_path, wide, **names), "predictions")
    assert found.estimand == expected.estimand == FIXED_SPLIT
    assert found.overall.estimates == expected.overall.estimates
    assert found.gaps == expected.gaps


def other_label(table):
    table.loc[len(table) - 1, "paid"] = 1 - table.loc[len(table) - 1, "paid"]
    return table, {}


def other_group(table):
    table.loc[len(table) - 1, "sex"] = {"F": "M", "M": "F"}[table.loc[len(table) - 1, "sex"]]
    return table.assign(id=np.tile(np.arange(len(table) // SEEDS), SEEDS)), {"row_column": "id"}


BROKEN = {
    "another label": (other_label, "'paid' differs between seeds in 1 row, first in seed 4"),
    "another group": (other_group, "'sex' differs between seeds in 1 row, first in seed 4"),
    "fewer rows": (lambda t: (t.iloc[:-1], {}), "the 5 seeds have different numbers of rows"),
    "twice": (lambda t: (t.assign(id=7), {"row_column": "id"}), "745 rows of id stand twice in a seed"),
    "no seed": (
        lambda t: (t.assign(seed=t["seed"].where(t.index > 2)), {}),
        "3 rows without a value in 'seed'",
    ),
    "no such column": (lambda t: (t, {"row_column": "nr"}), "there is no column 'nr'"),
    "columns too": (
        lambda t: (t, {"predictions": ["private", "plain"], "baseline": ()}),
        "2 columns of predictions",
    ),
    "copies": (
        lambda t: (t.assign(private=np.tile(t["private"][:150], SEEDS)), {}),
        "private of seed 0' and 'private of seed 1' are equal",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_seeds_that_do_not_agree_are_refused_in_one_line(tmp_path, audited, name):
    break_it, said = BROKEN[name]
    table, options = break_it(same_rows(audited[1]))
    with pytest.raises(FairauditError) as error:
        scored(tmp_path, table, **options)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_record_that_one_seed_does_not_predict_is_left_out_of_all_and_opens_the_gates(tmp_path, audited):
    table = same_rows(audited[1])
    table.loc[3, "private"] = np.nan
    report = scored(tmp_path, table, fail_on=["privacy_cost_gap > 0.9"])
    assert report.data.rows == 149
    assert report.verdict == "inconclusive"
    whole = scored(tmp_path, same_rows(audited[1]), fail_on=["privacy_cost_gap > 0.9"])
    assert (whole.data.rows, whole.verdict) == (150, "pass")


def test_row_columns_without_seeds_are_refused(tmp_path, audited):
    table = audited[1].drop(columns="seed")
    with pytest.raises(FairauditError, match="about several seeds"):
        scored(tmp_path, table, row_column="id")
