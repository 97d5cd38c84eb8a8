"""Rows of people for small audits, and what is declared of some of them.

The tables that tests of whole audits share; those of tests of reading are made beside them, where
what a column holds is the claim.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

SEXES = {"F": 0.5, "M": 0.5}
TEAMS = {"Quill": 0.5, "Ember": 0.5}
TOLD = {
    "age": {"kind": "number", "range": [18, 80]},
    "debt": {"kind": "number", "range": [0, 50], "missing": 0},
    "job": {"kind": "category", "categories": ["nurse", "cook", "pilot"]},
}
RECIPE = {
    "group": ["sex"],
    "label": "y",
    "seeds": 2,
    "epochs": 1,
    "batch_size": 60,
    "noise_multiplier": 1.0,
    "delta": 1e-5,
    "twins": "off",
}


def people(
    rows: int = 240,
    *,
    seed: int = 4,
    numbers: Mapping[str, float] | None = None,
    group: str = "sex",
    shares: Mapping[str, float] = SEXES,
    slopes: Mapping[str, float] | None = None,
    label: str = "y",
    classes: Sequence[object] = (0, 1),
    shift: float = 0.0,
) -> pd.DataFrame:
    """Numbers, a group and an outcome of two classes that follows the numbers.

    Args:
        rows, seed: How many, and of which draw.
        numbers: Column of standard normal numbers -> its weight for the outcome.
        group, shares: The column of groups; name -> share of the rows, the group by chance.
        slopes: Group -> how closely its outcome follows the numbers; 1 where it is not named.
        label, classes: The column of outcomes; the usual one, then the one of high numbers.
        shift: Added to all; above 0 more rows are of the second class.
    """
    rng = np.random.default_rng(seed)
    weights = {"x": 1.0} if numbers is None else numbers
    values = rng.normal(size=(rows, len(weights)))
    frame = pd.DataFrame(values, columns=list(weights))
    frame[group] = rng.choice(list(shares), rows, p=list(shares.values()))
    slope = frame[group].map({name: (slopes or {}).get(name, 1.0) for name in shares}).to_numpy()
    score = slope * (values @ np.array(list(weights.values()))) + shift
    # Chances as logistic regression has them, so that its model is right.
    is_second = rng.random(rows) < 1 / (1 + np.exp(-score))
    frame[label] = np.where(is_second, classes[1], classes[0])
    return frame


def lent(rows: int = 900) -> pd.DataFrame:
    """People with three numbers, of which women's outcome follows the first more closely."""
    numbers = {"a": 1.5, "b": 0.0, "c": 0.0}
    return people(rows, numbers=numbers, slopes={"F": 2.0}, label="paid", classes=(False, True))


def teams(rows: int, **changed: object) -> pd.DataFrame:
    """People of two teams with four numbers; three of them tell who has paid."""
    numbers = {"age": 2.5, "hours": 2.5, "debt": -2.5, "tenure": 0.0}
    given = {"numbers": numbers, "group": "team", "shares": TEAMS, "label": "paid"}
    return people(rows, **{**given, "classes": ("no", "yes"), **changed})


def earners(rows: int = 600, **changed: object) -> pd.DataFrame:
    """People of whom fewer are women, and their outcome follows the income more closely."""
    given = {"numbers": {"income": 1.0, "age": 0.0}, "shares": {"F": 0.4, "M": 0.6}}
    return people(rows, **{**given, "slopes": {"F": 2.0}, "label": "approved", **changed})


def applicants(rows: int = 300, *, seed: int = 0) -> pd.DataFrame:
    """Rows with gaps, values out of range and a job that nobody declared (see ``TOLD``)."""
    rng = np.random.default_rng(seed)
    age, debt = rng.uniform(16, 90, rows), rng.gamma(2.0, 8.0, rows)
    debt[::17] = np.nan
    return pd.DataFrame(
        {
            "age": age,
            "debt": debt,
            "job": rng.choice(["nurse", "cook", "pilot", "pirate"], rows, p=[0.4, 0.3, 0.2, 0.1]),
            "sex": rng.choice(["F", "M"], rows),
            "y": np.where(age + rng.normal(0, 20, rows) > 50, "yes", "no"),
        }
    )


def plain_columns() -> dict[str, list]:
    """40 rows by column: two groups, a binary label, a number and a text that say nothing."""
    n = 40
    return {
        "sex": ["F", "M"] * (n // 2),
        "income": [(i // 2) % 2 for i in range(n)],
        "height": [150.0 + (i * 7) % 11 for i in range(n)],
        "town": ["abc"[(i * 5) % 3] for i in range(n)],
    }


def predicted(
    rows: int = 1200,
    *,
    seeds: int = 5,
    positive: float = 0.4,
    noise: Mapping[str, float],
    shares: Mapping[str, float] = SEXES,
) -> pd.DataFrame:
    """Labels and, of each seed, chances of class 1 without (``base0``) and with privacy.

    Those with privacy (``private0``, ..) are the others with noise of a group's spread in their
    logits. ``decided`` is the class that ``private0`` comes to.
    """
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"sex": rng.choice(list(shares), rows, p=list(shares.values()))})
    frame["paid"] = (rng.random(rows) < positive).astype(int)
    spread = frame["sex"].map(noise).to_numpy()
    for seed in range(seeds):
        logits = 2 * rng.normal(size=rows) + 3 * frame["paid"] - 1.8
        noisy = logits + 2 * spread * rng.normal(size=rows)
        frame[f"base{seed}"] = 1 / (1 + np.exp(-logits))
        frame[f"private{seed}"] = 1 / (1 + np.exp(-noisy))
    frame["decided"] = (frame["private0"] > 0.5).astype(float)
    return frame


OWN = """
import torch
from torch import nn

class Own(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.register_buffer("turn", torch.randn(width, width))  # of the start: it must travel, too
        self.scale = nn.Parameter(torch.ones(width))
        self.out = nn.Linear(width, classes)

    def forward(self, x):
        return self.out((x @ self.turn) * self.scale)

def make(shape, classes):
    return Own(shape[0], classes).double()  # the program makes it float32
"""
