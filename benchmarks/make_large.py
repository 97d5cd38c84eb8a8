"""A table of people who do not exist, of any length.

24 numbers, 14 categories, a group and a label.

    python benchmarks/make_large.py large.parquet [--rows 10000000] [--seed 0]

Written piece by piece, so that making it needs little memory. The suffix says the format: .parquet,
.feather or .csv. Numbers are whole, rounded or continuous, some skewed, some with missing values;
categories have 2 to 12 levels. The label depends on both, less predictably in the smaller group.
"""

import argparse
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from numpy.typing import NDArray

PIECE = 250_000
NUMBERS = 24
LEVELS = (2, 2, 3, 3, 4, 5, 6, 6, 7, 8, 9, 10, 11, 12)
GROUPS = {"men": 0.62, "women": 0.36, "others": 0.02}
MISSING = 0.03  # share, in every sixth number and every seventh category


def make_piece(rows: int, seed: int, number: int) -> pa.Table:
    """One piece of the table; the same for the same arguments."""
    rng = np.random.default_rng([seed, number])
    group = rng.choice(len(GROUPS), size=rows, p=list(GROUPS.values()))
    score = 0.4 * (group == 0) - 0.3 * (group == 2)
    columns: dict[str, pa.Array] = {}
    for j in range(NUMBERS):
        values = rng.standard_normal(rows)
        score += values * (0.5 if j < 6 else 0.05)
        columns[f"number_{j:02}"] = _number(values, j, rng)
    for j, size in enumerate(LEVELS):
        codes = np.minimum(rng.geometric(2.5 / (size + 2), rows) - 1, size - 1)
        score += 0.2 * (codes == j % size)
        levels = pa.array([f"level {chr(97 + level)}" for level in range(size)])
        gaps = rng.random(rows) < MISSING if j % 7 == 6 else None
        columns[f"category_{j:02}"] = levels.take(pa.array(codes, mask=gaps))
    noise = rng.logistic(size=rows) * np.where(group == 1, 1.6, 1.0)
    columns["sex"] = pa.array(list(GROUPS)).take(pa.array(group))
    columns["approved"] = pa.array((score + noise > 0.6).astype(np.int8))
    return pa.table(columns)


def _number(values: NDArray[np.float64], j: int, rng: np.random.Generator) -> pa.Array:
    """Standard normal values as something a table would hold."""
    gaps = rng.random(len(values)) < MISSING if j % 6 == 5 else None
    if j % 4 == 0:
        return pa.array(np.round(45 + 14 * values).astype(np.int16), mask=gaps)
    if j % 4 == 1:
        return pa.array(np.round(np.exp(8 + 0.7 * values), 2), mask=gaps)
    if j % 4 == 2:
        return pa.array(np.round(1e5 + 3e4 * values).astype(np.int32), mask=gaps)
    return pa.array(values, mask=gaps)


def write(path: Path, rows: int, seed: int) -> None:
    """Write the table."""
    schema = make_piece(1, seed, 0).schema
    with ExitStack() as stack:
        if path.suffix == ".parquet":
            writer = stack.enter_context(pq.ParquetWriter(path, schema))
        elif path.suffix == ".csv":
            writer = stack.enter_context(pacsv.CSVWriter(path, schema))
        else:
            sink = stack.enter_context(pa.OSFile(str(path), "wb"))
            writer = stack.enter_context(pa.ipc.new_file(sink, schema))
        for number, start in enumerate(range(0, rows, PIECE)):
            writer.write_table(make_piece(min(PIECE, rows - start), seed, number))


def main() -> None:
    """Parse and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    write(arguments.path, arguments.rows, arguments.seed)
    print(
        f"{arguments.path}: {arguments.rows:,} rows, {arguments.path.stat().st_size / 2**20:,.0f} "
        "MiB"
    )


if __name__ == "__main__":
    main()
