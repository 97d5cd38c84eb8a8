"""How a column becomes model inputs: its constants, stored in a released model's recipe.

The constants (centre, spread, levels) are declared (:func:`declared_column`) or fitted to training
rows (``data/inputs/fit.py``). ``data/inputs/encode.py`` applies them to the values of a record, in
training as in prediction. One column makes one or more inputs; an input is one number that the
model reads.
"""

from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from fairaudit.config.declared import DeclaredCategory, DeclaredColumn

MISSING_INPUT = "(missing)"


class RecipePart(BaseModel):
    """Base of what a released model's recipe stores: frozen, finite, without unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class NumberColumn(RecipePart):
    """A number: ``(x - centre) / spread``, where a missing x is ``fill``.

    Args:
        inputs: Names of the input and, where there is one, of the indicator of missing values.
        centre, spread: Subtracted, then divided by. A spread of 0 means that every training value
            is the same; the input is then always 0.
        fill: Stands in for a missing value, on the scale of x.
        range: Lowest and highest value that is declared; None where the column is not declared.
        outside: What becomes of a value outside the range: the nearer end of it, or missing.
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
        """Statistics of training rows that these constants hold, in words; () if declared."""
        if self.range is not None:
            return ()
        # The median stands in for a later row's missing value even where no training row lacks one.
        return (f"mean and standard deviation of {self.name}", f"median of {self.name}")


class CategoryColumn(RecipePart):
    """A category: every value sets one input of the column to a number; the others stay 0.

    A value has a code: its index in ``levels``, then one code for any unlisted text and, last, one
    for a missing value.

    Args:
        levels: The distinct values, sorted or as declared.
        inputs: Names of the inputs.
        places, values: For each code, ``[levels + 2]``: the index of the input that it sets, and
            the number that it sets it to; 0 sets nothing.
        merged: How many rare levels share one input.
        declared: Whether the levels are declared as publicly known, not read from rows.
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
    def _check_places(self) -> "CategoryColumn":
        """Check, called by pydantic, that every code has a value and a place among the inputs.

        Raises:
            ValueError: Some code has not; pydantic makes its own error of it.
        """
        entries = len(self.levels) + 2
        if len(self.places) != entries or len(self.values) != entries:
            raise ValueError("places and values are not as many as levels")
        if max(self.places) >= max(1, len(self.inputs)):
            raise ValueError("a place is no input")
        return self

    @property
    def learned(self) -> tuple[str, ...]:
        """What these constants hold of rows, in words; () where the levels are declared."""
        if self.declared:
            return ()
        return (f"levels of {self.name}",)


Column = NumberColumn | CategoryColumn


def declared_column(name: str, declared: DeclaredColumn) -> Column:
    """Make a column's constants from its declaration alone, so that they tell nothing of rows."""
    if isinstance(declared, DeclaredCategory):
        return category_column(name, declared.categories, declared=declared)
    indicator = (f"{name}={MISSING_INPUT}",) if declared.missing is not None else ()
    return NumberColumn(
        kind="number",
        name=name,
        inputs=(name, *indicator),
        centre=declared.middle,
        spread=declared.scale,
        # By default the middle, which becomes the input 0.
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
    """Lay out a category's inputs: one 0/1 input for two levels, else one input for each level.

    Args:
        name: The column.
        levels: All its levels.
        kept: Indices of the levels that have an input of their own; None: all of them.
        rare: Indices of the levels that share the input ``(other)``; None: there are none.
        missing: Whether a missing value has an input of its own.
        declared: The declaration of a declared column. It then decides about missing values: they
            count as a level that it names, else have an input; ``missing`` is not read.
    """
    n = len(levels)
    kept = np.arange(n) if kept is None else kept
    merged = 0 if rare is None else len(rare)
    # Entries for each level, then an unlisted text and a missing value. Value 0 sets nothing.
    places, values = np.zeros(n + 2, np.int64), np.zeros(n + 2)
    if len(kept) == 2 and not merged:
        inputs = [f"{name}={levels[int(kept[1])]}"]
        values[:] = 0.5  # a level that training rows did not show is halfway
        values[kept] = (0.0, 1.0)
    else:
        inputs = [f"{name}={levels[int(level)]}" for level in kept]
        # A level that training rows did not show goes with the rare ones, or else sets no input.
        if merged:
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
