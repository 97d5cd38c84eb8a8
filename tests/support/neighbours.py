"""Neighbouring data: files that differ in one record, which may hold anything.

The record that differs is the last row of a table, or a line in its middle.
"""

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pictures import encoded, metadata_rows, pixels, write_metadata
from PIL import Image

ROWS = 260  # two teachers of PATE need 200 that train
TOLD = {
    "age": {"kind": "number", "range": [18, 80]},
    "debt": {"kind": "number", "range": [0, 50], "missing": 0, "outside": "missing"},
    "job": {"kind": "category", "categories": ["nurse", "cook", "pilot"]},
    "code": {"kind": "category", "categories": [1, "2.0", 7], "missing": 7},
    "owner": {"kind": "category", "categories": [False, True]},
}
# What a value of each column may be, beside what it should be.
NO_NUMBERS = [
    *("", "unknown", "nan", "NaN", "inf", "-Infinity", "1e999", "1e-999", "-0", "9" * 400, "0x1F"),
    *("1_0", " 40 ", "1,5", "2020-01-01", "12:30:00", "true", "FALSE", "None", "40.", ".5", "+1"),
]
NO_NAMES = ["", "NA", "maybe", "7", "1.0", "true", "2020-01-01", "(missing)", " ", "x" * 300, "é"]
ODD = {
    "age": NO_NUMBERS,
    "debt": NO_NUMBERS,
    "job": [*NO_NAMES, " cook ", "Cook", 'a "cook"', "a, b"],
    "code": [*NO_NAMES, "1", "01", "1.5", "unknown", "-2"],
    "owner": [*NO_NAMES, "TRUE", "1", "0.0", "2"],
    "sex": [*NO_NAMES, "f", "X"],
    "height": NO_NUMBERS,
    "part": ["", "banana", "TEST", "1.0", "true", "NA"],
    "y": [*NO_NAMES, "YES", "0", "inf", "9" * 400],
}
LINES = {  # of the width of the table, or not
    "quote": b'40,1,"cook,1.0,True,F,170,train,yes',
    "closed": b'40,1,"co""ok",1.0,True,F,170,train,yes',
    "short": b"40,1,cook",
    "long": b"40,1,cook,1.0,True,F,170,train,yes,1,2,3",
    "not UTF-8": b"40,1,c\xffok,1.0,True,F,170,train,yes",
    "zero": b"40,1,co\0ok,1.0,True,F,170,train,yes",
    "return": b"40,1,cook,1.0\rTrue,F,170,train,yes",
    "two lines": b'40,1,"cook\n",1.0,True,F,170,train,yes',
    "blank": b"",
    "blanks": b"   ",
    "very long": b"40,1," + b"x" * 2_200_000 + b",1.0,True,F,170,train,yes",
    "header": b"age,debt,job,code,owner,sex,height,part,y",
    "mark": b"\xef\xbb\xbf40,1,cook,1.0,True,F,170,train,yes",
    "nothing": b",,,,,,,,",
}


def neighbour_rows(seed=0, rows=ROWS, label=("no", "yes")):
    """Rows as a CSV writer spells them, with gaps, values out of range and one that is not listed.

    ``code`` holds whole numbers as floats, for a gap in it made them so.
    """
    rng = np.random.default_rng(seed)
    age, debt = rng.uniform(16, 90, rows).round(2), rng.gamma(2.0, 8.0, rows).round(2)
    spoken = np.digitize(age + rng.normal(0, 20, rows), [50, 70][: len(label) - 1])
    frame = pd.DataFrame(
        {
            "age": age,
            "debt": np.where(np.arange(rows) % 17, debt, np.nan),
            "job": rng.choice(["nurse", "cook", "pilot", "pirate"], rows),
            "code": np.where(np.arange(rows) % 23, rng.integers(1, 3, rows), np.nan),
            "owner": rng.choice([True, False], rows),
            "sex": rng.choice(["F", "M"], rows),
            "height": rng.integers(150, 190, rows),
            "part": np.where(np.arange(rows) % 4, "train", "test"),
            "y": np.array(label)[spoken],
        }
    )
    return frame.astype({"y": type(label[0])})


def lines_of(frame):
    """A table as the lines of a CSV, the first of which names the columns."""
    return frame.to_csv(index=False).encode().splitlines()


def neighbours_of_csv(frame, columns=tuple(ODD)):
    """Name -> content of files that differ from that of the frame in one record; it comes first."""
    lines = lines_of(frame)
    middle = len(lines) // 2
    found = {"itself": lines, "one less": lines[:-1], "one more": [*lines, lines[5]]}
    fields = lines[-1].decode().split(",")
    for column in columns:
        for odd in ODD[column]:
            changed = list(fields)
            quoted = odd.replace('"', '""')
            changed[frame.columns.get_loc(column)] = f'"{quoted}"'
            line = ",".join(changed).encode()
            found[f"{column} {odd[:20]!r} changed"] = [*lines[:-1], line]
            found[f"{column} {odd[:20]!r} added"] = [*lines, line]
    for name, line in LINES.items():
        found[f"line {name}"] = [*lines[:middle], line, *lines[middle:]]
    return {name: b"\n".join(content) + b"\n" for name, content in found.items()}


def as_text(column):
    return column.map(lambda value: None if pd.isna(value) else str(value)).astype(object)


def neighbours_of_parquet(frame):
    """Name -> a table that differs in its last row; with it, the types of columns may change."""
    last = len(frame) - 1
    found = {
        "itself": (pa.Table.from_pandas(frame, preserve_index=False)),
        "one less": (pa.Table.from_pandas(frame[:-1], preserve_index=False)),
    }
    for name in frame.columns:
        gap = frame.astype({name: object})
        gap.loc[last, name] = None
        gap = gap.infer_objects()
        found[f"{name} missing"] = pa.Table.from_pandas(gap, preserve_index=False)
        text = frame.assign(**{name: as_text(frame[name])})
        found[f"{name} as text"] = pa.Table.from_pandas(text, preserve_index=False)
        for number, odd in enumerate(ODD.get(name, ())):
            text.loc[last, name] = odd
            found[f"{name} odd text {number}"] = pa.Table.from_pandas(text, preserve_index=False)
        whole = pa.Table.from_pandas(text, preserve_index=False)
        place = whole.column_names.index(name)
        codes = whole.column(name).combine_chunks().dictionary_encode()
        found[f"{name} in a dictionary"] = whole.set_column(place, name, codes)
        content = [None if pd.isna(value) else value.encode() for value in text[name]]
        content[last] = b"c\xffok"
        broken = pa.array(content, pa.binary())
        found[f"{name} as bytes"] = whole.set_column(place, name, broken)
        found[f"{name} not UTF-8"] = whole.set_column(place, name, broken.view(pa.string()))
    whole = found["itself"]
    for name, kind in (
        ("height", pa.float32()),
        ("height", pa.int16()),
        ("height", pa.uint64()),
        ("height", pa.decimal128(30, 2)),
        ("code", pa.int64()),
        ("code", pa.decimal128(30, 2)),
        ("owner", pa.dictionary(pa.int8(), pa.string())),
    ):
        place, column = whole.column_names.index(name), whole.column(name)
        if pa.types.is_dictionary(kind):
            column = column.cast(pa.string())
        found[f"{name} as {kind}"] = whole.set_column(place, name, column.cast(kind))
    return found


def neighbours_in_parts(frame, folder: Path):
    """Name -> a folder of two Parquet files, of which the second has one row, in other types."""
    first, last = frame[:-1], frame[-1:]
    found = {}
    kinds: dict[str, Callable[[pd.Series], pd.Series]] = {
        "text": as_text,
        "nothing": lambda column: pd.Series([None] * len(column), index=column.index),
        "a category": lambda column: as_text(column).astype("category"),
    }
    for kind, change in kinds.items():
        path = folder / kind.replace(" ", "-")
        path.mkdir(parents=True)
        first.to_parquet(path / "a.parquet", index=False)
        last.apply(change).to_parquet(path / "b.parquet", index=False)
        found[kind] = path
    return found


def write(content, path: Path):
    """A neighbour's content as a file."""
    if isinstance(content, pa.Table):
        pq.write_table(content, path)
    else:
        path.write_bytes(content)
    return path


def images_of(n, seed=0):
    """Grey images, darker in one class."""
    shade = np.array([1, 3])[np.arange(n) % 2][:, None, None, None]
    return pixels(n, seed=seed) // shade.astype(np.uint8)


def _saved(image: Image.Image, kind="PNG"):
    stream = io.BytesIO()
    image.save(stream, kind)
    return stream.getvalue()


def neighbours_of_images(n, folder: Path):
    """Name -> a folder of images that differs in the last image, or in its row of the metadata."""
    images, last = images_of(n), n - 1
    name = f"{last:04d}.png"
    odd = {
        "itself": encoded(images[last]),
        "in colour": encoded(pixels(1, channels=3, seed=5)[0]),
        "large": encoded(pixels(1, side=9, seed=6)[0]),
        "deep": _saved(Image.fromarray(np.full((6, 6), 3000, np.uint16))),
        "see-through": _saved(Image.fromarray(pixels(1, channels=3)[0]).convert("RGBA")),
        "of a palette": _saved(Image.fromarray(pixels(1, channels=3)[0]).convert("P")),
        "damaged": encoded(images[last])[:40],
        "empty": b"",
        "no image": b"age,debt\n1,2\n",
        "not there": None,
    }
    found = {}
    for kind, content in odd.items():
        found[kind] = _folder_of(folder / f"image {kind}", images, {name: content})
    rows = metadata_rows(n)
    changes = {
        "other label": {"label": "mouse"},
        "no label": {"label": ""},
        "number as label": {"label": "1"},
        "other group": {"style": "7"},
        "no group": {"style": ""},
        "a path outside": {"file_name": f"../{n}/{name}"},
        "no path": {"file_name": ""},
        "a number as path": {"file_name": "7"},
    }
    for kind, change in changes.items():
        path = _folder_of(folder / f"row {kind}", images, {})
        write_metadata(path, [*rows[:-1], {**rows[-1], **change}])
        found[kind] = path
    path = _folder_of(folder / "one less", images, {})
    write_metadata(path, rows[:-1])
    found["one less"] = path
    path = _folder_of(folder / "a quote", images, {})
    with (path / "metadata.csv").open("ab") as file:
        file.write(b'"0000.png,cat,a,train\n')
    found["a quote"] = path
    return found


def _folder_of(path, images, odd):
    """A folder of images with the content of some replaced; None: that file is not there."""
    path.mkdir(parents=True)
    rows = metadata_rows(len(images))
    for row, image in zip(rows, images, strict=True):
        content = odd.get(row["file_name"], encoded(image))
        if content is not None:
            (path / row["file_name"]).write_bytes(content)
    write_metadata(path, rows)
    return path
