"""Raw columns to model inputs, learned from one seed's training rows only."""

import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fairaudit.config.options import EncodingOptions
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


@dataclass(frozen=True, slots=True)
class _Numbers:
    """How the k numbers of a record are standardised: ``(x - centre) / spread``.

    Args:
        block: Where they are.
        inputs: Input of each, ``[k]``.
        centre, spread: ``[k, 1]``; the spread of a constant is infinite, so that it becomes 0.
        fill: What a missing value becomes, ``[k, 1]``.
        gaps: Places of the numbers that have an indicator of missing values; it is the next input.
    """

    block: Block
    inputs: NDArray[np.intp]
    centre: Float64
    spread: Float64
    fill: Float64
    gaps: NDArray[np.intp]

    @classmethod
    def of(
        cls,
        block: Block,
        columns: Sequence[NumberColumn],
        starts: Sequence[int],
    ) -> "_Numbers":
        """The block's numbers as constants ``[columns, 1]``; ``starts``: the first input of each.

        A column with one value has spread 0: divided by infinity, it becomes 0.
        """
        constants = [
            (
                column.centre,
                column.spread or np.inf,
                column.fill,
            )
            for column in columns
        ]
        centre, spread, fill = np.array(constants).reshape(-1, 3, 1).swapaxes(0, 1)
        gaps = [place for place, column in enumerate(columns) if len(column.inputs) > 1]
        return cls(
            block,
            np.array(starts, np.intp),
            centre,
            spread,
            _limited((fill - centre) / spread),
            np.array(gaps, np.intp),
        )

    def decode(self, rows: UInt8, out: Float32) -> None:
        """Write the inputs of some records ``[n, width]`` into ``out``."""
        # A line per number, so that the loops below are long.
        x = np.array(
            self.block.of(rows).T,
            np.float64,
            order="C",
        )
        missing = np.isnan(x)
        x -= self.centre
        x /= self.spread
        _limited(x)
        np.copyto(x, self.fill, where=missing)
        out[:, self.inputs] = x.T
        out[:, self.inputs[self.gaps] + 1] = missing[self.gaps].T


@dataclass(frozen=True, slots=True)
class _Codes:
    """How a record's categories are expanded: every code sets one input.

    Args:
        block: Where they are.
        used: Places in it of those that have an input.
        offsets: Where each one's codes begin in the two look-ups.
        inputs: Of each code.
        values: What it sets the input to.
    """

    block: Block
    used: NDArray[np.intp]
    offsets: NDArray[np.intp]
    inputs: NDArray[np.intp]
    values: Float32

    @classmethod
    def of(
        cls,
        block: Block,
        columns: Sequence[CategoryColumn],
        starts: Sequence[int],
    ) -> "_Codes":
        """The block's categories, and the first input of each."""
        used, offsets = [], []
        inputs: list[int] = []
        values: list[float] = []
        for place, (column, start) in enumerate(zip(columns, starts, strict=True)):
            if column.inputs:
                used.append(place)
                offsets.append(len(inputs))
                inputs += (start + at for at in column.places)
                values += column.values
        return cls(
            block,
            np.array(used, np.intp),
            np.array(offsets, np.intp),
            np.array(inputs, np.intp),
            np.array(values, np.float32),
        )

    def decode(self, rows: UInt8, out: Float32) -> None:
        """Write the inputs of some records ``[n, width]`` into ``out``, C-contiguous."""
        places = self.block.of(rows)[:, self.used].astype(np.intp) + self.offsets
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
        numbers = [column for column in columns if isinstance(column, NumberColumn)]
        categories = [column for column in columns if isinstance(column, CategoryColumn)]
        starts = [0, *accumulate(len(column.inputs) for column in columns)]
        self.width = starts[-1]
        self._numbers = _Numbers.of(
            layout.numbers, numbers, [starts[n] for n in layout.numbers.fields]
        )
        self._codes = _Codes.of(
            layout.codes,
            categories,
            [starts[n] for n in layout.codes.fields],
        )

    def decode(self, rows: UInt8, out: Float32) -> None:
        """Write the inputs of records ``[n, width]`` into zeros ``[n, d]``, C-contiguous."""
        self._numbers.decode(rows, out)
        self._codes.decode(rows, out)


@dataclass(frozen=True, slots=True)
class DecodedRows:
    """Inputs of some rows, made when they are asked for; indexed like an array of rows.

    Args:
        records: All rows.
        rows: Numbers of the rows to decode, ``[n]``.
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
        """Those rows' inputs ``[n, *shape]``, float32 and C-contiguous."""
        rows = self.part(index)
        out = np.zeros(rows.shape, np.float32)
        rows.fill(slice(None), out)
        return out

    def part(self, index: slice | Int64) -> "DecodedRows":
        """Those rows, still to be made."""
        return replace(self, rows=self.rows[index])

    def fill(self, index: slice | Int64, out: Float32) -> None:
        """Write the inputs of n of the rows into zeros ``[n, d]``, C-contiguous."""
        for piece, chunk in self.records.chunks(self.rows[index]):
            self.recipe.decode(chunk, out[piece])


def _limited(values: Float64) -> Float64:
    return np.clip(values, -STANDARDISED_LIMIT, STANDARDISED_LIMIT, out=values)


# Inputs of one seed up to this many bytes are made once and kept; larger ones batch by batch, from
# the records, which are far smaller.
IN_MEMORY_BYTES = 2**28


class Encoder(Protocol):
    """A dataset prepared once, to be encoded for many seeds."""

    def encode(self, split: Split) -> Encoded:
        """The inputs of one seed, float32 and C-contiguous."""


def make_encoder(
    dataset: Dataset,
    options: EncodingOptions,
    spool: Spool | None = None,
) -> Encoder:
    """The encoder that fits the dataset's features.

    Records of a table go to the spool, or to their own.
    """
    if dataset.image_shape is not None:
        return ImageEncoder(dataset, options.pixel_range)
    writer = RecordWriter(dataset.features, dataset.declared)
    spool = spool or Spool(Path(tempfile.gettempdir()))
    table = spool.keep_rows(writer.blocks(), writer.layout.width)
    return TableEncoder(Records(writer.layout, table), options.merge_rare)


def pixel_values(pixel_range: str) -> Float32:
    """What each of the 256 values of a pixel is to a model: ``symmetric`` in -1..1, or in 0..1."""
    values = np.arange(256, dtype=np.float64) / 255
    if pixel_range == "symmetric":
        values = 2 * values - 1
    return values.astype(np.float32)


class ImageEncoder:
    """Pixels scaled by constants that no data decide: x / 127.5 - 1, or x / 255.

    So nothing is learned from training rows, and scaling costs no privacy. The images stay bytes
    until a seed asks for its own.
    """

    def __init__(self, dataset: Dataset, pixel_range: str) -> None:
        self._scaled = pixel_values(pixel_range)
        self._pixels = pixels_of(dataset.features.column(image_columns(dataset.features.schema)[0]))

    def encode(self, split: Split) -> Encoded:
        """The inputs of one seed: ``[n, H, W, C]``, float32 and C-contiguous."""
        train, test = (self._scaled[self._pixels[rows]] for rows in (split.train, split.test))
        return Encoded(
            split,
            train,
            test,
            names=(),
            fitted=(),
        )


class TableEncoder:
    """A table prepared once, to be encoded for many seeds.

    Numbers are imputed by the median and standardised (population standard deviation; a constant
    becomes 0), with an indicator where values are missing, and limited to +-1000 standard
    deviations. Text with two levels becomes one 0/1 input (levels sorted;
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
        times: Counter[str] = Counter()
        learned: list[str] = []
        merged: dict[str, int] = {}
        for column in columns:
            for name in column.inputs:  # a hostile file may make two equal
                times[name] += 1
                names.append(name if times[name] == 1 else f"{name} #{times[name]}")
            learned += column.learned
            if isinstance(column, CategoryColumn) and column.merged:
                merged[column.name] = column.merged
        if self._merge_rare == 0 and learned:
            learned.append(
                "lists of levels and of columns with missing values: from all rows, not only "
                "training"
            )
        # Bytes of float32: inputs that fit are made now, others batch by batch.
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


def encode(dataset: Dataset, split: Split, options: EncodingOptions) -> Encoded:
    """The inputs of one seed; for several seeds keep an encoder."""
    return make_encoder(dataset, options).encode(split)
