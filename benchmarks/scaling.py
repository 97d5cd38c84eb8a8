"""How time and memory of an audit grow: one factor at a time, from a small audit.

    python benchmarks/scaling.py [--factor rows ...] [--out scaling.json] [--processor]

The base is 10,000 made rows, 10 columns, 2 groups, 1 method and 2 seeds. From it rows grow to 10^7
(the last for reading alone), columns to 10^4, groups to 10^3, methods to 10, seeds to 50; logistic
regression, defaults, no twins, one worker. Every cell is an audit in a process of its own: seconds
and the most anonymous memory of all its processes while it reads the table (planning and sharing
it with the worker included), trains, measures, and makes and writes the report. A cell that takes
20 minutes or 16 GiB is stopped, and what it was doing is said.

The last table has the exponent of each stage between the last two cells: 1 is linear growth.
``--processor`` counts processor time of all processes, where other work runs beside.
"""

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from processes import anonymous_mib, family, processor_seconds

BASE = {"rows": 10_000, "columns": 10, "groups": 2, "methods": 1, "seeds": 2}
CELLS = {
    "rows": (10_000, 100_000, 1_000_000, 10_000_000),
    "columns": (10, 100, 1_000, 10_000),
    "groups": (2, 10, 100, 1_000),
    "methods": (1, 2, 5, 10),
    "seeds": (2, 5, 20, 50),
}
METHODS = (
    "dpsgd",
    "global-adapt",
    "global",
    "reweight",
    "dpsgd-f",
    "fairlens",
    "dpsgd-matched",
    "output-perturbation",
    "pate-soft",
    "sgd",
)
ONLY_READ = 5_000_000  # rows from which nothing is trained
STAGES = ("reading", "training", "measuring", "reporting")
MOST_SECONDS, MOST_MIB = 20 * 60.0, 16 * 1024.0
WRITTEN = 250_000  # rows at once
RELEVANT = 5  # columns that the label depends on


def write_table(path: Path, rows: int, columns: int, groups: int) -> None:
    """A table of made rows: numbers, one group column, a label that some of the numbers tell."""
    rng = np.random.default_rng(0)
    names = np.array([f"group {number:04}" for number in range(groups)])
    writer = None
    at_once = max(1, min(WRITTEN, 50_000_000 // columns))
    for start in range(0, rows, at_once):
        count = min(at_once, rows - start)
        values = rng.standard_normal((columns, count), dtype=np.float32).round(3)
        score = values[:RELEVANT].sum(0) + rng.logistic(size=count)
        table = {f"number_{number:05}": column for number, column in enumerate(values)}
        table["team"] = names[rng.integers(groups, size=count)]
        table["approved"] = (score > 0).astype(np.int8)
        piece = pa.table(table)
        writer = writer or pq.ParquetWriter(path, piece.schema)
        writer.write_table(piece)
    assert writer is not None
    writer.close()


class Watch:
    """Seconds and memory of this process and its workers, stage by stage."""

    def __init__(self, *, processor: bool) -> None:
        self.processor = processor
        self.tells = True
        self._most = 0.0
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        self._sampler.start()

    def _sample(self) -> None:
        while True:
            found = sum(anonymous_mib(process) for process in family(os.getpid()))
            self._most = max(self._most, found)
            time.sleep(0.02)

    def _now(self) -> float:
        if self.processor:
            return sum(processor_seconds(process) for process in family(os.getpid()))
        return time.perf_counter()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measure a stage, and tell that it begins."""
        self.tell({"stage": name})
        self._most, began = 0.0, self._now()
        yield
        seconds = self._now() - began
        self.tell({name: {"seconds": round(seconds, 3), "mib": round(self._most)}})

    def tell(self, what: dict[str, Any]) -> None:
        """Print what was measured, one object a line."""
        if self.tells:
            print(json.dumps(what), flush=True)


def run_cell(sizes: dict[str, int], *, processor: bool) -> None:
    """One audit, stage by stage; prints what each took."""
    watch = Watch(processor=processor)
    with tempfile.TemporaryDirectory(prefix="fairaudit-scaling-") as folder:
        # First a small audit, so that what is measured holds no start of workers and no imports.
        for name, made in (("small", {**BASE, "rows": 1_000}), ("made", sizes)):
            path = Path(folder) / name / "made.parquet"
            path.parent.mkdir()
            write_table(path, made["rows"], made["columns"], made["groups"])
            watch.tells = name == "made"
            audit_stages(path, made, watch)


def audit_stages(path: Path, sizes: dict[str, int], watch: Watch) -> None:
    """Read, train, measure and report."""
    from fairaudit import audit as line
    from fairaudit.analysis.build import build_report, run_metadata
    from fairaudit.analysis.measure import measured
    from fairaudit.api import settled_options
    from fairaudit.execution.run_directory import open_rundir
    from fairaudit.report.write import write_report

    options = {
        "group": "team",
        "label": "approved",
        "method": METHODS[: sizes["methods"]],
        "seeds": sizes["seeds"],
        "twins": "off",
        "workers": 1,
        "out": path.parent / "report",
    }
    with settled_options(path, "auto", options) as resolved:
        if sizes["rows"] < ONLY_READ:
            line.get_ready(resolved.config)
        with watch.stage("reading"):
            audit = line.prepare(resolved)
        if sizes["rows"] >= ONLY_READ:
            return
        with open_rundir(audit.plan) as rundir:
            with watch.stage("training"):
                audit = line.trained(audit, rundir)
            with watch.stage("measuring"):
                audit = measured(audit)
            with watch.stage("reporting"):
                report = build_report(audit, run_metadata((), (), workers=1, seconds={}))
                write_report(report, resolved.config.out, resolved.config.format)
    sizes_of_files = {}
    for name in ("report.json", "report.html", "report.md"):
        sizes_of_files[name] = (resolved.config.out / name).stat().st_size // 1024
    watch.tell({"kib": sizes_of_files})


def watched_cell(sizes: dict[str, int], *, processor: bool) -> dict[str, Any]:
    """A cell in a process of its own, stopped at the limits."""
    here = str(Path(__file__).resolve())
    command = [sys.executable, "-W", "ignore", here, "--cell", json.dumps(sizes)]
    process = subprocess.Popen(
        command + ["--processor"] * processor,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    found: dict[str, Any] = {}
    reason: list[str] = []

    def stop_at_limits() -> None:
        began = time.perf_counter()
        while process.poll() is None:
            if time.perf_counter() - began > MOST_SECONDS:
                reason.append(f"stopped at {MOST_SECONDS / 60:.0f} minutes")
            elif sum(anonymous_mib(one) for one in family(process.pid)) > MOST_MIB:
                reason.append(f"stopped at {MOST_MIB / 1024:.0f} GiB")
            if reason:
                os.killpg(process.pid, signal.SIGKILL)
                return
            time.sleep(0.2)

    limits = threading.Thread(target=stop_at_limits)
    limits.start()
    assert process.stdout is not None
    doing = "making the table"
    for text in process.stdout:
        told = json.loads(text)
        doing = told.pop("stage", doing)
        found |= told
    assert process.stderr is not None
    errors = process.stderr.read().strip()
    process.wait()
    limits.join()
    if reason:
        found["ended"] = f"{reason[0]}, {doing}"
    elif process.returncode:
        found["ended"] = f"failed, {doing}: {errors.splitlines()[-1] if errors else '?'}"
    return found


def line_of(factor: str, value: int, found: dict[str, Any]) -> str:
    """A cell as a line of a Markdown table."""
    cells = []
    for stage in STAGES:
        took = found.get(stage)
        cells.append(f"{took['seconds']:,.1f} s, {took['mib']:,} MiB" if took else "")
    if "kib" in found:
        cells[-1] += f", {found['kib']['report.json']:,} kB of JSON"
    return f"| {factor} {value:,} | {' | '.join(cells)} | {found.get('ended', '')} |"


def exponents(factor: str, cells: dict[int, dict[str, Any]]) -> Iterator[str]:
    """Of each stage, how time and memory grow between its last two cells: 1 is linear."""
    for stage in STAGES:
        done = [(value, found[stage]) for value, found in cells.items() if stage in found]
        if len(done) < 2:
            continue
        (first, before), (last, after) = done[-2:]
        wide = math.log(last / first)
        of_time, of_memory = (
            math.log(max(after[name], 1e-3) / max(before[name], 1e-3)) / wide
            for name in ("seconds", "mib")
        )
        yield (
            f"| {factor} {first:,} to {last:,} | {stage} | {before['seconds']:,.1f} to "
            f"{after['seconds']:,.1f} s | {of_time:.2f} | {before['mib']:,} to {after['mib']:,} MiB"
            f" | {of_memory:.2f} |"
        )


def main() -> None:
    """Parse, and run cell after cell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--factor", choices=CELLS, action="append")
    parser.add_argument("--most", type=int, help="leave out cells of larger values")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--processor", action="store_true")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.cell:
        run_cell(json.loads(arguments.cell), processor=arguments.processor)
        return
    found: dict[str, dict[int, dict[str, Any]]] = {}
    base: dict[str, Any] = {}
    print("| cell | reading | training | measuring | reporting | |\n|---|---|---|---|---|---|")
    for factor in arguments.factor or CELLS:
        found[factor] = {}
        for value in CELLS[factor]:
            if arguments.most and value > arguments.most:
                continue
            if value == BASE[factor] and base:
                cell = base
            else:
                sizes = {**BASE, factor: value}
                cell = watched_cell(sizes, processor=arguments.processor)
                base = cell if sizes == BASE else base
            found[factor][value] = cell
            print(line_of(factor, value, cell), flush=True)
            if arguments.out:
                arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(
        "\n| from, to | stage | seconds | exponent | memory | exponent |\n|---|---|---|---|---|---|"
    )
    for factor, cells in found.items():
        for line in exponents(factor, cells):
            print(line)


if __name__ == "__main__":
    main()
