"""Given predictions of several seeds in rows.

The figures of an audit.
"""

import numpy as np
import pandas as pd
import pytest
from audits import audited
from people import people
from refusals import refused_in_one_line

import fairaudit
from fairaudit.config.options import AuditConfig
from fairaudit.data.predictions import load_scored
from fairaudit.errors import FairauditError
from fairaudit.metrics.compare import FIXED_SPLIT, SEVERAL_SPLITS

SEEDS = 5


@pytest.fixture(scope="module")
def audit_and_rows(tmp_path_factory):
    """An audit's report, and what it predicted of its test rows as one long table."""
    out = tmp_path_factory.mktemp("audited")
    frame = people(500, slopes={"M": 2.0}, label="paid")
    frame.to_csv(out / "people.csv", index=False)
    options = {"data": out / "people.csv", "group": "sex", "label": "paid", "method": "dpsgd"}
    options |= {"noise_multiplier": 2.0, "seeds": SEEDS, "epochs": 2, "twins": "off"}
    made = audited(out, **options)
    parts = {}
    for job in made.plan.jobs:
        arrays = made.results[job.id].arrays
        rows = arrays["test_rows"]
        part = frame.iloc[rows][["sex", "paid"]].assign(seed=job.seed, id=rows)
        part = parts.setdefault(job.seed, part)
        column = "plain" if job.arm == "sgd" else "private"
        part[column] = arrays["probabilities"][0, :, 1].astype(float)
    # Rows are told by their id, not by their place.
    shuffled = [part.sample(frac=1, random_state=seed) for seed, part in parts.items()]
    return made.report, pd.concat(shuffled)


def scored(tmp_path, data, **options):
    named = {"group": "sex", "label": "paid", "predictions": "private", "baseline": "plain"}
    return fairaudit.score_predictions(
        data, **named, format="json", out=tmp_path / "scored", **options
    )


def cost_of(report, arm):
    return next(c for c in report.comparisons if c.arm == arm and c.reference)


METRICS = ("privacy_cost", "excess_risk", "accuracy", "reference.accuracy", "tpr", "auc", "loss")


@pytest.mark.parametrize("column", ["seed", "run"])
def test_the_intervals_are_those_of_the_audit_that_predicted(tmp_path, audit_and_rows, column):
    report, table = audit_and_rows
    options = {"row_column": "id", "seed_column": None if column == "seed" else column}
    scores = scored(tmp_path, table.rename(columns={"seed": column}), **options)
    found, expected = cost_of(scores, "predictions"), cost_of(report, "dpsgd")
    assert found.estimand == expected.estimand == SEVERAL_SPLITS
    pairs = []
    for mine, theirs in zip(
        (found.overall, *found.by_group), (expected.overall, *expected.by_group), strict=True
    ):
        assert (mine.group, mine.n_test) == (theirs.group, theirs.n_test)
        pairs += [(mine.estimates[metric], theirs.estimates[metric]) for metric in METRICS]
    assert {estimate.n_seeds for pair in pairs for estimate in pair} == {SEEDS}
    for metric in ("privacy_cost", "excess_risk"):
        widest = [
            g for c in (found, expected) for g in c.gaps if (g.metric, g.kind) == (metric, "max")
        ]
        pairs.append([gap.signed for gap in widest])
    for a, b in pairs:
        # The audit keeps float32, its report six digits.
        assert [a.value, a.low, a.high] == pytest.approx([b.value, b.low, b.high], abs=2e-5)


def same_rows(table, rows=150):
    """The same people at every seed, in the same order."""
    draw = np.random.default_rng(0)
    people = table.drop_duplicates("id").head(rows)[["sex", "paid"]]
    frame = pd.concat([people.assign(seed=seed) for seed in range(SEEDS)], ignore_index=True)
    return frame.assign(private=draw.random(len(frame)), plain=draw.random(len(frame)))


def test_without_a_column_of_rows_their_order_tells_them(tmp_path, audit_and_rows):
    table = same_rows(audit_and_rows[1])
    table["id"] = table.groupby("seed").cumcount()
    by_place = cost_of(scored(tmp_path, table.drop(columns="id")), "predictions")
    by_id = cost_of(
        scored(tmp_path, table.sample(frac=1, random_state=1), row_column="id"), "predictions"
    )
    assert by_place.estimand == by_id.estimand == FIXED_SPLIT
    assert by_place.overall.estimates == by_id.overall.estimates
    assert by_place.gaps == by_id.gaps


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
    "twice": (
        lambda t: (t.assign(id=7), {"row_column": "id"}),
        "745 rows of id stand twice in a seed",
    ),
    "no seed": (
        lambda t: (t.assign(seed=t["seed"].where(t.index > 2)), {}),
        "3 rows without a value in 'seed'",
    ),
    "no such column": (lambda t: (t, {"row_column": "nr"}), "there is no column 'nr'"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_seeds_that_do_not_agree_are_refused_in_one_line(tmp_path, audit_and_rows, name):
    break_it, said = BROKEN[name]
    table, options = break_it(same_rows(audit_and_rows[1]))
    with refused_in_one_line(FairauditError, said):
        scored(tmp_path, table, **options)


def test_a_record_that_one_seed_does_not_predict_is_left_out_of_all_and_opens_the_gates(
    tmp_path, audit_and_rows
):
    table = same_rows(audit_and_rows[1])
    table.loc[[3, 150 + 7], "private"] = np.nan  # at the first seed, and at the second
    report = scored(tmp_path, table, fail_on=["privacy_cost_gap > 0.9"])
    assert report.data.rows == 148
    assert report.data.dropped_rows.keys() == {"prediction missing"}
    assert report.verdict == "inconclusive"
    whole = scored(tmp_path, same_rows(audit_and_rows[1]), fail_on=["privacy_cost_gap > 0.9"])
    assert (whole.data.rows, whole.verdict) == (150, "pass")


def test_row_columns_without_seeds_are_refused(tmp_path, audit_and_rows):
    table = audit_and_rows[1].drop(columns="seed")
    with pytest.raises(FairauditError, match="about several seeds"):
        scored(tmp_path, table, row_column="id")


def test_row_numbers_without_a_name_are_no_ids(tmp_path):
    """pandas writes its index as a column without a name; a copied record stays a copy."""
    n = 40
    amounts = np.random.default_rng(1).normal(size=n).round(4)
    once = pd.DataFrame(
        {"amount": amounts, "sex": ["F", "M"] * (n // 2), "paid": [0, 0, 1, 1] * 10}
    )
    once.loc[n - 1] = once.loc[0]
    parts = [once.assign(seed=seed, private=0.3 + 0.1 * seed) for seed in (0, 1)]
    path = tmp_path / "scores.csv"
    pd.concat(parts, ignore_index=True).to_csv(path)
    assert path.read_text().startswith(",amount")
    read = load_scored(AuditConfig(data=path, group=("sex",), label="paid"), "private")
    assert read.dataset.n_rows == n - 1
    assert read.dataset.dropped_rows == {"copy of an earlier row": {"F": 1}}
