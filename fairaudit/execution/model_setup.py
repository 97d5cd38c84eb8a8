"""Where a training starts: a seed's fresh model, and what a user's own model is found to be."""

from collections.abc import Sequence

import torch
from torch import nn

from fairaudit.config.model_names import (
    BY_TABLE,
    BY_VMAP,
    ModelFacts,
    Shape,
    is_factory,
    resolve_model,
)
from fairaudit.config.options import AuditConfig
from fairaudit.data.public import Inputs
from fairaudit.data.split import draw_split
from fairaudit.data.spool import Shared
from fairaudit.engine.isolation import PerRecord, faults
from fairaudit.engine.pool import TrainingPool
from fairaudit.engine.replicates import check_model, outside_table
from fairaudit.engine.small_layers import ChannelsFirst
from fairaudit.execution.seed_data import prepare_rows
from fairaudit.models.zoo import check_outputs, make_model, own_model
from fairaudit.models.zoo import digest as model_digest
from fairaudit.privacy.borrowed import global_stream
from fairaudit.privacy.streams import seed_of

CHECKED_RECORDS = 8  # on which a user's own model is compared with autograd


def start_model(config: AuditConfig, pool: TrainingPool, seed: int) -> nn.Module:
    """A fresh start of that seed; images come channels last and models read them channels first."""
    shape = pool.shape
    name = resolve_model(config.model, shape if len(shape) == 3 else None)
    return fresh_model(
        name,
        shape,
        pool.n_classes,
        config.hidden,
        config.activation,
        stream=seed_of(seed, "init"),
    )


def fresh_model(
    name: str,
    shape: Shape,
    classes: int,
    hidden: Sequence[int],
    activation: str,
    *,
    stream: int,
) -> nn.Module:
    """A model of a resolved name for records of a shape, its start drawn from a stream.

    Raises:
        ConfigError: A factory that cannot be used.
    """
    if is_factory(name):
        with global_stream(stream):
            made: nn.Module = own_model(name, shape, classes)
    else:
        made = make_model(
            name,
            shape,
            classes,
            hidden=hidden,
            activation=activation,
            seed=stream,
        )
    model = nn.Sequential(ChannelsFirst(shape), made) if len(shape) == 3 else made
    if is_factory(name) and outside_table(model):
        return PerRecord(model)
    return model


def examine_model(config: AuditConfig, inputs: Shared[Inputs]) -> ModelFacts:
    """What a user's own model is, made on the first seed's records; nothing is trained.

    Raises:
        ConfigError: The factory or its model cannot be used.
        TrainingError: A layer that cannot be private; a model that keeps something of what it
            reads.
    """
    split = draw_split(inputs.value.dataset, config.split, config.seed)
    pool = prepare_rows(inputs.value, config, split, by_pool=False).pool
    model = start_model(config, pool, config.seed)
    few = pool.gather(torch.arange(min(CHECKED_RECORDS, pool.n_records)), None).inputs.contiguous()
    check_outputs(config.model, model, few, pool.n_classes)
    check_model(model, few, pool.n_classes)
    with faults():  # a description of its own making
        identity = model_digest(config.model, model)
    return ModelFacts(
        parameters=sum(p.numel() for p in model.parameters() if p.requires_grad),
        gradients=BY_VMAP if isinstance(model, PerRecord) else BY_TABLE,
        outside=outside_table(model.inner) if isinstance(model, PerRecord) else "",
        digest=identity,
    )
