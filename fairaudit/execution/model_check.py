"""Asks a worker what a user's own model is, before anything is planned around it.

The model is code that imports torch; neither it nor torch is loaded where the audit is planned.
"""

import functools

from fairaudit.config.model_names import ModelFacts
from fairaudit.config.options import AuditConfig
from fairaudit.data.public import Inputs
from fairaudit.data.spool import Shared
from fairaudit.errors import TrainingError
from fairaudit.execution.executor import Died, Raised, WorkerBug
from fairaudit.execution.local import Pool


def examine(config: AuditConfig, inputs: Shared[Inputs]) -> ModelFacts:
    """Make the model once, on the first seed's records, and say what it is.

    Args:
        config: The options.
        inputs: The data.

    Raises:
        ConfigError: The factory or its model cannot be used.
        TrainingError: A layer that cannot be private; per-sample gradients that are wrong.
        WorkerBug: Anything else.
    """
    with Pool(functools.partial(_ask, inputs), 1) as pool:
        pool.give(0, config)
        ((_, answer),) = pool.wait()
    if isinstance(answer, Died):
        raise TrainingError("the process died in which the model was made", hint="out of memory?")
    if isinstance(answer, Raised):
        if answer.error is None:
            raise WorkerBug(answer.report)
        raise answer.error
    return answer


def _ask(inputs: Shared[Inputs], config: AuditConfig) -> ModelFacts:
    """Facts of the user's model, asked in a worker."""
    from fairaudit.execution.model_setup import examine_model  # loads torch

    return examine_model(config, inputs)
