"""The tables of docs/findings.md, out of reports of ``run --tune`` with one grouping.

    python benchmarks/findings.py REPORT.json ...

In points, each with its interval: cost over all rows and the signed gap of the pair that
``--compare`` names, or of the first, both ways; what searching gains in accuracy; then the tuned
and default cost of every group.
"""

import argparse
from pathlib import Path

from fairaudit.report.load import load_report
from fairaudit.report.model import Report
from fairaudit.results.estimates import Estimate, key_of
from fairaudit.tuning.study import Tuned

COST = "privacy_cost"


def points(found: Estimate | None) -> str:
    """'0.2 [-0.5, 1.0]'."""
    if found is None or found.value is None:
        return "-"
    value, *ends = (
        f"{round(100 * number, 1) + 0.0:.1f}"  # no -0.0
        for number in (found.value, found.low, found.high)
        if number is not None
    )
    return f"{value} [{', '.join(ends)}]" if ends else value


def tell(report: Report) -> None:
    """Print one report."""
    searched = Tuned.of(report)
    assert searched is not None
    by_arm = {(c.arm, c.reference): c for c in report.every_comparison}
    groups: list[str] = []
    for tuned in report.costs:
        ways = [
            by_arm[key_of(tuned.arm, way), key_of(tuned.reference, way)] for way in ("default",)
        ]
        ways.append(tuned)
        pairs = [
            [gap for gap in way.gaps if gap.kind == "pair" and gap.metric == COST] for way in ways
        ]
        gaps = [max(found, key=lambda gap: gap.named) for found in pairs]
        gain = searched.gain(tuned.arm, tuned.grouping)
        if not groups:
            print(f"Gaps: {gaps[0].a} minus {gaps[0].b}.\n")
            print("| arm | cost, default | tuned | gap, default | tuned | gain |")
            print("|" + "---|" * 6)
        cells = [points(way.overall.estimates.get(COST)) for way in ways]
        cells += [points(gap.signed) for gap in gaps]
        cells += [points(None if gain is None else gain.overall.estimates.get(COST))]
        print(f"| {tuned.arm} | {' | '.join(cells)} |")
        groups += [
            f"{tuned.arm}, {group.group}: default {points(group.estimates.get(COST))}, "
            f"tuned {points(after.estimates.get(COST))}"
            for group, after in zip(ways[0].by_group, tuned.by_group, strict=True)
        ]
    print("", *groups, sep="\n")


def main() -> None:
    """Parse, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("report", type=Path, nargs="+")
    for path in parser.parse_args().report:
        print(f"\n### {path}\n")
        tell(load_report(path))


if __name__ == "__main__":
    main()
