"""How the lines of a text file hold a table: what is between fields, and who names the columns."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO, IOBase
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.csv as pacsv

from fairaudit.data.reading.lent import lent
from fairaudit.data.reading.memory import MemoryBudget
from fairaudit.data.reading.packed import unpacked, whole

BLANK: Final = " "  # the delimiter of a file whose fields have blanks or tabs between them
REWRITTEN: Final = 2  # times that a text is in memory while another is made of it
# A quoted field, to be kept, or what stands between two fields.
_GAPS: Final = re.compile(rb'("(?:[^"\n\r]|"")*")|[ \t]+')
_AT_ENDS: Final = re.compile(rb"^[ \t]+|[ \t]+$", re.MULTILINE)
_REMARKS: Final = re.compile(rb"^\|[^\n]*\n?", re.MULTILINE)  # as UCI writes them


@dataclass(frozen=True, slots=True)
class TextForm:
    """How a text file is laid out.

    Args:
        delimiter: Between its fields; ``BLANK``: any number of blanks or tabs.
        names: Of its columns, where no line of the file names them; lines that begin with ``|``
            are then remarks.
    """

    delimiter: str = ","
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, line: str, names: Sequence[str] = ()) -> "TextForm":
        """The form by one line: the sign that it holds most often outside of quotes; else blanks.

        Example:
            >>> TextForm.of("age;sex").delimiter, TextForm.of("A11 6 A34 F").delimiter
            (';', ' ')
        """
        bare = re.sub(r'"[^"]*"', "", line)
        delimiter = max(",;\t|", key=bare.count)
        if not bare.count(delimiter) and re.search(r"\S[ \t]+\S", bare):
            delimiter = BLANK
        return cls(delimiter, tuple(names))

    @property
    def reading(self) -> pacsv.ReadOptions:
        """Where Arrow gets the columns' names from."""
        return pacsv.ReadOptions(column_names=list(self.names) or None)

    @property
    def parsing(self) -> pacsv.ParseOptions:
        """How Arrow takes a line apart, where a quoted field may hold several lines."""
        return pacsv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True)

    def content(self, path: Path) -> IOBase | pa.NativeFile:
        """The file's content, unpacked, with one delimiter between two fields, without remarks.

        A text that has both already is streamed as it lies there.

        Raises:
            OSError: The file cannot be read.
            DataError: The file as it lies there, or REWRITTEN times its unpacked text where that is
                rewritten, does not fit the memory at hand.
        """
        MemoryBudget(path).require(path.stat().st_size)
        if self.delimiter != BLANK and not self.names:
            return unpacked(path)
        text = whole(path)
        MemoryBudget(path).require(REWRITTEN * text.size)
        return lent(BytesIO(self.with_single_delimiters(text.to_pybytes())))

    def with_single_delimiters(self, content: bytes, *, keeps_lines: bool = False) -> bytes:
        """Bytes of the file with one delimiter between two fields, and without remarks.

        ``keeps_lines``: An empty line takes the place of each remark.
        """
        if self.names:
            content = _REMARKS.sub(b"\n" if keeps_lines else b"", content)
        if self.delimiter == BLANK:
            content = _AT_ENDS.sub(b"", content.replace(b"\r\n", b"\n"))
            content = _GAPS.sub(lambda match: match[1] or b" ", content)
        return content
