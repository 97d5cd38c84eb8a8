import json
import os

import numpy as np
import pytest

from fairaudit.cli import app
from fairaudit.cli.lines import trainings_text
from fairaudit.results.jobs import JobResult, write_result


def finished_run(out):
    jobs = out / "jobs"
    jobs.mkdir(parents=True)
    (jobs / "lock").touch()
    write_result(jobs, JobResult("a" * 24, {"x": np.zeros(300_000)}, {}))
    (jobs / "run.json").write_text(json.dumps({"files": [f"{'a' * 24}.safetensors"]}))


def test_clean_says_how_much_it_removed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    finished_run(tmp_path / "fairaudit-report" / "loans")
    where = os.path.join("fairaudit-report", "loans")
    assert app.main(["clean"]) == 0  # the only audit that is there
    assert capsys.readouterr() == (f"Removed 1 training (2.4 MB) from {where}{os.sep}jobs\n", "")
    assert app.main(["clean", where]) == 0
    assert capsys.readouterr().out == f"Removed 0 trainings from {where}{os.sep}jobs\n"


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (0, "3 trainings"),
        (40, "3 trainings (0.0 kB)"),
        (12_345, "3 trainings (12.3 kB)"),
        (99_940, "3 trainings (99.9 kB)"),
        (100_000, "3 trainings (0.1 MB)"),
        (2_345_678_900, "3 trainings (2,345.7 MB)"),
    ],
)
def test_a_size_is_told_in_a_unit_that_shows_it(size, said):
    assert trainings_text(3, size) == said


def test_clean_of_several_audits_asks_which(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("adult", "loans"):
        finished_run(tmp_path / "fairaudit-report" / name)
    assert app.main(["clean"]) == 2
    assert "name one: fairaudit-report/adult, fairaudit-report/loans" in capsys.readouterr().err
    assert len(list(tmp_path.rglob("*.safetensors"))) == 2
    assert app.main(["clean", "fairaudit-report/adult"]) == 0
    assert [path.parts[-3] for path in tmp_path.rglob("*.safetensors")] == ["loans"]


def test_clean_of_something_else_is_one_line_and_code_2(tmp_path, capsys):
    (tmp_path / "thesis.txt").touch()
    assert app.main(["clean", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert "holds no finished trainings (name the --out of a run)" in err
