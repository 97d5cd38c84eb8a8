"""Whole files that fuzzing starts from, and tables that are hostile by construction."""

import io
import math
import random
from collections.abc import Callable, Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.feather as pafeather
import pyarrow.parquet as pq
from PIL import Image

ROWS = 40


NAMES: Sequence[str] = (
    *("", " ", "g ", "x\ny", "\u202edcba", "n" * 5000, "é", "\U0001f600", '"'),
    *[
        "g",
        "y",
        "label",
        "a|b",
        "<script>alert(1)</script>",
        "id",
        "y_pred",
        "split",
        "a,b",
        "=cmd()",
        "None",
    ],
)


def base_table() -> pa.Table:
    """A small table that every reader accepts."""
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "g": np.where(np.arange(ROWS) % 3 == 0, "a", "b"),
            "y": np.arange(ROWS) % 2,
            "x": rng.normal(size=ROWS),
            "c": rng.choice(["u", "v", "w"], ROWS),
        }
    )


def content(write: Callable[..., object], *arguments: object, **options: object) -> bytes:
    """What a writer puts into a file."""
    sink = io.BytesIO()
    write(*arguments, sink, **options)
    return sink.getvalue()


def as_image(seed: int, kind: str) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    return content(Image.fromarray(pixels).save, format=kind)


def table_files() -> dict[str, bytes]:
    """File name -> content."""
    table = base_table()
    images = pa.table(
        {
            "image": [{"bytes": as_image(i, "PNG"), "path": None} for i in range(8)],
            "y": [0, 1] * 4,
            "g": ["a", "b", "b", "a"] * 2,
        }
    )
    archive = io.BytesIO()
    x = np.arange(ROWS * 64, dtype=np.uint8).reshape(ROWS, 8, 8)
    np.savez_compressed(archive, x=x, y=np.arange(ROWS) % 2, g=np.arange(ROWS) % 3)
    return {
        "t.csv": content(pacsv.write_csv, table),
        "t.parquet": content(pq.write_table, table),
        "z.parquet": content(pq.write_table, table, compression="zstd", row_group_size=7),
        "t.feather": content(pafeather.write_feather, table, compression="uncompressed"),
        "z.feather": content(pafeather.write_feather, table, compression="zstd"),
        "i.parquet": content(pq.write_table, images),
        "i.npz": archive.getvalue(),
    }


_REALS = (0.0, 1e300, -1e300, 5e-324, math.inf, -math.inf, math.nan, None, 0.1)
_WHOLE = (0, 1, 86_399, None)
# What tables seldom hold, by type.
POOLS: Sequence[tuple[Sequence[object], pa.DataType]] = (
    (_REALS, pa.float64()),
    (_REALS, pa.float32()),
    ((0, -1, 2**63 - 1, -(2**63), None), pa.int64()),
    ((0, 2**64 - 1, None), pa.uint64()),
    ((*NAMES, None, "2.5", "nan", "\x00", "train"), pa.string()),
    *((_WHOLE, kind) for kind in (pa.timestamp("ns"), pa.date32(), pa.duration("s"))),
    ((Decimal("1.10"), None), pa.decimal128(20, 2)),
    (({"a": 1}, None), pa.struct([("a", pa.int64())])),
    ((True, None), pa.bool_()),
    ((b"", b"\x89PNG", b"\xff", None), pa.binary()),
    ((None,), pa.null()),
)


def hostile_column(rng: random.Random) -> pa.Array:
    """A column of a type or content that tables seldom hold."""
    kind = rng.random()
    if kind < 0.1:
        return pa.array([f"v{i}" for i in range(ROWS)])
    if kind < 0.2:  # repeated levels are allowed by the format
        codes = pa.array([rng.randrange(4) for _ in range(ROWS)])
        return pa.DictionaryArray.from_arrays(codes, pa.array(rng.choices(NAMES, k=4)))
    pool, type_ = rng.choice(POOLS)
    some = rng.choices(pool, k=rng.randrange(1, 6))
    return pa.array(rng.choices(some, k=ROWS), type_)


def hostile_table(rng: random.Random) -> pa.Table:
    """Some good columns, some hostile ones; any of them may be group or label; names may repeat."""
    columns = [(name, base_table().column(name).combine_chunks()) for name in ("g", "y", "x", "c")]
    columns += [(rng.choice(NAMES), hostile_column(rng)) for _ in range(rng.randrange(1, 5))]
    if rng.random() < 0.5:
        place = rng.randrange(2)
        columns[place] = (columns[place][0], hostile_column(rng))
    rows = rng.choice((ROWS, ROWS, ROWS, 0, 1, 2, 5))
    chosen = columns if rng.random() < 0.9 else columns[:2]
    return pa.Table.from_arrays([c for _, c in chosen], names=[n for n, _ in chosen]).slice(0, rows)


def metadata_rows(rng: random.Random, files: Sequence[str]) -> bytes:
    """metadata.csv of an image folder, with paths that it must not follow."""
    bad = ("../outside.png", "/etc/hostname", "missing.png", "", "a/../../x.png", "0.png\x00")
    rows = [
        {
            "file_name": rng.choice(bad) if rng.random() < 0.02 else name,
            "label": str(i % 2),
            "g": rng.choice(("a", "b", "")),
        }
        for i, name in enumerate(files)
    ]
    lines = ["file_name,label,g", *(",".join(row.values()) for row in rows)]
    return "\n".join(lines).encode()
