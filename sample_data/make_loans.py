"""Make loans.parquet and its twin loans.csv: synthetic loan applications with a known mechanism.

Run ``python sample_data/make_loans.py`` (numpy, pandas and pyarrow are enough); same numpy, same
rows. README.md beside this file describes the columns and why DP-SGD costs one group more.
"""

import argparse
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Mechanism:
    """What makes private training cost F more.

    Every number is in units of the hidden worthiness's sd.
    """

    seed: int = 20
    rows: int = 6_000
    women: int = 1_900
    sharpness: float = 5.0  # how little chance decides an approval
    women_threshold: float = 0.6  # worthiness asked of F beyond that asked of M
    # Income and loan amount say how worthy M is; for F they say it under much noise.
    income_noise_men: float = 0.6
    loan_noise_men: float = 0.8
    record_noise_women: float = 3.0
    tail: float = 3.0  # degrees of freedom of that noise: the smaller, the heavier the tails
    # Savings say how worthy F is, years employed how worthy M is; both vary little in the other
    # group.
    savings_scale_women: float = 0.3
    savings_noise_women: float = 0.5
    savings_spread_men: float = 0.1
    tenure_noise_men: float = 0.6
    tenure_spread_women: float = 0.1
    # Spending says nothing about anyone; it only makes records of F longer.
    spending_spread_women: float = 7.0


def make(mechanism: Mechanism) -> pd.DataFrame:
    """The table, one row per application."""
    m = mechanism
    rng = np.random.Generator(np.random.PCG64(m.seed))
    woman = np.zeros(m.rows, dtype=bool)
    woman[rng.permutation(m.rows)[: m.women]] = True
    worth = rng.normal(size=m.rows)
    chance = 1.0 / (1.0 + np.exp(-m.sharpness * (worth - m.women_threshold * woman)))
    approved = (rng.random(m.rows) < chance).astype(np.int64)
    signal = signals(m, rng, woman, worth)
    purposes = ["car", "education", "home", "medical", "other"]
    return pd.DataFrame(
        {
            "applicant_id": [f"A{number:05d}" for number in 10_000 + rng.permutation(m.rows)],
            "sex": np.where(woman, "F", "M"),
            "race": rng.choice(
                ["Asian", "Black", "Other", "White"], m.rows, p=[0.11, 0.2, 0.07, 0.62]
            ),
            "age": np.clip(np.round(41 + 12 * rng.normal(size=m.rows)), 18, 79).astype(np.int64),
            "income": gaps(
                rng, amount(58_000 + 6_000 * signal["income"], least=2_000, step=100), 0.03
            ),
            "loan_amount": amount(25_000 + 2_500 * signal["loan_amount"], least=500, step=100),
            "savings": amount(15_000 + 12_000 * signal["savings"], least=0, step=50),
            "years_employed": gaps(
                rng, np.clip(np.round(9 + 2.5 * signal["years_employed"], 1), 0, 45), 0.02
            ),
            "monthly_spending": amount(2_200 + 100 * signal["spending"], least=0, step=10),
            "purpose": gaps(rng, rng.choice(purposes, m.rows, p=[0.3, 0.15, 0.3, 0.1, 0.15]), 0.02),
            "approved": approved,
        }
    )


def signals(
    m: Mechanism, rng: np.random.Generator, woman: Flags, worth: Floats
) -> dict[str, Floats]:
    """The numeric columns before they are given units, ``[rows]`` each."""
    noise = rng.normal(size=(5, m.rows))
    heavy = m.record_noise_women * rng.standard_t(m.tail, size=(2, m.rows))
    savings_women = m.savings_scale_women * (worth + m.savings_noise_women * noise[2])
    return {
        "income": worth + np.where(woman, heavy[0], m.income_noise_men * noise[0]),
        "loan_amount": -worth + np.where(woman, heavy[1], m.loan_noise_men * noise[1]),
        "savings": np.where(woman, savings_women, m.savings_spread_men * noise[2]),
        "years_employed": np.where(
            woman, m.tenure_spread_women * noise[3], worth + m.tenure_noise_men * noise[3]
        ),
        "spending": np.where(woman, m.spending_spread_women, 1.0) * noise[4],
    }


def amount(values: Floats, least: float, step: float) -> Floats:
    """Money: rounded to ``step`` and never below ``least``."""
    return np.maximum(np.round(values / step) * step, least)


def gaps(rng: np.random.Generator, values: NDArray[Any], share: float) -> NDArray[Any]:
    """The values with a share missing completely at random."""
    missing = rng.random(len(values)) < share
    if values.dtype.kind == "f":
        return np.where(missing, np.nan, values)
    return np.where(missing, None, values.astype(object))


def write(frame: pd.DataFrame, folder: Path) -> None:
    """Both files; the Parquet one declares its label and outcomes in the schema's metadata."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    strings = [
        field.with_type(pa.string()) if pa.types.is_large_string(field.type) else field
        for field in table.schema
    ]
    table = table.cast(pa.schema(strings))
    pyarrow.csv.write_csv(
        table, folder / "loans.csv", pyarrow.csv.WriteOptions(quoting_style="needed")
    )
    declared = {"label": "approved", "positive": "1", "favourable": "1"}
    described = table.replace_schema_metadata(
        {f"fairaudit.{key}": value for key, value in declared.items()}
    )
    pyarrow.parquet.write_table(described, folder / "loans.parquet", compression="zstd")


def main() -> None:
    """Command line: every number of the mechanism is an option."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).resolve().parent, help="folder to write to"
    )
    for entry in fields(Mechanism):
        kind = type(entry.default)
        parser.add_argument("--" + entry.name.replace("_", "-"), type=kind, default=entry.default)
    options = vars(parser.parse_args())
    folder = options.pop("out")
    frame = make(Mechanism(**options))
    write(frame, folder)
    print(f"{len(frame):,} rows, {len(frame.columns)} columns, approved by sex:")
    print(frame.groupby("sex")["approved"].agg(["size", "mean"]).round(3).to_string())


if __name__ == "__main__":
    main()
