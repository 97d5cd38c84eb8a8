"""Records to model inputs by one seed's constants, a few rows or all of them, with the same bits."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from fairaudit.data.dataset import Float32, Int64
from fairaudit.data.fit import Fitted, FittedCategory, FittedNumber
from fairaudit.data.records import Block, Float64, Layout, Records, UInt8

# Standard deviations. Of n training values none lies further out than sqrt(n - 1), so up to a million
# rows this cuts test rows only; it keeps one absurd value from overflowing float32 in the model.
STANDARDISED_LIMIT = 1e3
_ORDINARY_EXPONENT = 500  # within, no difference and no quotient can leave float64's range by scaling


@dataclass(frozen=True, slots=True)
class _Numbers:
    """How a block of n numbers is standardised: ``(x - centre) / spread``.

    Args:
        block: Where they are.
        exponents: x is first divided by 2 to this, ``[n]``; None: by 1.
        centre, spread: ``[n]``.
        fill: What a missing value becomes, ``[n]``.
        runs: (first, end, input): neighbours in the block that are neighbours among the inputs.
        gaps: (place, input) of each indicator.
    """

    block: Block
    exponents: NDArray[np.intc] | None
    centre: Float64
    spread: Float64
    fill: Float64
    runs: tuple[tuple[int, int, int], ...]
    gaps: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, block: Block, fitted: Sequence[FittedNumber], starts: Sequence[int]) -> "_Numbers":
        """The block's numbers, and the first input of each."""
        exponents = np.array([f.exponent for f in fitted], dtype=np.intc)
        centre = np.array([f.mean for f in fitted])
        spread = np.array([f.deviation or 1.0 for f in fitted])
        fill = _limited((np.array([f.median for f in fitted]) - centre) / spread)
        # A constant number stays 0 everywhere, whatever other rows hold.
        placed = [
            (j, start) for j, (f, start) in enumerate(zip(fitted, starts, strict=True)) if f.deviation > 0
        ]
        gaps = [
            (j, start + 1)
            for j, (f, start) in enumerate(zip(fitted, starts, strict=True))
            if len(f.names) > 1
        ]
        if np.abs(exponents).max(initial=0) > _ORDINARY_EXPONENT:
            return cls(block, exponents, centre, spread, fill, runs_of(placed), tuple(gaps))
        # A power of two changes no digit, so it may as well be in the constants.
        centre, spread = np.ldexp(centre, exponents), np.ldexp(spread, exponents)
        return cls(block, None, centre, spread, fill, runs_of(placed), tuple(gaps))

    def decode(self, rows: UInt8, out: Float32) -> None:
        """Write the inputs of some records ``[n, width]`` into ``out``."""
        x = np.empty((len(self.centre), len(rows)))  # a line per number, so that every loop below is long
        x[:] = self.block.of(rows).T
        missing = np.isnan(x) if self.block.gaps else None
        if self.exponents is not None:
            np.ldexp(x, -self.exponents[:, None], out=x)
        x -= self.centre[:, None]
        x /= self.spread[:, None]
        _limited(x)
        if missing is not None:
            np.copyto(x, self.fill[:, None], where=missing)
            for place, at in self.gaps:
                out[:, at] = missing[place]
        for first, end, at in self.runs:
            out[:, at : at + end - first] = x[first:end].T


@dataclass(frozen=True, slots=True)
class _Codes:
    """How some of a block's categories are expanded: every code sets one input.

    Args:
        block: Where they are.
        used: Their places in it, or None for all.
        offsets: Where each one's codes begin in the two look-ups.
        inputs: Of each code.
        values: What it sets the input to.
    """

    block: Block
    used: NDArray[np.intp] | None
    offsets: NDArray[np.intp]
    inputs: NDArray[np.intp]
    values: Float32

    @classmethod
    def of(cls, block: Block, chosen: Mapping[int, FittedCategory], starts: Sequence[int]) -> "_Codes":
        """Categories by place in the block; ``starts`` is the first input of each column."""
        sizes = [len(f.places) for f in chosen.values()]
        inputs = [f.places + starts[block.fields[place]] for place, f in chosen.items()]
        return cls(
            block,
            None if len(chosen) == len(block.fields) else np.array(list(chosen), dtype=np.intp),
            np.array([0, *accumulate(sizes)][: len(sizes)], dtype=np.intp),
            np.concatenate([np.zeros(0, np.intp), *inputs]).astype(np.intp),
            np.concatenate([np.zeros(0, np.float32), *(f.values for f in chosen.values())]),
        )

    def places(self, rows: UInt8) -> NDArray[np.intp]:
        """Where the codes of some records ``[n, width]`` are in the look-ups, ``[n, len(used)]``."""
        codes = self.block.of(rows).astype(np.intp)
        return (codes if self.used is None else codes[:, self.used]) + self.offsets

    def decode(self, rows: UInt8, out: Float32) -> None:
        """Write the inputs of some records ``[n, width]`` into ``out``, C-contiguous."""
        places = self.places(rows)
        flat = self.inputs.take(places)
        flat += (np.arange(len(rows)) * out.shape[1])[:, None]
        out.reshape(-1)[flat] = self.values.take(places)


class Recipe:
    """One seed's constants, laid out for decoding many records at once.

    Args:
        layout: Of the records.
        fitted: What the seed learned of each column, in column order.

    Attributes:
        width: d, inputs of a record. one_hot: Columns that are one-hot categories.
        dense: Inputs of all other columns, ascending.
    """

    def __init__(self, layout: Layout, fitted: Sequence[Fitted]) -> None:
        ends = list(accumulate(len(f.names) for f in fitted))
        starts = [0, *ends]
        self.width = ends[-1] if ends else 0
        self._numbers = []
        for block in layout.numbers:
            numbers = [f for f in (fitted[n] for n in block.fields) if isinstance(f, FittedNumber)]
            self._numbers.append(_Numbers.of(block, numbers, [starts[n] for n in block.fields]))
        categories = [fitted[n] for n in layout.codes.fields]
        named = {j: f for j, f in enumerate(categories) if isinstance(f, FittedCategory) and f.names}
        self._codes = _Codes.of(layout.codes, named, starts)
        self._one_hot = [place for place, f in enumerate(named.values()) if f.one_hot]
        self.one_hot = tuple(layout.codes.fields[j] for j, f in named.items() if f.one_hot)
        others = sorted(set(range(len(fitted))).difference(self.one_hot))
        self.dense = np.array([i for n in others for i in range(starts[n], ends[n])], dtype=np.int64)

    def ones(self, rows: UInt8) -> NDArray[np.intp]:
        """Of training records ``[n, width]``: the input that each one-hot category sets to 1."""
        return self._codes.inputs.take(self._codes.places(rows)[:, self._one_hot])

    def decode(self, rows: UInt8, out: Float32) -> None:
        """Write the inputs of records ``[n, width]`` into zeros ``[n, d]``, C-contiguous."""
        with np.errstate(over="ignore", invalid="ignore"):  # the limit catches it; NaN is filled
            for numbers in self._numbers:
                numbers.decode(rows, out)
        self._codes.decode(rows, out)


@dataclass(frozen=True, slots=True)
class DecodedRows:
    """Inputs of some rows, made when they are asked for; indexed like an array of rows.

    Args:
        records: All rows.
        rows: Which.
        recipe: How.
    """

    records: Records
    rows: Int64
    recipe: Recipe

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        return len(self.rows), self.recipe.width

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: slice | Int64) -> Float32:
        """Those rows' inputs, float32 and C-contiguous."""
        rows = self.part(index)
        out = np.zeros(rows.shape, np.float32)
        rows.fill(slice(None), out)
        return out

    def part(self, index: slice | Int64) -> "DecodedRows":
        """Those rows, still to be made."""
        return replace(self, rows=self.rows[index])

    def fill(self, index: slice | Int64, out: Float32) -> None:
        """Write the inputs of n of the rows into zeros ``[n, d]``, C-contiguous."""
        for piece, taken in self.records.chunks(self.rows[index]):
            self.recipe.decode(taken, out[piece])


def _limited(values: Float64) -> Float64:
    return np.clip(values, -STANDARDISED_LIMIT, STANDARDISED_LIMIT, out=values)


def runs_of(placed: Iterable[tuple[int, int]]) -> tuple[tuple[int, int, int], ...]:
    """(place, input) in ascending order, as (first, end, input) of neighbours that stay neighbours."""
    runs: list[tuple[int, int, int]] = []
    for place, at in placed:
        if runs and runs[-1][1] == place and runs[-1][2] + place - runs[-1][0] == at:
            runs[-1] = (runs[-1][0], place + 1, runs[-1][2])
        else:
            runs.append((place, place + 1, at))
    return tuple(runs)
