"""A released model, read from its folder: predictions as scikit-learn's classifiers give them."""

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import torch
from numpy.typing import ArrayLike, NDArray
from pyarrow.csv import CSVWriter
from pyarrow.parquet import ParquetWriter
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.numpy import load

from fairaudit.config.model_names import is_factory, layer_sizes, sees_images
from fairaudit.config.options import AuditConfig
from fairaudit.data.columns import plain_table
from fairaudit.data.dataset import image_columns, pixels_of, shape_of
from fairaudit.data.naming import listed, quoted
from fairaudit.data.readers import parquet_batches
from fairaudit.data.source import DataSource
from fairaudit.data.sources import TableFiles, open_data
from fairaudit.engine.replicates import stack
from fairaudit.engine.stacked import Stacked
from fairaudit.errors import ConfigError, DataError
from fairaudit.execution.model_setup import fresh_model
from fairaudit.io.atomic import appearing
from fairaudit.io.code_digest import code_digest
from fairaudit.models.convex import BoundedInputs, LogisticModels
from fairaudit.release.model_folder import CHANGED, MODEL, RECIPE, read_folder
from fairaudit.release.model_recipe import (
    Images,
    LinearMake,
    NetworkMake,
    ReleaseRecipe,
    TableInputs,
)
from fairaudit.release.planned import refuse_other_factory
from fairaudit.release.train import WEIGHTS, named_tensors

ROWS, IMAGES = 65_536, 1_024  # predicted at once
ROW_GROUP = 2**20  # rows that stand together in a Parquet file, as where pyarrow writes a table


@dataclass(frozen=True, slots=True)
class TablePredictions:
    """What a model says of a table, and what of the table was not as it knows it.

    Args:
        probabilities: [n, Y] float32.
        outside: column -> values not listed or out of range.
        missing: column -> missing values.
    """

    probabilities: NDArray[np.float32]
    outside: dict[str, int]
    missing: dict[str, int]


class Predicting(NamedTuple):
    """Predictions that are made as they are asked for, ``at_once`` rows at a time.

    ``inputs`` counts what was not as the model knows it, of the rows so far.
    """

    pieces: Iterator[NDArray[np.float32]]
    at_once: int
    inputs: TableInputs

    def all(self, classes: int) -> TablePredictions:
        """Of all rows."""
        empty = np.empty((0, classes), np.float32)
        probabilities = np.concatenate([empty, *self.pieces])
        return TablePredictions(
            probabilities,
            dict(self.inputs.outside),
            dict(self.inputs.missing),
        )


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
        """The class of each row, [n]; as :meth:`predict_proba`."""
        predicted: NDArray[np.generic] = self.classes_[self.predict_proba(data).argmax(1)]
        return predicted

    def predict_proba(self, data: pd.DataFrame) -> NDArray[np.float32]:
        """The probability of each class, [n, Y], of the rows of a DataFrame.

        Raises:
            DataError: A column is missing or holds something else; the model reads images.
        """
        if self.recipe.images is not None:
            raise DataError(
                "the model reads images, not a table", "use `fairaudit predict`, or predict_file"
            )
        try:
            if isinstance(data, pd.DataFrame):
                table = pa.Table.from_pandas(data, preserve_index=False)
            else:
                table = pa.table(data)
        except (pa.ArrowException, ValueError, TypeError) as error:
            raise DataError(
                f"the rows cannot be read: {error}",
                "give a DataFrame with the columns that the model was trained on",
            ) from None
        return self.predict_table(table).probabilities

    def score(self, data: pd.DataFrame, labels: ArrayLike) -> float:
        """The share of rows whose class is the one given; as :meth:`predict_proba`."""
        return float(np.mean(self.predict(data) == np.asarray(labels)))

    @property
    def feature_names_in_(self) -> NDArray[np.object_]:
        """Columns that it reads, in any order among others."""
        return np.array([column.name for column in self.recipe.columns], dtype=object)

    def __repr__(self) -> str:
        return (
            f"ReleasedModel({self.recipe.model.make} of {self.recipe.label!r}: "
            f"{listed(self.recipe.classes)})"
        )

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> object:
        """What scikit-learn asks of a classifier before it scores one."""
        from sklearn.utils import ClassifierTags, Tags, TargetTags  # noqa: TID251 - it asks itself

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=False),
            classifier_tags=ClassifierTags(),
        )

    def predict_file(self, path: str | Path) -> TablePredictions:
        """Of the rows of a table, or of images, in the order of the file.

        Raises:
            DataError: The file cannot be read, or is not what the model reads.
        """
        return self._predicting(Path(path)).all(len(self.recipe.classes))

    def predict_table(self, table: pa.Table) -> TablePredictions:
        """Of the rows of an Arrow table. Raises: as :meth:`predict_proba`."""
        parts = (
            table.slice(at, ROWS)
            for at in range(
                0,
                max(1, table.num_rows),
                ROWS,
            )
        )
        return self._of_rows(table.column_names, parts).all(len(self.recipe.classes))

    def _predicting(self, path: Path) -> Predicting:
        """As :meth:`predict_file`, with no more in memory than is asked for."""
        images = self.recipe.images
        options: dict[str, Any] = {"data": path}
        if images is not None:
            height, width, channels = images.shape
            options |= {"resize": f"{height}x{width}"} if images.resized else {}
            options |= {"channels": "grey" if channels == 1 else "rgb"}
        source = open_data(AuditConfig(**options))
        if images is None:
            names = [c.name for c in self.recipe.columns if c.name in source.schema.names]
            return self._of_rows(names, _parts(source, names))
        if source.image is None:
            raise DataError(f"{path.name} holds no images, and the model reads them")
        return self._of_images(source.read([source.image])[0], images)

    def _of_rows(
        self,
        names: Collection[str],
        parts: Iterable[pa.Table],
    ) -> Predicting:
        inputs = TableInputs(self.recipe.columns, names)

        def pieces() -> Iterator[NDArray[np.float32]]:
            for part in parts:
                plain, unreadable, _ = plain_table(part)
                wanted = [c.name for c in self.recipe.columns if c.name in unreadable]
                if wanted:
                    raise DataError(f"column {quoted(wanted[0])} holds {unreadable[wanted[0]]}")
                yield self._probabilities(inputs.of(plain))

        return Predicting(pieces(), ROWS, inputs)

    def _of_images(self, table: pa.Table, images: Images) -> Predicting:
        name = image_columns(table.schema)[0]
        shape = shape_of(table.schema.field(name).type)
        if shape != images.shape:
            raise DataError(f"the images are {shape}, and the model reads {images.shape}")
        pixels = pixels_of(table.column(name))
        values = np.arange(256, dtype=np.float64) / 255
        scaled = (2 * values - 1 if images.pixel_range == "symmetric" else values).astype(
            np.float32
        )
        make = self.recipe.model
        as_rows = not (isinstance(make, NetworkMake) and sees_images(make.model))

        def pieces() -> Iterator[NDArray[np.float32]]:
            for at in range(0, len(pixels), IMAGES):
                piece = scaled[pixels[at : at + IMAGES]]
                yield self._probabilities(piece.reshape(len(piece), -1) if as_rows else piece)

        return Predicting(pieces(), IMAGES, TableInputs((), ()))

    def _probabilities(self, inputs: NDArray[np.float32]) -> NDArray[np.float32]:
        features = torch.from_numpy(np.ascontiguousarray(inputs))
        if isinstance(self._network, Stacked):
            found = self._network.probabilities(features)
        else:
            found = self._network.probabilities(
                features, torch.zeros(len(features), dtype=torch.int64)
            )
        probabilities: NDArray[np.float32] = found[0].numpy()
        probabilities[~np.isfinite(probabilities).all(1)] = 1.0 / len(self.recipe.classes)
        return probabilities


def _parts(source: DataSource, names: Sequence[str]) -> Iterator[pa.Table]:
    """Columns of a table, as many rows at a time as are predicted at once.

    How many there are moves a last digit. They are read by and by where all files are Parquet of
    the same types.
    """
    batches: Iterable[pa.RecordBatch] | None = None
    if names and isinstance(source, TableFiles) and source.format == "parquet":
        schemas = [pa.schema(map(file.schema.field, names)) for file in source.files]
        if all(schema == schemas[0] for schema in schemas):
            of_files = (parquet_batches(file, names) for file in source.files)
            batches = itertools.chain.from_iterable(of_files)
    if batches is None:
        batches = source.read(names)[0].to_batches()
    parts: list[pa.Table] = []
    for batch in batches:
        parts.append(pa.Table.from_batches([batch]))
        while sum(part.num_rows for part in parts) >= ROWS:
            held = pa.concat_tables(parts)
            yield held.slice(0, ROWS)
            parts = [held.slice(ROWS)]
    left = pa.concat_tables(parts) if parts else None
    if left is not None and left.num_rows:
        yield left


def load_model(path: str | Path, *, model: str | None = None) -> ReleasedModel:
    """The model in a folder that ``fairaudit train`` wrote.

    Its digests are checked, nothing is unpickled.

    Args:
        path: The folder.
        model: ``module:factory`` of a model of your own: its code is run, so you name it, not the
            folder.

    Raises:
        DataError: The folder is damaged or was changed.
        ConfigError: The factory is not the one that was trained.
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
        heads = 1 if len(recipe.classes) == 2 else len(recipe.classes)
        shape = heads, int(np.prod(recipe.shape)) + (make.intercept != 0.0)
        weights = tensors.pop(WEIGHTS, None)
        if weights is None or weights.shape != shape or weights.dtype != float or tensors:
            raise _unlike(WEIGHTS)
        inputs = BoundedInputs(make.feature_norm, make.intercept)
        return ReleasedModel(recipe, LogisticModels(torch.from_numpy(weights.copy())[None], inputs))
    return ReleasedModel(recipe, _network(recipe, make, tensors, model))


def _network(
    recipe: ReleaseRecipe,
    make: NetworkMake,
    tensors: dict[str, NDArray[Any]],
    model: str | None,
) -> Stacked:
    refuse_other_factory(make.model, model)
    if model is not None and code_digest([model.partition(":")[0]]) != make.code_sha256:
        raise ConfigError(
            f"the code of {quoted(model)} is not what was trained",
            hint="use the version of the training",
        )
    images = recipe.images is not None
    shape = recipe.shape if not images or sees_images(make.model) else (int(np.prod(recipe.shape)),)
    if not is_factory(make.model):
        sizes = layer_sizes(
            make.model,
            recipe.shape,
            len(recipe.classes),
            make.hidden,
        )
        wanted = sum(out * (into + 1) for out, into, _ in sizes)
        if wanted != sum(values.size for values in tensors.values()):
            raise _unlike("its layers")  # before memory is taken for what the recipe claims
    module = fresh_model(
        make.model,
        shape,
        len(recipe.classes),
        make.hidden,
        make.activation,
        stream=0,
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


def _unlike(what: str) -> DataError:
    return DataError(f"{MODEL} does not hold what {RECIPE} says: {what}", CHANGED)


def write_predictions(
    model: ReleasedModel,
    data: Path,
    out: Path,
) -> tuple[int, Predicting]:
    """Predict a file into a table.

    ``prediction``, then ``probability_CLASS`` of every class, row by row.

    Rows of a Parquet file are read, predicted and written some at a time.

    Args:
        model: Whose predictions.
        data: As of :meth:`ReleasedModel.predict_file`.
        out: ``.parquet`` or ``.csv``; it appears whole or not at all.

    Returns:
        How many rows, and what of them was not as the model knows them.

    Raises:
        DataError: As of :meth:`ReleasedModel.predict_file`. OutputError: The file cannot be
            written.
    """
    classes = model.recipe.labels
    fields = [(f"probability_{name}", pa.float32()) for name in model.recipe.classes]
    schema = pa.schema([("prediction", classes.type), *fields])
    table_writer = CSVWriter if out.suffix.lower() == ".csv" else ParquetWriter
    found, rows = model._predicting(data), 0
    with (
        appearing(
            out,
            mode=0o666,
            lasting=True,
        ) as file,
        table_writer(file, schema) as writer,
    ):
        while pieces := list(itertools.islice(found.pieces, ROW_GROUP // found.at_once)):
            values = np.concatenate(pieces)
            winners = classes.take(pa.array(values.argmax(1)))
            columns = [pa.array(np.ascontiguousarray(column)) for column in values.T]
            writer.write_table(pa.table([winners, *columns], schema=schema))
            rows += len(values)
    return rows, found
