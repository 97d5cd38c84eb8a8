"""What code of the user's own is given, and what it gives back.

A trainer is a function
``train(data: TrainingData, privacy: Privacy | None, seed: int) -> Predictor``, one with settings
takes ``settings: Mapping[str, float]`` after the seed (``docs/trainers.md``). A synthesizer is a
function ``(table: DataFrame, privacy: Privacy | None, seed: int) -> DataFrame``
(``docs/synthetic.md``).
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
        epsilon: Of one training, above 0; infinity asks for the same training without noise.
        delta: Of one training, from 0 to below 1.
        unit: What is protected, as "one training record"; of a claim.
        neighbouring: What two neighbours differ in, as "add or remove one record"; of a claim.
        accountant: What computed epsilon, with its version; of a claim.

    Raises:
        ValueError: A number outside of its range, or a text of several lines or more than 200
            characters.

    Example:
        >>> Privacy(3.0, 1e-5, unit="one training record").epsilon
        3.0
        >>> Privacy(-1.0, 1e-5)
        Traceback (most recent call last):
        ValueError: epsilon is -1.0
    """

    epsilon: float
    delta: float
    unit: str = ""
    neighbouring: str = ""
    accountant: str = ""

    def __post_init__(self) -> None:
        """Make epsilon and delta floats; refuse one out of range, or a text that is not a line."""
        for name in ("epsilon", "delta"):
            value = getattr(self, name)
            # float() takes True and "3", which are mistakes here; nan is in neither range.
            number = math.nan if isinstance(value, bool | str) else float(value)
            is_in_range = number > 0.0 if name == "epsilon" else 0.0 <= number < 1.0
            if not is_in_range:
                raise ValueError(f"{name} is {value!r}")
            object.__setattr__(self, name, number)  # the class is frozen
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

    Example:
        >>> import numpy as np
        >>> features, labels = np.zeros((4, 2), np.float32), np.array([0, 1, 1, 0])
        >>> data = TrainingData(features, labels, groups=None, classes=("no", "yes"))
        >>> [data.classes[label] for label in data.labels]
        ['no', 'yes', 'yes', 'no']
    """

    features: NDArray[np.float32] | pd.DataFrame
    labels: NDArray[np.int64]
    groups: NDArray[np.int64] | None
    classes: tuple[str, ...]
    group_names: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Range:
    """Where ``--tune`` looks for a setting of a trainer: ``train.settings = {"rate": Range(..)}``.

    Args:
        low, high: Its ends.
        log: Drawn evenly on a log scale, for which both are above 0.

    Raises:
        ValueError: No such range.

    Example:
        >>> Range(0.001, 1.0, log=True).low
        0.001
        >>> Range(1.0, 0.001)
        Traceback (most recent call last):
        ValueError: Range(low=1.0, high=0.001, log=False) is no range
    """

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        """Refuse ends that do not ascend or are not finite, and a log scale that starts at 0."""
        if not -math.inf < self.low < self.high < math.inf or (self.log and self.low <= 0.0):
            raise ValueError(f"{self} is no range")


class Predictor(Protocol):
    """What a trainer returns, or a function that does what ``predict_proba`` does.

    It may carry ``claimed``, a :class:`Privacy`: the epsilon that it claims.

    Example:
        >>> import numpy as np
        >>> class Coin:
        ...     def predict_proba(self, features):
        ...         return np.full((len(features), 2), 0.5)
        >>> def train(data, privacy, seed):  # what `--trainer module:train` names
        ...     return Coin()
        >>> train(None, None, seed=0).predict_proba(np.zeros((3, 4))).shape
        (3, 2)
    """

    def predict_proba(self, features: NDArray[np.float32] | pd.DataFrame, /) -> ArrayLike:
        """Probabilities [n, Y] of n rows, whose features are encoded as in training.

        Columns are in the order of ``TrainingData.classes``.
        """
        ...
