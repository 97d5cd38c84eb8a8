"""Raw columns to model inputs, learned from one seed's training rows only."""

from typing import Protocol

import numpy as np

from fairaudit.config.options import AuditConfig
from fairaudit.data.dataset import Dataset, Encoded, Split
from fairaudit.data.fit import FittedCategory, fit
from fairaudit.data.pixels import image_columns, pixels_of
from fairaudit.data.recipe import DecodedRows, Recipe
from fairaudit.data.records import Records, RecordWriter
from fairaudit.data.spool import Spool

# Inputs of one seed up to this many bytes are made once and kept; larger ones batch by batch, from the
# records, which are far smaller.
IN_MEMORY_BYTES = 2**28


class Encoder(Protocol):
    """A dataset prepared once, to be encoded for many seeds."""

    def encode(self, split: Split) -> Encoded:
        """The inputs of one seed, float32 and C-contiguous."""


def make_encoder(dataset: Dataset, config: AuditConfig) -> Encoder:
    """The encoder that fits the dataset's features."""
    return TableEncoder.of(dataset, config) if dataset.image_shape is None else ImageEncoder(dataset, config)


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

    @classmethod
    def of(cls, dataset: Dataset, config: AuditConfig) -> "TableEncoder":
        """The encoder of a table; the records of a large one go to a file without a name."""
        writer = RecordWriter(dataset.features, dataset.declared)
        if writer.size <= IN_MEMORY_BYTES:
            return cls(writer.in_memory(), config.merge_rare)
        table = Spool(config.out).keep_rows(writer.blocks(), writer.layout.width)
        return cls(Records(writer.layout, table), config.merge_rare)

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
