"""What is publicly known of a table's columns, declared by hand in the file of ``--columns``.

What is declared need not be learned of rows, which an epsilon would not cover. An *input* is a
number that a model reads: a column becomes one or several.
"""

import math
import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from fairaudit.errors import ConfigError
from fairaudit.io.reading import read_toml

LARGEST = 1e300  # of a declared number: differences and quotients of such numbers stay finite
MOST_CATEGORIES = 1_000
MOST_NUMBERS = 100_000  # of a list
_RANGE = re.compile(r"(.+)\[([0-9]{1,6})\.\.([0-9]{1,6})\]", re.DOTALL)
PLACEHOLDER = "REPLACE ME"  # what `init --columns` writes for what the user has to say
_KEYS = 'kind = "number" with range = [low, high], or kind = "category" with categories = [...]'


class _Declared(BaseModel):
    """Base of what is declared: it is immutable, unknown keys are refused, numbers are finite."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class DeclaredNumber(_Declared):
    """A number of which the range is publicly known.

    Args:
        range: Lowest and highest value.
        outside: What becomes of a value beyond the range: the nearer end of it, or missing.
        missing: What stands in for a missing value, with an input beside it that says so; without
            it, a missing value is the centre, and no input says so.
        missing_values: Texts that stand for a missing value.
        centre, spread: The input is (value - centre) / spread; by default the middle of the range
            and the standard deviation of an even distribution over it.
    """

    kind: Literal["number"]
    range: tuple[float, float]
    outside: Literal["clip", "missing"] = "clip"
    missing: float | None = None
    missing_values: tuple[str, ...] = ()
    centre: float | None = None
    spread: Annotated[float, Field(gt=0)] | None = None

    @field_validator("missing_values", mode="before")
    @classmethod
    def _as_text(cls, value: object) -> object:
        """Run by pydantic before validation: numbers as the text of a table."""
        return [_csv_text(item) for item in value] if isinstance(value, list | tuple) else value

    @model_validator(mode="after")
    def _check_range(self) -> "DeclaredNumber":
        """Run by pydantic: low < high, ``missing`` and ``centre`` lie between, spread is not tiny.

        Raises:
            ValueError: One of these does not hold; pydantic makes its own error of it.
        """
        low, high = self.range
        if not -LARGEST <= low < high <= LARGEST:
            raise ValueError("range is [low, high], the lower number first")
        for name in ("missing", "centre"):
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise ValueError(f"{name} lies outside the range")
        if self.scale < (high - low) / LARGEST:
            raise ValueError("spread is too small for the range")
        return self

    @property
    def middle(self) -> float:
        """What is subtracted from a value to make the input: ``centre``, else the range's mean."""
        if self.centre is None:
            return sum(self.range) / 2
        return self.centre

    @property
    def scale(self) -> float:
        """What that difference is divided by: ``spread``, else the range's length / sqrt(12).

        The latter is the standard deviation of an even distribution over the range.
        """
        if self.spread is None:
            return (self.range[1] - self.range[0]) / math.sqrt(12)
        return self.spread


class DeclaredCategory(_Declared):
    """A category of which all values are publicly known.

    Args:
        categories: The values as text, in the order of the inputs: 1.0 is ``1``, true is ``true``.
        missing: The category that stands for a missing value and for a value that is not listed;
            without it, these values have an input of their own.
        missing_values: Texts that stand for a missing value.
    """

    kind: Literal["category"]
    categories: Annotated[tuple[str, ...], Field(min_length=1, max_length=MOST_CATEGORIES)]
    missing: str | None = None
    missing_values: tuple[str, ...] = ()

    @field_validator("categories", "missing", "missing_values", mode="before")
    @classmethod
    def _as_text(cls, value: object) -> object:
        """Run by pydantic before validation: numbers and truth values as the text of a table."""
        if isinstance(value, list | tuple):
            return [_csv_text(item) for item in value]
        return _csv_text(value)

    @model_validator(mode="after")
    def _check_categories(self) -> "DeclaredCategory":
        """Run by pydantic: categories are distinct texts, and ``missing`` is one of them.

        Raises:
            ValueError: One of these does not hold; pydantic makes its own error of it.
        """
        if len(set(self.categories)) < len(self.categories) or "" in self.categories:
            raise ValueError("categories are distinct texts that are not empty")
        if self.missing is not None and self.missing not in self.categories:
            raise ValueError("missing is none of the categories")
        return self


DeclaredColumn = Annotated[DeclaredNumber | DeclaredCategory, Field(discriminator="kind")]


class Declaration(_Declared):
    """The content of the file of ``--columns``; ``str()`` of it is the file's path.

    A configuration holds the content and not the path alone: it needs no file afterwards, and the
    file cannot change between two readings.
    """

    path: str = Field(default="columns.toml", exclude=True)
    columns: dict[str, DeclaredColumn]

    @field_validator("columns", mode="before")
    @classmethod
    def _for_each_number(cls, value: object) -> object:
        """Run by pydantic before validation: ``emb[0..31]`` declares each number of a list.

        Raises:
            ValueError: It names more numbers than a list may have, or none.
        """
        if not isinstance(value, dict):
            return value
        columns: dict[object, object] = {}
        for name, declared in value.items():
            several = _RANGE.fullmatch(name) if isinstance(name, str) else None
            if several is None:
                columns[name] = declared
                continue
            first, last = int(several[2]), int(several[3])
            if not first <= last < MOST_NUMBERS:
                raise ValueError(f"{name} names no numbers of a list")
            columns |= {f"{several[1]}[{place}]": declared for place in range(first, last + 1)}
        return columns

    def __str__(self) -> str:
        return self.path


def read_declaration(value: object) -> object:
    """Run by pydantic before validation: a path becomes the declaration in that file.

    Any other value is returned as it is, for pydantic to validate.

    Raises:
        ConfigError: The file cannot be read, or a column is not declared as it must be.
    """
    if not isinstance(value, str | Path):
        return value
    path = Path(value)
    content = read_toml(path)
    for column, keys in content.items():
        if not isinstance(keys, dict):  # pydantic refuses it below
            continue
        for key, said in keys.items():
            if said == PLACEHOLDER or (isinstance(said, list) and PLACEHOLDER in said):
                raise ConfigError(
                    f"{path.name}: [{column}]: {key} is still a placeholder",
                    hint="write what is publicly known of the column, not what the rows hold",
                )
    try:
        return Declaration.model_validate({"path": str(value), "columns": content})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"][1:])  # without the field `columns`
        message = first["msg"].removeprefix("Value error, ")  # pydantic's, before our own words
        raise ConfigError(f"{path.name}: {where}: {message}", hint=_KEYS) from None


def _csv_text(value: object) -> object:
    """A number or truth value as the text that CSV would hold: true for True, 1 for 1.0.

    Other values are returned as they are.
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        if float(value).is_integer():
            return str(int(value))
        return repr(float(value))
    return value
