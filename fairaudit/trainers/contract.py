"""What a trainer of the user's own is given, and what it gives back: ``docs/trainers.md``.

A trainer is a function
``train(data: TrainingData, privacy: Privacy | None, seed: int) -> Predictor``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol  # noqa: TID251 - it is read without pandas

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, slots=True)
class Privacy:
    """What a trainer is asked for, and what its predictor may claim as ``claimed``.

    Args:
        epsilon: Of one training, above 0.
        delta: Of one training, from 0 to below 1.
        unit: What is protected, as "one training record"; of a claim.
        neighbouring: What two neighbours differ in, as "add or remove one record"; of a claim.
        accountant: What computed epsilon, with its version; of a claim.

    Raises:
        ValueError: A number outside of its range, or a text of several lines or more than 200
            characters.
    """

    epsilon: float
    delta: float
    unit: str = ""
    neighbouring: str = ""
    accountant: str = ""

    def __post_init__(self) -> None:
        """Refuse what is no claim."""
        for name, highest in (("epsilon", math.inf), ("delta", 1.0)):
            value = getattr(self, name)
            number = math.nan
            if not isinstance(value, bool | str):
                number = float(value)
            if not 0.0 <= number < highest or (name == "epsilon" and number == 0.0):
                raise ValueError(f"{name} is {value!r}")
            object.__setattr__(self, name, number)
        for name in ("unit", "neighbouring", "accountant"):
            text = getattr(self, name)
            if not isinstance(text, str) or len(text) > 200 or not text.isprintable():
                raise ValueError(f"{name} is not a text of one line, at most 200 characters")


@dataclass(frozen=True, slots=True)
class TrainingData:
    """One seed's training records; a copy that belongs to the trainer.

    Args:
        features: [n, d] float32, encoded as for the methods of this program; images [n, C, H, W].
            With ``--raw`` a DataFrame of the n rows' feature columns as they stand in the file.
        labels: [n] int64, places in ``classes``.
        groups: [n] int64, places in ``group_names``; None unless ``--trainer-groups`` asks for
            them.
        classes: Names of the Y classes; probabilities are in this order.
        group_names: Names of the groups of the first ``--group``, where ``groups`` are given.
        names: Names of the d inputs; of images none.
    """

    features: NDArray[np.float32] | pd.DataFrame
    labels: NDArray[np.int64]
    groups: NDArray[np.int64] | None
    classes: tuple[str, ...]
    group_names: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


class Predictor(Protocol):
    """What a trainer returns.

    It may carry ``claimed``, a :class:`Privacy`: the epsilon that it claims.
    """

    def predict_proba(self, features: NDArray[np.float32] | pd.DataFrame, /) -> ArrayLike:
        """Probabilities [n, Y] in the order of ``TrainingData.classes``.

        For features as in training.
        """
        ...
