import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from refusals import refused_in_one_line

from fairaudit.config.options import AuditConfig
from fairaudit.data.reading.images import ImageOptions
from fairaudit.data.reading.open import open_data
from fairaudit.data.reading.tables import digest_of
from fairaudit.data.tabular import load_dataset
from fairaudit.errors import DataError


def config(data, **options):
    return AuditConfig(data=data, group=("sex",), label="income", **options)


def parts(people, folder, *, suffix="csv"):
    """The rows of ``people`` in two files; the second names its columns in another order."""
    whole = pa.table(people)
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in (
        ("a", whole.slice(0, 16)),
        ("b", whole.slice(16).select(whole.column_names[::-1])),
    ):
        if suffix == "csv":
            part.to_pandas().to_csv(folder / f"{name}.csv", index=False)
        else:
            pq.write_table(part, folder / f"{name}.{suffix}")
    return folder


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_folder_reads_every_file_in_order(tmp_path, save, people, suffix):
    folder = parts(people, tmp_path / "parts", suffix=suffix)
    several = load_dataset(config(folder))
    alone = load_dataset(config(save(people)))
    assert several.features.to_pydict() == alone.features.to_pydict()
    assert several.labels.tolist() == alone.labels.tolist()
    assert several.rows_read == 40


def test_numbers_of_two_kinds_join(tmp_path):
    for name, number in (("a", "1"), ("b", "1.5")):
        rows = "".join(f"{number},{i % 2},{'FM'[i // 2 % 2]}\n" for i in range(8))
        (tmp_path / f"{name}.csv").write_text("x,income,sex\n" + rows)
    assert load_dataset(config(tmp_path)).features["x"].to_pylist() == [1.0] * 8 + [1.5] * 8


def test_one_file_keeps_its_own_digest_and_several_have_one_of_names_and_contents(tmp_path, people):
    folder = parts(people, tmp_path / "parts")
    assert open_data(folder / "a.csv", ImageOptions()).digest() == digest_of(folder / "a.csv")
    whole = open_data(folder, ImageOptions()).digest()
    (folder / "b.csv").rename(folder / "c.csv")
    assert open_data(folder, ImageOptions()).digest() != whole


def put(folder, name, text):
    (folder / name).write_text(text)


BAD = {
    "several kinds": (
        lambda f: (put(f, "a.csv", "x\n1\n"), put(f, "b.tsv", "x\n1\n")),
        "several kinds",
    ),
    "other columns": (
        lambda f: (put(f, "a.csv", "x,y\n1,2\n"), put(f, "b.csv", "x,z\n1,2\n")),
        "b.csv has other columns than a.csv",
    ),
    "other types": (
        lambda f: (
            pq.write_table(pa.table({"sex": [1], "income": [2]}), f / "a.parquet"),
            pq.write_table(pa.table({"sex": ["x"], "income": [2]}), f / "b.parquet"),
        ),
        "a.parquet to b.parquet do not join",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_data_that_are_no_table_are_one_clear_line(tmp_path, case):
    make, message = BAD[case]
    folder = tmp_path / "data"
    folder.mkdir()
    make(folder)
    with refused_in_one_line(DataError, message):
        load_dataset(config(folder))
