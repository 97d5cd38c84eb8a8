"""Kinds of hostile input: each writes a case into a folder and says the command that reads it.

Every case is a function of a seeded generator.
"""

import contextlib
import copy
import io
import json
import math
import random
import traceback
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.feather as pafeather
import pyarrow.parquet as pq
from PIL import Image

from fairaudit.cli import app

ROWS = 40
GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "report.json"
PLAN = ["--method", "dpsgd", "--noise-multiplier", "5", "--epochs", "1", "--batch-size", "8"]
NAMES = ("", " ", "x\ny", "\u202edcba", "n" * 5000, "\U0001f600", "g", "y", "id", "split", "=cmd()")
REALS = (0.0, 1e300, -1e300, 5e-324, math.inf, -math.inf, math.nan, None)
# What tables seldom hold, by type.
POOLS = (
    (REALS, pa.float64()),
    ((0, -1, 2**63 - 1, -(2**63), None), pa.int64()),
    ((0, 2**64 - 1, None), pa.uint64()),
    ((*NAMES, None, "2.5", "nan", "\x00", "train"), pa.string()),
    ((0, 86_399, None), pa.timestamp("ns")),
    (({"a": 1}, None), pa.struct([("a", pa.int64())])),
    ((b"", b"\x89PNG", b"\xff", None), pa.binary()),
    ((None,), pa.null()),
)
WORDS = (b"", b"\x00", b"\xff", b"\xef\xbb\xbf", b"\r\n", b'"', b"nan", b"1e300", b"../../x", b"{")
WORDS += (b"]", b"%s", b"-1", b"9" * 400, b"a" * 5000, "\u202e".encode(), b"\x1b[31m")
RULES = (b"privacy_cost_gap@sex=F:dpsgd > 0.05", b'privacy_cost.ci_high:"dpsgd@3" >= 2pt')
ODD = (None, True, -1, 1e300, 10**400, "", "\ud800", [], {}, [None], {"a": 1}, "9" * 5000)


def mutated(rng, data):
    """One to eight breaks of bytes: some are lost, flipped, repeated, pushed aside or replaced."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        # Heads and tails hold what formats declare, so they are hit more often.
        at = rng.choice((rng.randrange(64), len(data) - rng.randrange(600), rng.randrange(1 << 20)))
        at, length = at % (len(data) + 1), rng.choice((0, 1, 1, 4, 16, 64, len(data)))
        old = data[at : at + length]
        flipped = bytes(byte ^ 1 << rng.randrange(8) for byte in old)
        fill = rng.choice((b"", flipped, bytes([rng.randrange(256)]) * length, old[:200] * 50))
        data = data[:at] + rng.choice((fill, rng.choice(WORDS))) + data[at + length :]
    return data


def content(write, *arguments, **options):
    """What a writer puts into a file."""
    sink = io.BytesIO()
    write(*arguments, sink, **options)
    return sink.getvalue()


def picture(seed, kind):
    pixels = np.random.default_rng(seed).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    return content(Image.fromarray(pixels).save, format=kind)


def plain_table():
    """Every reader accepts it."""
    groups = np.where(np.arange(ROWS) % 3 == 0, "a", "b")
    x = np.random.default_rng(0).normal(size=ROWS)
    return pa.table({"g": groups, "y": np.arange(ROWS) % 2, "x": x})


def files():
    """File name -> content."""
    images = [{"bytes": picture(i, "PNG"), "path": None} for i in range(8)]
    pictures = pa.table({"image": images, "y": [0, 1] * 4, "g": ["a", "b", "b", "a"] * 2})
    archive = io.BytesIO()
    x = np.arange(ROWS * 64, dtype=np.uint8).reshape(ROWS, 8, 8)
    np.savez_compressed(archive, x=x, y=np.arange(ROWS) % 2, g=np.arange(ROWS) % 3)
    return {
        "t.csv": content(pacsv.write_csv, plain_table()),
        "t.parquet": content(pq.write_table, plain_table(), row_group_size=7),
        "t.feather": content(pafeather.write_feather, plain_table()),
        "i.parquet": content(pq.write_table, pictures),
        "i.npz": archive.getvalue(),
    }


FILES = files()


def broken_tables(rng, folder):
    """A table file, or an archive of images, with broken bytes."""
    name = rng.choice(list(FILES))
    (folder / name).write_bytes(mutated(rng, FILES[name]))
    return ["inspect", str(folder / name), "--group", "g", "--label", "y"]


def hostile_column(rng):
    pool, kind = rng.choice(POOLS)
    return pa.array(rng.choices(rng.choices(pool, k=rng.randrange(1, 6)), k=ROWS), kind)


def hostile_tables(rng, folder):
    """Hostile names, types and values; any column may be group or label, names may repeat."""
    columns = [
        (name, plain_table().column(name).combine_chunks()) for name in plain_table().column_names
    ]
    columns += [(rng.choice(NAMES), hostile_column(rng)) for _ in range(rng.randrange(1, 5))]
    place = rng.randrange(4)
    columns[place] = (columns[place][0], hostile_column(rng))
    rows = rng.choice((ROWS, ROWS, ROWS, 0, 1, 5))
    made = pa.Table.from_arrays([values for _, values in columns], names=[n for n, _ in columns])
    path = folder / "t.parquet"
    path.write_bytes(content(pq.write_table, made.slice(0, rows)))
    more = ("", "--missing drop", "--intersect", "--balance", "--split-column split", "--bin g=q3")
    words = ["plan", "--data", str(path), "--group", "g", "--label", "y"]
    return [*words, *PLAN, *rng.choice(more).split()]


def image_folders(rng, folder):
    """Images with broken bytes beside a list of them with broken bytes or paths."""
    home = folder / "images"
    home.mkdir()
    rows = ["file_name,label,g"]
    bad = ("../outside.png", "/etc/hostname", "missing.png", "", "0.png\x00")
    for i, kind in enumerate(("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF") * 2):
        name, data = f"{i}.{kind.lower()}", picture(i, kind)
        (home / name).write_bytes(mutated(rng, data) if rng.random() < 0.08 else data)
        rows.append(
            f"{rng.choice(bad) if rng.random() < 0.02 else name},{i % 2},{rng.choice('ab')}"
        )
    listed = "\n".join(rows).encode()
    (home / "metadata.csv").write_bytes(mutated(rng, listed) if rng.random() < 0.5 else listed)
    return ["plan", "--data", str(home), "--group=g", *PLAN, "--model", "logistic"]


def rules(rng, folder):
    """Rules of a gate on a whole report."""
    rule = mutated(rng, rng.choice(RULES)).decode("utf-8", "replace").replace("\x00", "")
    return ["gate", str(GOLDEN), f"--fail-on={rule}"]


def reports(rng, folder):
    """A report with broken bytes, or with a value of another kind in some place."""
    path, text = folder / "report.json", GOLDEN.read_bytes()
    tree = json.loads(text)
    for _ in range(rng.randrange(1, 4)):
        spoil(rng, tree)
    path.write_bytes(rng.choice((mutated(rng, text), json.dumps(tree).encode())))
    return ["gate", str(path), "--fail-on=privacy_cost_gap > 0.02", "--fail-on=epsilon > 3"]


def spoil(rng, tree):
    """Replace or remove one node, anywhere."""
    while isinstance(tree, dict | list) and tree:
        key = rng.choice(list(tree) if isinstance(tree, dict) else range(len(tree)))
        if not isinstance(tree[key], dict | list) or not tree[key] or rng.random() < 0.1:
            tree[key] = copy.deepcopy(rng.choice(ODD))
            if rng.random() < 0.3:
                del tree[key]
            return
        tree = tree[key]


KINDS = {
    "broken-tables": broken_tables,
    "hostile-tables": hostile_tables,
    "image-folders": image_folders,
    "rules": rules,
    "reports": reports,
}


def complaint(kind, seed, folder):
    """What is wrong with the answer to a case, or nothing."""
    folder.mkdir()
    arguments = KINDS[kind](random.Random(f"{kind} {seed}"), folder)
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
    # The log of a bug would be lost with the folder of the case; its traceback is what is wanted.
    shown = mock.patch.object(
        app, "_write_bug_log", lambda error: "".join(traceback.format_exception(error))
    )
    with shown, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = app.main(arguments)
    err.flush()
    said = err.buffer.getvalue().decode("utf-8", "replace")
    errors = [line for line in said.splitlines() if line.startswith("Error:")]
    is_answer = code in (0, 1, 3) or (code in (2, 4, 5) and len(errors) == 1)
    if is_answer and "Traceback" not in said and max(map(len, errors), default=0) <= 2000:
        return ""
    return f"{kind} {seed}: exit code {code}, {arguments}\n{said[-3000:]}"
