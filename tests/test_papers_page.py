"""What the papers define has a name here; docs/papers.md is what `benchmarks/papers.py` writes."""

import importlib.util
import json
import tomllib
from pathlib import Path

import pytest

from fairaudit.analysis import build_causes
from fairaudit.config.options import AuditConfig
from fairaudit.config.presets import presets
from fairaudit.methods.catalog import find
from fairaudit.metrics.registry import METRICS
from fairaudit.report import step_charts
from fairaudit.report.sections import why
from fairaudit.results.steps import CORRELATED

ROOT = Path(__file__).parent.parent
SOURCE = tomllib.loads((ROOT / "benchmarks" / "papers.toml").read_text())
DRAWN = {**step_charts._BY_CHECKPOINT, "batch_norm": ""}
GAPS = {"privacy_cost", "excess_risk", "misalignment", "clipped_share", "direction", "magnitude"}


def is_here(kind, name):
    """Whether what the list names is in the report's schema, and drawn or printed."""
    match kind:
        case "metric":
            return name in METRICS
        case "gap":
            return name in GAPS & set(METRICS)
        case "part":
            shown = {*build_causes.ALL_PARTS}
            return name in shown
        case "statistic":
            return name in build_causes.GROUP_STATISTICS and name in why._STATISTICS
        case "curve":
            stored = {*build_causes.CURVES.values(), build_causes.BATCH_NORM}
            return name in stored and name in DRAWN
        case "epoch":
            return name in step_charts._BY_EPOCH
        case "bound":
            return name in {title for _, title, _ in build_causes.BOUNDS.values()}
        case "correlation":
            return tuple(name.split(",")) in CORRELATED
        case "agreement":
            return name in build_causes._ORDERED
        case "reading":
            method, _, reading = name.rpartition(".")
            return reading in find(method).meanings
        case "method":
            return find(name).name == name
        case "variant":
            method, _, variant = name.partition(":")
            return variant in [one.name for one in find(method).variants]
        case "preset":
            return name in presets()
        case "option":
            return name in AuditConfig.model_fields or name in find("dpsgd").settings
        case "none":
            return len(name) > 10  # the reason
    raise AssertionError(kind)


@pytest.mark.parametrize("row", SOURCE["defines"], ids=lambda row: f"{row['paper']}: {row['what']}")
def test_what_a_paper_defines_has_its_place(row):
    assert row["is"]
    for one in row["is"]:
        kind, _, name = one.partition(":")
        assert is_here(kind, name), one


def test_every_numbered_statement_and_figure_of_the_papers_is_in_the_list():
    """Counted in the papers: their numbered propositions, theorems, algorithms and figures."""
    said = {}
    for row in SOURCE["defines"]:
        said[row["paper"]] = f"{said.get(row['paper'], '')}; {row['what']}"

    assert "Prop. 2*" in said["E23"]
    assert "Prop. 3*" in said["E23"]
    printed = {table["name"].split(",")[0] for table in SOURCE["table"]}
    assert printed >= {f"E23 Table {n}" for n in range(1, 6)} | {"X21 Table 1", "X21 Table 2"}
    for theorem in (1, 2, 3, 4, 5):
        assert f"Thm {theorem}" in said["T21"]
    for theorem in (1, 2, 3):
        assert f"Thm {theorem}" in said["T23"]
    for corollary in ("Cor. 1", "Cor. 2"):
        assert corollary in said["T23"]


@pytest.mark.parametrize("table", SOURCE["table"], ids=lambda table: table["name"])
def test_a_printed_table_has_our_numbers_or_the_reason_why_not(table):
    ours = json.loads((ROOT / "benchmarks" / "papers.json").read_text())
    assert table["name"] in ours or len(table["missing"]) > 20
    for row in table["rows"].values():
        assert len(row) == len(table["columns"])


def test_the_page_is_what_the_program_writes():
    path = ROOT / "benchmarks" / "papers.py"
    spec = importlib.util.spec_from_file_location("papers_page", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    ours = json.loads((ROOT / "benchmarks" / "papers.json").read_text())
    assert (ROOT / "docs" / "papers.md").read_text() == module.page(SOURCE, ours)
