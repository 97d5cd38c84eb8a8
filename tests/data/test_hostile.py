"""Tables that are whole and yet hostile.

Each is read or refused in one line, soon and in little memory.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fairaudit.config.options import AuditConfig
from fairaudit.data.encode import encode
from fairaudit.data.split import draw_split
from fairaudit.data.tabular import load_dataset
from fairaudit.errors import DataError

ROWS = 200


def columns(rows=ROWS, **more):
    draw = np.random.default_rng(0)
    group = np.where(np.arange(rows) % 3 == 0, "a", "b")
    return {"g": group, "y": draw.integers(0, 2, rows), "x": draw.normal(size=rows), **more}


def config(path, out=Path("out")):
    return AuditConfig(data=path, group=("g",), label="y", out=out)


def read_or_refused(path):
    """The data, or the one line that refuses them."""
    said = ""
    try:
        dataset = load_dataset(config(path))
        inputs = encode(dataset, draw_split(dataset, config(path), 0), config(path)).train[:]
    except DataError as error:
        said = str(error)
    if said:
        assert "\n" not in said
        assert len(said) < 1000
        return said
    assert np.isfinite(inputs).all()
    assert np.abs(inputs).max() < 1e6
    return dataset


@pytest.mark.parametrize("value", [np.inf, 1e300, 1.7e308, 5e-324, 1e-310, np.nan])
@pytest.mark.parametrize("share", [0.1, 1.0])
def test_numbers_at_the_ends_of_their_range_make_inputs_of_ordinary_size(tmp_path, value, share):
    draw = np.random.default_rng(1)
    z = np.where(
        draw.random(ROWS) < share, value * draw.choice([-1.0, 1.0], ROWS), draw.normal(size=ROWS)
    )
    pq.write_table(pa.table(columns(z=z)), tmp_path / "t.parquet")
    found = read_or_refused(tmp_path / "t.parquet")
    assert not isinstance(found, str), found


TEXT = "g,y,x,c\n" + "".join(
    f"{'äb'[i % 2]},{i // 2 % 2},{(i * 37 % 100) / 7:.3f},{'éß'[i % 3 % 2]}\n" for i in range(ROWS)
)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252"])
def test_text_in_a_common_encoding_says_the_same(tmp_path, encoding):
    (tmp_path / "t.csv").write_bytes(TEXT.encode(encoding))
    dataset = read_or_refused(tmp_path / "t.csv")
    assert dataset.groupings[0].names == ("b", "ä")


@pytest.mark.parametrize(
    "content", [TEXT.encode("utf-32"), TEXT.encode("utf-16")[:-1], TEXT.encode("utf-16-be")]
)
def test_text_in_an_uncommon_encoding_is_refused(tmp_path, content):
    (tmp_path / "t.csv").write_bytes(content)
    assert isinstance(read_or_refused(tmp_path / "t.csv"), str)
