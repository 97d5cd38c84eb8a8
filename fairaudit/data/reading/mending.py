"""Shell commands that a refusal offers: each writes a mended copy of a text file beside it.

A command is offered only where it is sure to do what the hint says. The file is named as it was
typed, the copy lies in the current folder, and no file that exists is written over.
"""

import csv
import io
import os
import re
import shlex
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from fairaudit.data.reading.elsewhere import is_copy
from fairaudit.data.reading.packed import printing, through_sed, unpacked, unpacked_name
from fairaudit.data.reading.text_form import BLANK, TextForm
from fairaudit.errors import LONGEST_WORD
from fairaudit.messages.names import is_typable, typed

_LINE_BYTES = 1 << 20  # of a header that is looked at
_BYTE_ORDER_MARK = "\ufeff"
# One regular expression, as sed takes it and as Python does.
_CONTROL = ("[[:cntrl:]]", "[\x00-\x1f\x7f]")  # a tab, which no terminal shows as one
_END = tuple(f"{control}?$" for control in _CONTROL)  # of a line, with a carriage return or without
_SIGNS = {BLANK: (" ", " "), "\t": _CONTROL}  # between two fields; others stand for themselves
# Of a file with a byte order mark, which is one sign or three, as the locale has it.
_MARKED_START = ('^[^[:alnum:][:cntrl:]_",;| ]*', r'^[^\w\x00-\x1f\x7f",;| ]*')


def without_lines(path: Path, first: int, last: int | None = None) -> str:
    """The command that copies a text file without some lines; "" where none can be typed.

    Args:
        path: The file.
        first: The first of these lines, counted from 1 by line feeds, as sed does.
        last: The last of them; None: all lines from the first on.
    """
    script = f"{first},{'$' if last is None else last}d"
    return _by_sed(path, f"{first}d" if first == last else script)


def without_last_line(path: Path) -> str:
    """The command that copies a text file without its last line; "" where none can be typed."""
    return _by_sed(path, "$d")


def with_names(path: Path, names: Sequence[str], form: TextForm) -> str:
    """The command that copies a text file below a line of names; "" where none can be typed.

    Args:
        path: The file.
        names: Of its columns.
        form: What is between the fields of its rows.
    """
    line = form.delimiter.join(names)
    is_plain = is_typable(line) and "\\" not in line and not line.startswith("-")  # for `echo`
    if not is_plain or TextForm.of(line) != form or _fields(line, form) != list(names):
        return ""
    with unpacked(path) as stream:
        if bytes(stream.read(3)) == _BYTE_ORDER_MARK.encode():  # would be in the second line
            return ""
    file = _as_typed(path)
    return _to_new_file(path, f"(echo {typed(line)}; {printing(path, file)})") if file else ""


def with_own_names(path: Path, columns: Sequence[str], form: TextForm) -> str:
    """The command that numbers columns of one name: age, age_2, age_3; "" where none does.

    Each ``s/../../K`` of sed changes, in the line of names, the K-th column of that name. The last
    comes first, as a changed name is not counted any more. The same changes are tried here.

    Args:
        path: A text file of which a line names the columns.
        columns: Their names, some of them twice, of letters, digits, blanks, dots and hyphens.
        form: What is between its fields.
    """
    number, line = _line_of_names(path)
    sed_sign, sign = _SIGNS.get(form.delimiter) or (re.escape(form.delimiter),) * 2
    sed_start, start = _MARKED_START if line.startswith(_BYTE_ORDER_MARK) else ("^", "^")
    scripts = []
    are_neighbours = any(name == after for name, after in pairwise(columns))
    changed = line
    if are_neighbours:  # they have one delimiter between them, and either change needs its own
        scripts.append(f"{number}s/{sed_sign}/&&/g")
        changed = re.sub(sign, r"\g<0>\g<0>", changed)
    for name, count in Counter(columns).items():
        sed_name = name.replace(".", r"\.")
        pattern = re.compile(rf'((?:{start}|{sign})"?){re.escape(name)}("?(?:{sign}|{_END[1]}))')
        for place in range(count, 1, -1):
            own = rf"\1{name}_{place}\3"
            scripts.append(
                rf'{number}s/(({sed_start}|{sed_sign})"?){sed_name}("?({sed_sign}|{_END[0]}))'
                rf"/{own}/{place}"
            )
            matches = [*pattern.finditer(changed)]
            if len(matches) >= place:
                match = matches[place - 1]
                renamed = f"{match[1]}{name}_{place}{match[2]}"
                changed = changed[: match.start()] + renamed + changed[match.end() :]
    if are_neighbours:
        scripts.append(rf"{number}s/({sed_sign})\1/\1/g")
        changed = re.sub(rf"({sign})\1", r"\1", changed)
    wanted = _numbered(columns)
    if len(set(wanted)) < len(wanted) or _fields(changed, form) != wanted:
        return ""
    return _by_sed(path, "; ".join(scripts), "-E ")


def _numbered(columns: Sequence[str]) -> list[str]:
    """The names with a number behind each that was there before: age, age_2, age_3."""
    seen: Counter[str] = Counter()
    numbered = []
    for name in columns:
        seen[name] += 1
        numbered.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return numbered


def _by_sed(path: Path, script: str, flags: str = "") -> str:
    """The command that copies a text file, unpacked and changed by a script of sed."""
    file = _as_typed(path)
    command = file and through_sed(path, file, f"{flags}{shlex.quote(script)}")
    # An error cuts words that are longer.
    is_whole = all(len(word) <= LONGEST_WORD for word in command.split())
    return _to_new_file(path, command) if command and is_whole else ""


def _as_typed(path: Path) -> str:
    """How the path of a file is typed in a shell; "" for a copy from elsewhere or an odd name."""
    name = str(path)
    return typed(name) if is_typable(name) and not is_copy(path) else ""


def _to_new_file(path: Path, command: str) -> str:
    """A command that writes to a file of the current folder that is not there yet."""
    name = f"new_{unpacked_name(path)}"
    while os.path.lexists(name):
        name = f"new_{name}"
    return f"{command} > {typed(name)}" if is_typable(name) else ""


def _line_of_names(path: Path) -> tuple[int, str]:
    """The number of the first line that is not empty, counted from 1, and the line."""
    with io.BufferedReader(unpacked(path)) as stream:
        for number, line in enumerate(iter(lambda: stream.readline(_LINE_BYTES), b""), 1):
            if line.strip():
                return number, line.decode(errors="replace").removesuffix("\n")
    return 1, ""


def _fields(line: str, form: TextForm) -> list[str]:
    """The fields of a line that is a record by itself; [] where it is none."""
    line = line.removeprefix(_BYTE_ORDER_MARK)
    text = form.with_single_delimiters(line.encode(errors="replace")).decode()
    try:
        return next(csv.reader([text], delimiter=form.delimiter, strict=True), [])
    except csv.Error:
        return []
