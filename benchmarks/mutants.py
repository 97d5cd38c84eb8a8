"""Make small mistakes in the program, one at a time, and see whether the nearest tests notice.

python benchmarks/mutants.py engine gate --count 25     25 mistakes in each of two rooms
python benchmarks/mutants.py --list mistakes.json       mistakes of a file instead
python benchmarks/mutants.py --nearest fairaudit/engine/loop.py     the tests of a source file

A mistake is another operator, another constant, two arguments exchanged or a term left out, drawn
by --seed. It is made in a copy of the tree. A file of mistakes is a JSON list of objects with
``path``, ``old`` and ``new``, and ``tests`` where other tests than the nearest are meant. With
--out FILE what is known of each mistake is kept there, and a second start goes on from it.
"""

import argparse
import ast
import contextlib
import functools
import importlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIBRARIES = (
    "dp_accounting.pld.privacy_loss_distribution",
    "opacus",
    "pandas",
    "pyarrow.parquet",
    "pydantic",
    "scipy.stats",
    "sklearn.linear_model",
    "torch",
)
MEMORY = 8 * 2**30  # bytes; a mistake that fills the machine would stop everything else, too
OPTIONS = ("-n", "0", "-x", "-q", "--tb=no", "-p", "no:cacheprovider", "-rfE")
OPERATORS = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
EXCHANGED = {"min": "max", "max": "min", "any": "all", "all": "any"}
# Messages, types and texts: a mistake there is not one of the program's.
SKIPPED = (ast.Raise, ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom, ast.AnnAssign)


def nearest(path: str) -> list[str]:
    """The test files of a source file, as pytest takes them.

    First the one of its name, then those of its room that import it, then the others.
    """
    parts = Path(path).with_suffix("").parts
    room, name, module = parts[1], parts[-1], ".".join(parts)
    table = tomllib.loads((ROOT / "tests" / "rooms.toml").read_text(encoding="utf-8"))["nearest"]
    files: list[Path] = []
    for place in (room, f"test_{room}.py", *table.get(room, ())):
        place = ROOT / "tests" / place
        files += sorted(place.rglob("test_*.py")) if place.is_dir() else [place]

    def distance(file: Path) -> tuple[bool, bool]:
        return file.name != f"test_{name}.py", module not in file.read_text(encoding="utf-8")

    there = [file for file in dict.fromkeys(files) if file.is_file()]
    return [str(file.relative_to(ROOT)) for file in sorted(there, key=distance)]


def mistakes_of(node: ast.AST) -> Iterator[ast.AST]:
    """Every mistake that can be made at a node of a syntax tree."""
    match node:
        case ast.Compare(left, [operator], right) if type(operator) in OPERATORS:
            yield ast.Compare(left, [OPERATORS[type(operator)]()], right)
        case ast.BinOp(left, operator, right) if type(operator) in OPERATORS:
            yield ast.BinOp(left, OPERATORS[type(operator)](), right)
            yield left
        case ast.BoolOp(operator, values):
            yield ast.BoolOp(OPERATORS[type(operator)](), values)
            yield ast.BoolOp(operator, values[:-1]) if len(values) > 2 else values[0]
        case ast.UnaryOp(ast.Not() | ast.USub(), operand):
            yield operand
        case ast.Constant(bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(int() as value):
            yield ast.Constant(value + 1)
        case ast.Constant(float() as value):
            yield ast.Constant(value * 1.1 if value else 0.1)
        case ast.Call(ast.Name(name), arguments, keywords) if name in EXCHANGED:
            yield ast.Call(ast.Name(EXCHANGED[name]), arguments, keywords)
        case ast.Call(function, [first, second, *others], keywords) if not any(
            isinstance(argument, ast.Starred) for argument in (first, second)
        ):
            yield ast.Call(function, [second, first, *others], keywords)


def nodes_of(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes at which a mistake changes what the program does."""
    yield node
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, SKIPPED):
                yield from nodes_of(child)


def mistakes_in(path: Path) -> Iterator[dict[str, object]]:
    source = path.read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node in nodes_of(ast.parse(source)):
        for wrong in mistakes_of(node):
            if ast.dump(wrong) == ast.dump(node):
                continue  # two equal arguments exchanged
            begin = starts[node.lineno - 1] + node.col_offset
            end = starts[node.end_lineno - 1] + node.end_col_offset
            old, new = source[begin:end].decode(), f"({ast.unparse(wrong)})"
            where = str(path.relative_to(ROOT))
            yield {"path": where, "at": [begin, end], "line": node.lineno, "old": old, "new": new}


def drawn(room: str, count: int, seed: int) -> list[dict[str, object]]:
    folder = ROOT / "fairaudit" / room
    paths = sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]
    every = [mistake for path in paths for mistake in mistakes_in(path)]
    return random.Random(f"{seed} {room}").sample(every, min(count, len(every)))


def changed(source: bytes, mistake: dict[str, object]) -> bytes:
    """The source with the mistake in it."""
    old, new = str(mistake["old"]).encode(), str(mistake["new"]).encode()
    if "at" in mistake:
        begin, end = mistake["at"]
        if source[begin:end] != old:
            raise ValueError("the source has changed since the mistake was drawn")
        return source[:begin] + new + source[end:]
    if source.count(old) != 1:
        raise ValueError(f"its text stands {source.count(old)} times")
    return source.replace(old, new)


def copy_tree(tree: Path) -> None:
    """What git knows or would add, and nothing that tools left behind."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tree / name)


def run_tests(tree: Path, tests: list[str], limit: int) -> tuple[int, list[str]]:
    """pytest in a child of this process, which has the libraries loaded: status, what failed."""
    log = tree / "log.txt"
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 99
        try:
            os.setsid()
            signal.alarm(limit)
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
            with log.open("wb") as file:
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
            os.chdir(tree)
            sys.path[0] = str(tree)
            os.environ["PYTHONPATH"] = str(tree)
            # A file that changes twice in a second would be read from the byte code of the first.
            os.environ["PYTHONDONTWRITEBYTECODE"], sys.dont_write_bytecode = "1", True
            import pytest

            status = int(pytest.main([*OPTIONS, "-m", "not slow", *tests]))
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    failed = [line.split(" - ")[0] for line in lines if line.startswith(("FAILED ", "ERROR "))]
    return status, [line.partition(" ")[2] for line in failed]


@functools.cache
def passes(tree: Path, test: str, limit: int) -> bool:
    """Whether a test passes without any mistake: one that does not has seen none."""
    return run_tests(tree, [test], limit)[0] == 0


def attempt(tree: Path, mistake: dict[str, object], limit: int) -> dict[str, object]:
    """The mistake with its outcome: ``caught``, ``survived`` or ``void``."""
    path = tree / str(mistake["path"])
    began = time.monotonic()
    try:
        source = path.read_bytes()
        wrong = changed(source, mistake)
        compile(wrong, str(path), "exec", dont_inherit=True)
    except (OSError, ValueError, SyntaxError) as error:
        return {**mistake, "outcome": "void", "by": str(error)}
    path.write_bytes(wrong)
    try:
        status, failed = run_tests(
            tree, mistake.get("tests") or nearest(str(mistake["path"])), limit
        )
    finally:
        path.write_bytes(source)
    # Whatever ends the interpreter, the time limit too, has been seen.
    outcome = "caught" if status < 0 else {0: "survived", 1: "caught", 2: "caught"}.get(status)
    by = ", ".join(failed) or f"exit status {status}"
    if not all(passes(tree, test, limit) for test in failed):
        outcome, by = "void", f"fails without the mistake: {by}"
    seconds = round(time.monotonic() - began, 1)
    return {**mistake, "outcome": outcome or "void", "by": by, "seconds": seconds}


def identity(mistake: dict[str, object]) -> str:
    return json.dumps([mistake.get(part) for part in ("path", "at", "old", "new")])


def chosen_mistakes(options: argparse.Namespace) -> list[dict[str, object]]:
    if options.list:
        every = json.loads(Path(options.list).read_text(encoding="utf-8"))
    else:
        every = [
            mistake
            for room in options.rooms
            for mistake in drawn(room, options.count, options.seed)
        ]
    return every


def report(results: list[dict[str, object]]) -> None:
    """The survivors, and the share caught by room."""
    rooms: dict[str, Counter[str]] = {}
    for result in results:
        if result["outcome"] == "survived":
            line = f":{result['line']}" if "line" in result else ""
            print(f"survived {result['path']}{line}: {result['old']!r} -> {result['new']!r}")
        room = Path(str(result["path"])).parts[1]
        rooms.setdefault(room, Counter())[str(result["outcome"])] += 1
    rooms["all"] = sum(rooms.values(), Counter())
    print(f"\n{'room':14} {'made':>5} {'caught':>7} {'share':>6} {'void':>5}")
    for room, counts in rooms.items():
        made = counts["caught"] + counts["survived"]
        share = f"{counts['caught'] / made:.0%}" if made else "-"
        print(f"{room:14} {made:5} {counts['caught']:7} {share:>6} {counts['void']:5}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rooms", nargs="*", help="folders of fairaudit/, as engine")
    parser.add_argument("--count", type=int, default=25, help="mistakes in each room")
    parser.add_argument("--seed", type=int, default=0, help="which ones")
    parser.add_argument("--list", help="a JSON file of mistakes")
    parser.add_argument("--out", help="keep the results here and go on from them")
    parser.add_argument("--limit", type=int, default=300, help="seconds for one mistake")
    parser.add_argument("--nearest", nargs="+", metavar="FILE", help="print the tests of a file")
    options = parser.parse_args()
    if options.nearest:
        print(*dict.fromkeys(test for path in options.nearest for test in nearest(path)))
        return 0
    mistakes = chosen_mistakes(options)
    kept = Path(options.out) if options.out else None
    known = {}
    if kept and kept.exists():
        for line in kept.read_text(encoding="utf-8").splitlines():
            result = json.loads(line)
            known[identity(result)] = result
    for library in LIBRARIES:
        importlib.import_module(library)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = Path(folder)
        copy_tree(tree)
        results = []
        for mistake in mistakes:
            result = known.get(identity(mistake))
            if result is None:
                result = attempt(tree, mistake, options.limit)
                if kept:
                    with kept.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(result) + "\n")
                print(f"{result['outcome']:8} {result['path']} {result['by']}", flush=True)
            results.append(result)
    report(results)
    return 0 if all(result["outcome"] != "survived" for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
