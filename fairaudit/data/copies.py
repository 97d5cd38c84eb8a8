"""Rows that are equal in everything: different people, or copies of one record.

Two people may well share an age, a job and an answer. They hardly share a measurement that has many
values. So rows that are equal are copies where some numeric feature has more than N / 20 distinct
values in N rows, unless more than half of what is equal could be so by chance.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairaudit.data.column_types import Codes
from fairaudit.data.dataset import Int64
from fairaudit.messages.base import Message
from fairaudit.messages.data import Copies, DuplicateRows

MANY_VALUES = 1 / 20  # of the rows: a number of more distinct values tells people apart
_BY_CHANCE = 0.5  # of the equal rows, at most, for the others to be copies
_MIX = np.uint64(0x9E3779B97F4A7C15)  # 2^64 divided by the golden ratio, as SplitMix64 uses it
COPY = "copy of an earlier row"  # why a row is left out


@dataclass(frozen=True, slots=True)
class EqualRows:
    """Which rows are equal in all columns, and whether these are copies.

    Args:
        first: For each row the index of the first row that is equal to it, ``[N]``.
        are_copies: Whether equal rows are one record.
    """

    first: Int64
    are_copies: bool

    @property
    def repeated(self) -> NDArray[np.bool_]:
        """Which rows are equal to an earlier one, ``[N]``."""
        return np.not_equal(self.first, np.arange(len(self.first)))


def mixed_in(hashes: NDArray[np.uint64], codes: NDArray[np.integer]) -> NDArray[np.uint64]:
    """Mix one more column's codes into a hash of 64 bits per row, ``[N]``, to find equal rows by.

    So more columns need no more memory. Of ten million different rows some two are taken for equal
    with a chance of 3 in a million. Both arguments are ``[N]`` and stay as they are.
    """
    mixed = codes.astype(np.uint64) * _MIX ^ hashes
    # The finaliser of SplitMix64: every bit of the code moves every bit of the hash.
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(factor)
    return (mixed ^ mixed >> np.uint64(31)) + _MIX


def first_alike(hashes: NDArray[np.uint64]) -> Int64:
    """For each row the index of the first row of the same hash, ``[N]``: its own if it is new."""
    _, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
    return first[inverse].astype(np.int64, copy=False)


def has_many_values(codes: Codes) -> bool:
    """Whether a column is numeric and has so many values that hardly two people share one."""
    values = int((codes.counts() > 0).sum())
    return codes.kind == "number" and values > MANY_VALUES * len(codes.codes)


def expected_pairs(columns: Iterable[NDArray[np.integer]], first: Int64) -> float:
    """How many pairs of different people would be equal by chance if columns were independent.

    The pairs of rows, N^2 / 2, times the probability that two people share a value in every column:
    the product over columns of sum_v count(v) (count(v) - 1) / (n (n - 1)), for n people.

    Args:
        columns: Codes of each column, ``[N]`` each, a code for missing values included.
        first: As of :class:`EqualRows`. Counts of values take equal rows for one person.
    """
    people = np.unique(first)
    n = len(people)
    if n < 2:
        return 0.0
    pairs = len(first) ** 2 / 2
    for codes in columns:
        counts = np.bincount(codes[people]).astype(np.float64)
        pairs *= float((counts * (counts - 1)).sum()) / (n * (n - 1))
    return pairs


def are_copies(columns: Iterable[NDArray[np.integer]], first: Int64) -> bool:
    """Whether equal rows are one record, given that a number of many values is among the columns.

    They are one record unless chance alone makes half as many pairs as there are repeated rows.

    Args:
        columns, first: As of :func:`expected_pairs`.
    """
    repeated = int((first != np.arange(len(first))).sum())
    return repeated > 0 and expected_pairs(columns, first) < _BY_CHANCE * repeated


def copies_notice(rows: EqualRows, *, are_predicted: bool = False) -> Message | None:
    """A warning of rows that are equal to an earlier one, with their share; None without any.

    Args:
        rows: All rows that are used.
        are_predicted: Whether they are of given predictions, with which nothing is trained.
    """
    repeated, n = int(rows.repeated.sum()), len(rows.first)
    if not repeated:
        return None
    message = Copies if rows.are_copies else DuplicateRows
    return message(repeated, rows=n, are_predicted=are_predicted)
