from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from people import plain_columns

from fairaudit.config.options import AuditConfig
from fairaudit.data.tabular import load_dataset

REAL = Path(__file__).resolve().parents[2].parent / "shared" / "data"


@pytest.fixture
def real_data():
    if not REAL.is_dir():
        pytest.skip("the real data sets are not beside the project")
    return REAL


@pytest.fixture
def save(tmp_path):
    """Write columns (or a table) as Parquet and return the path."""

    def _save(columns, name="table.parquet"):
        table = columns if isinstance(columns, pa.Table) else pa.table(columns)
        pq.write_table(table, tmp_path / name)
        return tmp_path / name

    return _save


@pytest.fixture
def load(save):
    """Columns to a Dataset, by way of a file; the label is ``income`` where nothing is said."""

    def _load(columns, **options):
        names = columns.column_names if isinstance(columns, pa.Table) else columns
        if "income" in names:
            options = {"label": "income", **options}
        return load_dataset(AuditConfig(data=save(columns), **options))

    return _load


@pytest.fixture
def people():
    """40 rows, by column: two groups, a binary label, a number, a text."""
    return plain_columns()
