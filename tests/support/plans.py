"""Plans over a table without content: sizes, names and a digest are all that a plan reads."""

import numpy as np
import pyarrow as pa
from places import LOANS

from fairaudit.config.options import AuditConfig
from fairaudit.data.dataset import Dataset, Grouping
from fairaudit.data.tabular import load_dataset
from fairaudit.planning.plan import make_plan


def empty_dataset(rows=60, columns=6, digest="d" * 64):
    """A dataset without content: a plan reads sizes, names and the digest, no value."""
    names = ("F", "M")
    return Dataset(
        name="table.csv",
        format="csv",
        digest=digest,
        features=pa.table({f"c{i}": np.zeros(rows) for i in range(columns)}),
        labels=np.arange(rows) % 2,
        classes=("no", "yes"),
        label="y",
        label_origin="given",
        positive=1,
        groupings=(Grouping("sex", (np.arange(rows) // 2) % 2, names),),
        split=None,
        rows_read=rows,
        columns_read=columns + 2,
    )


def config(**given):
    """A cheap plan: one epoch of three steps and no calibration unless asked for."""
    fields = {
        "data": "table.csv",
        "group": ("sex",),
        "n_public": 300,
        "batch_size": 100,
        "epochs": 1,
        "noise_multiplier": 1.0,
        "delta": 1e-4,
        "seeds": 1,
    }
    return AuditConfig(**{**fields, **given})


def plan(**given):
    return make_plan(config(**given), empty_dataset())


def keys(found):
    return [arm.key for arm in found.arms]


def search(**given):
    """A small search on the sample: its plan and its data."""
    fields = {
        "data": LOANS,
        "group": ("sex",),
        "seeds": 1,
        "epochs": 2,
        "method": ("dpsgd",),
        "noise_multiplier": 1.0,
        "batch_size": 512,
        "twins": "off",
    }
    settled = AuditConfig(**{**fields, **given})
    dataset = load_dataset(settled)
    return make_plan(settled, dataset), dataset
