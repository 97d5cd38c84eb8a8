"""One seed's data in a worker: split and encoded when a job of the seed comes."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from fairaudit.capabilities import part_of
from fairaudit.config.model_names import resolve_model, sees_images
from fairaudit.config.options import AuditConfig
from fairaudit.data.dataset import Dataset, Encoded, InputRows, Split
from fairaudit.data.encode import DecodedRows
from fairaudit.data.public import Inputs
from fairaudit.data.split import draw_split
from fairaudit.data.spool import Shared
from fairaudit.engine.pool import TrainingPool
from fairaudit.methods.base import PublicPool
from fairaudit.planning.plan import Plan


class SeedData(NamedTuple):
    """One seed's data, ready to train on.

    ``public`` for a method whose student learns from a pool.
    """

    dataset: Dataset
    encoded: Encoded
    pool: TrainingPool
    public: PublicPool | None = None


@dataclass(frozen=True)
class _Key:
    inputs: Shared[Inputs]
    config: AuditConfig
    study: str

    def __hash__(self) -> int:
        return hash(self.inputs)  # options have none


def prepare_seed(
    plan: Plan,
    seed: int,
    inputs: Shared[Inputs],
    *,
    by_pool: bool,
) -> SeedData:
    """A seed's split and encoding.

    Args:
        plan, seed: The plan of the audit, and the seed to prepare.
        inputs: The data.
        by_pool: Encode by what the student pool shows, not the training rows.

    Raises:
        OutputError: The disk is full.
    """
    return _prepared(_Key(inputs, plan.config, plan.study), seed, by_pool)


@lru_cache(maxsize=2)  # jobs come seed by seed; more would cost memory where records are images
def _prepared(key: _Key, seed: int, by_pool: bool) -> SeedData:
    inputs = key.inputs.value
    draw = part_of(key.study, "rows") if key.study else draw_split
    split = draw(inputs.dataset, key.config.split, seed)
    return prepare_rows(inputs, key.config, split, by_pool=by_pool)


def prepare_rows(
    inputs: Inputs,
    config: AuditConfig,
    split: Split,
    *,
    by_pool: bool,
    queries: int = 0,
) -> SeedData:
    """The encoding of a split.

    Args:
        inputs: All rows.
        config: The options.
        split: Training and test rows of the seed.
        by_pool: As of :func:`prepare_seed`.
        queries: Records that the pool must have, where there are so many.

    Raises:
        OutputError: The disk is full.
    """
    dataset, encoder, pool_encoder = inputs
    images, public = dataset.image_shape, None
    # A model that knows no neighbourhood is given images as rows of numbers.
    is_flat = images is not None and not sees_images(resolve_model(config.model, images))
    if by_pool:
        assert pool_encoder is not None, "the data were shared for methods without a student pool"
        encoded, students, of_students = pool_encoder.encode(split, queries)
        if is_flat:
            students = _rows(students)
        groups = None if of_students is None else torch.from_numpy(of_students)
        public = PublicPool(students, groups)
    else:
        encoded = encoder.encode(split)
    if is_flat:
        encoded = replace(encoded, train=_rows(encoded.train), test=_rows(encoded.test))
    first, train, rows = dataset.groupings[0], encoded.split.train, encoded.train
    pool = TrainingPool(
        rows if isinstance(rows, DecodedRows) else torch.from_numpy(rows[:]),
        torch.from_numpy(dataset.labels[train]),
        torch.from_numpy(first.groups[train]),
        n_classes=len(dataset.classes),
        n_groups=len(first.names),
    )
    return SeedData(dataset, encoded, pool, public)


def _rows(records: InputRows) -> NDArray[np.float32]:
    """Records [n, ...] as rows of numbers [n, d]."""
    return records[:].reshape(len(records), -1)
