"""What differs between two stored reports of one command, say of two versions of this program.

    python benchmarks/same_report.py OLD/report.json NEW/report.json

Reads JSON alone, so reports of any schema can be compared. Left out is what two runs of one version
may differ in. Printed: every value that differs but texts, what only one of the two has, by field,
and how many numbers are equal; exit code 1 where a number of both differs.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

VOLATILE = {
    "artifacts",
    "command",
    "content_sha256",
    "created_utc",
    "environment",
    "execution",
    "schema_version",
    "timing",
    "trainings",
}
IDENTITY = ("id", "arm", "key", "metric", "name", "grouping", "group", "seed", "kind", "a", "b")
Place = tuple[str, ...]


def leaves(value: object, place: Place = ()) -> Iterator[tuple[Place, object]]:
    """Every value but lists and mappings under its place; entries of lists by what they name."""
    if isinstance(value, dict):
        for key in value.keys() - VOLATILE:
            yield from leaves(value[key], (*place, key))
    elif isinstance(value, list):
        seen: Counter[str] = Counter()
        for entry in value:
            named = entry if isinstance(entry, dict) else {}
            about = " ".join(f"{key}={named[key]}" for key in IDENTITY if key in named)
            seen[about] += 1
            yield from leaves(entry, (*place, f"[{about} #{seen[about]}]"))
    else:
        yield place, value


def field(place: Place) -> str:
    """The place without the entries of lists, so that alike ones are counted together."""
    return ".".join(part for part in place if not part.startswith("["))


def print_lacking(title: str, places: list[Place]) -> None:
    """How many values only one report has, by field."""
    if places:
        print(title)
    for name, times in sorted(Counter(map(field, places)).items()):
        print(f"  {name}: {times:,}")


def is_number(value: object) -> bool:
    """Whether it is one; a truth value is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_rounded(before: object, after: object) -> bool:
    """Whether one is the other at the six digits of a report."""
    if not (is_number(before) and is_number(after)):
        return False
    return f"{before:.6g}" == f"{after:.6g}"


def main() -> int:
    """Parse, compare, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    paths = parser.parse_args()
    old = dict(leaves(json.loads(paths.old.read_text("utf-8"))))
    new = dict(leaves(json.loads(paths.new.read_text("utf-8"))))
    equal = changed = texts = 0
    for place in old.keys() & new.keys():
        before, after = old[place], new[place]
        if before == after or is_rounded(before, after):
            equal += is_number(before)
        elif isinstance(before, str) and isinstance(after, str):
            texts += 1
        else:
            changed += is_number(before) and is_number(after)
            print(" / ".join(place), before, after, sep=" | ")
    print_lacking("only in the old report, by field:", [p for p in old if p not in new])
    print_lacking("only in the new report, by field:", [p for p in new if p not in old])
    print(f"{equal:,} numbers equal, {changed:,} of both differ; {texts:,} texts differ")
    return int(changed > 0)


if __name__ == "__main__":
    sys.exit(main())
