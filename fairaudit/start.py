"""Where a training starts: a seed's fresh model, and what a user's own model is found to be."""

import torch
from torch import nn

from fairaudit.config import AuditConfig
from fairaudit.engine.foreign import refuse_unprivate
from fairaudit.engine.pool import TrainingPool
from fairaudit.engine.pooling import ChannelsFirst
from fairaudit.engine.replicates import check_gradients, outside_table
from fairaudit.models.names import BY_OPACUS, BY_TABLE, ModelFacts, is_factory, resolve_model
from fairaudit.models.own import check_outputs, own_model
from fairaudit.models.own import digest as model_digest
from fairaudit.models.zoo import make_model
from fairaudit.prepared import first_records
from fairaudit.privacy.borrowed import global_stream
from fairaudit.privacy.streams import seed_of

CHECKED_RECORDS = 8  # on which a user's own model is compared with autograd


def start_model(config: AuditConfig, pool: TrainingPool, seed: int) -> nn.Module:
    """A fresh start of that seed; images come channels last and models read them channels first."""
    shape, classes, stream = pool.shape, pool.n_classes, seed_of(seed, "init")
    name = resolve_model(config.model, shape if len(shape) == 3 else None)
    if is_factory(name):
        with global_stream(stream):
            made: nn.Module = own_model(name, shape, classes)
    else:
        made = make_model(
            name, shape, classes, hidden=config.hidden, activation=config.activation, seed=stream
        )
    return nn.Sequential(ChannelsFirst(shape), made) if len(shape) == 3 else made


def examine_model(config: AuditConfig, digest: str) -> ModelFacts:
    """What a user's own model is, made on the first seed's records; nothing is trained.

    Raises:
        ConfigError: The factory or its model cannot be used.
        TrainingError: A layer that cannot be private; per-sample gradients that are wrong.
    """
    pool = first_records(config, digest).pool
    model = start_model(config, pool, config.seed)
    few = pool.gather(torch.arange(min(CHECKED_RECORDS, pool.n_records)), None).inputs.contiguous()
    outside = outside_table(model)
    if outside:
        refuse_unprivate(model[1] if len(pool.shape) == 3 and isinstance(model, nn.Sequential) else model)
    check_outputs(config.model, model, few, pool.n_classes)
    check_gradients(model, few, pool.n_classes)
    return ModelFacts(
        parameters=sum(p.numel() for p in model.parameters() if p.requires_grad),
        gradients=BY_OPACUS if outside else BY_TABLE,
        outside=outside,
        digest=model_digest(config.model, model),
    )
