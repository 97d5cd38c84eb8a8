"""The score of a candidate on the validation rows: made of counts of records, noised where charged.

Only ``rows`` sees records, one by one, and gives what each adds to the counts. What is released is
the sum over records, with noise where the search is charged; ``value`` makes the score of that.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fairaudit.tuning.search import Goal

# The fewest validation rows of a group, in standard deviations of the noise on its counts, with
# which its noised accuracy still says something.
LEAST_ROWS = 20


class Score(ABC):
    """Counts of validation records, and the score that is made of them."""

    # The largest L2 norm of a row of ``rows``: how far one record moves the counts.
    sensitivity: ClassVar[float]

    @property
    @abstractmethod
    def counts(self) -> int:
        """Q, how many counts are released."""

    @abstractmethod
    def rows(self, correct: NDArray[np.bool_], groups: NDArray[np.int64]) -> NDArray[np.float64]:
        """What each record adds to the counts, ``[n, Q]``, from itself alone.

        Args:
            correct: Whether each record is classified correctly, ``[n]``.
            groups: Number of each record's group, ``[n]``.
        """

    @abstractmethod
    def value(self, counts: NDArray[np.float64]) -> float:
        """The score, from the released counts ``[Q]``: higher is better, always finite."""

    def release(
        self,
        correct: NDArray[np.bool_],
        groups: NDArray[np.int64],
        noise_std: float,
        noise: NDArray[np.float64] | None,
    ) -> float:
        """The score of one candidate: from its counts, with noise added to each.

        Args:
            correct, groups: As of :meth:`rows`.
            noise_std: Standard deviation of the noise, in records; 0 for an exact score.
            noise: Standard normals of this candidate's own, ``[Q]``; None where the score is exact.
        """
        counts = self.rows(correct, groups).sum(0)
        if noise_std > 0.0:
            assert noise is not None, "a charged score has noise"
            counts = counts + noise_std * noise
        return self.value(counts)


@dataclass(frozen=True, slots=True)
class Accuracy(Score):
    """The share of correct records: one count, over the public number of validation rows."""

    sensitivity: ClassVar[float] = 1.0

    validation_rows: int

    @property
    def counts(self) -> int:
        """One: how many records are correct."""
        return 1

    def rows(self, correct: NDArray[np.bool_], groups: NDArray[np.int64]) -> NDArray[np.float64]:
        """1 for a correct record, else 0, ``[n, 1]``."""
        return correct.astype(np.float64)[:, None]

    def value(self, counts: NDArray[np.float64]) -> float:
        """The accuracy; noise may take it below 0 or above 1."""
        return float(counts[0] / self.validation_rows)


@dataclass(frozen=True, slots=True)
class WorstGroup(Score):
    """The smallest accuracy of a group, from counts of the correct and of all records of each.

    Args:
        n_groups: K.
        missing: Number of the level of records without a group, which is not judged; None where
            every record has one.
    """

    sensitivity: ClassVar[float] = math.sqrt(2.0)

    n_groups: int
    missing: int | None = None

    @property
    def counts(self) -> int:
        """2 K: each group's correct records, then each group's records."""
        return 2 * self.n_groups

    def rows(self, correct: NDArray[np.bool_], groups: NDArray[np.int64]) -> NDArray[np.float64]:
        """What each record adds: 1 to its group's records, and 1 to the correct ones if it is one.

        The array is ``[n, 2 K]``, in the order of :attr:`counts`. A record without a group adds
        nothing.
        """
        member = np.eye(self.n_groups)[groups]  # [n, K], 1 at the record's group
        if self.missing is not None:
            member[:, self.missing] = 0.0
        return np.concatenate([member * correct[:, None], member], axis=1)

    def value(self, counts: NDArray[np.float64]) -> float:
        """The smallest accuracy of a group: its correct records over all of its records.

        A number of records below 1 comes of noise, and is taken for 1.
        """
        correct, records = np.split(counts, 2)  # [K] each
        accuracies = correct / np.maximum(records, 1.0)
        return float(min(value for k, value in enumerate(accuracies) if k != self.missing))


def make_score(goal: Goal, *, validation_rows: int, n_groups: int, missing: int | None) -> Score:
    """The score that a search maximises: the accuracy, or the smallest accuracy of a group.

    Args:
        goal: Its name.
        validation_rows: How many rows the accuracy is over, a public number.
        n_groups, missing: As of :class:`WorstGroup`.
    """
    return Accuracy(validation_rows) if goal == "accuracy" else WorstGroup(n_groups, missing)


def score_sensitivity(goal: Goal) -> float:
    """How far one record moves the counts of the goal's score, in L2 norm."""
    return (Accuracy if goal == "accuracy" else WorstGroup).sensitivity
