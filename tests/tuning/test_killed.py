"""A search killed at any moment is taken up again and ends in the same report."""

import importlib
import json
import signal
import sys
from pathlib import Path

import pytest

from fairaudit.report.model import VOLATILE
from fairaudit.results.jobs import read_result

Program = importlib.import_module("processes").Program

LOANS = Path(__file__).resolve().parents[2] / "sample_data" / "loans.parquet"
OPTIONS = (
    *(
        "run",
        "--data",
        str(LOANS),
        "--group",
        "sex",
        "--seeds",
        "2",
        "--epochs",
        "1",
        "--method",
        "dpsgd",
    ),
    *(
        "--tune",
        "2",
        "--batch-size",
        "512",
        "--noise-multiplier",
        "1",
        "--workers",
        "1",
        "--no-twins",
    ),
    *("--format", "json", "--format", "md"),
)


def begin(out):
    return Program([sys.executable, "-m", "fairaudit", *OPTIONS, "--out", "out"], cwd=out)


def told(folder):
    report = json.loads((folder / "out" / "report.json").read_text())
    kept = {name: value for name, value in report.items() if name not in VOLATILE}
    return kept, (folder / "out" / "report.md").read_text()


def finished(folder):
    return sorted(path.stem for path in (folder / "out" / "jobs").glob("*.safetensors"))


@pytest.mark.slow
def test_a_search_killed_among_all_its_ways_ends_in_the_same_report(tmp_path):
    killed, undisturbed = tmp_path / "killed", tmp_path / "undisturbed"
    for folder in (killed, undisturbed):
        folder.mkdir()
    code, errors = begin(undisturbed).end()
    assert code == 0, errors
    # Searches and default settings of both arms at two seeds.
    assert len(finished(undisturbed)) == 8
    for count in (1, 3, 5):
        run = begin(killed)
        run.wait_for(lambda count=count: len(finished(killed)) >= count, f"no {count} trainings")
        run.process.kill()
        assert run.end()[0] == -signal.SIGKILL
    before = finished(killed)
    assert 5 <= len(before) < 8
    assert all(read_result(killed / "out" / "jobs", name) is not None for name in before)
    code, errors = begin(killed).end()
    assert code == 0, errors
    assert f"{len(before)} of 8 trainings were finished before" in errors
    assert told(killed) == told(undisturbed)
    assert finished(killed) == finished(undisturbed)
