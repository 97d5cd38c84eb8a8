"""What a released model is made of beside its weights: everything that turns a row into a prediction."""

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Literal

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, model_validator

from fairaudit.config.declared import DeclaredColumn, DeclaredNumber
from fairaudit.data.columns import Kind, encode_codes, kind_of, level_names, numeric_values
from fairaudit.data.dataset import ColumnConstants, Float32, Int64
from fairaudit.data.encode import Recipe
from fairaudit.data.fit import Fitted, FittedCategory, FittedNumber
from fairaudit.data.naming import listed, quoted
from fairaudit.data.records import CategoryField, Layout, NumberField
from fairaudit.errors import DataError, numbered

UNKNOWN = "(not listed)"  # the level of texts that are none of a column's


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class NumberColumn(_Part):
    """A number or a time in s: ``(x / 2**exponent - centre) / spread``; a missing value is ``fill``.

    Args:
        inputs: Names of the input and, where there is one, of the indicator of missing values.
        range: What may occur, or None.
        outside: What becomes of other values.
    """

    kind: Literal["number", "time"]
    name: str
    inputs: Annotated[tuple[str, ...], Field(min_length=1, max_length=2)]
    exponent: int
    centre: float
    spread: Annotated[float, Field(ge=0)]
    fill: float
    range: tuple[float, float] | None
    outside: Literal["clip", "missing"]


class CategoryColumn(_Part):
    """A category: its levels, an unlisted text and a missing value each set an input to a value.

    Args:
        inputs: Names.
        places, values: Which input, to what: ``[levels + 2]``, the last two as above.
    """

    kind: Literal["category"]
    name: str
    levels: tuple[str, ...]
    inputs: tuple[str, ...]
    places: tuple[Annotated[int, Field(ge=0)], ...]
    values: tuple[float, ...]

    @model_validator(mode="after")
    def _fits(self) -> "CategoryColumn":
        wanted = len(self.levels) + 2
        if len(self.places) != wanted or len(self.values) != wanted:
            raise ValueError("places and values are not as many as levels")
        if max(self.places) >= max(1, len(self.inputs)):
            raise ValueError("a place is no input")
        return self


Column = Annotated[NumberColumn | CategoryColumn, Field(discriminator="kind")]


class Images(_Part):
    """Images as inputs: resized and coloured as in the audit, x / 127.5 - 1 or x / 255 of each byte."""

    shape: tuple[int, int, int]  # H, W, C
    resized: bool
    pixel_range: Literal["symmetric", "unit"]


class NetworkMake(_Part):
    """A network: a built-in one, or what a factory makes, known by its name and a digest of its code."""

    make: Literal["network"]
    model: str
    hidden: tuple[int, ...]
    activation: Literal["tanh", "relu"]
    code_sha256: str


class LinearMake(_Part):
    """Logistic regression on inputs that are clipped to a norm, a constant appended.

    Args:
        same_for_all: It says the same of every row: what a search kept diverged in training.
    """

    make: Literal["linear"]
    feature_norm: float
    intercept: float
    same_for_all: bool = False


class ReleaseRecipe(_Part):
    """``recipe.json``; nothing in it is learned of rows but what ``fitted`` lists."""

    format: Literal[1] = 1
    fairaudit: str
    label: str
    classes: Annotated[tuple[str, ...], Field(min_length=2)]
    columns: tuple[Column, ...]
    images: Images | None
    model: Annotated[NetworkMake | LinearMake, Field(discriminator="make")]
    fitted: tuple[str, ...]

    @model_validator(mode="after")
    def _has_inputs(self) -> "ReleaseRecipe":
        if bool(self.columns) == bool(self.images):
            raise ValueError("inputs are columns or images")
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        """Of a record as the model is given it, (d,) or (H, W, C)."""
        if self.images is None:
            return (sum(len(column.inputs) for column in self.columns),)
        return self.images.shape


def column_of(
    name: str, kind: Kind, constants: ColumnConstants, declared: DeclaredColumn | None
) -> NumberColumn | CategoryColumn:
    """A column as it was encoded in training.

    Args:
        name: Of the column.
        kind: Of its values.
        constants: As encoded.
        declared: Of it, or None.
    """
    if isinstance(constants, FittedNumber):
        told = declared if isinstance(declared, DeclaredNumber) else None
        return NumberColumn(
            kind="time" if kind == "time" else "number",
            name=name,
            inputs=constants.names,
            exponent=constants.exponent,
            centre=constants.mean,
            spread=constants.deviation,
            fill=constants.median,
            range=told.range if told else None,
            outside=told.outside if told else "clip",
        )
    assert isinstance(constants, FittedCategory)
    places, values = constants.places.tolist(), constants.values.tolist()
    missing = places[-1], values[-1]
    unlisted = constants.unseen
    if declared is not None:
        stands_for = None if isinstance(declared, DeclaredNumber) else declared.missing
        if stands_for is not None:
            code = constants.levels.index(stands_for)
            missing = places[code], values[code]
        unlisted = missing
    return CategoryColumn(
        kind="category",
        name=name,
        levels=constants.levels,
        inputs=constants.names,
        places=(*places[:-1], unlisted[0], missing[0]),
        values=(*values[:-1], unlisted[1], missing[1]),
    )


class TableInputs:
    """Rows of any table as a recipe's inputs, and how many values were not as it knows them.

    Args:
        columns: Of the recipe.
        names: Columns that there are.

    Raises:
        DataError: A column is not there.
    """

    def __init__(self, columns: Sequence[NumberColumn | CategoryColumn], names: Collection[str]) -> None:
        lacking = [column.name for column in columns if column.name not in names]
        if lacking:
            raise DataError(
                f"the data lack {numbered(len(lacking), 'column')} that the model reads: {listed(lacking)}",
                "give the columns that it was trained on; the label is not needed",
            )
        self._columns = columns
        self._outside = dict.fromkeys((column.name for column in columns), 0)
        self._missing = dict(self._outside)
        fields = [
            NumberField(c.name, "float64", gaps=True)
            if isinstance(c, NumberColumn)
            else CategoryField(c.name, (*c.levels, UNKNOWN), gaps=True)
            for c in columns
        ]
        self._layout = Layout.of(fields)
        self._recipe = Recipe(self._layout, [_constants(column) for column in columns])

    @property
    def outside(self) -> dict[str, int]:
        """Of the rows so far: column -> values that are not as listed or within the range."""
        return {name: count for name, count in self._outside.items() if count}

    @property
    def missing(self) -> dict[str, int]:
        """Of the rows so far: column -> missing values."""
        return {name: count for name, count in self._missing.items() if count}

    def of(self, table: pa.Table) -> Float32:
        """The inputs of some rows, [n, d].

        Args:
            table: In plain types; columns that the recipe lacks are not read.

        Raises:
            DataError: A column holds something else.
        """
        values = [self._read(column, table.column(column.name)) for column in self._columns]
        rows = np.zeros((table.num_rows, self._layout.width), np.uint8)
        for block in (*self._layout.numbers, self._layout.codes):
            for place, number in enumerate(block.fields):
                block.of(rows)[:, place] = values[number]
        out = np.zeros((table.num_rows, self._recipe.width), np.float32)
        self._recipe.decode(rows, out)
        return out

    def _read(
        self, told: NumberColumn | CategoryColumn, column: pa.ChunkedArray
    ) -> np.ndarray[tuple[int], np.dtype[np.float64]] | Int64:
        kind = kind_of(column.type)
        self._missing[told.name] += int(column.null_count)
        if isinstance(told, CategoryColumn):
            found = encode_codes(column)
            place = {level: code for code, level in enumerate(told.levels)}
            names = level_names(found.values)
            codes = np.array([*(place.get(n, len(place)) for n in names), len(place) + 1], np.int64)
            values = codes[found.codes]
            self._outside[told.name] += int((values == len(place)).sum())
            return values
        if kind not in (told.kind, "empty"):
            raise DataError(
                f"column {quoted(told.name)} holds {_SAID[kind]}, and the model reads {_SAID[told.kind]}",
                "give the column as it was in training",
            )
        numbers = numeric_values(column) if kind != "empty" else np.full(len(column), np.nan)
        if told.range is None:
            return numbers
        beyond = (numbers < told.range[0]) | (numbers > told.range[1])
        self._outside[told.name] += int(beyond.sum())
        if told.outside == "missing":
            return np.where(beyond, np.nan, numbers)
        return np.clip(numbers, *told.range)


_SAID: Mapping[Kind, str] = {
    "number": "numbers",
    "time": "times",
    "category": "text",
    "empty": "nothing",
    "image": "images",
    "unsupported": "something else",
}


def _constants(column: NumberColumn | CategoryColumn) -> Fitted:
    if isinstance(column, NumberColumn):
        return FittedNumber(column.inputs, (), column.exponent, column.fill, column.centre, column.spread)
    places, values = np.array(column.places, np.int64), np.array(column.values, np.float32)
    levels = (*column.levels, UNKNOWN)
    return FittedCategory(column.inputs, (), places, values, False, 0, levels, (0, 0.0))
