"""One seed's data in a worker: split, encoded, and kept for the next jobs of the same seed.

The *student pool* is PATE's: public records, or half of the test rows, that its student learns
from.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from fairaudit.capabilities.installed import capability
from fairaudit.config.model_names import resolve_model, sees_images
from fairaudit.config.options import AuditConfig
from fairaudit.data.dataset import Dataset, InputRows, Split
from fairaudit.data.inputs.encode import DecodedRows, Encoded
from fairaudit.data.inputs.shared import Inputs
from fairaudit.data.inputs.split import draw_split
from fairaudit.data.inputs.spool import Shared
from fairaudit.engine.pool import TrainingPool
from fairaudit.methods.base import PublicPool
from fairaudit.planning.plan import Plan


class SeedData(NamedTuple):
    """One seed's data, ready to train on.

    Args:
        dataset: All rows.
        encoded: The seed's split, and the inputs of its training and test rows.
        pool: The training rows, where the engine draws batches from.
        public: The student pool; None for a method without one.
    """

    dataset: Dataset
    encoded: Encoded
    pool: TrainingPool
    public: PublicPool | None = None


@dataclass(frozen=True)
class _Key:
    """What a seed's data depend on beside the seed, as a key of the cache."""

    inputs: Shared[Inputs]
    config: AuditConfig
    study: str

    def __hash__(self) -> int:
        # Options hold dicts, which have no hash; keys are still compared by all three.
        return hash(self.inputs)


def prepare_seed(plan: Plan, seed: int, inputs: Shared[Inputs], *, by_pool: bool) -> SeedData:
    """Split and encode the rows for a seed; the last two results are kept in the process.

    Args:
        plan, seed: The plan of the audit, and the seed to prepare.
        inputs: The data.
        by_pool: Whether scales and levels are fitted on the student pool, which the result then
            holds, and not on the training rows.

    Raises:
        OutputError: The disk is full.
    """
    return _prepared(_Key(inputs, plan.config, plan.study), seed, by_pool)


# Jobs come seed by seed, with the student pool or without it: two results are enough. More would
# cost memory where records are images.
@lru_cache(maxsize=2)
def _prepared(key: _Key, seed: int, by_pool: bool) -> SeedData:
    """The work of :func:`prepare_seed`, with arguments that a cache can compare."""
    inputs = key.inputs.value
    draw = capability(key.study).rows if key.study else draw_split
    split = draw(inputs.dataset, key.config.split, seed)
    return prepare_rows(inputs, key.config, split, by_pool=by_pool)


def prepare_rows(
    inputs: Inputs, config: AuditConfig, split: Split, *, by_pool: bool, queries: int = 0
) -> SeedData:
    """Encode the rows of a split, and put the training rows where the engine draws batches from.

    Args:
        inputs: All rows.
        config: The options.
        split: Training and test rows of the seed.
        by_pool: As of :func:`prepare_seed`.
        queries: Least size of a student pool that is taken from the test rows, where there are that
            many.

    Raises:
        OutputError: The disk is full.
    """
    dataset, encoder, pool_encoder = inputs
    images, public = dataset.image_shape, None
    # A model without convolutions is given images as rows of numbers.
    is_flat = images is not None and not sees_images(resolve_model(config.model, images))
    if by_pool:
        assert pool_encoder is not None, "the data were shared for methods without a student pool"
        encoded, students, student_groups = pool_encoder.encode(split, queries)
        if is_flat:
            students = _flattened(students)
        # None: public records whose groups are not known.
        groups = None if student_groups is None else torch.from_numpy(student_groups)
        public = PublicPool(students, groups)
    else:
        encoded = encoder.encode(split)
    if is_flat:
        encoded = replace(encoded, train=_flattened(encoded.train), test=_flattened(encoded.test))
    rows = encoded.split.train
    grouping = dataset.groupings[0]  # the first one steers splits and methods that read groups
    train_inputs: DecodedRows | torch.Tensor
    if isinstance(encoded.train, DecodedRows):
        train_inputs = encoded.train  # the pool decodes the rows of a large table batch by batch
    else:
        train_inputs = torch.from_numpy(encoded.train[:])  # in memory
    pool = TrainingPool(
        train_inputs,
        torch.from_numpy(dataset.labels[rows]),
        torch.from_numpy(grouping.groups[rows]),
        n_classes=len(dataset.classes),
        n_groups=len(grouping.names),
    )
    return SeedData(dataset, encoded, pool, public)


def _flattened(records: InputRows) -> NDArray[np.float32]:
    """Records [n, ...] as rows of numbers [n, d]."""
    return records[:].reshape(len(records), -1)
