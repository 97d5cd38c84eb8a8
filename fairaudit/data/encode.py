"""Raw columns to model inputs, learned from one seed's training rows only."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fairaudit.config.options import AuditConfig
from fairaudit.data.dataset import Dataset, Encoded, Float32, Int64, Split, image_columns, pixels_of
from fairaudit.data.fit import Fitted, FittedCategory, FittedNumber, fit
from fairaudit.data.records import Block, Float64, Layout, Records, RecordWriter, UInt8
from fairaudit.data.spool import Spool

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


# Inputs of one seed up to this many bytes are made once and kept; larger ones batch by batch, from the
# records, which are far smaller.
IN_MEMORY_BYTES = 2**28


class Encoder(Protocol):
    """A dataset prepared once, to be encoded for many seeds."""

    def encode(self, split: Split) -> Encoded:
        """The inputs of one seed, float32 and C-contiguous."""


def make_encoder(dataset: Dataset, config: AuditConfig, spool: Spool | None = None) -> Encoder:
    """The encoder that fits the dataset's features; records of a table go to the spool, or to their own."""
    if dataset.image_shape is not None:
        return ImageEncoder(dataset, config)
    writer = RecordWriter(dataset.features, dataset.declared)
    table = (spool or Spool(config.out)).keep_rows(writer.blocks(), writer.layout.width)
    return TableEncoder(Records(writer.layout, table), config.merge_rare)


class ImageEncoder:
    """Pixels scaled by constants that no data decide: x / 127.5 - 1, or x / 255.

    So nothing is learned from training rows, and scaling costs no privacy. The images stay bytes until
    a seed asks for its own.
    """

    def __init__(self, dataset: Dataset, config: AuditConfig) -> None:
        values = np.arange(256, dtype=np.float64) / 255
        self._scaled = (2 * values - 1 if config.pixel_range == "symmetric" else values).astype(np.float32)
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
    an unseen level goes there, else to none. What is declared of a column takes the place of all this.

    With ``merge_rare`` 0 the lists of levels and of columns with missing values come from all rows, so
    that every seed has the same inputs; otherwise test rows have no influence at all.

    Args:
        records: All rows.
        merge_rare: As above.
        in_memory: Inputs of more bytes are made when they are read; the same bits.
    """

    def __init__(self, records: Records, merge_rare: float, *, in_memory: int = IN_MEMORY_BYTES) -> None:
        self._records, self._merge_rare, self._in_memory = records, merge_rare, in_memory

    def encode(self, split: Split) -> Encoded:
        """The inputs of one seed, float32 and C-contiguous."""
        layout = self._records.layout
        fitted = fit(self._records, split.train, self._merge_rare)
        recipe = Recipe(layout, fitted)
        train, test = (DecodedRows(self._records, rows, recipe) for rows in (split.train, split.test))
        learned = [line for column in fitted for line in column.fitted]
        if self._merge_rare == 0 and learned:
            learned.append(
                "lists of levels and of columns with missing values: from all rows, not only training"
            )
        merged = {
            f.name: c.merged
            for f, c in zip(layout.fields, fitted, strict=True)
            if isinstance(c, FittedCategory)
        }
        whole = 4 * recipe.width * (len(train) + len(test)) <= self._in_memory
        return Encoded(
            split=split,
            train=train[:] if whole else train,
            test=test[:] if whole else test,
            names=_unique([name for column in fitted for name in column.names]),
            fitted=tuple(learned),
            merged={name: count for name, count in merged.items() if count},
            columns=tuple(fitted),
        )


def encode(dataset: Dataset, split: Split, config: AuditConfig) -> Encoded:
    """The inputs of one seed; for several seeds keep an encoder."""
    return make_encoder(dataset, config).encode(split)


def _unique(names: list[str]) -> tuple[str, ...]:
    """The names, with a number added to those that a hostile file made equal."""
    seen: dict[str, int] = {}
    unique = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        unique.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return tuple(unique)
