"""Raw columns to model inputs, by constants that are fitted to one seed's training rows only.

A table is laid out once as records of bytes (``data/inputs/records.py``), one per row:
its numbers, then the code of each category. For every seed the records are decoded to inputs
``[n, d]``, float32.
"""

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fairaudit.config.options import EncodingOptions
from fairaudit.data.column_types import Float64
from fairaudit.data.dataset import (
    Dataset,
    Float32,
    InputRows,
    Int64,
    Split,
    image_columns,
    pixels_of,
)
from fairaudit.data.inputs.column import CategoryColumn, Column, NumberColumn
from fairaudit.data.inputs.fit import fit
from fairaudit.data.inputs.records import NO_LEVELS, Block, Layout, Records, RecordWriter, UInt8
from fairaudit.data.inputs.spool import Spool

# Standard deviations. Of n training values none lies further out than sqrt(n - 1), so up to a
# million rows this cuts test rows only; it keeps one absurd value from overflowing float32 in the
# model.
STANDARDISED_LIMIT = 1e3


@dataclass(frozen=True, slots=True)
class Encoded:
    """One seed's model inputs, made by constants of its training rows (or its student pool) only.

    Args:
        split: Which rows these are.
        train: ``[n_train, d]`` float32, or ``[n_train, H, W, C]``.
        test: ``[n_test, ...]`` float32.
        names: Input names, ``[d]``; none for images.
        fitted: What was learned from the training rows ("mean of age"): not private.
        merged: column -> number of rare levels merged into one.
        columns: Constants of every feature, in column order; none of images.
    """

    split: Split
    train: InputRows
    test: InputRows
    names: tuple[str, ...]
    fitted: tuple[str, ...]
    merged: dict[str, int] = field(default_factory=dict)
    columns: tuple[Column, ...] = ()


@dataclass(frozen=True, slots=True)
class _Numbers:
    """How the k numbers of a record are standardised: ``(x - centre) / spread``.

    Args:
        block: Where they are in a record.
        inputs: Index of the input that each becomes, ``[k]``.
        centre, spread: ``[k, 1]``; the spread of a constant is infinite, so that it becomes 0.
        fill: The input that a missing value becomes, ``[k, 1]``.
        gaps: Which of the k numbers have an indicator of missing values; it is the input after the
            number's own.
    """

    block: Block
    inputs: NDArray[np.intp]
    centre: Float64
    spread: Float64
    fill: Float64
    gaps: NDArray[np.intp]

    @classmethod
    def of(cls, block: Block, columns: Sequence[NumberColumn], starts: Sequence[int]) -> "_Numbers":
        """Stack the constants of the number columns; ``starts``: index of each one's first input.

        A column with one value has spread 0: divided by infinity, it becomes 0.
        """
        constants = [(column.centre, column.spread or np.inf, column.fill) for column in columns]
        # From [k, 3] to three arrays [k, 1], also where k is 0.
        centre, spread, fill = np.array(constants).reshape(-1, 3, 1).swapaxes(0, 1)
        # A second input of a number is its indicator of missing values.
        gaps = [place for place, column in enumerate(columns) if len(column.inputs) > 1]
        return cls(
            block,
            np.array(starts, np.intp),
            centre,
            spread,
            _clip_outliers((fill - centre) / spread),
            np.array(gaps, np.intp),
        )

    def decode(self, rows: UInt8, out: Float32) -> None:
        """Write the inputs of the numbers of records ``[n, width]`` into ``out`` ``[n, d]``."""
        # A copy [k, n], changed in place below: numpy is faster over long rows, and there are more
        # records than numbers.
        x = np.array(self.block.view(rows).T, np.float64, order="C")
        missing = np.isnan(x)
        x -= self.centre
        x /= self.spread
        _clip_outliers(x)
        np.copyto(x, self.fill, where=missing)
        out[:, self.inputs] = x.T
        out[:, self.inputs[self.gaps] + 1] = missing[self.gaps].T


@dataclass(frozen=True, slots=True)
class _Codes:
    """How the categories of a record are expanded: every code sets one input to a value.

    The codes of all categories follow each other in two look-ups, ``inputs`` and ``values``.

    Args:
        block: Where the categories are in a record.
        used: Which categories of the block have an input.
        offsets: Where the codes of each of these begin in the look-ups.
        inputs: Index of the input that each code sets.
        values: What each code sets that input to.
    """

    block: Block
    used: NDArray[np.intp]
    offsets: NDArray[np.intp]
    inputs: NDArray[np.intp]
    values: Float32

    @classmethod
    def of(cls, block: Block, columns: Sequence[CategoryColumn], starts: Sequence[int]) -> "_Codes":
        """Make the look-ups of category columns; ``starts``: index of each one's first input."""
        used, offsets = [], []
        inputs: list[int] = []
        values: list[float] = []
        for place, (column, start) in enumerate(zip(columns, starts, strict=True)):
            if column.inputs:  # codes of a category without inputs set nothing
                used.append(place)
                offsets.append(len(inputs))
                inputs += (start + place_in_column for place_in_column in column.places)
                values += column.values
        return cls(
            block,
            np.array(used, np.intp),
            np.array(offsets, np.intp),
            np.array(inputs, np.intp),
            np.array(values, np.float32),
        )

    def decode(self, rows: UInt8, out: Float32) -> None:
        """Write the inputs of the categories of records ``[n, width]`` into ``out`` ``[n, d]``.

        ``out`` is C-contiguous, as it is written through a flat view.
        """
        # Index of each code in the look-ups, ``[n, used categories]``.
        places = self.block.view(rows)[:, self.used].astype(np.intp) + self.offsets
        flat = self.inputs.take(places)
        # Index in the flat view: that of the input, plus d for every record before.
        flat += (np.arange(len(rows)) * out.shape[1])[:, None]
        out.reshape(-1)[flat] = self.values.take(places)


class Recipe:
    """One seed's constants of all columns, arranged to decode many records at once.

    Args:
        layout: Where each column is in a record.
        columns: The constants, in column order.

    Attributes:
        width: d, the number of inputs of a record.
    """

    def __init__(self, layout: Layout, columns: Sequence[Column]) -> None:
        numbers = [column for column in columns if isinstance(column, NumberColumn)]
        categories = [column for column in columns if isinstance(column, CategoryColumn)]
        # Index of each column's first input; the last entry is the number of all inputs.
        starts = [0, *accumulate(len(column.inputs) for column in columns)]
        self.width = starts[-1]
        # Both lists of columns and the blocks' fields are in column order, so they fit together.
        self._numbers = _Numbers.of(
            layout.numbers, numbers, [starts[index] for index in layout.numbers.column_indices]
        )
        self._codes = _Codes.of(
            layout.codes, categories, [starts[index] for index in layout.codes.column_indices]
        )

    def decode(self, rows: UInt8, out: Float32) -> None:
        """Write the inputs of records ``[n, width]`` into C-contiguous zeros ``out`` ``[n, d]``."""
        self._numbers.decode(rows, out)
        self._codes.decode(rows, out)


@dataclass(frozen=True, slots=True)
class DecodedRows:
    """Inputs of some rows, decoded when they are asked for; indexed like an array ``[n, d]``.

    Args:
        records: All rows of the table.
        rows: Indices of those that this holds, ``[n]``.
        recipe: How a record is decoded.
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
        """The inputs of those rows, decoded now: ``[m, d]``, float32 and C-contiguous."""
        rows = self.part(index)
        out = np.zeros(rows.shape, np.float32)
        rows.fill(slice(None), out)
        return out

    def part(self, index: slice | Int64) -> "DecodedRows":
        """A selection of these rows, of which nothing is decoded yet."""
        return replace(self, rows=self.rows[index])

    def fill(self, index: slice | Int64, out: Float32) -> None:
        """Decode the rows at ``index`` into C-contiguous zeros ``out`` ``[m, d]``."""
        for piece, chunk in self.records.chunks(self.rows[index]):
            self.recipe.decode(chunk, out[piece])


def _clip_outliers(values: Float64) -> Float64:
    """Clip standardised values to the limit either way, in place, and return them."""
    return np.clip(values, -STANDARDISED_LIMIT, STANDARDISED_LIMIT, out=values)


# Inputs of one seed up to this many bytes are made once and kept; larger ones batch by batch, from
# the records, which are far smaller.
IN_MEMORY_BYTES = 2**28


class Encoder(Protocol):
    """A dataset prepared once, to be encoded for many seeds."""

    def encode(self, split: Split) -> Encoded:
        """Fit to the training rows of one seed and encode all its rows; float32, C-contiguous."""


def make_encoder(
    dataset: Dataset,
    options: EncodingOptions,
    spool: Spool | None = None,
    levels: Mapping[str, tuple[str, ...]] = NO_LEVELS,
) -> Encoder:
    """The encoder for the dataset's features: of images or of a table.

    Args:
        dataset: All rows.
        options: How they are encoded.
        spool: The file that a table's records are written to, so that other processes can map them;
            None: a file in the temporary folder.
        levels: As of :class:`RecordWriter`.
    """
    if dataset.image_shape is not None:
        return ImageEncoder(dataset, options.pixel_range)
    writer = RecordWriter(dataset.features, dataset.declared, levels, options.zero)
    spool = spool or Spool(Path(tempfile.gettempdir()))
    table = spool.keep_rows(writer.blocks(), writer.layout.width)
    return TableEncoder(Records(writer.layout, table), options.merge_rare)


def pixel_values(pixel_range: str) -> Float32:
    """Look-up ``[256]`` from a pixel's byte to its input: -1..1 for ``symmetric``, else 0..1."""
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
        return Encoded(split, train, test, names=(), fitted=())


class TableEncoder:
    """A table prepared once, to be encoded for many seeds.

    Numbers are imputed by the median and standardised (population standard deviation; a constant
    becomes 0), with an indicator where values are missing, and limited to +-1000 standard
    deviations. Text with two levels becomes one 0/1 input (levels sorted, or that of ``zero``
    first; an unseen one 0.5), other text one input per level in sorted order, a missing value its
    own level. Levels rarer than ``merge_rare`` share one input where there are two or more of
    them; an unseen level goes there, else to none. What is declared of a column takes the place of
    all this.

    With ``merge_rare`` 0 the lists of levels and of columns with missing values come from all rows,
    so that every seed has the same inputs; otherwise test rows have no influence at all.

    Args:
        records: All rows.
        merge_rare: Share of training rows below which a level is rare.
        in_memory: Bytes up to which the inputs of a seed are decoded at once and kept; larger ones
            are decoded when they are read, to the same bits.
    """

    def __init__(
        self, records: Records, merge_rare: float, *, in_memory: int = IN_MEMORY_BYTES
    ) -> None:
        self._records, self._merge_rare, self._in_memory = records, merge_rare, in_memory

    def encode(self, split: Split) -> Encoded:
        """Fit constants to one seed's training rows, and encode these and its test rows by them."""
        columns = fit(self._records, split.train, self._merge_rare)
        recipe = Recipe(self._records.layout, columns)
        train = DecodedRows(self._records, split.train, recipe)
        test = DecodedRows(self._records, split.test, recipe)
        names: list[str] = []
        times: Counter[str] = Counter()  # how often a name has occurred
        learned: list[str] = []
        merged: dict[str, int] = {}
        for column in columns:
            # A file can be made so that inputs of two columns have one name: these are numbered.
            for name in column.inputs:
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
    """Encode one seed; for several seeds one keeps an encoder (:func:`make_encoder`)."""
    return make_encoder(dataset, options).encode(split)
