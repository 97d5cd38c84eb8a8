"""First lines as public files have them: none that names the columns, two, one twice, a title."""

import bz2
import gzip
import re
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from refusals import refused_in_one_line

from fairaudit.config.options import AuditConfig
from fairaudit.data.reading.packed import printing, through_sed
from fairaudit.data.reading.tables import open_source
from fairaudit.data.tabular import load_dataset
from fairaudit.errors import ConfigError, DataError

ROWS = [
    f"{20 + k % 50},{['State-gov', 'Private'][k % 2]},{k * 1013 % 9973},<=50K" for k in range(60)
]
CREDIT = [f"{k},{10_000 + 13 * k},{1 + k % 2},{k % 3 == 0:d}" for k in range(1, 60)]


def opened(tmp_path, lines):
    path = tmp_path / "people.csv"
    path.write_text("\n".join(lines) + "\n")
    return open_source(path)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (ROWS, "has no header"),
        ([line.replace(",", ", ") for line in ROWS], "has no header"),
        ([f"{k % 3 - 1},{k % 7 / 2}" for k in range(30)], "has no header"),
        ([",X1,X2,Y", "ID,LIMIT_BAL,SEX,default", *CREDIT], "two header lines"),
        (["id,limit,sex,default", "(number),(dollars),(code),(flag)", *CREDIT], "two header lines"),
        (["id,limit,sex,default", "id,limit,sex,default", *CREDIT], "header twice"),
        (["id;age;sex", "id;age;sex", "1;30;F", "2;31;M"], "header twice"),
        (["Credit default of 2005", "id,limit,sex,default", *CREDIT], "looks like a title"),
    ],
)
def test_a_first_line_that_names_no_columns_is_refused_with_what_to_do(tmp_path, lines, said):
    with refused_in_one_line(DataError) as caught:
        opened(tmp_path, lines)
    assert said in f"{caught.value.message} {caught.value.hint}"
    assert caught.value.hint


@pytest.mark.parametrize(
    "lines",
    [
        ["id,limit,sex,default", *CREDIT],
        ["2019,2020,2021,2022", *CREDIT],  # a year for each column
        [",".join(map(str, range(4))), *CREDIT],  # pixels
        ["limit,limit2,sex,default", "unknown,5,1,0", *CREDIT],  # a mark of a missing value
        ["a,b", "1,2", "3,4"],
        ["name,city", "Ann,Rome", "Bob,Oslo", "Eve,Bern"],  # nothing but text
        ["F,M", "3,4", "5,6", "7,8"],
    ],
)
def test_a_header_is_taken_for_one(tmp_path, lines):
    assert opened(tmp_path, lines).schema.names == lines[0].split(",")


def test_tables_that_pandas_writes_have_headers(tmp_path):
    draw = np.random.default_rng(4)
    for number in range(200):
        width = int(draw.integers(2, 6))
        frame = pd.DataFrame(
            {
                f"c{k}": draw.choice(["a", "b", "c"], 30)
                if draw.random() < 0.4
                else draw.integers(-3, 40, 30) / draw.choice([1, 4])
                for k in range(width)
            }
        )
        path = tmp_path / f"{number}.csv"
        frame.to_csv(path, index=False)
        assert open_source(path).schema.names == list(frame.columns)
        frame.to_csv(path, index=False, header=False)
        numbers = frame.select_dtypes("number").columns.size
        if 0 < numbers < width:  # numbers alone may be names, as of years
            with pytest.raises(DataError):
                open_source(path)


# --- names given by an option

ADULT = [
    "39, State-gov, 77516, Bachelors, Male, <=50K",
    "50, Self-emp-not-inc, 83311, Bachelors, Female, >50K",
    "38, Private, 215646, HS-grad, Male, <=50K",
    "53, ?, 234721, 11th, Female, <=50K",
] * 5
ADULT_NAMES = "age,workclass,fnlwgt,education,sex,income"
UCI_NAMES = """| This data was extracted from the census bureau database.
>50K, <=50K.
age: continuous.
workclass: Private, Self-emp-not-inc, State-gov.
fnlwgt: continuous.   | a remark
education: Bachelors, HS-grad, 11th.
sex: Female, Male.
"""


def read(path, names, **options):
    config = AuditConfig(data=path, names=(names,), group=("sex",), **options)
    return load_dataset(config)


@pytest.mark.parametrize("remark", ["", "|1x3 Cross validator\n"])
def test_a_file_as_uci_has_it_is_read_by_names(tmp_path, remark):
    path = tmp_path / "adult.data"
    path.write_text(remark + "\n".join(ADULT) + "\n\n")
    table = read(path, ADULT_NAMES, label="income")
    assert table.classes == ("<=50K", ">50K")
    assert table.groupings[0].names == ("Female", "Male")
    assert table.features["age"].to_pylist() == [39, 50, 38, 53] * 5
    assert table.features["education"].to_pylist()[:2] == ["Bachelors", "Bachelors"]


@pytest.mark.parametrize(
    ("content", "label"),
    [
        (UCI_NAMES, "class"),
        (ADULT_NAMES, "income"),
        (ADULT_NAMES.replace(",", "\n") + "\n", "income"),
    ],
)
def test_names_lie_in_a_file(tmp_path, content, label):
    (tmp_path / "adult.data").write_text("\n".join(ADULT) + "\n")
    (tmp_path / "adult.names").write_text(content)
    table = read(tmp_path / "adult.data", str(tmp_path / "adult.names"), label=label)
    assert table.label == label
    assert table.n_rows == 20


def test_fields_between_blanks(tmp_path):
    rows = ["A11 6  A34 1169 male 1", "A12\t48 A32 5951 female 2", " A14 12 A34 2096 male 1 "] * 9
    (tmp_path / "german.data").write_text("\n".join(rows) + "\n")
    names = "status,duration,history,amount,sex,credit"
    table = read(tmp_path / "german.data", names, label="credit")
    assert table.features["duration"].to_pylist() == [6, 48, 12] * 9
    assert table.groupings[0].counts(np.arange(27)) == {"male": 18, "female": 9}
    with_header = tmp_path / "german.csv"
    with_header.write_text(names.replace(",", " ") + "\n" + "\n".join(rows) + "\n")
    config = AuditConfig(data=with_header, group=("sex",), label="credit")
    assert load_dataset(config).features.equals(table.features)


def test_quoted_fields_between_blanks_keep_theirs(tmp_path):
    rows = ['18.0  8  "chevrolet  malibu"  F 1', '15.0  4  "vw rabbit"  M 0'] * 9
    (tmp_path / "mpg.data").write_text("\n".join(rows) + "\n")
    table = read(tmp_path / "mpg.data", "mpg,cylinders,car,sex,y", label="y")
    assert table.features["car"].to_pylist()[:2] == ["chevrolet  malibu", "vw rabbit"]


def test_names_that_do_not_fit_are_one_line(tmp_path):
    (tmp_path / "adult.csv").write_text("\n".join(ADULT) + "\n")
    with refused_in_one_line(DataError, "2 names"):
        read(tmp_path / "adult.csv", "a,b", label="income")


def test_a_file_that_names_its_columns_keeps_them(tmp_path):
    (tmp_path / "adult.csv").write_text("\n".join([ADULT_NAMES, *ADULT]) + "\n")
    assert read(tmp_path / "adult.csv", ADULT_NAMES, label="income").n_rows == 20


@pytest.mark.parametrize("names", ["age", "age,age", "a,,b", "a" * 300, "a/" * 5000])
def test_names_that_are_none_are_one_line(names):
    with refused_in_one_line(ConfigError, "--names"):
        AuditConfig(data="adult.data", names=(names,))


def test_a_file_of_names_is_read_whole_or_refused(tmp_path):
    path, most = tmp_path / "adult.names", 1 << 20
    whole = ["x" * 99 + f"{k:06}" for k in range(most // 106 + 1)]  # the last is cut at `most`
    path.write_text("\n".join(whole)[:most])
    read = AuditConfig(data="adult.data", names=(path,)).names
    assert (read[:-1], read[-1]) == (tuple(whole[:-1]), "x" * (most % 106))
    path.write_text("\n".join(whole))
    with refused_in_one_line(ConfigError, "adult.names is too long"):
        AuditConfig(data="adult.data", names=(path,))


@pytest.mark.parametrize(
    "footer", ["Source: the office", "(20 rows affected)", "Total,20", 'a,b,"c,d",e,f,g,h,i']
)
def test_a_footer_is_named(tmp_path, footer):
    path = tmp_path / "adult.csv"
    path.write_text("\n".join([ADULT_NAMES, *ADULT, footer]) + "\n")
    with refused_in_one_line(DataError, "footer") as caught:
        load_dataset(AuditConfig(data=path, group=("sex",), label="income"))
    assert "sed '$d' adult.csv" in caught.value.hint


@pytest.mark.parametrize("names", [(), ("age,sex,y",)])
def test_a_footer_is_named_where_fields_are_between_blanks(tmp_path, names):
    lines = [f"{k}{' ' * (5 - len(str(k)))}{'FM'[k % 2]} {k % 2}" for k in range(95, 110)]
    head = [] if names else ["age  sex y"]
    (tmp_path / "p.csv").write_text("\n".join([*head, *lines, "15 rows"]) + "\n")
    with refused_in_one_line(DataError, "the last line has 2 fields where those above have 3"):
        load_dataset(AuditConfig(data=tmp_path / "p.csv", names=names, group=("sex",), label="y"))


PACKED = {
    "gzip": lambda name: gzip.compress(Path(name).read_bytes()),
    "bz2": lambda name: bz2.compress(Path(name).read_bytes()),
    "none": lambda name: Path(name).read_bytes(),
}


@pytest.mark.parametrize("packing", PACKED)
@pytest.mark.parametrize(
    ("lines", "before"),
    [
        ([ADULT_NAMES, ADULT_NAMES, *ADULT], "delete the second line: "),
        (["Adult of 1994", ADULT_NAMES, *ADULT], "it looks like a title; delete it: "),
        ([ADULT_NAMES, *ADULT, "(20 rows)"], "it looks like a footer; delete it: "),
        (["age,age,sex,income", *["1,2,F,no", "3,4,M,yes"] * 9], "give each a name of its own: "),
        (["age,sex,age,income", *["1,F,2,no", "3,M,4,yes"] * 9], "give each a name of its own: "),
    ],
    ids=["header twice", "title", "footer", "names beside each other", "names apart"],
)
def test_the_command_of_a_hint_mends_a_packed_file_too(tmp_path, packing, lines, before):
    """Without an ending of its packing, for the first bytes tell it, and with one."""
    (tmp_path / "plain.csv").write_text("\n".join(lines) + "\n")
    for ending in ("", "" if packing == "none" else f".{packing.replace('gzip', 'gz')}"):
        path = tmp_path / f"a b.csv{ending}"
        path.write_bytes(PACKED[packing](tmp_path / "plain.csv"))
        with pytest.raises(DataError) as caught:
            load_dataset(AuditConfig(data=path, group=("sex",), label="income"))
        command = caught.value.hint.removeprefix(before)
        subprocess.run(command, shell=True, check=True, cwd=tmp_path)
        mended = tmp_path / ("named_a b.csv" if "named_" in command else "new.csv")
        header = lines[0] if "named_" in command else ADULT_NAMES
        names = re.sub("(age.*)age", r"\1age_2", header).split(",")
        assert open_source(mended).schema.names == names
        assert load_dataset(AuditConfig(data=mended, group=("sex",), label="income")).n_rows >= 18
        mended.unlink()


@pytest.mark.parametrize("packing", ["gzip", "brotli", "lz4", "zstd", "bz2"])
def test_every_packing_has_a_command_that_unpacks_it(tmp_path, packing):
    ending = {"gzip": "gz", "brotli": "br", "zstd": "zst"}.get(packing, packing)
    path = tmp_path / f"p.csv.{ending}"
    with pa.CompressedOutputStream(str(path), packing) as stream:
        stream.write(b"a,b\n1,2\n")
    command = {"bz2": "bzip2"}.get(packing, packing)
    assert printing(path, "p") == f"{command} -dc < p"
    assert through_sed(path, "p", "1d") == f"{command} -dc < p | sed 1d"


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("adult.data", "cat adult.data"),
        ("my adult.data", "cat 'my adult.data'"),
        ("adult.data.gz", "gzip -dc < adult.data.gz"),
    ],
)
def test_where_rows_stand_alone_the_file_names_its_columns(tmp_path, name, command):
    content = "\n".join(ADULT).encode() + b"\n"
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    with refused_in_one_line(DataError, "no line that names") as caught:
        open_source(tmp_path / name, is_alone=True, names=tuple(ADULT_NAMES.split(",")))
    assert f"(echo age,workclass,..; {command}) > named.csv" in caught.value.hint


def test_what_to_do_works(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text("\n".join([ADULT_NAMES, ADULT_NAMES, *ADULT]) + "\n")
    with refused_in_one_line(DataError, "header twice") as caught:
        open_source(path)
    command = caught.value.hint.removeprefix("delete the second line: ")
    subprocess.run(command, shell=True, check=True, cwd=tmp_path)
    assert open_source(tmp_path / "new.csv").schema.names == ADULT_NAMES.split(",")
