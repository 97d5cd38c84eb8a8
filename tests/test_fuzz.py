"""Hostile input of every kind; `pytest -m fuzz`. How much is thrown is set by the environment.

FAIRAUDIT_FUZZ_CASES: cases in all (default 10,000). FAIRAUDIT_FUZZ_SECONDS: time in all (default 300).
FAIRAUDIT_FUZZ_SEED: the first case (default 0).
"""

import json
import math
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import fuzz_child
import fuzz_own
import pytest
from edits import edited_at_random
from fuzz_cases import GOLDEN, KINDS
from reports import sealed

from fairaudit.errors import DataError, FairauditError
from fairaudit.gate.check import check
from fairaudit.gate.grammar import parse_rules
from fairaudit.report.load import vetted

SUPPORT = Path(__file__).resolve().parent / "support"
CASES = int(os.environ.get("FAIRAUDIT_FUZZ_CASES", "10000"))
SECONDS = float(os.environ.get("FAIRAUDIT_FUZZ_SECONDS", "300"))
SEED = int(os.environ.get("FAIRAUDIT_FUZZ_SEED", "0"))
MOST_MEMORY = 2 << 30
LATE = 200.0  # s, for the last case on a busy machine


def thrown(kind, first, count, seconds):
    """What a child said of its cases: the end, the broken cases, and the case that it died of, if any."""
    child = subprocess.run(
        [sys.executable, str(SUPPORT / "fuzz_child.py"), kind, str(first), str(count), str(seconds)],
        capture_output=True,
        text=True,
        timeout=seconds + LATE,
        # Arrow's own allocator reserves more than it uses, which the limit on memory would take for use.
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "ARROW_DEFAULT_MEMORY_POOL": "system"},
        check=False,
    )
    lines = [json.loads(line) for line in child.stdout.splitlines()]
    broken = [line for line in lines if "wrong" in line]
    if child.returncode or not lines or "done" not in lines[-1]:
        last = lines[-1].get("seed") if lines else None
        broken.append(
            {"seed": last, "wrong": f"the process ended with {child.returncode}", "said": child.stderr}
        )
    return lines[-1] if lines else {}, broken


@pytest.mark.fuzz
@pytest.mark.parametrize("kind", KINDS)
def test_hostile_input_ends_in_an_answer_or_in_one_line(kind, record_property):
    end, broken = thrown(kind, SEED, CASES // len(KINDS), SECONDS / len(KINDS))
    peak = end.get("peak", 0) >> 20
    record_property("seen", f"fuzz {kind}: {end.get('done', 0):,} cases from seed {SEED}, {peak} MiB")
    told = "\n".join(f"seed {b['seed']}: {b['wrong']}\n{b['said'][-2000:]}" for b in broken[:3])
    assert not broken, f"{len(broken)} broken cases of {kind}\n{told}"
    assert end["done"] > 0
    assert end["peak"] < MOST_MEMORY


def faults_of_own_models(first, count, seconds):
    """What became of each: "trained", or the class of an error that a user can act on."""
    end, seen = time.monotonic() + seconds, Counter()
    for seed in range(first, first + count):
        try:
            seen[fuzz_own.run_case(seed)] += 1
        except BaseException as error:
            raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}") from error
        if time.monotonic() > end:
            break
    return seen


@pytest.mark.fuzz
def test_faults_of_own_models_are_errors_that_a_user_can_act_on(record_property):
    seen = faults_of_own_models(SEED, CASES // len(KINDS), SECONDS / len(KINDS))
    record_property("seen", f"fuzz own models: {sum(seen.values()):,} cases from seed {SEED}: {dict(seen)}")
    assert len(seen) == 3


def test_a_few_faults_of_own_models_in_the_fast_suite():
    assert faults_of_own_models(0, 40, 20.0)


def edits_pass_nothing(first, count, seconds=math.inf):
    """Random edits of a report: noticed without a new digest; with one they pass by judged numbers only."""
    tree = json.loads(GOLDEN.read_bytes())
    rules = parse_rules(["privacy_cost_gap > 2pt", "epsilon > 3", "accuracy < 85%", "impact_ratio < 0.8"])
    began, done = time.monotonic(), 0
    for seed in range(first, first + count):
        if time.monotonic() > began + seconds:
            break
        edited, paths = edited_at_random(random.Random(f"edit {seed}"), tree)
        if edited != tree:
            with pytest.raises(DataError):
                vetted(json.dumps(edited), name="report.json")
        try:
            outcomes = [check(vetted(sealed(edited), name="report.json"), [rule]).outcome for rule in rules]
        except FairauditError:
            outcomes = []
        judged = [path for path in paths if path[0] in ("privacy", "comparisons")]
        assert "pass" not in outcomes or judged, f"seed {seed}: {paths}"
        done += 1
    return done


@pytest.mark.fuzz
def test_no_edit_of_a_report_passes_a_gate_but_by_its_numbers(record_property):
    done = edits_pass_nothing(SEED, CASES, SECONDS / len(KINDS))
    record_property("seen", f"fuzz edits: {done:,} edited reports from seed {SEED}")
    assert done > 0


def test_a_handful_of_edits_in_the_fast_suite():
    assert edits_pass_nothing(0, 40) == 40


@pytest.mark.parametrize("kind", KINDS)
def test_a_handful_of_each_kind_in_the_fast_suite(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for seed in range(5):
        place = tmp_path / str(seed)
        place.mkdir()
        code, said = fuzz_child.run(KINDS[kind](random.Random(f"{kind} {seed}"), place))
        assert not fuzz_child.complaint(code, said), said


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (70, "Bug: ValueError"),
        (-11, ""),
        (2, ""),
        (2, "Error: a\nError: b"),
        (2, "Error: " + "x" * 3000),
        (0, "Traceback (most recent call last):"),
    ],
)
def test_the_judge_finds_what_must_not_happen(code, said):
    assert fuzz_child.complaint(code, said)
    assert not fuzz_child.complaint(0, "")
    assert not fuzz_child.complaint(2, "Error: no such file")


def test_a_crash_a_hang_and_a_bug_are_found_and_named(monkeypatch, tmp_path):
    """The harness itself: a program that misbehaves in each way must not pass."""
    (tmp_path / "fuzz_cases.py").write_text(
        "import os, time\n"
        "def _crash(rng, folder):\n    os.abort()\n"
        "def _wait(rng, folder):\n    time.sleep(30)\n"
        "def _spin(rng, folder):\n    while True:\n        pass\n"
        "def _bug(rng, folder):\n    import fairaudit.cli.app as app\n"
        "    app.app = lambda *a, **k: 1 / 0\n    return ['doctor']\n"
        "KINDS = {'crash': _crash, 'wait': _wait, 'spin': _spin, 'bug': _bug}\n"
    )
    child = tmp_path / "fuzz_child.py"
    child.write_text(
        (SUPPORT / "fuzz_child.py")
        .read_text()
        .replace("HANG = 10.0", "HANG = 3.0")
        .replace("STUCK = 120.0", "STUCK = 8.0")
    )
    monkeypatch.setattr(sys.modules[__name__], "SUPPORT", tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for kind, said in (
        ("crash", "ended with"),
        ("wait", "ended with"),
        ("spin", "ended with"),
        ("bug", "exit code 70"),
    ):
        _, broken = thrown(kind, 3, 1, 20.0)
        assert [b["seed"] for b in broken] == [3]
        assert said in broken[0]["wrong"]
