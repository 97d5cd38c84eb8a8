"""Hostile input of every kind; `pytest -m fuzz`. How much is thrown is set by the environment.

FAIRAUDIT_FUZZ_CASES: cases of each kind (default 60). FAIRAUDIT_FUZZ_SEED: the first (default 0).
"""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import fuzz_child
import pytest
from fuzz_cases import KINDS

SUPPORT = Path(__file__).resolve().parent / "support"
CASES = int(os.environ.get("FAIRAUDIT_FUZZ_CASES", "60"))
SEED = int(os.environ.get("FAIRAUDIT_FUZZ_SEED", "0"))
MOST_MEMORY = 2 << 30


def thrown(kind, first, count):
    """What a child said of its cases.

    The end, the broken cases, and the case that it died of, if any.
    """
    child = subprocess.run(
        [sys.executable, str(SUPPORT / "fuzz_child.py"), kind, str(first), str(count)],
        capture_output=True,
        text=True,
        # Arrow's own allocator reserves more than it uses, which the limit on memory would take for
        # use.
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "ARROW_DEFAULT_MEMORY_POOL": "system",
        },
        check=False,
    )
    lines = [json.loads(line) for line in child.stdout.splitlines()]
    broken = [line for line in lines if "wrong" in line]
    if child.returncode or not lines or "done" not in lines[-1]:
        last = lines[-1].get("seed") if lines else None
        broken.append(
            {
                "seed": last,
                "wrong": f"the process ended with {child.returncode}",
                "said": child.stderr,
            }
        )
    return lines[-1] if lines else {}, broken


@pytest.mark.fuzz
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_hostile_input_ends_in_an_answer_or_in_one_line(kind, record_property):
    end, broken = thrown(kind, SEED, CASES)
    peak = end.get("peak", 0) >> 20
    record_property(
        "seen", f"fuzz {kind}: {end.get('done', 0):,} cases from seed {SEED}, {peak} MiB"
    )
    told = "\n".join(f"seed {b['seed']}: {b['wrong']}\n{b['said'][-2000:]}" for b in broken[:3])
    assert not broken, f"{len(broken)} broken cases of {kind}\n{told}"
    assert end["done"] == CASES
    assert end["peak"] < MOST_MEMORY


@pytest.mark.parametrize("kind", KINDS)
def test_a_handful_of_each_kind_in_the_fast_suite(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for seed in range(5):
        place = tmp_path / str(seed)
        place.mkdir()
        code, said = fuzz_child.run(KINDS[kind](random.Random(f"{kind} {seed}"), place))
        assert not fuzz_child.complaint(code, said), said
