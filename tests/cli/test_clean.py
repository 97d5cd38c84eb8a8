import os

import numpy as np

from fairaudit.cli import app
from fairaudit.results.jobs import JobResult, write_result


def finished_run(out):
    jobs = out / "jobs"
    jobs.mkdir(parents=True)
    (jobs / "lock").touch()
    write_result(jobs, JobResult("a" * 24, {"x": np.zeros(300_000)}, {}))


def test_clean_says_how_much_it_removed_of_the_run_that_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("adult", "loans"):
        finished_run(tmp_path / name)
    jobs = os.path.join("loans", "jobs")
    assert app.main(["clean", "loans"]) == 0
    assert capsys.readouterr() == (f"Removed 1 training (2.4 MB) from {jobs}\n", "")
    assert [path.parts[-3] for path in tmp_path.rglob("*.safetensors")] == ["adult"]
    assert app.main(["clean", "loans"]) == 0
    assert capsys.readouterr().out == f"Removed 0 trainings from {jobs}\n"


def test_clean_of_something_else_is_one_line_and_code_2(tmp_path, capsys):
    (tmp_path / "thesis.txt").touch()
    assert app.main(["clean", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert "holds no finished trainings (name the --out of a run)" in err
