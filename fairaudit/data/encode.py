"""Raw columns to model inputs, learned from one seed's training rows only."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fairaudit.config import AuditConfig
from fairaudit.data.columns import encode_levels, kind_of, numeric_values
from fairaudit.data.dataset import Dataset, Encoded, Float32, Int64, Split
from fairaudit.data.pixels import image_columns, pixels_of

# Standard deviations. Of n training values none lies further out than sqrt(n - 1), so up to a million
# rows this cuts test rows only; it keeps one absurd value from overflowing float32 in the model.
STANDARDISED_LIMIT = 1e3
OTHER = "(other)"
MISSING_INPUT = "(missing)"
_NEITHER = 0.5  # a two-valued column's input for a value that training rows did not show

Float64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Number:
    """A numeric column: ``values`` [N] float64, NaN where missing."""

    name: str
    values: Float64
    any_missing: bool


@dataclass(frozen=True, slots=True)
class _Category:
    """A categorical column: ``codes`` [N], ``len(levels)`` where missing."""

    name: str
    codes: Int64
    levels: tuple[str, ...]
    any_missing: bool


@dataclass(frozen=True, slots=True)
class _Block:
    """What one column becomes.

    Args:
        names: Input names, ``[w]``.
        train, test: Dense inputs ``[n, w]``, or codes ``[n]`` of one-hot inputs with -1 for none.
        fitted: What was learned. merged: Rare levels merged.
    """

    names: tuple[str, ...]
    train: Float32 | Int64
    test: Float32 | Int64
    fitted: tuple[str, ...]
    merged: int = 0


class Encoder(Protocol):
    """A dataset prepared once, to be encoded for many seeds."""

    def encode(self, split: Split) -> Encoded:
        """The inputs of one seed, float32 and C-contiguous."""


def make_encoder(dataset: Dataset, config: AuditConfig) -> Encoder:
    """The encoder that fits the dataset's features."""
    return TableEncoder(dataset, config) if dataset.image_shape is None else ImageEncoder(dataset, config)


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
    an unseen level goes there, else to none.

    With ``merge_rare`` 0 the lists of levels and of columns with missing values come from all rows, so
    that every seed has the same inputs; otherwise test rows have no influence at all.
    """

    def __init__(self, dataset: Dataset, config: AuditConfig) -> None:
        self._merge_rare = config.merge_rare
        self._columns = [_prepare(dataset, name) for name in dataset.features.column_names]

    def encode(self, split: Split) -> Encoded:
        """The inputs of one seed, float32 and C-contiguous."""
        blocks = [self._block(column, split) for column in self._columns]
        names = _unique([name for block in blocks for name in block.names])
        fitted = [line for block in blocks for line in block.fitted]
        if self._merge_rare == 0:
            fitted.append(
                "lists of levels and of columns with missing values: from all rows, not only training"
            )
        return Encoded(
            split=split,
            train=_join([b.train for b in blocks], blocks, len(split.train)),
            test=_join([b.test for b in blocks], blocks, len(split.test)),
            names=names,
            fitted=tuple(fitted),
            merged={c.name: b.merged for c, b in zip(self._columns, blocks, strict=True) if b.merged},
        )

    def _block(self, column: _Number | _Category, split: Split) -> _Block:
        fixed = self._merge_rare == 0
        if isinstance(column, _Number):
            return _encode_number(column, split, fixed)
        kept, merged, missing = self._levels(column, column.codes[split.train])
        return _encode_category(column, split, kept, merged, missing)

    def _levels(self, column: _Category, train: Int64) -> tuple[Int64, Int64, bool]:
        """Levels with an input of their own, those merged, and whether missing has an input."""
        levels = np.arange(len(column.levels))
        if self._merge_rare == 0:
            return levels, levels[:0], column.any_missing
        counts = np.bincount(train, minlength=len(levels) + 1)
        seen, missing = counts[:-1] > 0, bool(counts[-1])
        rare = seen & (counts[:-1] < self._merge_rare * len(train))
        if rare.sum() < 2:
            rare[:] = False
        return levels[seen & ~rare], levels[rare], missing


def encode(dataset: Dataset, split: Split, config: AuditConfig) -> Encoded:
    """The inputs of one seed; for several seeds keep an encoder."""
    return make_encoder(dataset, config).encode(split)


def _prepare(dataset: Dataset, name: str) -> _Number | _Category:
    column = dataset.features.column(name)
    if kind_of(column.type) in ("number", "time"):
        values = numeric_values(column)
        return _Number(name, values, bool(np.isnan(values).any()))
    levels = encode_levels(column)
    missing = levels.codes < 0
    codes = np.where(missing, len(levels.names), levels.codes)
    return _Category(name, codes, levels.names, bool(missing.any()))


def _encode_number(column: _Number, split: Split, fixed: bool) -> _Block:
    train, test = column.values[split.train], column.values[split.test]
    gaps = np.isnan(train)
    indicator = column.any_missing if fixed else bool(gaps.any())
    present = train[~gaps]
    # An exact power of two, so that squares of huge values do not overflow and nothing is rounded.
    exponent = int(np.frexp(np.abs(present).max(initial=0.0))[1])
    median = float(np.median(np.ldexp(present, -exponent))) if len(present) else 0.0
    scaled = [_scaled(v, exponent, median) for v in (train, test)]
    varies = len(scaled[0]) > 0 and scaled[0].min() < scaled[0].max()
    mean = float(scaled[0].mean()) if varies else 0.0
    deviation = float(scaled[0].std()) if varies else 0.0
    blocks = []
    for values, raw in zip(scaled, (train, test), strict=True):
        out = np.zeros((len(raw), 1 + indicator), np.float32)
        if deviation > 0:
            with np.errstate(over="ignore"):  # the limit catches it
                out[:, 0] = np.clip((values - mean) / deviation, -STANDARDISED_LIMIT, STANDARDISED_LIMIT)
        if indicator:
            out[:, 1] = np.isnan(raw)
        blocks.append(out)
    names = (column.name, f"{column.name}={MISSING_INPUT}")[: 1 + indicator]
    learned = ("mean and standard deviation", "median")[: 1 + indicator]
    fitted = tuple(f"{what} of {column.name}" for what in learned)
    return _Block(names, blocks[0], blocks[1], fitted)


def _scaled(values: Float64, exponent: int, median: float) -> Float64:
    """Values in units of 2**exponent, gaps filled with the median."""
    with np.errstate(over="ignore"):
        scaled = np.ldexp(values, -exponent)
    return np.asarray(np.where(np.isnan(scaled), median, scaled), dtype=np.float64)


def _encode_category(column: _Category, split: Split, kept: Int64, merged: Int64, missing: bool) -> _Block:
    """Two levels in one input, others one-hot; ``kept`` and ``merged`` index the levels."""
    if len(kept) == 2 and not len(merged):
        return _encode_pair(column, split, kept, missing)
    n_inputs = len(kept) + bool(len(merged)) + missing
    # Levels that training rows did not show, and missing where it has no input: with the rare, or nowhere.
    place = np.full(len(column.levels) + 1, len(kept) if len(merged) else -1, np.int64)
    place[kept] = np.arange(len(kept))
    names = [f"{column.name}={column.levels[int(k)]}" for k in kept]
    if len(merged):
        names.append(f"{column.name}={OTHER}")
    if missing:
        place[-1] = n_inputs - 1
        names.append(f"{column.name}={MISSING_INPUT}")
    train, test = place[column.codes[split.train]], place[column.codes[split.test]]
    return _Block(tuple(names), train, test, (f"levels of {column.name}",), len(merged))


def _encode_pair(column: _Category, split: Split, kept: Int64, missing: bool) -> _Block:
    place = np.full(len(column.levels) + 1, _NEITHER, np.float32)
    place[kept] = (0.0, 1.0)
    if missing:
        place[-1] = 0.0
    name = f"{column.name}={column.levels[int(kept[1])]}"
    blocks = []
    for rows in (split.train, split.test):
        codes = column.codes[rows]
        out = place[codes][:, None]
        blocks.append(np.column_stack([out, codes == len(column.levels)]) if missing else out)
    names = (name, f"{column.name}={MISSING_INPUT}")[: 1 + missing]
    train, test = (b.astype(np.float32) for b in blocks)
    return _Block(names, train, test, (f"levels of {column.name}",))


def _join(parts: list[Float32 | Int64], blocks: list[_Block], rows: int) -> Float32:
    out = np.zeros((rows, sum(len(b.names) for b in blocks)), np.float32)
    at = 0
    for part, block in zip(parts, blocks, strict=True):
        if part.ndim == 2:
            out[:, at : at + part.shape[1]] = part
        else:
            found = np.flatnonzero(part >= 0)
            out[found, at + part[found].astype(np.int64)] = 1.0
        at += len(block.names)
    return out


def _unique(names: list[str]) -> tuple[str, ...]:
    """The names, with a number added to those that a hostile file made equal."""
    seen: dict[str, int] = {}
    unique = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        unique.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return tuple(unique)
