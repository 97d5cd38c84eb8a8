"""First lines as public files have them: none that names the columns, two, one twice, a title."""

import bz2
import gzip
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from refusals import refused_in_one_line

from fairaudit.config.options import AuditConfig
from fairaudit.data.reading import elsewhere
from fairaudit.data.reading.packed import printing, through_sed
from fairaudit.data.reading.tables import open_source, read_stored
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
    assert "sed '$d' < " in caught.value.hint


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
    for ending in {"gzip": ("", ".gz"), "bz2": ("", ".bz2"), "none": ("",)}[packing]:
        path = tmp_path / f"a b.csv{ending}"
        path.write_bytes(PACKED[packing](tmp_path / "plain.csv"))
        with pytest.raises(DataError) as caught:
            load_dataset(AuditConfig(data=path, group=("sex",), label="income"))
        command = caught.value.hint.removeprefix(before)
        subprocess.run(command, shell=True, check=True, cwd=tmp_path)
        mended = tmp_path / "new_a b.csv"
        header = lines[0] if "name of its own" in before else ADULT_NAMES
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


def test_a_name_that_begins_with_a_hyphen_is_no_option_of_a_command(tmp_path):
    (tmp_path / "p.csv").write_bytes(b"a,b\n1,2\n")
    for command in (printing(tmp_path / "p.csv", "-p"), through_sed(tmp_path / "p.csv", "-p", "p")):
        assert command.endswith(" < -p")


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("adult.data", "cat < adult.data"),
        ("my adult.data", "cat < 'my adult.data'"),
        ("adult.data.gz", "gzip -dc < adult.data.gz"),
    ],
)
@pytest.mark.parametrize("delimiter", [", ", ";", "\t", "  "])
def test_where_rows_stand_alone_the_file_names_its_columns(
    tmp_path, monkeypatch, name, command, delimiter
):
    monkeypatch.chdir(tmp_path)
    content = "\n".join(ADULT).replace(", ", delimiter).encode() + b"\n"
    Path(name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    names = tuple(ADULT_NAMES.split(","))
    with refused_in_one_line(DataError, "no line that names") as caught:
        open_source(Path(name), is_alone=True, names=names)
    if delimiter == "\t":  # a line with a tab cannot be copied from a terminal
        assert caught.value.hint.endswith("write it into the file")
        return
    line = ADULT_NAMES.replace(",", delimiter.strip() or " ")
    quote = "'" if delimiter in (";", "  ") else ""
    mending = f"(echo {quote}{line}{quote}; {command}) > "
    assert mending in caught.value.hint
    subprocess.run(command_of(caught.value), shell=True, check=True)
    [copy] = Path().glob("new_*")
    source = open_source(copy, is_alone=True, names=names)
    assert source.schema.names == list(names)
    assert read_stored(source, names).table.num_rows == 20


@pytest.mark.parametrize(
    "names", [("age", "a,b", "sex"), ("age", "a\\nb"), ("-n", "age"), ("x" * 150, "y" * 150)]
)
def test_names_that_echo_would_not_print_are_left_to_the_user(tmp_path, monkeypatch, names):
    monkeypatch.chdir(tmp_path)
    Path("p.csv").write_text(",".join("1" * len(names)) + "\n")
    with refused_in_one_line(DataError, "no line that names") as caught:
        open_source(Path("p.csv"), is_alone=True, names=names)
    assert caught.value.hint.endswith("write it into the file")


# --- the commands that hints offer


def command_of(error):
    """The command at the end of an error's hint, the first where there are two; "": none."""
    start = r"(?:.* the file, |[^:]*: )"
    found = re.match(rf"{start}(.* > .*?)(?:, or sed \S+ for the first)?$", error.hint)
    return found[1] if found else ""


def accepted(path):
    """The path of the table that comes of one by the commands that are offered."""
    for _ in range(4):
        try:
            load_dataset(AuditConfig(data=path, group=("sex",), label="income"))
        except DataError as error:
            command = command_of(error)
            before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
            if not command:
                raise
            subprocess.run(command, shell=True, check=True)
            assert {path: path.read_bytes() for path in before} == before
            [path] = {path for path in Path().rglob("*") if path.is_file()} - set(before)
        else:
            return path
    raise AssertionError(f"{path} is still refused")


TITLE, FOOTER = "Adult of 1994", "Source: the office"
UNCLEAN = {
    "title and footer": [TITLE, ADULT_NAMES, *ADULT, FOOTER],
    "blank above a title": ["", TITLE, ADULT_NAMES, *ADULT],
    "blanks around a title": ["", "", TITLE, "", ADULT_NAMES, *ADULT],
    "title of two lines": ['"Adult', 'of 1994"', ADULT_NAMES, *ADULT],
    "blank below a footer": [ADULT_NAMES, *ADULT, FOOTER, "", ""],
    "footer of two lines": [ADULT_NAMES, *ADULT, '"Source:', 'the office"', ""],
    "blanks and header twice": ["", ADULT_NAMES, "", ADULT_NAMES, *ADULT, FOOTER, ""],
    "two headers": [
        *("age,b,c,d,sex,income", "", "(years),(x),(y),(z),(code),(flag)"),
        *(f"{k},{k},1,2,{'FM'[k % 2]},{'yes' if k % 3 else 'no'}" for k in range(20, 60)),
    ],
    "all of them": ["", TITLE, "", ADULT_NAMES, ADULT_NAMES, *ADULT, "", FOOTER, ""],
}


@pytest.mark.parametrize("lines", UNCLEAN.values(), ids=UNCLEAN)
@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("new.csv", "\n"),
        ("-x.csv", "\r\n"),
        ("sub/a dir/x.csv", "\n"),
        ("new_p.csv.gz", "\n"),
        ("-p.csv.gz", "\r\n"),
    ],
)
def test_the_commands_of_hints_lead_to_a_table(tmp_path, monkeypatch, name, end, lines):
    monkeypatch.chdir(tmp_path)
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    content = (end.join(lines) + end).encode()
    path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    Path("new_x.csv").write_text("a file that is there already")
    whole = accepted(path)
    assert load_dataset(AuditConfig(data=whole, group=("sex",), label="income")).n_rows >= 20


def test_a_footer_below_remarks_and_a_large_table_is_deleted_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = tuple(ADULT_NAMES.split(","))
    lines = ["|1x3 Cross validator", *ADULT * 2000, "|a remark", FOOTER, "|another", ""]
    Path("p.csv").write_text("\n".join(lines))
    assert Path("p.csv").stat().st_size > 1 << 20
    config = AuditConfig(data=Path("p.csv"), names=names, group=("sex",), label="income")
    with refused_in_one_line(DataError, "footer") as caught:
        load_dataset(config)
    subprocess.run(command_of(caught.value), shell=True, check=True)
    assert Path("new_p.csv").read_text() == "\n".join(lines[:-3]) + "\n"


# A header -> the names after the command; "": there is none.
DOUBLED = {
    "quoted": ('"age","age","sex","income"', "age,age_2,sex,income"),
    "as R has it": ('"","age","sex","income","age"', ",age,sex,income,age_2"),
    "some quoted": ('"age",age,sex,income,"age"', "age,age_2,sex,income,age_3"),
    "last": ("age,sex,income,age", "age,sex,income,age_2"),
    "first": ("age,age,sex,income", "age,age_2,sex,income"),
    "thrice": ("age,sex,age,income,age", "age,sex,age_2,income,age_3"),
    "two names": ("a.b,sex,income,c d,a.b,c d", "a.b,sex,income,c d,a.b_2,c d_2"),
    "empty names": (",,age,age,sex,income", ""),
    "a like name": ("age,my age,sex,age,income", "age,my age,sex,age_2,income"),
    "not ASCII": ("é,é,sex,income", "é,é_2,sex,income"),
    "numbers": ("2020,2020,sex,income", "2020,2020_2,sex,income"),
}


@pytest.mark.parametrize(("header", "wanted"), DOUBLED.values(), ids=DOUBLED)
@pytest.mark.parametrize("delimiter", [",", "\t", "|"])
@pytest.mark.parametrize(
    ("above", "end"),
    [("", "\n"), ("\ufeff", "\r\n"), ("\r\n\r\n", "\r\n")],
    ids=["plain", "marked", "empty lines above"],
)
def test_the_command_that_renames_gives_each_column_a_name(
    tmp_path, monkeypatch, header, wanted, delimiter, above, end
):
    monkeypatch.chdir(tmp_path)
    names = header.replace('"', "").split(",")
    rows = [",".join(["FM"[k % 2] if n == "sex" else str(k) for n in names]) for k in range(9)]
    text = end.join([header, *rows, ""]).replace(",", delimiter)
    Path("p.csv").write_bytes((above + text).encode())
    with refused_in_one_line(DataError, "several columns of one name") as caught:
        open_source(Path("p.csv"))
    command = command_of(caught.value)
    if not wanted:
        assert not command  # a name that is empty cannot be found in a line
        return
    assert command
    for locale in ("C", "C.UTF-8"):
        environment = {"PATH": os.environ["PATH"], "LC_ALL": locale}
        subprocess.run(command, shell=True, check=True, env=environment)
        assert open_source(Path("new_p.csv")).schema.names == wanted.split(",")
        assert Path("new_p.csv").read_bytes().count(b"\n") == Path("p.csv").read_bytes().count(
            b"\n"
        )


@pytest.mark.parametrize(
    "content",
    [
        b"age,age,age_2,sex\n1,2,3,F\n",  # a number that is taken
        b'"x,age",age,age,sex\n1,2,3,F\n',  # a delimiter within a name
        b'age,"a\nb",age,sex\n1,2,3,F\n',  # a name of two lines
        b"age,age,sex\r1,2,F\r3,4,M\r",  # lines that no sed tells apart
    ],
)
def test_no_command_is_offered_that_would_not_rename(tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    Path("p.csv").write_bytes(content)
    with refused_in_one_line(DataError, "several columns of one name") as caught:
        open_source(Path("p.csv"))
    assert caught.value.hint == "give each a name of its own; where they are copies, leave one out"


@pytest.mark.parametrize("case", ["title and footer", "blank below a footer", "all of them"])
def test_lines_that_sed_does_not_tell_apart_are_left_to_the_user(tmp_path, monkeypatch, case):
    monkeypatch.chdir(tmp_path)
    Path("p.csv").write_bytes("\r".join(UNCLEAN[case]).encode())
    with refused_in_one_line(DataError, "looks like a") as caught:
        load_dataset(AuditConfig(data=Path("p.csv"), group=("sex",), label="income"))
    assert caught.value.hint.endswith("; delete it")


@pytest.mark.parametrize("name", ["a\nb.csv", "a\x1b[1mb.csv", "ab/" * 80 + "x.csv"])
def test_a_name_that_cannot_be_typed_is_in_no_command(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    for lines in (UNCLEAN["title and footer"], ["age,age,sex", "1,2,F"]):
        Path(name).write_text("\n".join(lines) + "\n")
        with pytest.raises(DataError) as caught:
            open_source(Path(name))
        assert caught.value.hint
        assert not command_of(caught.value)


@pytest.mark.parametrize("case", ["title and footer", "blank below a footer"])
def test_what_came_through_a_pipe_is_in_no_command(monkeypatch, case):
    pipe = io.TextIOWrapper(io.BytesIO("\n".join(UNCLEAN[case]).encode()))
    monkeypatch.setattr(sys, "stdin", pipe)
    elsewhere._copy_of.cache_clear()
    with refused_in_one_line(DataError, "stdin.csv") as caught:
        load_dataset(AuditConfig(data="-", group=("sex",), label="income"))
    assert caught.value.hint.endswith("; delete it")
    elsewhere._copy_of.cache_clear()
