"""What the papers print beside what this program finds: writes docs/papers.md.

    python benchmarks/papers.py [REPORTS]

``papers.toml`` holds what the papers define and print. REPORTS is a folder of run folders, each
with its ``report.json``, named as there; what they hold is kept in ``papers.json``, so that a table
whose report is not given keeps its numbers. No cell of ours is written by hand.
"""

import json
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scipy.stats import wilcoxon

from fairaudit.errors import numbered
from fairaudit.report.load import load_report
from fairaudit.report.model import Report
from fairaudit.results.estimates import Comparison

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "papers.md"
REFERENCE = "sgd"
# Kind of a column -> its title, and whether its fractions are written in hundredths.
TITLES = {
    "accuracy": ("accuracy of {}", True),
    "change": ("accuracy less that without privacy, {}", False),
    "cost": ("privacy cost of {}", True),
    "gap": ("gap of cost, {}", True),
    "loss": ("training loss of {}", False),
    "risk": ("excess risk of {} (training)", False),
    "riskgap": ("gap of that, {}", False),
    "norm": ("gradient norm of {}", False),
}
# What one-sided tests between methods are about: its title, its name in a comparison, which end is
# better, and whether it is of all rows or the size of the groups' gap.
TESTED = {
    "accuracy": ("accuracy", 1, False),
    "loss": ("loss", -1, False),
    "gap of cost": ("privacy_cost", -1, True),
    "gap of excess risk": ("excess_risk", -1, True),
}
PARTS = {
    "E23": "Esipova et al. 2023",
    "X21": "Xu et al. 2021",
    "T21": "Tran et al. 2021",
    "T23": "Tran and Fioretto 2023",
}


def main(reports: str | None = None) -> None:
    """Write the page, after reading the reports of a folder if one is given."""
    source = tomllib.loads((HERE / "papers.toml").read_text())
    kept = HERE / "papers.json"
    ours = json.loads(kept.read_text()) if kept.exists() else {}
    if reports is not None:
        for table in source["table"]:
            given = reports_of(table, Path(reports))
            if given is not None:
                ours[table["name"]] = found(given, table)
        kept.write_text(json.dumps(ours, indent=1, sort_keys=True) + "\n")
    PAGE.write_text(page(source, ours))


def reports_of(table: Mapping[str, Any], reports: Path) -> dict[str, Report] | None:
    """The report of every row of a table; None where one is missing.

    ``at`` of a table names the folders of rows that have one of their own, as in a sweep.
    """
    folders = {row: table.get("at", {}).get(row, table["report"]) for row in table["rows"]}
    paths = {folder: reports / folder / "report.json" for folder in set(folders.values())}
    if not all(path.is_file() for path in paths.values()):
        return None
    loaded = {folder: load_report(path) for folder, path in paths.items()}
    return {row: loaded[folder] for row, folder in folders.items()}


def found(reports: Mapping[str, Report], table: Mapping[str, Any]) -> dict[str, Any]:
    """Our numbers of a table, by row, with what they were made by.

    A row is named after its method, and what follows a comma is said of it.
    """
    rows = {
        row: [number(report, row.partition(",")[0], column) for column in table["columns"]]
        for row, report in reports.items()
    }
    report = next(iter(reports.values()))
    tests = {f"{a} better than {b}": better(report, a, b) for a, b in table.get("better", ())}
    training = report.training
    return {
        "rows": rows,
        "seeds": training.seeds if training else 0,
        "epochs": training.epochs if training else 0,
        "numerics": report.numerics_version,
        "better": tests,
    }


def better(report: Report, arm: str, other: str) -> list[float | None]:
    """p of Wilcoxon's signed rank test over seeds that ``arm`` is better: one for each measure.

    One-sided, exact; with five seeds no p is below 1/32. The gap is that of the two groups.
    """
    values = []
    for metric, sign, is_gap in TESTED.values():
        pair = [_by_seed(report, one, metric, is_gap=is_gap) for one in (arm, other)]
        differences = [sign * (a - b) for a, b in zip(*pair, strict=True)]
        is_known = len(differences) > 1 and any(differences)
        test = wilcoxon(differences, alternative="greater") if is_known else None
        values.append(None if test is None else round(float(test.pvalue), 3))
    return values


def _by_seed(report: Report, arm: str, metric: str, *, is_gap: bool) -> tuple[float, ...]:
    """A metric of all test rows, or the size of the groups' gap in it, at each seed."""
    comparison = next(c for c in report.costs if c.reference == REFERENCE and c.arm == arm)
    if is_gap:
        (gap,) = (g for g in comparison.gaps if g.metric == metric and g.kind == "pair")
        return tuple(abs(value) for value in gap.signed.by_seed)
    return tuple(comparison.overall.estimates[metric].by_seed)


def number(report: Report, arm: str, column: str) -> float | None:
    """Our number of one cell; None where it is not known, and of costs of the reference."""
    kind, *groups = column.split(" ")
    loss = {one: _last(report, one, "loss") for one in (arm, REFERENCE)}
    if kind in ("loss", "norm"):
        return _last(report, arm, "loss" if kind == "loss" else "gradient_norm").get(groups[0])
    if kind in ("risk", "riskgap"):
        if arm == REFERENCE:
            return None
        risks = [
            loss[arm].get(g, float("nan")) - loss[REFERENCE].get(g, float("nan")) for g in groups
        ]
        return risks[0] if kind == "risk" else abs(risks[0] - risks[1])
    is_reference = arm == REFERENCE
    compared = [
        c for c in report.costs if c.reference == REFERENCE and (is_reference or c.arm == arm)
    ]
    if not compared:
        return None
    comparison = compared[0]
    if kind == "gap":
        return None if is_reference else _gap(comparison, groups)
    measure = comparison.overall
    for group in comparison.by_group:
        if groups and group.group == groups[0]:
            measure = group
    if is_reference or kind == "accuracy":
        if is_reference and kind == "cost":
            return None
        return measure.value("reference.accuracy" if is_reference else "accuracy")
    cost = measure.value("privacy_cost")
    return cost if kind == "cost" or cost is None else -cost


def _gap(comparison: Comparison, groups: Sequence[str]) -> float | None:
    """How far the costs of two groups lie apart."""
    for gap in comparison.gaps:
        is_pair = gap.metric == "privacy_cost" and gap.kind == "pair"
        if is_pair and {gap.a, gap.b} == set(groups):
            return None if gap.signed.value is None else abs(gap.signed.value)
    return None


def _last(report: Report, arm: str, name: str) -> dict[str, float]:
    """The last value of a curve by epoch, by group."""
    for curve in report.diagnostics.arms.get(arm, ()):
        if curve.name == name:
            values = zip(curve.columns, curve.values[-1], strict=True)
            return {group: value for group, value in values if value is not None}
    return {}


def page(source: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    """The page's text."""
    lines = [source["head"], _filled(source, ours), source["defined"]]
    for paper, title in PARTS.items():
        lines += [f"### {title} ({paper})", "", "| what | here |", "|---|---|"]
        for row in source["defines"]:
            if row["paper"] == paper:
                lines.append(
                    f"| {row['what']} | {'; '.join(map(_named, row['is']))} |".replace("||", "‖")
                )
        lines.append("")
    lines.append(source["printed"])
    for table in source["table"]:
        lines += _printed(table, ours.get(table["name"]))
    return "\n".join(lines).rstrip() + "\n"


def _filled(source: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    """How many of the printed tables have numbers of ours."""
    count = sum(table["name"] in ours for table in source["table"])
    return f"{count} of {len(source['table'])} printed tables have numbers of ours.\n"


def _named(name: str) -> str:
    """Where one thing stands, in words."""
    kind, _, rest = name.partition(":")
    if kind == "none":
        return rest
    if kind in ("variant", "method"):
        method, _, variant = rest.partition(":")
        return f"`--method {method}`" + (f" `--variant {variant}`" if variant else "")
    if kind == "preset":
        return f"`--preset {rest}`"
    if kind == "option":
        return f"`--{rest.replace('_', '-')}`"
    return f"{kind} `{rest}`"


def _printed(table: Mapping[str, Any], ours: Mapping[str, Any] | None) -> Iterator[str]:
    """One printed table, ours beside it."""
    yield f"### {table['name']}"
    yield ""
    yield f"`{table['command']}`" if table["command"] != "the same" else "By the command before."
    yield ""
    heads = []
    for column in table["columns"]:
        kind, *groups = column.split(" ")
        heads.append(TITLES[kind][0].format(" and ".join(groups) or "all rows"))
    yield f"| method | | {' | '.join(heads)} |"
    yield f"|---|---|{'---:|' * len(heads)}"
    for arm, printed in table["rows"].items():
        name = f"{arm} (accuracy)" if arm == REFERENCE and table.get("without") else arm
        yield f"| {name} | paper | {' | '.join(str(cell) for cell in printed)} |"
        if ours is not None:
            cells = [
                _cell(value, column, table["digits"])
                for value, column in zip(ours["rows"][arm], table["columns"], strict=True)
            ]
            yield f"| | ours | {' | '.join(cells)} |"
    yield ""
    if ours is None:
        yield f"Ours: {table.get('missing', 'not run yet')}."
    else:
        yield f"Ours: {numbered(ours['seeds'], 'seed')}, {numbered(ours['epochs'], 'epoch')}."
    if ours is not None and any(any(values) for values in ours.get("better", {}).values()):
        yield ""
        least = f"{0.5 ** ours['seeds']:.3f}"
        yield f"p of Wilcoxon's signed rank test over our seeds, one-sided, at least {least} each."
        yield table["said"]
        yield ""
        yield f"| | {' | '.join(TESTED)} |"
        yield f"|---|{'---:|' * len(TESTED)}"
        for a, b in table["better"]:
            name = f"{a} better than {b}"
            values = ours["better"][name]
            yield f"| {name} | {' | '.join('' if p is None else f'{p:.3f}' for p in values)} |"
        yield ""
    if table["why"]:
        yield f"{table['why']}"
    yield ""


def _cell(value: float | None, column: str, digits: int) -> str:
    """One number of ours, with the digits that the paper prints; nothing where there is none."""
    if value is None:
        return ""
    if TITLES[column.split(" ")[0]][1]:
        return f"{round(100 * value, 1) + 0.0:.1f}"
    return f"{round(value, digits) + 0.0:.{digits}f}"  # never -0


if __name__ == "__main__":
    main(*sys.argv[1:])
