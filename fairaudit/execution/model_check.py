"""Finds out, in a worker, what a user's own model is: a plan needs its size and kind of gradients.

The model is code that imports torch, and the process that plans an audit loads neither.
"""

import functools

from fairaudit.config.model_names import ModelFacts
from fairaudit.config.options import AuditConfig
from fairaudit.data.inputs.shared import Inputs
from fairaudit.data.inputs.spool import Shared
from fairaudit.errors import TrainingError
from fairaudit.execution.executor import Died, Raised, WorkerBug
from fairaudit.execution.local import Pool


def examine(config: AuditConfig, inputs: Shared[Inputs]) -> ModelFacts:
    """Have a worker make the model of ``--model`` for the first seed's records, and describe it.

    Args:
        config: The options, whose model is a user's factory.
        inputs: The data.

    Raises:
        ConfigError: The factory or its model cannot be used.
        TrainingError: A layer that cannot be private; per-sample gradients that are wrong.
        WorkerBug: Anything else.
    """
    with Pool(functools.partial(_examine_here, inputs), 1) as pool:
        pool.give(0, config)
        ((_, answer),) = pool.wait()  # of the one worker
    if isinstance(answer, Died):
        raise TrainingError("the process died in which the model was made", hint="out of memory?")
    if isinstance(answer, Raised):
        if answer.error is None:
            raise WorkerBug(answer.report)
        raise answer.error
    return answer


def _examine_here(inputs: Shared[Inputs], config: AuditConfig) -> ModelFacts:
    """Runs in the worker: import torch, make the model, and describe it."""
    from fairaudit.execution.model_setup import examine_model  # loads torch

    return examine_model(config, inputs)
