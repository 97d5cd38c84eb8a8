"""One finished training as a value and as a file (safetensors with a JSON header; no pickle)."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class JobResult:
    """What one job leaves behind; predictions, curves and facts, never the model.

    Args:
        job_id: The job's id.
        arrays: name -> array, R = repeats, n = test rows of this seed, Y classes, K groups:
            ``test_rows`` [n] int64, row indices into the dataset;
            ``probabilities`` [R, n, Y] float32, on the test rows;
            ``train_count.G`` [K] int64, ``train_correct.G`` [R, K] float64 (mean),
            ``train_loss.G`` [R, K] float64 (mean, nats): training split, G = index of the grouping;
            ``trace.NAME`` [T_obs, R, ...] float32 and ``trace_steps.NAME`` [T_obs] int64.
        facts: JSON-ready: ``n_train``, ``event`` (what the engine did, or null),
            ``params_sha256``, ``inputs`` (names), ``fitted``, ``merged``,
            ``duplicates_across_split``, ``yardstick`` (sgd jobs: accuracy of scikit-learn's
            logistic regression: {"accuracy": float, "train_accuracy": float}), ``seconds``.
    """

    job_id: str
    arrays: Mapping[str, Array]
    facts: Mapping[str, object]
