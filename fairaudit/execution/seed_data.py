"""One seed's data in a worker: read once, split and encoded when a job of the seed comes."""

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from fairaudit.config.model_names import resolve_model, sees_images
from fairaudit.config.options import AuditConfig
from fairaudit.data.dataset import Dataset, Encoded, InputRows, LabelledRows, Split
from fairaudit.data.encode import Encoder, TableEncoder, make_encoder
from fairaudit.data.public import Inputs, PoolEncoder, load_inputs, merge_rare_of_pool
from fairaudit.data.recipe import DecodedRows
from fairaudit.data.split import draw_members, draw_split
from fairaudit.data.spool import Spool
from fairaudit.data.store import Store, open_store
from fairaudit.data.tabular import load_dataset
from fairaudit.engine.pool import TrainingPool
from fairaudit.errors import OutputError
from fairaudit.execution.packed_rows import PackedRows
from fairaudit.methods.base import PublicPool
from fairaudit.planning.plan import Plan, records_path


class SeedData(NamedTuple):
    """One seed's data, ready to train on; ``public`` for a method whose student learns from a pool."""

    dataset: LabelledRows
    encoded: Encoded
    pool: TrainingPool
    public: PublicPool | None = None


@dataclass(frozen=True)
class _Key:
    """Which data; ``inputs`` are those data where they came with the job, else they are read."""

    digest: str
    config: AuditConfig
    inputs: Inputs | None = field(compare=False)
    by_coins: bool = False

    def __hash__(self) -> int:
        return hash(self.digest)


@lru_cache(maxsize=1)
def _dataset(key: _Key) -> Dataset:
    dataset = load_dataset(key.config) if key.inputs is None else key.inputs.dataset
    if dataset.digest != key.digest:
        raise OutputError(f"{dataset.name} changed while it was audited", hint="start again with --fresh")
    return dataset


@lru_cache(maxsize=1)
def _encoder(key: _Key) -> tuple[LabelledRows, Encoder]:
    """Rows and encoder: of the records that the run left for its workers, or made here."""
    stored = _stored(key)
    if stored is not None:
        return stored.rows, TableEncoder(stored.records, key.config.merge_rare)
    dataset = _dataset(key)
    return dataset, make_encoder(dataset, key.config)


@lru_cache(maxsize=1)
def _pool_encoder(key: _Key) -> PoolEncoder:
    stored = _stored(key) if key.config.public_data is None else None
    if stored is not None:
        encoder = TableEncoder(stored.records, merge_rare_of_pool(key.config))
        return PoolEncoder(stored.rows, encoder, None)
    return PoolEncoder.of(key.inputs or load_inputs(_dataset(key), key.config), key.config)


def _stored(key: _Key) -> Store | None:
    return open_store(records_path(key.config, key.digest)) if key.inputs is None else None


def prepare_seed(plan: Plan, seed: int, inputs: Inputs | None, *, by_pool: bool) -> SeedData:
    """A seed's split and encoding.

    Args:
        plan, seed: Which.
        inputs: The data, where this process cannot read them itself.
        by_pool: Encode by what the student pool shows, not the training rows.

    Raises:
        DataError, OutputError: The data cannot be read, or are not those of the plan.
    """
    key = _Key(plan.digest, plan.config, inputs, plan.by_coins)
    return _prepared_by_pool(key, seed) if by_pool else _prepared(key, seed)


def raw_features(plan: Plan, inputs: Inputs | None) -> pa.Table:
    """The feature columns of all rows as they stand in the file.

    Args:
        plan, inputs: As of :func:`prepare_seed`.

    Raises:
        DataError, OutputError: As of :func:`prepare_seed`.
    """
    return _dataset(_Key(plan.digest, plan.config, inputs)).features


def first_records(config: AuditConfig, digest: str) -> SeedData:
    """The first seed's data, before there is a plan.

    Args:
        config: The options.
        digest: Of the data file.

    Raises:
        DataError, OutputError: The data cannot be read, or are not those of the digest.
    """
    return _prepared(_Key(digest, config, None), config.seed)


@lru_cache(maxsize=2)  # jobs come seed by seed; more would cost memory where records are images
def _prepared(key: _Key, seed: int) -> SeedData:
    dataset, encoder = _encoder(key)
    return _by_training_rows(key.config, dataset, encoder, _split(key, dataset, seed))


@lru_cache(maxsize=2)
def _prepared_by_pool(key: _Key, seed: int) -> SeedData:
    dataset = _encoder(key)[0]
    return _by_pool_rows(key.config, dataset, _pool_encoder(key), _split(key, dataset, seed))


def _split(key: _Key, dataset: LabelledRows, seed: int) -> Split:
    return (draw_members if key.by_coins else draw_split)(dataset, key.config, seed)


def prepare_rows(
    dataset: Dataset, config: AuditConfig, split: Split, *, by_pool: bool, queries: int = 0
) -> SeedData:
    """The encoding of a split that no seed of an audit drew.

    Args:
        dataset, config: As of a plan.
        split: Which rows.
        by_pool: As of :func:`prepare_seed`.
        queries: Records that the pool must have, where there are so many.

    Raises:
        DataError: The public table cannot be read.
    """
    if by_pool:
        encoder = PoolEncoder.of(load_inputs(dataset, config), config)
        return _by_pool_rows(config, dataset, encoder, split, queries)
    return _by_training_rows(config, dataset, make_encoder(dataset, config), split)


def _by_training_rows(config: AuditConfig, dataset: LabelledRows, encoder: Encoder, split: Split) -> SeedData:
    encoded = _as_seen(config, dataset, encoder.encode(split))
    rows = encoded.train
    packed = PackedRows.of(rows, Spool(config.out)) if isinstance(rows, DecodedRows) else rows
    return SeedData(dataset, encoded, _training_pool(dataset, encoded, packed))


def _by_pool_rows(
    config: AuditConfig, dataset: LabelledRows, encoder: PoolEncoder, split: Split, queries: int = 0
) -> SeedData:
    found = encoder.encode(split, queries)
    encoded = _as_seen(config, dataset, found.encoded)
    pool = _rows(found.pool) if _wants_rows(config, dataset) else found.pool
    groups = None if found.groups is None else torch.from_numpy(found.groups)
    # Not packed: levels of the training rows that the pool does not show have no input, and every record
    # is read by its teacher alone.
    return SeedData(
        dataset, encoded, _training_pool(dataset, encoded, encoded.train), PublicPool(pool, groups)
    )


def _as_seen(config: AuditConfig, dataset: LabelledRows, encoded: Encoded) -> Encoded:
    """The inputs in the shape that the model is given."""
    if not _wants_rows(config, dataset):
        return encoded
    return replace(encoded, train=_rows(encoded.train), test=_rows(encoded.test))


def _wants_rows(config: AuditConfig, dataset: LabelledRows) -> bool:
    """Whether images are to be rows of numbers, for a model that knows no neighbourhood."""
    images = dataset.image_shape
    return images is not None and not sees_images(resolve_model(config.model, images))


def _rows(records: InputRows) -> NDArray[np.float32]:
    """Records [n, ...] as rows of numbers [n, d]."""
    return records[:].reshape(len(records), -1)


def _training_pool(dataset: LabelledRows, encoded: Encoded, rows: InputRows | PackedRows) -> TrainingPool:
    first, train = dataset.groupings[0], encoded.split.train
    return TrainingPool(
        rows if isinstance(rows, DecodedRows | PackedRows) else torch.from_numpy(rows[:]),
        torch.from_numpy(dataset.labels[train]),
        torch.from_numpy(first.groups[train]),
        n_classes=len(dataset.classes),
        n_groups=len(first.names),
    )
