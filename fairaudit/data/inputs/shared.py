"""All that a worker reads: the door of every training's input.

A table is encoded once; every worker of the machine maps the same arrays.
"""

from dataclasses import replace
from typing import NamedTuple

from fairaudit.config.options import AuditConfig
from fairaudit.data.dataset import Dataset
from fairaudit.data.inputs.encode import Encoder, make_encoder
from fairaudit.data.inputs.spool import Shared, Spool
from fairaudit.data.inputs.student_pool import PoolEncoder


class Inputs(NamedTuple):
    """All that a worker reads.

    Args:
        dataset: Labels, groups and split; its features only for a trainer that wants them as they
            were read.
        encoder: Makes a seed's inputs, fitted to its training rows.
        pool_encoder: Makes them for methods that have a student pool, fitted to that pool; None
            where no method has one.
    """

    dataset: Dataset
    encoder: Encoder
    pool_encoder: PoolEncoder | None


def share_inputs(dataset: Dataset, config: AuditConfig, *, by_pool: bool = False) -> Shared[Inputs]:
    """What workers read, made when the first of them needs it.

    Args:
        dataset: All rows.
        config: The options.
        by_pool: Whether a method learns from a student pool.

    Raises:
        DataError, OutputError: When it is made: as :func:`load_public`; the disk is full.
    """
    spool = Spool(config.out)

    def make() -> Inputs:
        """Encode the dataset's records into the spool and put together what workers need."""
        # Features come from the encoder's records; the table itself stays with this process.
        bare = replace(dataset, features=dataset.features.schema.empty_table())
        encoder = make_encoder(dataset, config.encoding, spool)
        pool_encoder = PoolEncoder.of(dataset, config, spool) if by_pool else None
        return Inputs(dataset if config.reads_rows else bare, encoder, pool_encoder)

    return Shared(make, spool)
