"""What the papers define has a name here; docs/papers.md is what `benchmarks/papers.py` writes."""

import importlib.util
import json
import tomllib
from pathlib import Path

import pytest

from fairaudit.analysis import build_causes
from fairaudit.config.options import AuditConfig
from fairaudit.config.presets import presets
from fairaudit.gate.vocabulary import OF_ARM, find_metric
from fairaudit.methods.catalog import find
from fairaudit.metrics.registry import METRICS
from fairaudit.report import step_charts
from fairaudit.report.sections import why
from fairaudit.results.steps import CORRELATED

ROOT = Path(__file__).parent.parent
SOURCE = tomllib.loads((ROOT / "benchmarks" / "papers.toml").read_text())
DRAWN = {**step_charts._BY_CHECKPOINT, "batch_norm": ""}
# Counted in the papers, one after another: what they number, and what they name without a number.
NUMBERED = {
    "E23": [
        *("eq. (1)", "eq. (2)", "eq. (3)", "Prop. 1", "Prop. 2", "Prop. 3", "Prop. 2*", "Prop. 3*"),
        *(f"Alg. {n}" for n in range(1, 5)),
        *(f"Fig. {n}" for n in range(1, 18)),
        *(f"Table {n}" for n in range(1, 6)),
        "Wilcoxon",
    ],
    "X21": [
        *("equal cost", "eq. (1)", "Alg. 1", "Alg. 2", "Alg. 3"),
        *("Fig. 1", "Fig. 2", "Fig. 3", "Table 1", "Table 2", "Table 3"),
    ],
    "T21": [
        *("Def. 1", "eq. (1)", "eq. (2)", "eq. (6)", "Alg. 1", "Cor. 1", "Cor. 2"),
        *(f"Thm {n}" for n in range(1, 6)),
        *(f"{what} {n}" for what in ("Lemma", "Ass.") for n in range(1, 4)),
        *(f"Fig. {n}" for n in range(1, 15)),
    ],
    "T23": [
        *(f"Def. {n}" for n in range(1, 7)),
        *("Thm 1", "Thm 2", "Thm 3", "Cor. 1", "Cor. 2", "Prop. 1", "Prop. 2"),
        *(f"Fig. {n}" for n in range(1, 8)),
    ],
}


def is_here(kind, name):
    """Whether what the list names is in the report's schema, and drawn or printed."""
    match kind:
        case "metric":
            return name in METRICS
        case "gap":
            return find_metric(f"{name}_gap").kind == "gap"
        case "guarantee":
            return name in OF_ARM
        case "term":
            return name in step_charts._TERMS and name in METRICS
        case "setting":
            method, _, setting = name.partition(".")
            return setting in find(method).settings
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


@pytest.mark.parametrize("paper", NUMBERED)
def test_everything_that_a_paper_numbers_is_in_the_list(paper):
    covered = [one for row in SOURCE["defines"] if row["paper"] == paper for one in row["covers"]]
    assert set(covered) == set(NUMBERED[paper])


def test_every_printed_table_of_numbers_is_in_the_list():
    printed = {name for table in SOURCE["table"] for name in table["prints"]}
    tables = {f"{paper} {one}" for paper, all_ in NUMBERED.items() for one in all_}
    assert printed == {one for one in tables if "Table" in one}


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
