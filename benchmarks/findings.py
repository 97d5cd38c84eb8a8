"""The grid behind docs/findings.md, which can fail, and the page made of it.

    python benchmarks/findings.py --plan                     the audits of findings.toml, with times
    python benchmarks/findings.py --all OUT --data FOLDER    every audit, in that order
    python benchmarks/findings.py --page OUT                 docs/findings.md, of what has finished

Each audit leaves one report in OUT; one that has finished is not run again, so the command can be
stopped and taken up. FOLDER holds the tables that findings.toml names. ``--page`` also writes every
cell to OUT/cells.csv.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path

import findings_page as page
import numpy as np
import pandas as pd
from findings_cells import DIFFERENT, MEASURES, Cell, assumed_error, power_of_equality, worded

import fairaudit
from fairaudit.errors import FairauditError
from fairaudit.report.load import load_report
from fairaudit.report.model import Report
from fairaudit.results.jobs import canonical_json

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
GRID = tomllib.loads((HERE / "findings.toml").read_text())
COINS = "coins"
COMMON = ("--method", "dpsgd", "--twins", "off", "--diagnostics", "off", "--workers", "1")
QUIET = ("--format", "json", "--quiet")


@dataclass(frozen=True)
class Audit:
    """One audit of the grid.

    Args:
        of: Table and setting, as in ``dutch default``.
        epsilons: At which it is run.
        minutes: Expected, of one idle core.
        cut: Training rows that are left of the table's smaller group; 0: all.
        opacus: Trained by Opacus' engine at the numbers of the audit of that name.
        part: What its name has besides, where the epsilons of a setting are two audits.
        seeds: Of every arm.
    """

    of: str
    epsilons: tuple[float, ...]
    minutes: float
    cut: int = 0
    opacus: bool = False
    part: str = ""
    seeds: int = GRID["seeds"]

    @property
    def name(self) -> str:
        """Of its folder, and in the page."""
        words = [self.of]
        if self.cut:
            words.append(str(self.cut))
        if self.opacus:
            words.append("opacus")
        if self.part:
            words.append(self.part)
        return " ".join(words)

    @property
    def table(self) -> Mapping[str, object]:
        """Of the grid."""
        return GRID["tables"][self.of.split()[0]]

    @property
    def family(self) -> str:
        """The table whose families of tests its cells belong to."""
        return self.table.get("family", self.of.split()[0])

    @property
    def options(self) -> Sequence[str]:
        """Of its setting."""
        setting = self.of.split()[1]
        return self.table.get(setting, GRID["settings"].get(setting))

    def report(self, out: Path) -> Path:
        """Where its report lies, whether or not it is there."""
        return out / self.name.replace(" ", "-") / "report.json"


def audits() -> list[Audit]:
    """The grid, in order."""
    planned = []
    for entry in GRID["audits"]:
        epsilons = tuple(entry.get("epsilons", GRID["epsilons"]))
        planned.append(Audit(**{**entry, "epsilons": epsilons}))
    return planned


def finished(path: Path) -> Report | None:
    """The report of an audit, or None where it is not there, not whole or not complete."""
    try:
        report = load_report(path)
    except FairauditError:
        return None
    return report if report.status == "complete" else None


# --- running


def is_done(path: Path) -> bool:
    """Whether an audit need not be run again; its report is read by who uses it."""
    try:
        return json.loads(path.read_text())["status"] == "complete"
    except (OSError, ValueError):
        return False


def command(
    audit: Audit, data: Path, sizes: Mapping[str, Mapping[str, int]], out: Path
) -> list[str]:
    """The command line of an audit."""
    table = audit.table
    line = ["run", "--data", str(source(table["file"], data)), "--label", table["label"]]
    for option, values in (("--group", table["groups"]), ("--drop", table.get("drop", ()))):
        for value in values:
            line += [option, value]
    for epsilon in audit.epsilons:
        line += ["--epsilon", str(epsilon)]
    if audit.cut:
        of_class = sizes[table["groups"][0]][table["cut"]]
        rows = (1 - GRID["test_size"]) * sum(of_class)
        line += ["--keep", f"{table['cut']}={audit.cut / rows:.6f}"]
    line += ["--seeds", str(audit.seeds), "--test-size", str(GRID["test_size"])]
    line += [*COMMON, *audit.options, *QUIET, "--out", str(audit.report(out).parent)]
    if audit.opacus:
        place = line.index("--method")
        line[place : place + 2] = ["--trainer", "findings_opacus:train"]
    return line


def source(file: str, data: Path) -> Path:
    """A table of the project, or of the folder of tables."""
    return ROOT / file if "/" in file else data / file


def group_sizes(table: Mapping[str, object], data: Path) -> dict[str, dict[str, list[int]]]:
    """Rows of each class by group: group column -> group -> rows of either class."""
    rows = pd.read_parquet(source(table["file"], data))
    sizes = {}
    for column in table["groups"]:
        counts = pd.crosstab(rows[column].astype(str), rows[table["label"]])
        sizes[column] = {group: [int(n) for n in counts.loc[group]] for group in counts.index}
    return sizes


def all_sizes(out: Path, data: Path | None) -> dict[str, dict[str, dict[str, list[int]]]]:
    """Of every table, kept in OUT so that the page needs no table."""
    path = out / "sizes.json"
    if data is not None and not path.is_file():
        sizes = {name: group_sizes(table, data) for name, table in GRID["tables"].items()}
        path.write_text(json.dumps(sizes))
    return json.loads(path.read_text())


def run_all(out: Path, data: Path) -> None:
    """Run what has not finished, in order; an audit that fails is left out, and said."""
    out.mkdir(parents=True, exist_ok=True)
    sizes = all_sizes(out, data)
    for audit in audits():
        if audit.of == COINS:
            toss(out)
            continue
        if is_done(audit.report(out)):
            continue
        environment = dict(os.environ, PYTHONPATH=str(HERE), OMP_NUM_THREADS="1")
        if audit.opacus:
            path = numbers_of(audit, out)
            if path is None:
                continue
            environment["FINDINGS_NUMBERS"] = str(path)
        line = command(audit, data, sizes[audit.of.split()[0]], out)
        print("fairaudit", *line, flush=True)
        code = subprocess.call([sys.executable, "-m", "fairaudit", *line], env=environment)
        print(f"{audit.name}: exit {code}", flush=True)


def numbers_of(audit: Audit, out: Path) -> Path | None:
    """The numbers of the audit that Opacus repeats, in a file; None where it has not finished."""
    report = finished(Audit(audit.of, audit.epsilons, 0).report(out))
    if report is None:
        return None
    (epsilon,) = audit.epsilons
    (arm,) = (a for a in report.arms if a.privacy.target_epsilon == epsilon)
    event = arm.privacy.event
    path = audit.report(out).parent.with_suffix(".json")
    numbers = dict(arm.settings, steps_per_epoch=event.steps_per_epoch)
    numbers["epochs"] = event.steps // event.steps_per_epoch
    path.write_text(json.dumps(numbers))
    return path


def toss(out: Path) -> None:
    """Audits of simulated tables by groups that coins decided, so that no gap is true."""
    plan = GRID["coins"]
    for number in range(plan["tables"]):
        path = coin_report(out, number)
        if is_done(path):
            continue
        fairaudit.run_audit(
            coin_table(number),
            label="y",
            group=[f"coin{k}" for k in range(plan["groupings"])],
            method="dpsgd",
            epsilon=tuple(plan["epsilons"]),
            epochs=plan["epochs"],
            seeds=GRID["seeds"],
            twins="off",
            diagnostics="off",
            workers=1,
            format=("json",),
            out=path.parent,
        )
        print(f"{COINS} {number}: done", flush=True)


def coin_report(out: Path, number: int) -> Path:
    """Where the report on that simulated table lies."""
    return out / COINS / str(number) / "report.json"


def coin_table(number: int) -> pd.DataFrame:
    """A logistic world with its own weights and its own coins."""
    plan = GRID["coins"]
    random = np.random.default_rng(number)
    inputs = random.normal(size=(plan["rows"], plan["inputs"]))
    logits = inputs @ random.normal(size=plan["inputs"]) + random.normal()
    table = pd.DataFrame(inputs, columns=[f"x{k}" for k in range(plan["inputs"])])
    table["y"] = (random.random(plan["rows"]) < 1 / (1 + np.exp(-logits))).astype(int)
    for k in range(plan["groupings"]):
        table[f"coin{k}"] = random.choice(["heads", "tails"], plan["rows"])
    return table


# --- cells


def family_sizes(sizes: Mapping[str, Mapping[str, Mapping[str, list[int]]]]) -> Counter[str]:
    """How many cells are planned for each table; those of Opacus are beside the families."""
    planned: Counter[str] = Counter()
    for audit in audits():
        if audit.of == COINS or audit.opacus:
            continue
        for groups in sizes[audit.of.split()[0]].values():
            pairs = len(list(combinations(groups, 2)))
            planned[audit.family] += pairs * len(audit.epsilons) * len(MEASURES)
    return planned


def read_cells(report: Report, name: str) -> Iterator[Cell]:
    """The cells of a report, tested, without the mark of small power."""
    epsilon_of = {arm.key: arm.privacy.target_epsilon for arm in report.arms}
    for comparison in report.costs:
        for gap in comparison.gaps:
            if gap.kind != "pair" or gap.metric not in MEASURES.values():
                continue
            (measure,) = (m for m, metric in MEASURES.items() if metric == gap.metric)
            signed = gap.signed
            value = None if signed.ends is None else signed.value
            yield Cell(
                audit=name,
                measure=measure,
                epsilon=epsilon_of[comparison.arm],
                a=gap.a,
                b=gap.b,
                value=value,
                training_sd=signed.training_sd or 0.0,
                records_sd=signed.records_sd or 0.0,
                seeds=signed.n_seeds,
                margin=GRID["margins"][measure],
                is_weak=False,
            ).tested()


def weak(
    cell: Cell, audit: Audit, sizes: Mapping[str, Mapping[str, list[int]]], family: int
) -> bool:
    """Whether the cell's power for equality, reckoned before the run, is small."""
    assumed = GRID["power"]
    share = 1 - (1 - GRID["test_size"]) ** GRID["seeds"]
    (groups,) = (of for of in sizes.values() if cell.a in of and cell.b in of)
    rows = []
    for group in (cell.a, cell.b):
        of_class = groups[group]
        counted = of_class[1] if cell.measure == "tpr" else sum(of_class)
        rows.append(share * counted)
    error = assumed_error(cell.measure, cell.epsilon, rows, assumed, is_cut=audit.cut > 0)
    power = power_of_equality(cell.margin, error, GRID["level"] / family)
    return power < assumed["least"]


def grid_cells(out: Path) -> dict[str, list[Cell]]:
    """Table -> its finished cells with their words."""
    sizes = all_sizes(out, None)
    planned = family_sizes(sizes)
    of_family: dict[str, list[Cell]] = {}
    for audit in audits():
        if audit.of == COINS or audit.opacus:
            continue
        report = finished(audit.report(out))
        if report is None:
            continue
        cells = of_family.setdefault(audit.family, [])
        for cell in read_cells(report, audit.name):
            of_table = sizes[audit.of.split()[0]]
            is_weak = weak(cell, audit, of_table, planned[audit.family])
            cells.append(replace(cell, is_weak=is_weak))
    return {
        family: worded(cells, planned[family], GRID["level"]) for family, cells in of_family.items()
    }


def opacus_cells(out: Path) -> list[tuple[Cell, Cell]]:
    """Cells of Opacus' audits, each after the same cell of ours."""
    pairs = []
    for audit in audits():
        theirs = finished(audit.report(out)) if audit.opacus else None
        ours = finished(Audit(audit.of, audit.epsilons, 0).report(out)) if theirs else None
        if theirs is None or ours is None:
            continue
        cells = {cell_key(cell): cell for cell in read_cells(ours, audit.of)}
        pairs += [(cells[cell_key(cell)], cell) for cell in read_cells(theirs, audit.of)]
    return pairs


def cell_key(cell: Cell) -> tuple[str, float, str, str]:
    """What two audits of one table call the same."""
    return cell.measure, cell.epsilon, cell.a, cell.b


def coin_families(out: Path) -> page.Coins:
    """Every grouping of every simulated table that has finished."""
    families, wrong, number = 0, 0, 0
    for table in range(GRID["coins"]["tables"]):
        report = finished(coin_report(out, table))
        if report is None:
            continue
        of_grouping: dict[str, list[Cell]] = {}
        for comparison in report.costs:
            alone = report.model_copy(update={"comparisons": (comparison,)})
            of_grouping.setdefault(comparison.grouping, []).extend(read_cells(alone, COINS))
        for cells in of_grouping.values():
            words = [cell.word for cell in worded(cells, len(cells), GRID["level"])]
            families += 1
            wrong += DIFFERENT in words
            number += len(cells)
    return page.Coins(families, wrong, number)


def digest(path: Path) -> str:
    """Of the numbers of a report's cells: a second run on the same kind of machine has it again."""
    numbers = []
    for cell in read_cells(load_report(path), ""):
        key = [*cell_key(cell)]
        numbers.append([*key, cell.value, cell.training_sd, cell.records_sd, cell.seeds])
    ordered = sorted(map(canonical_json, numbers))
    return hashlib.sha256(canonical_json(ordered).encode()).hexdigest()[:12]


def coins_digest(out: Path) -> str:
    """Of the digests of all simulated tables that have finished, in order."""
    paths = [coin_report(out, table) for table in range(GRID["coins"]["tables"])]
    of_tables = [digest(path) for path in paths if path.is_file()]
    return hashlib.sha256(canonical_json(of_tables).encode()).hexdigest()[:12]


def evidence(out: Path) -> page.Evidence:
    """What the page is made of."""
    digests, unfinished, seconds = {}, {}, 0.0
    for audit in audits():
        if audit.of == COINS:
            digests[COINS] = coins_digest(out)
            continue
        report = finished(audit.report(out))
        if report is None:
            unfinished[audit.name] = audit.minutes
            continue
        digests[audit.name] = digest(audit.report(out))
        seconds += sum(report.timing.values())
    return page.Evidence(
        cells=grid_cells(out),
        planned=family_sizes(all_sizes(out, None)),
        beside=opacus_cells(out),
        coins=coin_families(out),
        digests=digests,
        unfinished=unfinished,
        seconds=seconds,
    )


def write_page(out: Path) -> None:
    """docs/findings.md, its digests beside this file, and every cell in OUT/cells.csv."""
    made = evidence(out)
    (ROOT / "docs" / "findings.md").write_text(page.written(made, GRID))
    (ROOT / "benchmarks" / "findings-digests.md").write_text(page.digests(made))
    cells = [asdict(cell) for cells in made.cells.values() for cell in cells]
    pd.DataFrame(cells).to_csv(out / "cells.csv", index=False)


def main() -> None:
    """Parse, run or write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--all", type=Path, metavar="OUT")
    parser.add_argument("--page", type=Path, metavar="OUT")
    parser.add_argument("--plan", action="store_true")
    parser.add_argument("--data", type=Path, default=Path("data"))
    given = parser.parse_args()
    if given.plan:
        for audit in audits():
            print(f"{audit.minutes:5.1f} min  {audit.name}  epsilon {audit.epsilons}")
    if given.all:
        run_all(given.all, given.data)
    if given.page:
        write_page(given.page)


if __name__ == "__main__":
    main()
