"""What a released model is made of beside its weights: all that turns a row into a prediction."""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Annotated, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field, model_validator

from fairaudit.config.model_names import is_factory, sees_images
from fairaudit.data.column_types import Float64, within
from fairaudit.data.dataset import Float32, Int64
from fairaudit.data.inputs import records
from fairaudit.data.inputs.column import CategoryColumn, Column, RecipePart
from fairaudit.data.inputs.encode import Recipe
from fairaudit.data.inputs.records import Layout
from fairaudit.data.reading.stored import StoredColumns
from fairaudit.data.reading.values import ValueRules
from fairaudit.errors import DataError, numbered
from fairaudit.messages.names import listed


class Images(RecipePart):
    """How images become inputs: as in the audit.

    Args:
        shape: H, W and C that the model reads.
        resized: Whether images are resized to that height and width; else others are refused.
        pixel_range: Inputs lie in -1..1 (``symmetric``) or in 0..1 (``unit``).
        pixels: How a table holds them as pixels, as of ``--pixels``; None where files hold them.
    """

    shape: tuple[int, int, int]
    resized: bool
    pixel_range: Literal["symmetric", "unit"]
    pixels: str | None = None


class NetworkMake(RecipePart):
    """A network, built in or made by a factory of the user's own.

    Args:
        model: Name of the built-in network, or ``module:factory``.
        hidden: Widths of an ``mlp``'s layers; empty for others.
        activation: Of a built-in network.
        code_sha256: Digest of the factory's code; "" for a built-in network.
    """

    make: Literal["network"]
    model: str
    hidden: tuple[int, ...]
    activation: Literal["tanh", "relu"]
    code_sha256: str


class LinearMake(RecipePart):
    """Logistic regression on inputs that are clipped to a norm and get a constant as one more.

    Args:
        feature_norm: The largest L2 norm of an input row.
        intercept: The constant; 0: none is appended.
        same_for_all: Whether it says the same of every row, for the training that a search kept
            diverged.
    """

    make: Literal["linear"]
    feature_norm: float
    intercept: float
    same_for_all: bool = False


class ReleaseRecipe(RecipePart):
    """``recipe.json``: all that turns a row into a prediction, beside the weights.

    Nothing in it is learned from rows but what ``fitted`` lists. A model reads ``columns`` of a
    table or ``images``, never both. ``label_type`` is the Arrow type in which a class is predicted.
    ``missing_values`` and ``number_format`` are the options by which values were read.
    """

    format: Literal[1] = 1
    fairaudit: str
    label: str
    classes: Annotated[tuple[str, ...], Field(min_length=2)]
    label_type: Literal["bool", "int64", "double", "string"]
    columns: tuple[Annotated[Column, Field(discriminator="kind")], ...]
    images: Images | None
    model: Annotated[NetworkMake | LinearMake, Field(discriminator="make")]
    fitted: tuple[str, ...]
    missing_values: tuple[str, ...] = ()
    number_format: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _has_inputs(self) -> "ReleaseRecipe":
        """Refuse a recipe that has both columns and images, or neither."""
        if bool(self.columns) == bool(self.images):
            raise ValueError("inputs are columns or images")
        return self

    @model_validator(mode="after")
    def _has_distinct_names(self) -> "ReleaseRecipe":
        """Refuse a class that is no value of ``label_type``, equal classes, and equal columns."""
        names = [column.name for column in self.columns]
        # A class that is no value of the type raises Arrow's error, which is a ValueError.
        if len(self.labels.unique()) < len(self.classes) or len(set(names)) < len(names):
            raise ValueError("classes and columns have names of their own")
        return self

    @model_validator(mode="after")
    def _has_what_the_model_reads(self) -> "ReleaseRecipe":
        """Refuse a network of images for a table; a factory's may read either."""
        model = self.model.model if isinstance(self.model, NetworkMake) else ""
        if self.images is None and sees_images(model) and not is_factory(model):
            raise ValueError("the network reads images")
        return self

    @property
    def rules(self) -> ValueRules:
        """How values are read, as in training.

        Raises:
            ConfigError: The recipe's texts are not as these options are written.
        """
        names = [column.name for column in self.columns]
        # ``COLUMN=FORMAT``, or a format alone for all columns. That of a group's or the label's
        # column is left out, since the model does not read it.
        formats = [text for text in self.number_format if text.rpartition("=")[0] in ("", *names)]
        return ValueRules.of(self.missing_values, formats, names)

    @property
    def labels(self) -> pa.Array:
        """The classes as values of their type, [Y]."""
        return pa.array(self.classes, pa.string()).cast(pa.type_for_alias(self.label_type))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one record's inputs: (d,) of a table, (H, W, C) of images."""
        if self.images is None:
            return (sum(len(column.inputs) for column in self.columns),)
        return self.images.shape


class TableInputs:
    """Makes rows of any table into a recipe's inputs, and counts values that it does not know.

    Args:
        columns: Of the recipe.
        present: Names of the columns of the table that is to be read.

    Attributes:
        unknown: Column -> how many values, of the rows so far, are not listed or out of the range.
        missing: Column -> how many values, of the rows so far, are missing.

    Raises:
        DataError: A column is not there.
    """

    def __init__(self, columns: Sequence[Column], present: Collection[str]) -> None:
        lacking = [column.name for column in columns if column.name not in present]
        if lacking:
            raise DataError(
                f"the data lack {numbered(len(lacking), 'column')} that the model reads: "
                f"{listed(lacking)}",
                "give the columns that it was trained on; the label is not needed",
            )
        self.unknown: Counter[str] = Counter()
        self.missing: Counter[str] = Counter()
        self._columns = columns
        fields = []
        for column in columns:
            levels = column.levels if isinstance(column, CategoryColumn) else ()
            fields.append(records.Field(column.name, column.kind, levels=levels))
        # The layout follows from the columns alone, so it is that of the training's records.
        self._layout = Layout.of(fields)
        self._recipe = Recipe(self._layout, columns)

    def of(self, stored: StoredColumns) -> Float32:
        """The inputs of some rows, [n, d]; columns that the recipe lacks are not read."""
        values = [self._read(column, stored) for column in self._columns]  # in column order
        n_rows = stored.table.num_rows
        # Records in the layout that training uses, since the recipe decodes nothing else.
        rows = np.zeros((n_rows, self._layout.width), np.uint8)
        for block in (self._layout.numbers, self._layout.codes):
            for place, index in enumerate(block.column_indices):
                block.view(rows)[:, place] = values[index]  # through the view into ``rows``
        out = np.zeros((n_rows, self._recipe.width), np.float32)
        self._recipe.decode(rows, out)
        return out

    def _read(self, spec: Column, stored: StoredColumns) -> Float64 | Int64:
        """A column's values ``[n]`` as in training: numbers, NaN for missing, or codes of levels.

        Counts values that are missing, and values that are out of the range, not listed or no
        number.
        """
        values: Float64 | Int64
        if isinstance(spec, CategoryColumn):
            values = stored.codes(spec.name, spec.levels)
            # After the codes of the levels come two more: of a value that is not listed, and of a
            # missing value.
            unlike, missing = values == len(spec.levels), values > len(spec.levels)
        else:
            numbers = stored.numbers(spec.name)
            missing = ~stored.present(spec.name)
            unlike, values = np.isnan(numbers) & ~missing, numbers
            if spec.range is not None:
                values, beyond = within(numbers, spec.range, spec.outside)
                unlike |= beyond
        self.missing += Counter({spec.name: int(missing.sum())})
        self.unknown += Counter({spec.name: int(unlike.sum())})
        return values
