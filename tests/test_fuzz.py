"""Hostile input of every kind: a handful of each, and with `pytest -m fuzz` many.

FAIRAUDIT_FUZZ_CASES: cases of each kind (default 60). FAIRAUDIT_FUZZ_SEED: the first (default 0).
"""

import faulthandler
import os
import resource
import sys
from pathlib import Path

import pytest
from fuzz_cases import KINDS, complaint
from processes import ended

CASES = int(os.environ.get("FAIRAUDIT_FUZZ_CASES", "60"))
SEED = int(os.environ.get("FAIRAUDIT_FUZZ_SEED", "0"))
MEMORY = 2 << 30  # of data, so that what asks for more fails here and not by the machine
STUCK = 600.0  # s, for what never ends


def throw(kind, folder):
    """Run as a process of its own, which ends at the first case with a wrong answer."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    os.chdir(folder)
    for seed in range(SEED, SEED + CASES):
        faulthandler.dump_traceback_later(STUCK, exit=True)
        sys.stderr.write(f"{kind} {seed}\n")
        wrong = complaint(kind, seed, Path(folder) / str(seed))
        if wrong:
            sys.exit(wrong)


@pytest.mark.fuzz
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_hostile_input_ends_in_an_answer_or_in_one_line(kind, tmp_path):
    code = f"from test_fuzz import throw; throw({kind!r}, {str(tmp_path)!r})"
    # Arrow's own allocator reserves more than it uses, which the limit would take for use.
    here = {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    here["ARROW_DEFAULT_MEMORY_POOL"] = "system"
    child = ended([sys.executable, "-c", code], seconds=None, **here)
    assert child.returncode == 0, child.stderr[-5000:]


@pytest.mark.parametrize("kind", KINDS)
def test_a_handful_of_each_kind(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wrong = [complaint(kind, seed, tmp_path / str(seed)) for seed in range(3)]
    assert not any(wrong), "\n".join(wrong)
