"""Raw columns to model inputs, learned from one seed's training rows only."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fairaudit.config.options import AuditConfig
from fairaudit.data.column import CategoryColumn, Column, NumberColumn
from fairaudit.data.columns import Float64
from fairaudit.data.dataset import Dataset, Encoded, Float32, Int64, Split, image_columns, pixels_of
from fairaudit.data.fit import fit
from fairaudit.data.records import Block, Layout, Records, RecordWriter, UInt8
from fairaudit.data.spool import Spool

# Standard deviations. Of n training values none lies further out than sqrt(n - 1), so up to a
# million rows this cuts test rows only; it keeps one absurd value from overflowing float32 in the
# model.
STANDARDISED_LIMIT = 1e3
_ORDINARY_EXPONENT = (
    500  # within, no difference and no quotient can leave float64's range by scaling
)


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
    def of(cls, block: Block, columns: Sequence[NumberColumn], starts: Sequence[int]) -> "_Numbers":
        """The block's numbers, and the first input of each."""
        exponents = np.array([column.exponent for column in columns], dtype=np.intc)
        centre = np.array([column.centre for column in columns])
        spread = np.array([column.spread or 1.0 for column in columns])
        fill = _limited((np.array([column.fill for column in columns]) - centre) / spread)
        placed, gaps = [], []
        for place, (column, start) in enumerate(zip(columns, starts, strict=True)):
            if column.spread > 0:  # a constant number stays 0 everywhere, whatever other rows hold
                placed.append((place, start))
            if len(column.inputs) > 1:
                gaps.append((place, start + 1))
        if np.abs(exponents).max(initial=0) > _ORDINARY_EXPONENT:
            return cls(block, exponents, centre, spread, fill, _runs(placed), tuple(gaps))
        # A power of two changes no digit, so it may as well be in the constants.
        centre, spread = np.ldexp(centre, exponents), np.ldexp(spread, exponents)
        return cls(block, None, centre, spread, fill, _runs(placed), tuple(gaps))

    def decode(self, rows: UInt8, out: Float32) -> None:
        """Write the inputs of some records ``[n, width]`` into ``out``."""
        x = np.empty(
            (len(self.centre), len(rows))
        )  # a line per number, so that every loop below is long
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
    def of(cls, block: Block, columns: Sequence[CategoryColumn], starts: Sequence[int]) -> "_Codes":
        """The block's categories, and the first input of each; one without inputs is left out."""
        used, offsets, size = [], [], 0
        inputs, values = [np.zeros(0, np.intp)], [np.zeros(0, np.float32)]
        for place, (column, start) in enumerate(zip(columns, starts, strict=True)):
            if column.inputs:
                used.append(place)
                offsets.append(size)
                size += len(column.places)
                inputs.append(np.array(column.places, np.intp) + start)
                values.append(np.array(column.values, np.float32))
        return cls(
            block,
            None if len(used) == len(block.fields) else np.array(used, dtype=np.intp),
            np.array(offsets, dtype=np.intp),
            np.concatenate(inputs),
            np.concatenate(values),
        )

    def decode(self, rows: UInt8, out: Float32) -> None:
        """Write the inputs of some records ``[n, width]`` into ``out``, C-contiguous."""
        codes = self.block.of(rows).astype(np.intp)
        places = (codes if self.used is None else codes[:, self.used]) + self.offsets
        flat = self.inputs.take(places)
        flat += (np.arange(len(rows)) * out.shape[1])[:, None]
        out.reshape(-1)[flat] = self.values.take(places)


class Recipe:
    """One seed's columns, laid out for decoding many records at once.

    Args:
        layout: Of the records.
        columns: In column order.

    Attributes:
        width: d, inputs of a record.
    """

    def __init__(self, layout: Layout, columns: Sequence[Column]) -> None:
        starts = [0, *accumulate(len(column.inputs) for column in columns)]
        self.width = starts[-1]
        self._numbers = []
        for block in layout.numbers:
            numbers = [c for n in block.fields if isinstance(c := columns[n], NumberColumn)]
            self._numbers.append(_Numbers.of(block, numbers, [starts[n] for n in block.fields]))
        codes = layout.codes
        categories = [c for n in codes.fields if isinstance(c := columns[n], CategoryColumn)]
        self._codes = _Codes.of(codes, categories, [starts[n] for n in codes.fields])

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


def _runs(placed: Iterable[tuple[int, int]]) -> tuple[tuple[int, int, int], ...]:
    """(place, input) in ascending order.

    As (first, end, input) of neighbours that stay neighbours.
    """
    runs: list[tuple[int, int, int]] = []
    for place, at in placed:
        if runs and runs[-1][1] == place and runs[-1][2] + place - runs[-1][0] == at:
            runs[-1] = (runs[-1][0], place + 1, runs[-1][2])
        else:
            runs.append((place, place + 1, at))
    return tuple(runs)


# Inputs of one seed up to this many bytes are made once and kept; larger ones batch by batch, from
# the records, which are far smaller.
IN_MEMORY_BYTES = 2**28


class Encoder(Protocol):
    """A dataset prepared once, to be encoded for many seeds."""

    def encode(self, split: Split) -> Encoded:
        """The inputs of one seed, float32 and C-contiguous."""


def make_encoder(dataset: Dataset, config: AuditConfig, spool: Spool | None = None) -> Encoder:
    """The encoder that fits the dataset's features.

    Records of a table go to the spool, or to their own.
    """
    if dataset.image_shape is not None:
        return ImageEncoder(dataset, config)
    writer = RecordWriter(dataset.features, dataset.declared)
    table = (spool or Spool(config.out)).keep_rows(writer.blocks(), writer.layout.width)
    return TableEncoder(Records(writer.layout, table), config.merge_rare)


class ImageEncoder:
    """Pixels scaled by constants that no data decide: x / 127.5 - 1, or x / 255.

    So nothing is learned from training rows, and scaling costs no privacy. The images stay bytes
    until a seed asks for its own.
    """

    def __init__(self, dataset: Dataset, config: AuditConfig) -> None:
        values = np.arange(256, dtype=np.float64) / 255
        self._scaled = (2 * values - 1 if config.pixel_range == "symmetric" else values).astype(
            np.float32
        )
        self._pixels = pixels_of(dataset.features.column(image_columns(dataset.features.schema)[0]))

    def encode(self, split: Split) -> Encoded:
        """The inputs of one seed: ``[n, H, W, C]``, float32 and C-contiguous."""
        train, test = (self._scaled[self._pixels[rows]] for rows in (split.train, split.test))
        return Encoded(split, train, test, names=(), fitted=())


class TableEncoder:
    """A table prepared once, to be encoded for many seeds.

    Numbers are imputed by the median and standardised (population standard deviation; a constant
    becomes 0), with an indicator where values are missing, and limited to +-1000 standard
    deviations. Times count as seconds. Text with two levels becomes one 0/1 input (levels sorted;
    an unseen one 0.5), other text one input per level in sorted order, a missing value its own
    level. Levels rarer than ``merge_rare`` share one input where there are two or more of them;
    an unseen level goes there, else to none. What is declared of a column takes the place of all
    this.

    With ``merge_rare`` 0 the lists of levels and of columns with missing values come from all rows,
    so that every seed has the same inputs; otherwise test rows have no influence at all.

    Args:
        records: All rows.
        merge_rare: As above.
        in_memory: Inputs of more bytes are made when they are read; the same bits.
    """

    def __init__(
        self, records: Records, merge_rare: float, *, in_memory: int = IN_MEMORY_BYTES
    ) -> None:
        self._records, self._merge_rare, self._in_memory = records, merge_rare, in_memory

    def encode(self, split: Split) -> Encoded:
        """The inputs of one seed, float32 and C-contiguous."""
        columns = fit(self._records, split.train, self._merge_rare)
        recipe = Recipe(self._records.layout, columns)
        train = DecodedRows(self._records, split.train, recipe)
        test = DecodedRows(self._records, split.test, recipe)
        names: list[str] = []
        seen: Counter[str] = Counter()
        learned: list[str] = []
        merged: dict[str, int] = {}
        for column in columns:
            for name in column.inputs:  # a hostile file may make two equal
                seen[name] += 1
                names.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
            learned += column.learned
            if isinstance(column, CategoryColumn) and column.merged:
                merged[column.name] = column.merged
        if self._merge_rare == 0 and learned:
            learned.append(
                "lists of levels and of columns with missing values: from all rows, not only "
                "training"
            )
        whole = 4 * recipe.width * (len(train) + len(test)) <= self._in_memory
        return Encoded(
            split=split,
            train=train[:] if whole else train,
            test=test[:] if whole else test,
            names=tuple(names),
            fitted=tuple(learned),
            merged=merged,
            columns=tuple(columns),
        )


def encode(dataset: Dataset, split: Split, config: AuditConfig) -> Encoded:
    """The inputs of one seed; for several seeds keep an encoder."""
    return make_encoder(dataset, config).encode(split)
