"""`compare`, `report` and `init` as commands: what is printed, written and loaded."""

import json
import os
from pathlib import Path

import pytest
from handmade import built, comparison
from reports import report_of, sealed

from fairaudit.cli import app
from fairaudit.report.render.markdown import to_markdown
from fairaudit.report.to_json import read_report, to_json


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "a.json").write_text(to_json(built()), "utf-8")
    (tmp_path / "b.json").write_text(to_json(report_of(comparison(costs=(0.141, 0.012)))), "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


def test_a_comparison_names_the_findings_that_only_one_report_has(folder, capsys):
    healthy = report_of(comparison(costs=(0.012, 0.012)))
    (folder / "none.json").write_text(to_json(healthy), "utf-8")
    assert app.main(["compare", "none.json", "b.json", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(f["code"], f["groups"]) for f in found["new"]] == [("gap", ["F", "M"])]
    assert {f["code"] for f in found["gone"]} == {"no_gap"}
    assert app.main(["compare", "none.json", "b.json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith(("now ", "no more ")) for line in lines) == 2


def test_reports_that_cannot_be_compared_end_in_2(folder, capsys):
    text = (folder / "b.json").read_text("utf-8").replace("3f9a", "4f9a")
    (folder / "c.json").write_text(sealed(json.loads(text)), "utf-8")
    assert app.main(["compare", "a.json", "c.json"]) == 2
    assert "--other-data" in capsys.readouterr().err
    assert app.main(["compare", "a.json", "c.json", "--other-data"]) == 0
    assert "different data" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["pipe", "zero", "large"])
def test_a_report_that_is_a_pipe_or_without_end_is_refused_unread(folder, capsys, name):
    os.mkfifo("pipe")
    Path("zero").symlink_to("/dev/zero")
    with open("large", "wb") as file:
        file.truncate(2**40)
    rule = ["--fail-on", "accuracy < 0.1"]
    for words in (
        ["gate", name, *rule],
        ["gate", "a.json", *rule, "--baseline", name],
        ["compare", name, "a.json"],
        ["compare", "a.json", name],
        ["report", name],
        ["train", "--from", name, "--method", "dpsgd", "--out", "model"],
    ):
        assert app.main(words) == 2
        assert f"{name} cannot be read" in capsys.readouterr().err


def test_a_stored_report_is_rendered_as_when_it_was_made(folder, capsys):
    assert (
        app.main(["report", "a.json", "--format", "md,junit", "--format", "json", "--out", "again"])
        == 0
    )
    again = folder / "again"
    assert {p.name for p in again.iterdir()} == {"report.json", "report.md", "report.junit.xml"}
    report = read_report((folder / "a.json").read_text("utf-8"), name="a.json")
    assert (again / "report.md").read_text("utf-8") == to_markdown(report)
    assert "Wrote again/report.md" in capsys.readouterr().err
    stored = read_report((again / "report.json").read_text("utf-8"), name="report.json")
    assert [a.path for a in stored.artifacts] == ["report.junit.xml", "report.md"]


def test_init_writes_columns_once(folder, capsys):
    rows = [f"{20 + i % 40},{'F' if i % 3 else 'M'},{i % 2}" for i in range(300)]
    (folder / "my people.csv").write_text("age,sex,y\n" + "\n".join(rows) + "\n")
    assert app.main(["init", "my people.csv"]) == 2
    assert "--columns" in capsys.readouterr().err
    assert app.main(["plan", "--data", "my people.csv"]) == 2
    assert "`fairaudit inspect 'my people.csv'`" in capsys.readouterr().err
    assert app.main(["init", "my people.csv", "--columns"]) == 0
    assert "[age]" in (folder / "columns.toml").read_text("utf-8").replace('"', "")
    assert app.main(["init", "my people.csv", "--columns", "--group", "age"]) == 2
    assert "--force" in capsys.readouterr().err
    assert app.main(["init", "my people.csv", "--columns", "--group", "age", "--force"]) == 0
    told = capsys.readouterr().err
    assert "`fairaudit run --data 'my people.csv' --group age --columns columns.toml`" in told
    assert "[age]" not in (folder / "columns.toml").read_text("utf-8").replace('"', "")
