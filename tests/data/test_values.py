"""Which texts of a table are values, missing ones or numbers, held against pandas.

The same rows as CSV, where all is text, and as Parquet, where nothing can be mistaken.
"""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from refusals import refused_in_one_line

import fairaudit
from fairaudit.config.options import AuditConfig
from fairaudit.data.codebook import Codebook, KnownGroups, read_by
from fairaudit.data.reading.values import numbers_of
from fairaudit.data.tabular import load_dataset
from fairaudit.data.usable import UnusableColumns
from fairaudit.errors import ConfigError, DataError

MARKS = ["NA", "null", "nan", "N/A", "NULL"]


def oddly_named(rows=600):
    """Two numbers, a text, a label, and a region of which three names look like missing values."""
    draw = np.random.default_rng(5)
    return pd.DataFrame(
        {
            "region": draw.choice(["NA", "EU", "null", "nan"], rows, p=[0.31, 0.4, 0.2, 0.09]),
            "job": draw.choice(["clerk", "N/A", "cook"], rows),
            "income": draw.integers(0, 90_000, rows),
            "rate": draw.normal(5, 1, rows).round(3),
            "paid": draw.choice(["no", "NA"], rows),
        }
    )


def load(path, **options):
    given = {"group": ("region",), "label": "paid", **options}
    return load_dataset(AuditConfig(data=path, **given))


def as_csv(frame, path, **options):
    frame.to_csv(path, index=False, **options)
    return path


def same(one, other):
    assert one.classes == other.classes
    np.testing.assert_array_equal(one.labels, other.labels)
    for a, b in zip(one.groupings, other.groupings, strict=True):
        assert (a.names, a.missing) == (b.names, b.missing)
        np.testing.assert_array_equal(a.groups, b.groups)
    assert one.features.to_pydict() == other.features.to_pydict()


# --- texts that mean something


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_groups_labels_and_texts_are_what_they_say_in_a_file_of_text_as_in_parquet(
    tmp_path, suffix
):
    frame = oddly_named()
    frame.to_parquet(tmp_path / "t.parquet")
    sign = "," if suffix == "csv" else "\t"
    dataset = load(as_csv(frame, tmp_path / f"t.{suffix}", sep=sign))
    same(dataset, load(tmp_path / "t.parquet"))
    assert dataset.groupings[0].names == ("EU", "NA", "nan", "null")
    assert dataset.groupings[0].missing is None
    sizes = frame["region"].value_counts()
    assert np.bincount(dataset.groupings[0].groups).tolist() == [
        sizes[name] for name in dataset.groupings[0].names
    ]
    assert dataset.classes == ("NA", "no")
    assert set(dataset.features["job"].to_pylist()) == {"clerk", "N/A", "cook"}
    told = next(n for n in dataset.notices if n.code == "marks_as_values")
    assert f"'NA' in 'region' ({sizes['NA']:,} rows)" in told.text


@pytest.mark.parametrize("mark", MARKS)
def test_the_usual_marks_among_numbers_are_missing_and_so_is_an_empty_field_anywhere(
    tmp_path, mark
):
    frame = oddly_named()
    frame = frame.astype({"income": object, "rate": object})
    frame.loc[frame.index % 7 == 0, ["income", "rate"]] = mark
    frame.loc[frame.index % 11 == 0, "region"] = ""
    dataset = load(as_csv(frame, tmp_path / "t.csv"))
    wanted = pd.to_numeric(frame["income"], errors="coerce")
    np.testing.assert_array_equal(dataset.features["income"].to_pandas(), wanted)
    if mark != "nan":  # which is a number to whoever reads numbers
        assert dataset.features["income"].type == pa.int64()
    assert dataset.features["rate"].null_count == (frame.index % 7 == 0).sum()
    (grouping,) = dataset.groupings
    lacking = (frame["region"] == "").sum()
    assert (grouping.groups == grouping.missing).sum() == lacking
    assert any(f"{lacking} rows have no 'region'" in n.text for n in dataset.notices)


def test_a_column_that_one_part_holds_as_marks_alone_is_read_with_the_others(tmp_path):
    frame = oddly_named().sort_values("region")
    folder = tmp_path / "parts"
    folder.mkdir()
    for region, part in frame.groupby("region"):
        as_csv(part, folder / f"{region}.csv")
    dataset = load(folder)
    assert dataset.groupings[0].names == ("EU", "NA", "nan", "null")
    sizes = frame["region"].value_counts()
    assert np.bincount(dataset.groupings[0].groups)[1] == sizes["NA"]


def test_numbers_of_one_part_and_numbers_with_marks_of_another_are_one_column(tmp_path):
    frame = oddly_named()
    folder = tmp_path / "parts"
    folder.mkdir()
    as_csv(frame[:300], folder / "a.csv")
    marked = frame[300:].astype({"income": object})
    marked.iloc[::3, 2] = "NA"
    as_csv(marked, folder / "b.csv")
    income = load(folder).features["income"]
    assert income.null_count == 100
    assert income.to_pylist()[:300] == frame["income"][:300].tolist()


def test_what_is_said_to_be_missing_is_missing_everywhere_or_in_one_column(tmp_path):
    path = as_csv(oddly_named(), tmp_path / "t.csv")
    everywhere = load(path, missing_values=("null", "N/A"))
    assert everywhere.groupings[0].names == ("EU", "NA", "nan", "(missing)")
    assert set(everywhere.features["job"].to_pylist()) == {"clerk", None, "cook"}
    in_one = load(path, missing_values=("job=cook", "region=NA"))
    assert in_one.groupings[0].names == ("EU", "nan", "null", "(missing)")
    assert set(in_one.features["job"].to_pylist()) == {"clerk", "N/A", None}
    oddly_named().to_parquet(tmp_path / "t.parquet")
    same(in_one, load(tmp_path / "t.parquet", missing_values=("job=cook", "region=NA")))
    told = [n.code for n in load(path, missing_values=("Nothing",)).notices]
    assert "marks_not_found" in told


def test_a_number_may_stand_for_a_missing_value(tmp_path):
    frame = oddly_named()
    frame.loc[::5, ["income", "rate"]] = -999
    for path in (as_csv(frame, tmp_path / "t.csv"), tmp_path / "t.parquet"):
        if not path.exists():
            frame.to_parquet(path)
        features = load(path, missing_values=("-999",)).features
        assert features["income"].null_count == features["rate"].null_count == 120
        features = load(path, missing_values=("rate=-999",)).features
        assert (features["income"].null_count, features["rate"].null_count) == (0, 120)


def test_a_declaration_names_what_is_missing_in_its_column(tmp_path):
    declared = {
        "columns": {
            "job": {
                "kind": "category",
                "categories": ["clerk", "none"],
                "missing": "none",
                "missing_values": ["cook"],
            },
            "rate": {"kind": "number", "range": [0, 10], "missing_values": [-1]},
        }
    }
    frame = oddly_named()
    frame.loc[::6, "rate"] = -1
    dataset = load(as_csv(frame, tmp_path / "t.csv"), columns=declared)
    assert dataset.features["rate"].null_count == 100
    notice = next(n for n in dataset.notices if n.code == "outside_declaration")
    assert notice.columns == ("job",)  # a missing rate is not one beyond the range
    assert set(dataset.features["job"].to_pylist()) == {"clerk", "none"}


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_rules_judge_groups_that_are_called_like_missing_values(tmp_path, suffix):
    frame = oddly_named()
    frame["region"] = np.where(np.arange(600) % 3 == 0, "NA", "EU")
    frame["paid"] = np.arange(600) // 3 % 2
    right = (np.arange(600) % 3 != 0) | (np.arange(600) % 5 < 2)
    frame["guess"] = np.where(right, frame["paid"], 1 - frame["paid"])
    path = tmp_path / f"t.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
    report = fairaudit.score_predictions(
        path,
        group="region",
        label="paid",
        predictions="guess",
        fail_on="accuracy < 75%",
        out=tmp_path / "out",
    )
    groups = report.comparisons[0].by_group
    rates = frame.assign(right=right).groupby("region")["right"].mean()
    assert {g.group: g.value("accuracy") for g in groups} == pytest.approx(rates.to_dict())
    assert report.verdict == "fail"


def test_rows_without_a_group_keep_the_rules_about_groups_of_an_audit_open(tmp_path):
    frame = oddly_named(400)
    frame["region"] = np.where(np.arange(400) % 4 == 0, "", np.where(np.arange(400) % 2, "N", "S"))
    out = tmp_path / "out"
    report = fairaudit.run_audit(
        as_csv(frame, tmp_path / "t.csv"),
        group="region",
        label="paid",
        fail_on=["accuracy < 1%", "accuracy@overall < 1%"],
        seeds=5,
        epochs=1,
        method=["dpsgd"],
        out=out,
        workers=1,
    )
    of_groups, of_all = report.gates
    assert of_groups.outcome == "inconclusive"
    assert {t.reason for t in of_groups.targets} == {"not judged: 100 rows without a group"}
    assert of_all.outcome == "pass"


# --- numbers in other dress


FORMATS = {
    "percent": (lambda v: f"{v:.1f}%", "point", 1),
    "dollars": (lambda v: f"${v * 1000:,.2f}", "point", 2),
    "thousands": (lambda v: f"{int(v * 1000):,}", "point", 0),
    "euros": (lambda v: f"{v * 1000:_.2f} €".replace(".", ",").replace("_", "."), "comma", 2),
    "commas": (lambda v: f"{v:.2f}".replace(".", ","), "comma", 2),
    "blanks": (lambda v: f"{v * 1000:_.0f}".replace("_", "\N{NARROW NO-BREAK SPACE}"), "point", 0),
    "brackets": (lambda v: f"({v:.2f})", "point", 2),
}
SCALES = {"dollars": 1000, "thousands": 1000, "euros": 1000, "blanks": 1000, "brackets": -1}


@pytest.mark.parametrize("dress", FORMATS)
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_numbers_in_another_dress_are_refused_with_the_option_that_reads_them(
    tmp_path, dress, suffix
):
    write, kind, digits = FORMATS[dress]
    frame = oddly_named()
    values = np.resize(np.random.default_rng(1).uniform(1, 90, 200), len(frame))
    frame["amount"] = [write(v) for v in values]
    if kind == "comma":  # a file has one sign before decimals
        frame = frame.drop(columns="rate")
    path = tmp_path / f"t.{suffix}"
    frame.to_csv(path, index=False, sep=";") if suffix == "csv" else frame.to_parquet(path)
    with refused_in_one_line(UnusableColumns, "'amount' holds numbers with ") as caught:
        load(path)
    assert f"--number-format {kind}" in caught.value.hint
    assert caught.value.options == (("--number-format", kind),)
    assert not any(text in str(caught.value) for text in frame["amount"])
    scale = SCALES.get(dress, 1)
    wanted = np.trunc(values * scale) if dress == "thousands" else values * scale
    for given in (kind, f"amount={kind}"):
        features = load(path, number_format=(given,)).features
        assert pa.types.is_floating(features["amount"].type) or dress in ("thousands", "blanks")
        np.testing.assert_allclose(
            features["amount"].to_pylist(), wanted, atol=0.5 * 10.0**-digits + 1e-9
        )
        assert features["income"].to_pylist() == frame["income"].tolist()
    kept = load(path, number_format=("amount=text",)).features["amount"]
    assert kept.to_pylist() == frame["amount"].tolist()


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_word_among_numbers_is_named_with_its_rows_and_all_columns_at_once(tmp_path, suffix):
    frame = oddly_named()
    frame["rate"] = frame["rate"].astype(str)
    frame.loc[::6, "rate"] = "Exempt"
    frame["income"] = frame["income"].astype(str)
    frame.loc[::4, "income"] = "?"
    frame["share"] = [f"{v:.1f}%" for v in np.linspace(0, 99, 600)]
    frame["note"] = [f"text {i}" if i else "text 1" for i in range(600)]
    path = tmp_path / f"t.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
    with refused_in_one_line(DataError) as caught:
        load(path)
    assert "'rate' holds numbers but for 'Exempt' in 100 rows" in caught.value.message
    assert "'income' holds numbers but for '?' in 150 rows" in caught.value.message
    assert "'share' holds numbers with percent signs" in caught.value.message
    assert "--missing-values '?' --missing-values Exempt --number-format point" in caught.value.hint
    features = load(path, missing_values=("Exempt", "?"), number_format=("point",)).features
    wanted = pd.to_numeric(frame["rate"], errors="coerce")
    np.testing.assert_array_equal(features["rate"].to_pandas(), wanted)
    assert features["income"].null_count == 150


def test_more_words_are_exceptions_among_more_numbers(tmp_path):
    rows, words = 3_000, [f"code {place}" for place in range(12)]
    draw = np.random.default_rng(2)
    frame = oddly_named(rows).astype({"rate": object})
    frame["rate"] = draw.uniform(0, 90, rows).round(3).astype(str)
    frame.loc[::10, "rate"] = np.resize(words, 300)
    with refused_in_one_line(DataError, "'rate' holds numbers but for 'code 0' in 25 rows") as told:
        load(as_csv(frame, tmp_path / "t.csv"))
    assert {value for _, value in told.value.options} == set(words)
    # Codes of diagnoses: a word for every few numbers.
    frame["rate"] = draw.integers(1, 700, rows).astype(str)
    frame.loc[::10, "rate"] = [f"V{code}" for code in draw.integers(1, 90, 300)]
    dataset = load(as_csv(frame, tmp_path / "t.csv"))
    assert pa.types.is_large_string(dataset.features["rate"].type)
    told = next(n for n in dataset.notices if n.code == "mixed_types")
    assert "'rate' holds numbers and " in told.text


def test_one_word_that_only_one_row_holds_is_counted_and_not_shown(tmp_path):
    frame = oddly_named().astype({"rate": object})
    frame.loc[3, "rate"] = "SECRET"
    with refused_in_one_line(DataError, "but for 1 other text in one row each") as caught:
        load(as_csv(frame, tmp_path / "t.csv"))
    assert "SECRET" not in str(caught.value)


def test_a_word_that_texts_hold_too_is_named_with_its_column(tmp_path):
    frame = oddly_named().astype({"rate": object})
    frame.loc[::6, "rate"] = "cook"
    with refused_in_one_line(DataError) as caught:
        load(as_csv(frame, tmp_path / "t.csv"))
    assert "--missing-values rate=cook" in caught.value.hint


def test_few_numbers_and_a_word_are_a_category_and_that_is_said(tmp_path):
    frame = oddly_named()
    frame["grade"] = np.random.default_rng(3).choice(["1", "2", "3", "K"], 600)
    dataset = load(as_csv(frame, tmp_path / "t.csv"))
    assert set(dataset.features["grade"].to_pylist()) == {"1", "2", "3", "K"}
    told = next(n for n in dataset.notices if n.code == "mixed_types")
    assert "'grade' holds numbers but for 'K'" in told.text


def test_groups_and_labels_keep_their_dress_unless_they_are_named(tmp_path):
    frame = oddly_named()
    frame["region"] = np.where(np.arange(600) % 2, "10%", "20%")
    frame["income"] = [f"{v:,}" for v in frame["income"]]
    path = as_csv(frame, tmp_path / "t.csv")
    assert load(path, number_format=("point",)).groupings[0].names == ("10%", "20%")
    named = load(path, number_format=("point", "region=point"))
    assert named.groupings[0].names == ("10", "20")


def test_points_where_commas_are_said_to_stand_are_refused(tmp_path):
    frame = oddly_named()
    frame["rate"] = [f"{v:.2f}".replace(".", ",") for v in frame["rate"]]
    frame["other"] = np.linspace(0, 1, 600).round(4)
    path = as_csv(frame, tmp_path / "t.csv")
    with refused_in_one_line(DataError, "'rate' holds numbers with decimal commas") as caught:
        load(path)
    assert "give --number-format rate=comma;" in caught.value.hint
    with refused_in_one_line(DataError, "'other' holds numbers with decimal points") as caught:
        load(path, number_format=("comma",))
    assert "other=point" in caught.value.hint
    features = load(path, number_format=("comma", "other=point")).features
    np.testing.assert_allclose(features["other"].to_pylist(), frame["other"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"number_format": ("german",)}, "is no format"),
        ({"number_format": ("incom=point",)}, "is not in the data"),
        ({"number_format": ("point", "comma")}, "another format"),
        ({"number_format": ("text",)}, "is about one column"),
    ],
)
def test_formats_that_are_none_are_refused(tmp_path, options, said):
    with refused_in_one_line(ConfigError, said):
        load(as_csv(oddly_named(), tmp_path / "t.csv"), **options)


def test_every_dress_of_a_number_as_people_write_it():
    point = {
        "1,23,456": 123456,
        "12,34": None,
        "US$ 5": 5,
        "-$5.00": -5,
        "$-5.00": -5,
        "-$-5": None,
        "1'234.5": 1234.5,
        "\N{MINUS SIGN}4.5%": -4.5,
        "EUR 7": 7,
        "1.5e3": 1500,
        "1.2.3": None,
        "ABC123": None,
        "%": None,
    }
    comma = {
        "1.234": 1234,
        "12,5 %": 12.5,
        "€ 1.234,50": 1234.5,
        "1.5": 1.5,
        "1,5e2": 150,
        "1,2,3": None,
        "1.23.456": None,
    }
    for kind, wanted in (("point", point), ("comma", comma)):
        texts = pa.chunked_array([pa.array(list(wanted), pa.large_string())])
        assert dict(zip(wanted, numbers_of(texts, kind).to_pylist(), strict=True)) == wanted


# --- rows that are read one by one


def known(**options):
    codebook = Codebook(
        label="paid",
        classes=("NA", "no"),
        positive="no",
        favourable=None,
        groupings=(KnownGroups("region", ("EU", "NA", "(missing)"), 2),),
        features={"job": (), "rate": None},
    )
    return codebook, {"group": ("region",), "label": "paid", **options}


def test_a_release_reads_each_value_by_the_options_alone(tmp_path):
    codebook, options = known(missing_values=("job=cook", "Exempt"), number_format=("point",))
    rows = [
        ("NA", "cook", "13.5%", "NA"),
        ("EU", "N/A", "Exempt", "no"),
        ("nan", "clerk", "1,234", "no"),
        ("", "Exempt", "NA", "NA"),
    ]
    odd = pd.DataFrame(rows, columns=["region", "job", "rate", "paid"])
    for extra in (
        [],
        [("EU", "1", "x", "no")] * 40,  # whatever other rows hold
        [("1", "2", "3", "4")] * 40,
    ):
        frame = pd.concat([odd, pd.DataFrame(extra, columns=odd.columns)])
        for path in (as_csv(frame, tmp_path / "t.csv"), tmp_path / "t.parquet"):
            frame.to_parquet(path) if path.suffix == ".parquet" else None
            dataset = read_by(codebook, AuditConfig(data=path, **options))
            assert dataset.features["job"].to_pylist()[:4] == [None, "N/A", "clerk", None]
            assert dataset.features["rate"].to_pylist()[:4] == [13.5, None, 1234.0, None]
            assert dataset.groupings[0].groups[:4].tolist() == [1, 0, 2, 2]
            assert dataset.labels[:4].tolist() == [0, 1, 1, 0]


def test_parquet_text_that_is_a_number_in_every_row_stays_text(tmp_path):
    frame = oddly_named()
    frame["zip"] = [f"0{i % 90:04d}" for i in range(600)]
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "t.parquet")
    assert load(tmp_path / "t.parquet").features["zip"].to_pylist()[1] == "00001"
    frame.loc[::7, "zip"] = "abroad"
    frame.to_parquet(tmp_path / "words.parquet")
    assert load(tmp_path / "words.parquet").features["zip"].to_pylist()[0] == "abroad"
    kept = load(tmp_path / "t.parquet", number_format=("point",)).features["zip"]
    assert kept.to_pylist()[1] == "00001"


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_given_probabilities_in_another_dress_are_named_and_read_by_an_option(tmp_path, suffix):
    draw = np.random.default_rng(4)
    frame = oddly_named().assign(region=np.arange(600) % 2, paid=draw.integers(0, 2, 600))
    sure = (draw.random(600) * 0.998 + 0.001).round(4)
    frame["p"] = [f"{v:.4f}".replace(".", ",") for v in sure]
    path = tmp_path / f"t.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
    given = {"group": "region", "label": "paid", "predictions": "p", "out": tmp_path / "out"}
    with refused_in_one_line(UnusableColumns, "'p' holds numbers with decimal commas") as caught:
        fairaudit.score_predictions(path, **given)
    assert "p=comma" in caught.value.hint or "--number-format comma" in caught.value.hint
    report = fairaudit.score_predictions(path, number_format=["p=comma"], **given)
    right = (sure > 0.5) == frame["paid"]
    rates = right.groupby(frame["region"].astype(str)).mean()
    groups = report.comparisons[0].by_group
    assert {g.group: g.value("accuracy") for g in groups} == pytest.approx(rates.to_dict())
