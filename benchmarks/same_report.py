"""What differs between two stored reports of one command, say of two versions of this program.

    python benchmarks/same_report.py OLD/report.json NEW/report.json

Reports of earlier schemas are converted first. Left out is what two runs of one version may differ in.
Printed: how many numbers are equal and how many differ, and every difference but those of texts,
which are counted; exit code 1 where a number of both differs.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from fairaudit.report.load import load_report
from fairaudit.report.model import VOLATILE
from fairaudit.report.to_json import SEAL

ABSENT = object()
IDENTITY = ("id", "arm", "key", "metric", "name", "grouping", "seed", "kind", "code")


def leaves(value: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    """Every value but lists and mappings under its path; entries of lists by what they are about."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, (*path, str(key)))
    elif isinstance(value, list):
        seen: Counter[str] = Counter()
        for inner in value:
            named = inner if isinstance(inner, dict) else {}
            about = " ".join(f"{key}={named[key]}" for key in IDENTITY if key in named)
            seen[about] += 1
            yield from leaves(inner, (*path, f"{about} #{seen[about]}"))
    else:
        yield path, value


def content(path: Path) -> dict[tuple[str, ...], object]:
    """The report's values by where they stand."""
    whole = load_report(path).model_dump(mode="json", exclude={*VOLATILE, SEAL})
    return dict(leaves(whole))


def is_number(value: object) -> bool:
    """Whether it is one; a truth value is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def main() -> int:
    """Parse, compare, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    asked = parser.parse_args()
    old, new = content(asked.old), content(asked.new)
    equal = changed = texts = 0
    for path in {**old, **new}:
        before, after = old.get(path, ABSENT), new.get(path, ABSENT)
        if before == after:
            equal += is_number(before)
        elif isinstance(before, str) and isinstance(after, str):
            texts += 1
        else:
            changed += is_number(before) and is_number(after)
            told = ("-" if value is ABSENT else value for value in (before, after))
            print(" / ".join(path), *told, sep=" | ")
    print(f"{equal:,} numbers equal, {changed:,} of both differ; {texts:,} texts differ")
    return int(changed > 0)


if __name__ == "__main__":
    sys.exit(main())
