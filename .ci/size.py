"""Hold every room of the program and of its tests at its number of tokens (tests/size.toml).

A token is a name, a number, a string or an operator: what a reader has to take in, which no
formatter changes. Docstrings and comments are not counted.

python .ci/size.py            fails where a room is more than 1 % over its number
python .ci/size.py --write    writes what there is now as the numbers
"""

import ast
import sys
import tokenize
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "tests" / "size.toml"
MARGIN = 1.01
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def tokens_in(path: Path) -> int:
    docstrings = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            docstrings.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    count = 0
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            count += token.type not in LAYOUT and token.start[0] not in docstrings
    return count


def tokens_by_room() -> dict[str, dict[str, int]]:
    sizes = {}
    for folder in ("fairaudit", "tests"):
        rooms = Counter()
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).parts
            rooms[parts[0] if len(parts) > 1 else "files"] += tokens_in(path)
        sizes[folder] = dict(rooms)
    return sizes


def main() -> int:
    sizes = tokens_by_room()
    if "--write" in sys.argv[1:]:
        lines = [
            "# Tokens of code by room. A room grows only by a change here: .ci/size.py --write"
        ]
        for folder, rooms in sizes.items():
            lines += ["", f"[{folder}]"]
            lines += [f"{room} = {count}" for room, count in sorted(rooms.items())]
        TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    allowed = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    over = 0
    for folder, rooms in sizes.items():
        print(f"{folder}: {sum(rooms.values()):,} tokens")
        for room, count in rooms.items():
            limit = allowed[folder].get(room, 0)
            if count > MARGIN * limit:
                print(f"{folder}/{room}: {count:,} tokens, {limit:,} in tests/size.toml")
                over += 1
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
