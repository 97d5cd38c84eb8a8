"""The model that a training starts from, and what is found out about a user's own model.

Records are ``(d,)``, or images ``(H, W, C)``. A *factory* is a function of the user's own, named
``package.module:function``, that makes a module. The engine computes per-record gradients by a
*table of layers*; a module with other layers is run one record at a time.
"""

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
from fairaudit.data.inputs.column import Column
from fairaudit.data.inputs.shared import Inputs
from fairaudit.data.inputs.split import draw_split
from fairaudit.data.inputs.spool import Shared
from fairaudit.engine.isolation import PerRecord, faults
from fairaudit.engine.pool import TrainingPool
from fairaudit.engine.replicates import check_model, choose_taps, why_not_in_table
from fairaudit.engine.small_layers import ChannelsFirst
from fairaudit.execution.seed_data import prepare_rows
from fairaudit.models.zoo import check_outputs, make_model, own_model
from fairaudit.models.zoo import digest as model_digest
from fairaudit.privacy.borrowed import global_stream
from fairaudit.privacy.streams import seed_of

CHECKED_RECORDS = 8  # on which a user's own model is compared with autograd


def start_model(
    config: AuditConfig, pool: TrainingPool, seed: int, columns: Sequence[Column] = ()
) -> nn.Module:
    """The model of the options with its initial parameters at that seed, for the pool's records.

    ``columns``: as of :func:`fresh_model`.
    """
    shape = pool.shape
    # Three sizes are an image's; None: a row of numbers.
    name = resolve_model(config.model, shape if len(shape) == 3 else None)
    return fresh_model(
        name,
        shape,
        pool.n_classes,
        config.hidden,
        config.activation,
        stream=seed_of(seed, "init"),
        columns=columns,
    )


def fresh_model(
    name: str,
    shape: Shape,
    classes: int,
    hidden: Sequence[int],
    activation: str,
    *,
    stream: int,
    columns: Sequence[Column] = (),
) -> nn.Module:
    """A model with fresh parameters.

    Args:
        name: Resolved name, or a user's factory.
        shape: Of one record. A model of images gets a layer in front that puts channels first.
        classes: Number of outputs.
        hidden, activation: Of ``mlp``.
        stream: Number of the random stream that the parameters are drawn from.
        columns: Constants of the columns that the inputs are made of, for a factory; () of images.

    Raises:
        ConfigError: A factory that cannot be used.
    """
    if is_factory(name):
        with global_stream(stream):
            made: nn.Module = own_model(name, shape, classes, columns).float()
    else:
        made = make_model(name, shape, classes, hidden=hidden, activation=activation, seed=stream)
    model = nn.Sequential(ChannelsFirst(shape), made) if len(shape) == 3 else made
    if is_factory(name) and why_not_in_table(model):
        return PerRecord(model)
    return model


def examine_model(config: AuditConfig, inputs: Shared[Inputs]) -> ModelFacts:
    """Make a user's own model for the first seed's records, check it and say what it is.

    Nothing is trained. The model is run on ``CHECKED_RECORDS`` records, and its gradients are
    compared with autograd's.

    Raises:
        ConfigError: The factory or its model cannot be used.
        TrainingError: A layer that cannot be private; a model that keeps something of what it
            reads.
    """
    split = draw_split(inputs.value.dataset, config.split, config.seed)
    prepared = prepare_rows(inputs.value, config, split, by_pool=False)
    pool = prepared.pool
    model = start_model(config, pool, config.seed, prepared.encoded.columns)
    few = pool.gather(torch.arange(min(CHECKED_RECORDS, pool.n_records)), None).inputs.contiguous()
    check_outputs(config.model, model, few, pool.n_classes)
    check_model(model, few, pool.n_classes)
    with faults():  # the digest runs the module's own __repr__, which may raise
        identity = model_digest(config.model, model)
    parameters = sum(p.numel() for p in model.parameters() if p.requires_grad)
    if not isinstance(model, PerRecord):
        return ModelFacts(parameters=parameters, gradients=BY_TABLE, digest=identity)
    tapping = choose_taps(model.inner, pool.shape)
    return ModelFacts(
        parameters=parameters,
        products=tapping.products,
        copied=tapping.copied,
        why_copied=tapping.why_not,
        gradients=BY_VMAP,
        why_not_in_table=why_not_in_table(model.inner),
        digest=identity,
    )
