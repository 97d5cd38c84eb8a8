"""Tables as other tools leave them: packed, in parts, ARFF, Arrow streams, lists, pixels."""

import bz2
import gzip

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from refusals import refused_in_one_line

from fairaudit.cli.lines import inspection_lines
from fairaudit.config.options import AuditConfig
from fairaudit.data.codebook import Codebook, KnownGroups, read_by
from fairaudit.data.dataset import pixels_of
from fairaudit.data.inspection import describe
from fairaudit.data.reading import packed
from fairaudit.data.reading.pixels import looks_like_pixels
from fairaudit.data.tabular import load_dataset
from fairaudit.errors import DataError


def loaded(path, **options):
    return load_dataset(AuditConfig(data=path, group=("sex",), label="income", **options))


def packed_by_arrow(name):
    def write(path, text):
        with pa.output_stream(str(path), compression=name) as stream:
            stream.write(text)

    return write


PACKED = {
    "people.csv.gz": lambda path, text: path.write_bytes(gzip.compress(text)),
    "people.csv.zst": packed_by_arrow("zstd"),
    "people.tsv.bz2": lambda path, text: path.write_bytes(bz2.compress(text.replace(b",", b"\t"))),
    "people.csv.lz4": packed_by_arrow("lz4"),
    "people.csv.br": packed_by_arrow("brotli"),
    "really_gz.csv": lambda path, text: path.write_bytes(gzip.compress(text)),
    "two_members.csv.gz": lambda path, text: path.write_bytes(
        gzip.compress(text[:100]) + gzip.compress(text[100:])
    ),
}


@pytest.mark.parametrize("name", PACKED)
def test_a_packed_text_is_read_like_the_text(tmp_path, people, name):
    text = pd.DataFrame(people).to_csv(index=False).encode()
    (tmp_path / "people.csv").write_bytes(text)
    PACKED[name](tmp_path / name, text)
    plain, packed = loaded(tmp_path / "people.csv"), loaded(tmp_path / name)
    assert packed.features.equals(plain.features)
    assert packed.labels.tolist() == plain.labels.tolist()
    assert packed.format == "csv"
    assert packed.digest != plain.digest  # of the bytes that lie there


def test_a_packed_text_that_is_cut_is_one_line(tmp_path, people):
    text = pd.DataFrame(people).to_csv(index=False).encode()
    (tmp_path / "people.csv.gz").write_bytes(gzip.compress(text)[:-40])
    with refused_in_one_line(DataError, "cannot be read"):
        loaded(tmp_path / "people.csv.gz")


def known(people):
    return Codebook(
        label="income",
        classes=("0", "1"),
        positive="1",
        favourable="1",
        groupings=(KnownGroups("sex", ("F", "M")),),
        features={"height": None, "town": ("a", "b", "c")},
    )


def test_rows_of_a_packed_text_stand_alone(tmp_path, people):
    text = pd.DataFrame(people).to_csv(index=False).encode()
    lines = text.splitlines(keepends=True)
    lines[7] = b'M,"1,150,b\n'  # a quote that stays open, and only this record is lost
    for name in ("people.csv", "people.csv.gz"):
        content = b"".join(lines)
        (tmp_path / name).write_bytes(gzip.compress(content) if ".gz" in name else content)
    config = {"group": ("sex",), "label": "income"}
    plain, packed = (
        read_by(known(people), AuditConfig(data=tmp_path / name, **config))
        for name in ("people.csv", "people.csv.gz")
    )
    assert packed.rows_read == plain.rows_read == 40
    assert packed.n_rows == plain.n_rows == 39
    assert packed.features.equals(plain.features)


# --- parts


def in_folders(people, root, columns):
    pq.write_to_dataset(pa.table(people), root, partition_cols=columns)
    return root


@pytest.mark.parametrize("columns", [["sex"], ["income", "town"]])
def test_folders_that_name_values_are_columns(tmp_path, people, columns):
    root = in_folders(people, tmp_path / "people", columns)
    (root / "_SUCCESS").write_text("")
    together = loaded(root)
    assert together.n_rows == 40
    frame = pd.DataFrame(people)
    of_sex = together.groupings[0]
    sizes = dict(zip(of_sex.names, np.bincount(of_sex.groups).tolist(), strict=True))
    assert sizes == frame["sex"].value_counts().to_dict()
    women = np.array(together.labels)[of_sex.groups == of_sex.names.index("F")]
    assert women.mean() == frame.income[frame.sex == "F"].mean()
    assert set(together.features.column_names) == {"height", "town"}
    assert sorted(together.features["town"].to_pylist()) == sorted(people["town"])


def test_a_number_in_a_folders_name_is_a_number_and_a_missing_one_is_missing(tmp_path, people):
    for year, rows in (("2019", slice(0, 20)), ("__HIVE_DEFAULT_PARTITION__", slice(20, 40))):
        folder = tmp_path / "people" / f"year={year}"
        folder.mkdir(parents=True)
        pd.DataFrame(people)[rows].to_csv(folder / "part-0.csv.gz", index=False)
    years = loaded(tmp_path / "people").features["year"]
    assert pa.types.is_integer(years.type)
    assert years.to_pylist() == [2019] * 20 + [None] * 20


def test_rows_in_folders_stand_alone(tmp_path, people):
    root = in_folders(people, tmp_path / "people", ["sex"])
    config = AuditConfig(data=root, group=("sex",), label="income")
    alone, together = read_by(known(people), config), load_dataset(config)
    assert alone.labels.tolist() == together.labels.tolist()
    assert alone.groupings[0].groups.tolist() == together.groupings[0].groups.tolist()


def test_a_file_outside_the_folders_is_refused(tmp_path, people):
    root = in_folders(people, tmp_path / "people", ["sex"])
    pq.write_table(pa.table(people), root / "rest.parquet")
    with refused_in_one_line(DataError):
        loaded(root)


def test_parts_of_one_name_in_two_folders_have_a_digest_of_their_own(tmp_path, people):
    digests = set()
    for turned in (False, True):
        root = tmp_path / f"people{turned}"
        for sex, rows in (("F", slice(0, 20)), ("M", slice(20, 40))):
            folder = root / f"sex={'MF'[sex == 'M'] if turned else sex}"
            folder.mkdir(parents=True)
            pd.DataFrame(people).drop(columns="sex")[rows].to_csv(folder / "0.csv", index=False)
        digests.add(loaded(root).digest)
    assert len(digests) == 2


# --- ARFF and Arrow

ARFF = """% credit, as OpenML has it
@RELATION 'credit g'
@ATTRIBUTE 'checking status' {'<0', '0<=X<200', 'no checking'}
@ATTRIBUTE duration NUMERIC
@attribute purpose string
@attribute sex {F,M}
@attribute income {good,bad}
@DATA
'<0', 6, 'new car', F, good
% a remark
'no checking',?,'it\\'s a, b',M,bad
"""


def test_arff_is_read_with_quotes_remarks_and_missing_values(tmp_path):
    path = tmp_path / "credit.arff"
    path.write_text(ARFF + "'<0',7.5,tv,M,good\n?,8,tv,F,bad\n" * 4)
    read = loaded(path)
    assert read.n_rows == 10
    assert read.format == "arff"
    assert read.classes == ("bad", "good")
    assert read.features["duration"].to_pylist() == [6, None] + [7.5, 8] * 4
    assert read.features["checking status"].to_pylist()[:4] == ["<0", "no checking", "<0", None]
    assert read.features["purpose"].to_pylist()[:3] == ["new car", "it's a, b", "tv"]


def test_arff_agrees_with_scipy(tmp_path, people):
    from scipy.io import arff

    frame = pd.DataFrame(people)
    kinds = {"sex": "{F,M}", "income": "{0,1}", "height": "real", "town": "{a,b,c}"}
    header = "".join(f"@attribute {name} {kinds[name]}\n" for name in frame)
    path = tmp_path / "people.arff"
    path.write_text(f"@relation p\n{header}@data\n{frame.to_csv(index=False, header=False)}")
    theirs = pd.DataFrame(arff.loadarff(path)[0])
    read = loaded(path)
    assert read.features["height"].to_pylist() == theirs["height"].tolist()
    assert read.features["town"].to_pylist() == [town.decode() for town in theirs["town"]]


@pytest.mark.parametrize(
    ("rows", "said"), [("{0 1, 3 M}\n", "sparse"), ("1,2\n", "2 fields"), ("", "no rows")]
)
def test_other_arff_is_one_line(tmp_path, rows, said):
    header = "@relation p\n@attribute a real\n@attribute sex {F,M}\n@attribute income {0,1}\n"
    (tmp_path / "p.arff").write_text(f"{header}@data\n{rows}")
    with refused_in_one_line(DataError, said):
        loaded(tmp_path / "p.arff")


def test_train_refuses_arff_whose_rows_do_not_stand_alone(tmp_path, people):
    (tmp_path / "p.arff").write_text(ARFF)
    config = AuditConfig(data=tmp_path / "p.arff", group=("sex",), label="income")
    with refused_in_one_line(DataError, "not read one by one"):
        read_by(known(people), config)


@pytest.mark.parametrize("name", ["people.arrows", "people.arrow", "stream.csv"])
def test_an_arrow_stream_is_read_whatever_its_name(tmp_path, people, name):
    table = pa.table(people)
    with pa.ipc.new_stream(str(tmp_path / name), table.schema) as stream:
        stream.write_table(table, max_chunksize=7)
    read = loaded(tmp_path / name)
    assert read.features["height"].to_pylist() == people["height"]
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:900])
    with refused_in_one_line(DataError, "cannot be read"):
        loaded(tmp_path / name)


# --- others

OTHERS = {
    "loans.xlsx": (b"PK\x03\x04", 'read_excel("'),
    "loans.sav": (b"$FL2", 'read_spss("'),
    "loans.sas7bdat": (b"\0", 'read_sas("'),
    "loans.dta": (b"<stata_dta>", 'read_stata("'),
    "loans.pkl": (b"\x80\x05", "may run code"),
    "loans.npy": (b"\x93NUMPY", 'n.load("'),
    "loans.json": (b"[{}]", 'read_json("'),
    "loans.jsonl": (b"{}", "lines=True"),
    "loans.zip": (b"PK\x03\x04", "unzip"),
    "named.csv": (b"\x89HDF\r\n", "HDF5"),
    "book.csv": (b"PK\x03\x04 [Content_Types].xml", "Excel"),
    "loans.csv.xz": (b"\xfd7zXZ\0", "xz -dk"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_kind_of_file_is_refused_with_the_command_that_converts_it(tmp_path, name):
    content, said = OTHERS[name]
    (tmp_path / name).write_bytes(content)
    with refused_in_one_line(DataError) as caught:
        loaded(tmp_path / name)
    assert said in f"{caught.value.message} {caught.value.hint}"
    assert name.removesuffix(".xz") in f"{caught.value.message} {caught.value.hint}"


def test_the_command_converts(tmp_path, people):
    import subprocess
    import sys

    pd.DataFrame(people).to_json(tmp_path / "people.jsonl", orient="records", lines=True)
    with refused_in_one_line(DataError) as caught:
        loaded(tmp_path / "people.jsonl")
    command = caught.value.hint.replace("python -c", f"{sys.executable} -c", 1)
    subprocess.run(command, shell=True, check=True)
    assert loaded(tmp_path / "people.parquet").n_rows == 40


# --- lists


def with_lists(people, kind, length=8, odd=None):
    draw = np.random.default_rng(5)
    numbers = draw.normal(size=(40, length)).astype(np.float32)
    lists = numbers.tolist()
    if odd is not None:
        lists[3] = odd
    return pa.table(people).append_column("emb", pa.array(lists, kind)), numbers


KINDS = {
    "lists": pa.list_(pa.float32()),
    "fixed": pa.list_(pa.float32(), 8),
    "large": pa.large_list(pa.float64()),
}


@pytest.mark.parametrize("kind", KINDS)
def test_lists_of_one_length_are_columns_of_numbers(save, people, kind):
    table, numbers = with_lists(people, KINDS[kind])
    features = loaded(save(table)).features
    assert features.column_names == ["height", "town", *(f"emb[{place}]" for place in range(8))]
    for place in range(8):
        assert features[f"emb[{place}]"].to_pylist() == numbers[:, place].tolist()


def test_a_missing_list_is_missing_numbers_and_a_dropped_one_is_dropped(save, people):
    table, numbers = with_lists(people, KINDS["lists"])
    lists = table["emb"].to_pylist()
    lists[3] = None
    table = table.set_column(4, "emb", pa.array(lists, KINDS["lists"]))
    read = loaded(save(table)).features
    assert read["emb[2]"].to_pylist()[2:5] == [numbers[2, 2], None, numbers[4, 2]]
    assert loaded(save(table), drop=("emb",)).dropped_columns["emb"] == "dropped by option"


@pytest.mark.parametrize("odd", [[1.0], [0.0] * 9, []])
def test_lists_of_several_lengths_are_left_out(save, people, odd):
    table, _ = with_lists(people, KINDS["lists"], odd=odd)
    read = loaded(save(table))
    assert read.features.column_names == ["height", "town"]
    assert "emb" in read.dropped_columns


def test_a_list_of_a_release_is_read_by_the_length_that_the_audit_found(save, people):
    table, numbers = with_lists(people, KINDS["lists"], odd=[1.0, 2.0])
    features = {"height": None, **{f"emb[{place}]": None for place in range(8)}}
    codebook = Codebook(
        label="income",
        classes=("0", "1"),
        positive="1",
        favourable="1",
        groupings=(KnownGroups("sex", ("F", "M")),),
        features=features,
    )
    config = AuditConfig(data=save(table), group=("sex",), label="income")
    read = read_by(codebook, config)
    assert read.n_rows == 40
    numbers[3] = np.nan  # a list of another length is a missing one, and no error
    found = np.stack([read.features[f"emb[{k}]"].to_numpy() for k in range(8)], axis=1)
    np.testing.assert_array_equal(found.astype(np.float32), numbers)


# --- pixels


def pictures(n=40, shape=(3, 4)):
    return np.random.default_rng(6).integers(0, 256, (n, *shape), dtype=np.uint8)


def stored_as(how, pixels, people, path):
    table = pa.table({"sex": people["sex"], "income": people["income"]})
    flat = pixels.reshape(len(pixels), -1)
    if how == "bytes":
        column = pa.array([row.tobytes() for row in flat])
        pq.write_table(table.append_column("image", column), path)
    elif how == "lists":
        pq.write_table(table.append_column("image", pa.array(flat.tolist())), path)
    else:
        names = {
            "columns": [f"pixel{k}" for k in range(flat.shape[1])],
            "places": [f"{y + 1}x{x + 1}" for y in range(3) for x in range(4)],
        }[how]
        frame = table.to_pandas().join(pd.DataFrame(flat, columns=names))
        frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("how", ["columns", "places", "bytes", "lists"])
def test_pixels_of_a_table_are_images(tmp_path, people, how):
    pixels = pictures()
    path = stored_as(how, pixels, people, tmp_path / "people.dat.csv")
    read = loaded(path, pixels="3x4")
    assert read.image_shape == (3, 4, 1)
    (column,) = read.features.columns
    np.testing.assert_array_equal(pixels_of(column)[..., 0], pixels)


def test_colours_stand_together_or_in_planes(tmp_path, people):
    pixels = pictures(shape=(2, 5, 3))
    together = stored_as("bytes", pixels, people, tmp_path / "a.parquet")
    planes = stored_as("bytes", pixels.transpose(0, 3, 1, 2), people, tmp_path / "b.parquet")
    for path, layout in ((together, "2x5x3"), (planes, "3x2x5")):
        column = loaded(path, pixels=layout).features.column(0)
        np.testing.assert_array_equal(pixels_of(column), pixels)


def test_a_value_that_is_no_pixel_is_refused_and_in_a_release_a_missing_image(tmp_path, people):
    pixels = pictures().astype(int)
    pixels[5, 1, 1] = 256
    path = stored_as("columns", pixels, people, tmp_path / "people.csv")
    with refused_in_one_line(DataError, "1 row of the pixels"):
        loaded(path, pixels="3x4")
    codebook = Codebook(
        label="income",
        classes=("0", "1"),
        positive="1",
        favourable="1",
        groupings=(KnownGroups("sex", ("F", "M")),),
        features={"pixels": None},
        shape=(3, 4, 1),
    )
    config = AuditConfig(data=path, group=("sex",), label="income", pixels="3x4")
    assert read_by(codebook, config).n_rows == 39


@pytest.mark.parametrize("layout", ["28", "0x4", "3x4x2", "axb", "5x5"])
def test_a_shape_that_does_not_fit_is_one_line(tmp_path, people, layout):
    path = stored_as("columns", pictures(), people, tmp_path / "people.csv")
    with refused_in_one_line(Exception, "--pixels"):
        loaded(path, pixels=layout)


def test_numbered_columns_share_a_line_of_inspect(save, people):
    table, _ = with_lists(people, KINDS["lists"], length=40)
    table = table.append_column("x1", table["height"]).append_column("x2", table["height"])
    config = AuditConfig(data=save(table), group=("sex",), label="income")
    lines = list(inspection_lines(describe(config)))
    (line,) = [line for line in lines if "emb[" in line and ".." in line]
    assert "emb[0] .. emb[39]" in line
    assert "40 columns" in line
    assert [line.split()[0] for line in lines if line.split()[:1] in (["x1"], ["x2"])] == [
        "x1",
        "x2",
    ]


@pytest.mark.parametrize(
    ("columns", "shape"),
    [
        ([f"pixel{k}" for k in range(784)], "28x28"),
        ([f"{y}x{x}" for y in range(1, 9) for x in range(1, 9)], "8x8"),
        ([f"p_{k}" for k in range(192)], "8x8x3"),
        ([f"pixel{k}" for k in range(783)], None),
        ([f"x{k}" for k in range(49)], None),
    ],
)
def test_columns_that_may_be_pixels_are_told(columns, shape):
    schema = pa.schema([("label", pa.int64()), *((name, pa.int64()) for name in columns)])
    told = looks_like_pixels(schema)
    assert told == (None if shape is None else (columns[0], columns[-1], shape))
    as_floats = pa.schema([(name, pa.float64()) for name in columns])
    assert looks_like_pixels(as_floats) is None


def test_what_to_do_with_pixels_is_said(tmp_path, people):
    frame = pd.DataFrame(pictures(shape=(8, 8)).reshape(40, -1)).add_prefix("pixel")
    frame = frame.assign(sex=people["sex"], income=people["income"])
    frame.to_csv(tmp_path / "pixels.csv", index=False)
    told = [notice.fix for notice in loaded(tmp_path / "pixels.csv").notices]
    assert "if they are the pixels of images: --pixels 8x8" in told
    assert not any(
        "pixels" in fix
        for fix in [n.fix for n in loaded(tmp_path / "pixels.csv", pixels="8x8").notices]
    )
    pixels = pictures()
    path = stored_as("bytes", pixels, people, tmp_path / "bytes.parquet")
    table = pq.read_table(path).append_column("height", pa.array(people["height"]))
    pq.write_table(table, path)
    assert any("--pixels" in notice.fix for notice in loaded(path).notices)


@pytest.mark.parametrize("packing", ["gzip", "bz2"])
def test_a_text_that_unpacks_to_far_more_than_its_size_is_refused(tmp_path, monkeypatch, packing):
    monkeypatch.setattr(packed, "HARMLESS", 10_000)
    path = tmp_path / "bomb.csv"
    with pa.output_stream(str(path), compression=packing) as stream:
        stream.write(b"sex,income,height,town\n" + b"F,1,0,a\nM,0,0,b\n" * 200_000)
    with refused_in_one_line(DataError, "times its size"):
        loaded(path)
    config = AuditConfig(data=path, group=("sex",), label="income")
    with refused_in_one_line(DataError, "times its size"):
        read_by(known({}), config)
