"""Tables that Python holds, of whichever library, as one Arrow table and one Parquet file.

A table of pandas, of polars, a relation of DuckDB, a data set of Hugging Face with the same values
give the same file, byte for byte, so an audit of them has one digest.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fairaudit.errors import ConfigError, DataError
from fairaudit.messages.names import listed, quoted


@runtime_checkable
class ArrowStream(Protocol):
    """Whatever hands over its rows by Arrow's own protocol, as tables of polars and DuckDB do."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows, as a capsule of Arrow."""


Frame = pd.DataFrame | ArrowStream


def table_of(frame: Frame) -> pa.Table:
    """The rows of a frame as an Arrow table without what is its library's own.

    Text has one type whoever wrote it, moments are in microseconds, intervals and periods of pandas
    become their text.

    Args:
        frame: A DataFrame, or what has ``__arrow_c_stream__``.

    Raises:
        DataError: Arrow cannot hold some columns; it names them, and no value.

    Example:
        >>> ages = pd.cut(pd.Series([20, 40]), [0, 30, 60])
        >>> table_of(pd.DataFrame({"ages": ages})).column("ages").to_pylist()
        ['(0, 30]', '(30, 60]']
    """
    if isinstance(frame, pd.DataFrame):
        table = _of_pandas(frame)
    else:
        try:
            table = pa.table(frame)
        except (pa.ArrowException, ValueError, TypeError) as error:
            raise DataError(
                f"the {type(frame).__name__} cannot be read as a table ({type(error).__name__})",
                "collect it first, or write it to a Parquet file",
            ) from None
    names = [str(name) for name in table.column_names]
    columns = [_common_type(column.combine_chunks()) for column in table.columns]
    return pa.Table.from_arrays(columns, names=names)


def write_frame(table: pa.Table, path: Path) -> None:
    """Write a table of :func:`table_of` as a Parquet file whose bytes depend on its values alone.

    Raises:
        DataError: Parquet cannot hold some columns; it names them, and no value.
    """
    try:
        pq.write_table(table, path)
    except (pa.ArrowException, ValueError, TypeError, NotImplementedError) as error:
        kinds = sorted({str(field.type) for field in table.schema})
        raise DataError(
            f"the frame cannot be stored as a table ({type(error).__name__})",
            f"its columns are of {listed(kinds)}; leave out or convert what is neither number nor "
            "text",
        ) from None


def with_predictions(
    table: pa.Table, values: object, argument: str, index: pd.Index | None = None
) -> tuple[pa.Table, str]:
    """The table with given predictions as columns, and the names of these, separated by commas.

    Args:
        table: n rows.
        values: Predictions in the order of the rows, as scikit-learn's metrics take them: classes
            or probabilities ``[n]``, or probabilities of the classes ``[n, Y]``.
        argument: Name of the argument, by which the columns and errors are named.
        index: The labels of the table's rows in pandas, by which a Series in another order is
            found; None: the rows have none.

    Raises:
        ConfigError: They are not one number or text for each row of the table, or not one for each
            class and row; or their rows stand in another order.
    """
    _refuse_other_order(values, argument, index)
    array = _array_of(values, argument)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim not in (1, 2) or not len(array):
        raise ConfigError(
            f"{argument} is of type {type(values).__name__}",
            "give the name of a column, or an array of one value for each row",
        )
    if len(array) != table.num_rows:
        raise ConfigError(f"{argument} has {len(array):,} values for {table.num_rows:,} rows")
    columns = [array] if array.ndim == 1 else list(array.T)
    endings: Sequence[object] = [""]  # of the names of the columns
    if len(columns) > 1:
        classes = values.columns if isinstance(values, pd.DataFrame) else range(len(columns))
        # The names are separated by commas, so none may hold one.
        endings = [f"_{name}".replace(",", " ") for name in classes]
    names = []
    for ending, column in zip(endings, columns, strict=True):
        name = f"{argument}{ending}"
        while name in table.column_names:  # a column of the user's own stays
            name = f"_{name}"
        try:
            stored = pa.array(column.tolist(), from_pandas=True)
        except (pa.ArrowException, ValueError, TypeError):
            raise ConfigError(
                f"{argument} mixes values of several types", "give numbers, or texts"
            ) from None
        table = table.append_column(name, stored)
        names.append(name)
    return table, ",".join(names)


def _refuse_other_order(values: object, argument: str, index: pd.Index | None) -> None:
    """Refuse values of pandas whose labels are those of the table's rows in another order.

    Args:
        values: Of any type; those without labels are taken to be in the order of the rows.
        argument: The argument that they are of.
        index: The labels of the table's rows; None: they have none.

    Raises:
        ConfigError: The labels are the same, in another order.
    """
    labels = values.index if isinstance(values, pd.Series | pd.DataFrame) else None
    if index is None or labels is None or labels.equals(index):
        return
    is_moved = labels.is_unique and index.is_unique and set(labels) == set(index)
    if is_moved and len(labels) == len(index):
        raise ConfigError(
            f"{argument} has the rows of the frame in another order",
            f"give {argument}.loc[frame.index]",
        )


def with_columns(
    table: pa.Table, values: object, argument: str, index: pd.Index | None = None
) -> tuple[pa.Table, list[str]]:
    """The table with columns that an argument gives as values, and the names of these.

    A Series whose name and values are those of a column of the table is that column.

    Args:
        table: n rows.
        values: One for each row, as a Series, an array or a list; several columns as a DataFrame.
        argument: It is the argument's name, and the column's where the values bring none.
        index: As of :func:`with_predictions`.

    Raises:
        ConfigError: The values are not one number or text for each row, or their rows stand in
            another order.
    """
    if isinstance(values, pd.DataFrame):
        names = []
        for column in values.columns:
            # One name: a column of a DataFrame is a Series.
            table, (name,) = with_columns(table, values[column], argument, index)
            names.append(name)
        return table, names
    extended, name = with_predictions(table, values, argument, index)
    if name not in extended.column_names:  # these are several names, with commas between them
        raise ConfigError(f"{argument} has several values for a row", "give one for each")
    own_name = str(getattr(values, "name", None) or argument)  # that of a Series
    if own_name not in table.column_names:
        return extended.rename_columns([*table.column_names, own_name]), [own_name]
    if table.column(own_name).to_pylist() == extended.column(name).to_pylist():
        return table, [own_name]  # the table has it already
    return extended, [name]


def holds_values(given: object, table: pa.Table) -> bool:
    """Whether an argument gives the values of rows, and not a column's name or a list of names.

    Args:
        given: What the user gave.
        table: The rows; a list as long as these holds values, unless each entry is a column's name.
    """
    if given is None or isinstance(given, str):
        return False
    if not isinstance(given, list | tuple):
        return True
    names = set(table.column_names)
    return len(given) == table.num_rows and not all(name in names for name in given)


def _array_of(values: object, argument: str) -> NDArray[np.generic]:
    """Given values as an array of numpy.

    Raises:
        ConfigError: The values cannot be an array.
    """
    try:
        detach = getattr(values, "detach", None)  # a tensor's, which gradients may flow through
        array: NDArray[np.generic] = np.asarray(detach() if callable(detach) else values)
    except Exception as error:  # of whatever library the values are
        raise ConfigError(
            f"{argument} of type {type(values).__name__} cannot be made an array "
            f"({type(error).__name__})",
            "give an array of numpy, as .detach().cpu().numpy() of a tensor",
        ) from None
    return array


def sorted_classes(table: pa.Table, column: str) -> tuple[str, ...]:
    """The values of a label in the order that ``numpy.unique`` gives, as scikit-learn has them.

    Raises:
        ConfigError: There is no such column.
    """
    if column not in table.column_names:
        raise ConfigError(f"there is no column {quoted(column)}")
    values = table.column(column).drop_null().to_pylist()
    return tuple(str(value) for value in np.unique(np.asarray(values)).tolist())


def _of_pandas(frame: pd.DataFrame) -> pa.Table:
    """The table of a DataFrame without its index.

    Raises:
        DataError: Two columns have one name, or Arrow cannot hold a column.
    """
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()].unique()
        raise DataError(f"the DataFrame has two columns named {listed(map(str, twice))}")
    columns, odd = [], []
    for name in frame.columns:
        column = frame[name]
        try:
            columns.append(pa.array(_storable(column), from_pandas=True))
        except (pa.ArrowException, ValueError, TypeError, OverflowError, NotImplementedError):
            odd.append(str(name))  # what is raised would show people's data
    if odd:
        raise DataError(
            f"{listed(odd)} of the DataFrame cannot be stored in a table: values of several types, "
            "or of none that Arrow has",
            "convert them, as frame[name].astype(str), or leave them out",
        )
    arrays = [
        column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        for column in columns
    ]
    return pa.Table.from_arrays(arrays, names=[str(name) for name in frame.columns])


def _storable(column: pd.Series) -> pd.Series:
    """A column that Arrow can store: intervals and periods, which it cannot, become their text.

    Missing values stay missing. A sparse column becomes an ordinary one; any other stays as it is.
    """
    dtype = column.dtype
    if isinstance(dtype, pd.SparseDtype):
        return pd.Series(np.asarray(column))
    if isinstance(dtype, pd.CategoricalDtype):
        dtype = dtype.categories.dtype
    is_interval = isinstance(dtype, pd.IntervalDtype | pd.PeriodDtype)
    if pd.api.types.is_object_dtype(dtype):
        known = column.dropna()
        is_interval = len(known) > 0 and isinstance(known.iloc[0], pd.Interval | pd.Period)
    if not is_interval:
        return column
    # As objects, so that a missing value can be None, which ``map`` leaves as it is.
    return column.astype(object).where(column.notna(), None).map(str, na_action="ignore")


def _common_type(column: pa.Array) -> pa.Array:
    """The column in the one type that its kind of values has, whatever library wrote it.

    Text and bytes have 32-bit offsets, moments are in microseconds, categories are coded anew in
    order of appearance.
    """
    arrow_type = column.type
    # Arrow combines the pieces of a column into one array, but those of no rows into no array.
    if isinstance(column, pa.ChunkedArray):
        column = pa.array([], arrow_type)
    if pa.types.is_dictionary(arrow_type):
        return _common_type(column.dictionary_decode()).dictionary_encode()
    if pa.types.is_large_string(arrow_type) or pa.types.is_string_view(arrow_type):
        return column.cast(pa.string())
    if pa.types.is_large_binary(arrow_type) or pa.types.is_binary_view(arrow_type):
        return column.cast(pa.binary())
    if pa.types.is_timestamp(arrow_type) and arrow_type.unit != "us":
        # Not `safe`: parts of a microsecond are cut off, and not refused.
        return column.cast(pa.timestamp("us", arrow_type.tz), safe=False)
    return column
