"""Kinds of hostile input.

Each writes a case into a folder and says the command line that reads it.
"""

import copy
import functools
import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path

import fuzz_corpus as corpus
import pyarrow.feather as pafeather
import pyarrow.parquet as pq
from fuzz_mutations import mutated

WRITERS = {".parquet": pq.write_table, ".feather": pafeather.write_feather}
PLAN = [
    "plan",
    "--method",
    "dpsgd",
    "--noise-multiplier",
    "5",
    "--epochs",
    "1",
    "--batch-size",
    "8",
]

Case = Callable[[random.Random, Path], list[str]]


@functools.cache
def _files() -> Mapping[str, bytes]:
    return corpus.table_files()


@functools.cache
def _pictures() -> Mapping[str, bytes]:
    kinds = {"png": "PNG", "jpg": "JPEG", "gif": "GIF", "bmp": "BMP", "webp": "WEBP", "tif": "TIFF"}
    return {f"{i}.{end}": corpus.as_image(i, kinds[end]) for i, end in enumerate([*kinds, *kinds])}


def broken_tables(rng: random.Random, folder: Path) -> list[str]:
    """A table file, or an archive of images, with broken bytes."""
    name = rng.choice(list(_files()))
    path = folder / name
    path.write_bytes(mutated(rng, _files()[name]))
    return ["inspect", str(path), "--group", "g", "--label", "y"]


def hostile_tables(rng: random.Random, folder: Path) -> list[str]:
    """A whole table of hostile names, types and values, planned."""
    table = corpus.hostile_table(rng)
    path = folder / f"t{rng.choice(list(WRITERS))}"
    try:
        path.write_bytes(corpus.content(WRITERS[path.suffix], table))
    except Exception:  # a type that the writer does not know: no file that a user could have
        path.write_bytes(_files()["t.parquet"])
    extra = rng.choice(
        ((), ("--missing", "drop"), ("--missing", "error"), ("--intersect",), ("--balance",))
    )
    more = rng.choice(
        ((), ("--split-column", "split"), ("--bin", "g=q3"), ("--group", "x"), ("--drop", "c"))
    )
    return [PLAN[0], "--data", str(path), "--group", "g", "--label", "y", *PLAN[1:], *extra, *more]


def image_folders(rng: random.Random, folder: Path) -> list[str]:
    """A folder of images with broken bytes, a broken list of them, or both."""
    home = folder / "images"
    listed = rng.random() < 0.6
    for i, (name, content) in enumerate(_pictures().items()):
        place = home if listed else home / ("a" if i % 2 else "b")
        place.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(mutated(rng, content) if rng.random() < 0.08 else content)
    if listed:
        rows = corpus.metadata_rows(rng, list(_pictures()))
        (home / "metadata.csv").write_bytes(mutated(rng, rows) if rng.random() < 0.5 else rows)
    group = "--group=g" if listed else "--group-by-label"
    return ["plan", "--data", str(home), group, *PLAN[1:], "--model", "logistic"]


_TOML = b"""group = ["g"]
label = "y"
epsilon = [1.0, 3.0]
noise_multiplier = 1.0
epochs = 1
batch_size = 8
missing = "impute"
method = ["dpsgd", "global-adapt"]
[bin]
x = "q4"
[settings.global-adapt]
threshold = 5.0
"""


def config_files(rng: random.Random, folder: Path) -> list[str]:
    """A configuration file with broken bytes."""
    path, data = folder / "c.toml", folder / "t.csv"
    path.write_bytes(mutated(rng, _TOML))
    data.write_bytes(_files()["t.csv"])
    return ["plan", "--data", str(data), "--config", str(path)]


GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "report.json"
_RULES = (
    b"privacy_cost_gap@sex=F:dpsgd > 0.05",
    b'privacy_cost.ci_high:"dpsgd@3" >= 2pt',
    b"impact_ratio < 0.8",
)


def rules(rng: random.Random, folder: Path) -> list[str]:
    """Rules of a gate on a whole report."""
    rule = mutated(rng, rng.choice(_RULES)).decode("utf-8", "replace").replace("\x00", "")
    return ["gate", str(GOLDEN), f"--fail-on={rule}"]


def reports(rng: random.Random, folder: Path) -> list[str]:
    """A report with broken bytes, or with a value of another kind in some place."""
    path, content = folder / "report.json", GOLDEN.read_bytes()
    if rng.random() < 0.5:
        content = mutated(rng, content)
    else:
        tree = json.loads(content)
        for _ in range(rng.randrange(1, 4)):
            _spoil(rng, tree)
        content = json.dumps(tree).encode()
    path.write_bytes(content)
    return ["gate", str(path), "--fail-on=privacy_cost_gap > 0.02", "--fail-on=epsilon > 3"]


_ODD = (None, True, 0, -1, 1e300, 10**400, "", "x", "\ud800", [], {}, [None], {"a": 1}, "9" * 5000)


def _spoil(rng: random.Random, tree: object) -> None:
    """Replace, remove or add one node, anywhere."""
    while isinstance(tree, dict | list) and tree:
        key = rng.choice(list(tree) if isinstance(tree, dict) else range(len(tree)))
        if not isinstance(tree[key], dict | list) or not tree[key] or rng.random() < 0.1:
            if isinstance(tree, dict) and rng.random() < 0.3:
                del tree[key]
            else:
                tree[key] = copy.deepcopy(rng.choice(_ODD))
            return
        tree = tree[key]


KINDS: Mapping[str, Case] = {
    "broken-tables": broken_tables,
    "hostile-tables": hostile_tables,
    "image-folders": image_folders,
    "config-files": config_files,
    "rules": rules,
    "reports": reports,
}
