"""Asks a worker what a user's own model is, before anything is planned around it.

The model is code that imports torch; neither it nor torch is loaded where the audit is planned.
"""

import functools
import importlib

from fairaudit.config.model_names import ModelFacts
from fairaudit.config.options import AuditConfig
from fairaudit.data.public import Inputs
from fairaudit.data.spool import Shared
from fairaudit.errors import TrainingError
from fairaudit.execution.executor import Died, Raised
from fairaudit.execution.local import PRELOAD, Pool

EXAMINE = "fairaudit.execution.model_setup:examine_model"


class ModelBug(Exception):
    """An exception of the worker that no user can act on; its text is the worker's traceback."""


def examine(
    config: AuditConfig,
    inputs: Shared[Inputs],
    work: str = EXAMINE,
) -> ModelFacts:
    """Make the model once, on the first seed's records, and say what it is.

    Args:
        config: The options.
        inputs: The data.
        work: ``module:function`` that does it.

    Raises:
        ConfigError: The factory or its model cannot be used.
        TrainingError: A layer that cannot be private; per-sample gradients that are wrong.
        ModelBug: Anything else.
    """
    with Pool(
        functools.partial(
            _ask,
            work,
            inputs,
        ),
        1,
        preload=PRELOAD,
    ) as pool:
        pool.give(0, config)
        ((_, answer),) = pool.wait()
    if isinstance(answer, Died):
        raise TrainingError("the process died in which the model was made", hint="out of memory?")
    if isinstance(answer, Raised):
        if answer.error is None:
            raise ModelBug(answer.report)
        raise answer.error
    return answer


def _ask(
    work: str,
    inputs: Shared[Inputs],
    config: AuditConfig,
) -> ModelFacts:
    """Facts of the user's model, asked in a worker; ``work`` is "module:function"."""
    module, _, function = work.partition(":")
    facts: ModelFacts = getattr(importlib.import_module(module), function)(config, inputs)
    return facts
