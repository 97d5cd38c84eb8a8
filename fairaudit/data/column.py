"""A column as a model reads it: its constants, made once, stored in a model's recipe as they are.

They are declared (:func:`declared_column`) or fitted to training rows (``data/fit.py``), and make
the values of a record inputs (``data/encode.py``), in training as in prediction.
"""

from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from fairaudit.config.declared import DeclaredCategory, DeclaredColumn

MISSING_INPUT = "(missing)"


class Part(BaseModel):
    """What is stored of a released model; frozen, and nothing else is taken."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class NumberColumn(Part):
    """A number: ``(x - centre) / spread``, where a missing x is ``fill``.

    Args:
        inputs: Names of the input and, where there is one, of the indicator of missing values.
        spread: 0 where every value is the same; then so is the input.
        range: What may occur; None: it is not declared.
        outside: What becomes of other values.
    """

    kind: Literal["number"]
    name: str
    inputs: Annotated[tuple[str, ...], Field(min_length=1, max_length=2)]
    centre: float
    spread: Annotated[float, Field(ge=0)]
    fill: float
    range: tuple[float, float] | None
    outside: Literal["clip", "missing"]

    @property
    def learned(self) -> tuple[str, ...]:
        """What was learned of training rows for this column, in words; empty if it was declared."""
        if self.range is not None:
            return ()
        learned = (f"mean and standard deviation of {self.name}",)
        if len(self.inputs) > 1:
            return (*learned, f"median of {self.name}")
        return learned


class CategoryColumn(Part):
    """A category: its levels, an unlisted text and a missing value each set an input to a value.

    Args:
        levels: Sorted, or as declared.
        inputs: Names.
        places, values: Which input, to what: ``[levels + 2]``, the last two as above.
        merged: Rare levels that share an input.
        declared: The levels are publicly known, and not those that rows hold.
    """

    kind: Literal["category"]
    name: str
    levels: tuple[str, ...]
    inputs: tuple[str, ...]
    places: tuple[Annotated[int, Field(ge=0)], ...]
    values: tuple[float, ...]
    merged: Annotated[int, Field(ge=0)]
    declared: bool

    @model_validator(mode="after")
    def _fits(self) -> "CategoryColumn":
        """Two entries follow the levels: an unlisted text and a missing value; all are inputs."""
        entries = len(self.levels) + 2
        if len(self.places) != entries or len(self.values) != entries:
            raise ValueError("places and values are not as many as levels")
        if max(self.places) >= max(1, len(self.inputs)):
            raise ValueError("a place is no input")
        return self

    @property
    def learned(self) -> tuple[str, ...]:
        """What was learned of rows, in words."""
        if self.declared:
            return ()
        return (f"levels of {self.name}",)


Column = NumberColumn | CategoryColumn


def declared_column(name: str, declared: DeclaredColumn) -> Column:
    """The constants that a declaration makes; no row is handed in."""
    if isinstance(declared, DeclaredCategory):
        return category_column(name, declared.categories, declared=declared)
    indicator = (f"{name}={MISSING_INPUT}",) if declared.missing is not None else ()
    return NumberColumn(
        kind="number",
        name=name,
        inputs=(name, *indicator),
        centre=declared.middle,
        spread=declared.scale,
        fill=declared.middle if declared.missing is None else declared.missing,
        range=declared.range,
        outside=declared.outside,
    )


def category_column(
    name: str,
    levels: tuple[str, ...],
    *,
    kept: NDArray[np.int64] | None = None,
    rare: NDArray[np.int64] | None = None,
    missing: bool = False,
    declared: DeclaredCategory | None = None,
) -> CategoryColumn:
    """Two levels in one input, others one-hot.

    Args:
        name: The column.
        levels: Its levels.
        kept: Those that have an input of their own; None: all.
        rare: Those that share one.
        missing: Whether a missing value has an input.
        declared: What is publicly known of it; then this says whether it has.
    """
    n = len(levels)
    kept = np.arange(n) if kept is None else kept
    merged = 0 if rare is None else len(rare)
    # Of each level, of an unlisted text, of a missing value. The value 0 at place 0 sets nothing.
    places, values = np.zeros(n + 2, np.int64), np.zeros(n + 2)
    if len(kept) == 2 and not merged:
        inputs = [f"{name}={levels[int(kept[1])]}"]
        values[:] = 0.5  # a level that training rows did not show is neither
        values[kept] = (0.0, 1.0)
    else:
        inputs = [f"{name}={levels[int(level)]}" for level in kept]
        if merged:  # a level that training rows did not show is with the rare, or nowhere
            places[:], values[:] = len(inputs), 1.0
            inputs.append(f"{name}=(other)")
        places[kept], values[kept] = np.arange(len(kept)), 1.0
    if declared is not None and declared.missing is not None:
        code = levels.index(declared.missing)
        places[-1], values[-1] = places[code], values[code]
    elif missing or declared is not None:
        places[-1], values[-1] = len(inputs), 1.0
        inputs.append(f"{name}={MISSING_INPUT}")
    if declared is not None:  # what is not listed counts as missing
        places[-2], values[-2] = places[-1], values[-1]
    return CategoryColumn(
        kind="category",
        name=name,
        levels=levels,
        inputs=tuple(inputs),
        places=tuple(places.tolist()),
        values=tuple(values.tolist()),
        merged=merged,
        declared=declared is not None,
    )
