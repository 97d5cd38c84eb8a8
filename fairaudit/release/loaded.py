"""A released model, read from its folder, and its predictions."""

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.numpy import load

from fairaudit.config.model_names import is_factory, layer_sizes, sees_images
from fairaudit.data.column_types import kind_of
from fairaudit.data.dataset import Shape, image_columns, pixels_of, shape_of
from fairaudit.data.inputs.column import NumberColumn
from fairaudit.data.inputs.encode import pixel_values
from fairaudit.data.reading.images import ImageOptions
from fairaudit.data.reading.open import open_data
from fairaudit.data.reading.pixels import PixelLayout
from fairaudit.data.reading.stored import StoredColumns
from fairaudit.data.reading.vectors import lengths_named, with_numbers
from fairaudit.engine.replicates import stack
from fairaudit.engine.stacked import Stacked
from fairaudit.errors import ConfigError, DataError
from fairaudit.execution.model_setup import fresh_model
from fairaudit.io.atomic import appearing
from fairaudit.io.code_digest import code_digest
from fairaudit.io.named_code import make_findable
from fairaudit.messages.names import quoted
from fairaudit.models.convex import BoundedInputs, LogisticModels, n_heads
from fairaudit.release.model_folder import CHANGED, MODEL, RECIPE, read_folder
from fairaudit.release.model_recipe import LinearMake, NetworkMake, ReleaseRecipe, TableInputs
from fairaudit.release.planned import refuse_other_factory
from fairaudit.release.train import WEIGHTS, named_tensors

ROWS, IMAGES = 65_536, 1_024  # how many rows or images are made into inputs at once


class Predictions(NamedTuple):
    """Class probabilities ``[n, Y]`` of rows; ``inputs`` counts unknown and missing values."""

    probabilities: NDArray[np.float32]
    inputs: TableInputs


class ReleasedModel:
    """A model that ``fairaudit train`` wrote.

    Attributes:
        classes_: The classes as the label has them, [Y], in the order of :meth:`predict_proba`.
        recipe: What else the folder says of it.
    """

    def __init__(self, recipe: ReleaseRecipe, network: Stacked | LogisticModels) -> None:
        self.recipe = recipe
        self.classes_: NDArray[np.generic] = np.array(recipe.labels.to_pylist())
        self._network = network

    def predict(self, data: pd.DataFrame) -> NDArray[np.generic]:
        """The most probable class of each row, [n]. Raises: as :meth:`predict_proba`."""
        predicted: NDArray[np.generic] = self.classes_[self.predict_proba(data).argmax(1)]
        return predicted

    def predict_proba(self, data: pd.DataFrame) -> NDArray[np.float32]:
        """The probability of each class, [n, Y], of the rows of a DataFrame.

        Raises:
            DataError: A column is missing or holds something else; the model reads images.
        """
        if self.recipe.images is not None:
            raise DataError("the model reads images, not a table", "use `fairaudit predict`")
        try:
            table = pa.Table.from_pandas(data, preserve_index=False)
        except (pa.ArrowException, AttributeError, ValueError, TypeError) as error:
            raise DataError(
                f"the rows cannot be read: {error}",
                "give a DataFrame with the columns that the model was trained on",
            ) from None
        names = [column.name for column in self.recipe.columns]
        table = with_numbers(table, lengths_named(names, table.schema))
        return self._of_rows(StoredColumns(table)).probabilities

    def predict_file(self, path: str | Path) -> Predictions:
        """Predict the rows of a table file, or images, in the order of the file.

        Raises:
            DataError: The file cannot be read, or is not what the model reads.
        """
        images = self.recipe.images
        options = ImageOptions()
        if images is not None:
            height, width, channels = images.shape
            size = (height, width) if images.resized else None
            pixels = PixelLayout.of(images.pixels)
            options = ImageOptions(size, "grey" if channels == 1 else "rgb", None, pixels)
        source = open_data(Path(path), options)
        if images is None:
            # Of columns that the file lacks `_of_rows` gives the error.
            present = set(source.schema.names)
            names = [c.name for c in self.recipe.columns if c.name in present]
            return self._of_rows(source.stored(names))
        if source.image is None:
            raise DataError(f"{Path(path).name} holds no images, and the model reads them")
        table = source.read([source.image])[0]
        return self._of_images(table, images.shape, pixel_values(images.pixel_range))

    def _of_rows(self, stored: StoredColumns) -> Predictions:
        """Predict the rows of a table, ``ROWS`` at a time.

        Raises:
            DataError: A column that the model reads is missing or holds neither numbers nor text,
                or holds values of which none is a number where the model reads numbers.
        """
        stored = replace(stored, rules=self.recipe.rules)
        table = stored.table
        inputs = TableInputs(self.recipe.columns, table.column_names)
        for column in self.recipe.columns:
            name, kind = quoted(column.name), kind_of(table.column(column.name).type)
            if kind in ("unsupported", "image"):
                raise DataError(f"column {name} holds neither numbers nor text")
            if isinstance(column, NumberColumn):
                is_number = ~np.isnan(stored.numbers(column.name))
                if stored.present(column.name).any() and not is_number.any():
                    raise DataError(
                        f"column {name} holds no numbers", "give the column as it was in training"
                    )
        pieces = []
        for at in range(0, max(1, table.num_rows), ROWS):  # a table without rows is one empty piece
            piece = replace(stored, table=table.slice(at, ROWS))
            pieces.append(self._probabilities(inputs.of(piece)))
        return Predictions(np.concatenate(pieces), inputs)

    def _of_images(self, table: pa.Table, shape: Shape, scaled: NDArray[np.float32]) -> Predictions:
        """Predict images, ``IMAGES`` at a time.

        Args:
            table: The images are in its first column of images.
            shape: Height, width and channels that the model reads.
            scaled: Byte of a pixel -> the model's input, [256].

        Raises:
            DataError: The images are of another shape.
        """
        name = image_columns(table.schema)[0]
        actual = shape_of(table.schema.field(name).type)
        if actual != shape:
            raise DataError(f"the images are {actual}, and the model reads {shape}")
        pixels = pixels_of(table.column(name))
        make = self.recipe.model
        # A model that knows no neighbours of a pixel is given each image as a row of numbers.
        as_rows = not (isinstance(make, NetworkMake) and sees_images(make.model))
        pieces = []
        for at in range(0, len(pixels), IMAGES):
            piece = scaled[pixels[at : at + IMAGES]]
            pieces.append(self._probabilities(piece.reshape(len(piece), -1) if as_rows else piece))
        return Predictions(np.concatenate(pieces), TableInputs((), ()))

    def _probabilities(self, inputs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Class probabilities ``[n, Y]`` of inputs ``[n, ...]``.

        Where the model says nothing finite of a row, every class is as probable as any other.
        """
        features = torch.from_numpy(np.ascontiguousarray(inputs))
        # Any will do: groups of rows to predict are not known, and no released model reads them.
        groups = torch.zeros(len(features), dtype=torch.int64)
        stacked = self._network.probabilities(features, groups)
        probabilities: NDArray[np.float32] = stacked[0].numpy()
        probabilities[~np.isfinite(probabilities).all(1)] = 1.0 / len(self.recipe.classes)
        return probabilities


def load_model(path: str | Path, *, model: str | None = None) -> ReleasedModel:
    """The model in a folder that ``fairaudit train`` wrote; digests checked, nothing unpickled.

    Args:
        path: The folder.
        model: ``module:factory`` of a model of your own: its code is run, so you name it, not the
            folder.

    Raises:
        DataError: The folder is damaged or was changed.
        ConfigError: The factory is not the one that was trained.

    Example:
        >>> import fairaudit, pandas as pd
        >>> model = fairaudit.load_model("model")  # as `fairaudit train --out model` wrote it
        >>> people = pd.read_parquet("sample_data/loans.parquet").head(3)
        >>> model.predict_proba(people).shape
        (3, 2)
    """
    files = read_folder(Path(path))
    try:
        recipe = ReleaseRecipe.model_validate_json(files[RECIPE])
        tensors = load(files[MODEL])
    except (ValidationError, SafetensorError, KeyError, TypeError, ValueError):
        raise DataError(f"{Path(path).name} holds no model of this version", CHANGED) from None
    make = recipe.model
    if isinstance(make, LinearMake):
        if model is not None:
            raise ConfigError("the folder's model is of no factory", hint="leave --model out")
        # Of each head a weight for every input, and one more for the intercept.
        shape = n_heads(len(recipe.classes)), int(np.prod(recipe.shape)) + (make.intercept != 0.0)
        weights = tensors.pop(WEIGHTS, None)  # nothing else may be left in ``tensors``
        if weights is None or weights.shape != shape or weights.dtype != float or tensors:
            raise _unlike(WEIGHTS)
        inputs = BoundedInputs(make.feature_norm, make.intercept)
        return ReleasedModel(recipe, LogisticModels(torch.from_numpy(weights.copy())[None], inputs))
    return ReleasedModel(recipe, _network(recipe, make, tensors, model))


def _network(
    recipe: ReleaseRecipe, make: NetworkMake, tensors: dict[str, NDArray[Any]], model: str | None
) -> Stacked:
    """Make the network of a recipe with its stored parameters.

    Args:
        recipe: What the folder says of the model.
        make: The part of it that describes the network.
        tensors: Name -> stored values of a parameter or buffer.
        model: ``module:factory`` that the user names, or None.

    Raises:
        ConfigError: The factory is not named by the user, or its code is not what was trained.
        DataError: The stored tensors do not fit the network.
    """
    refuse_other_factory(make.model, model)
    if model is not None:
        name = model.partition(":")[0]
        make_findable(name)
        if code_digest([name]) != make.code_sha256:
            raise ConfigError(
                f"the code of {quoted(model)} is not what was trained",
                hint="use the version of the training",
            )
    shape = recipe.shape
    if recipe.images is not None and not sees_images(make.model):
        shape = (int(np.prod(shape)),)  # the network reads an image as a row of numbers
    if not is_factory(make.model):
        sizes = layer_sizes(make.model, recipe.shape, len(recipe.classes), make.hidden)
        # Each output of a layer has a weight for every input, and a bias.
        n_claimed = sum(fan_out * (fan_in + 1) for fan_out, fan_in, _ in sizes)
        # Checked before memory is taken for the layers that the recipe claims.
        if n_claimed != sum(values.size for values in tensors.values()):
            raise _unlike("its layers")
    module = fresh_model(
        make.model,
        shape,
        len(recipe.classes),
        make.hidden,
        make.activation,
        stream=0,  # any start will do: the stored values replace it
        columns=recipe.columns,
    )
    named = named_tensors(module)
    if named.keys() != tensors.keys():
        raise _unlike("its layers")
    with torch.no_grad():
        for name, value in named.items():
            stored = tensors[name]
            if stored.shape != value.shape or f"torch.{stored.dtype}" != str(value.dtype):
                raise _unlike("its layers")
            value.copy_(torch.from_numpy(stored))
    return stack([module])


def _unlike(part: str) -> DataError:
    """The error that the stored tensors do not fit the recipe, in which part."""
    return DataError(f"{MODEL} does not hold what {RECIPE} says: {part}", CHANGED)


def write_predictions(model: ReleasedModel, data: Path, out: Path) -> Predictions:
    """Predict a file, and write a table: ``prediction``, then ``probability_CLASS`` of every class.

    Args:
        model: The released model that predicts.
        data: A table or images, as of :meth:`ReleasedModel.predict_file`.
        out: Path that ends in ``.parquet`` or ``.csv``; the file appears whole or not at all.

    Raises:
        DataError: As of :meth:`ReleasedModel.predict_file`. OutputError: The file cannot be
            written.
    """
    predictions = model.predict_file(data)
    values, classes = predictions.probabilities, model.recipe.labels
    columns = {"prediction": classes.take(pa.array(values.argmax(1)))}
    for name, column in zip(model.recipe.classes, values.T, strict=True):
        columns[f"probability_{name}"] = pa.array(np.ascontiguousarray(column))
    write = pacsv.write_csv if out.suffix.lower() == ".csv" else pq.write_table
    with appearing(out, mode=0o666, lasting=True) as file:
        write(pa.table(columns), file)
    return predictions
