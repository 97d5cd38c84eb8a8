"""Rows for small audits, and what is declared of them."""

import numpy as np
import pandas as pd

ROWS = 300
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


def people(seed=0, rows=ROWS):
    """Rows with gaps, values out of range and a job that nobody declared."""
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


def few_people(rows=240):
    """A number, a group and a label that follows the number."""
    draw = np.random.default_rng(4)
    frame = pd.DataFrame({"x": draw.normal(size=rows), "sex": draw.choice(["F", "M"], rows)})
    return frame.assign(y=(frame["x"] + draw.normal(size=rows) > 0).astype(int))


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
