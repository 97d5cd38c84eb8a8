"""Data whose columns are known and whose rows are not read yet."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from fairaudit.data.reading.stored import StoredColumns
from fairaudit.messages.base import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSource(ABC):
    """What ``--data`` points at.

    Args:
        format: As of :class:`fairaudit.data.dataset.Dataset`.
        schema: Columns and their types as stored.
        declared: ``label``, ``positive`` and ``favourable`` -> the column or value that the data
            declare as such; without what they do not declare.
        declared_by: How a report speaks of that declaration, or "".
        image: The column of images, None in a table without.
    """

    format: str
    schema: pa.Schema
    declared: Mapping[str, str]
    declared_by: str
    image: str | None

    @property
    def is_untyped(self) -> bool:
        """Whether the data give no types, so that the values of a column decide which it has."""
        return self.format in ("csv", "image folder")

    @property
    def sides(self) -> str | None:
        """A column that is none of the data's own and says the side of a row; None: there is none.

        Its name is ``split``. It is no feature, and is used where ``--split-column`` names it.
        """
        return None

    @abstractmethod
    def read(self, columns: Sequence[str]) -> tuple[pa.Table, tuple[Message, ...]]:
        """The named columns in that order, images decoded, and notices about them.

        Raises:
            DataError: Damaged content, no rows, an unreadable image.
        """

    @abstractmethod
    def stored(self, columns: Sequence[str]) -> StoredColumns:
        """The named columns in that order as the data store them, images decoded.

        Raises:
            DataError: As :meth:`read`. Where rows stand alone a row that cannot be read is left
                out, and an image that cannot be used is a missing one.
        """

    @abstractmethod
    def digest(self) -> str:
        """sha256 of everything that is read, in hexadecimal."""
