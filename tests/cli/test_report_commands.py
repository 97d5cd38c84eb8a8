"""`compare`, `report` and `init` as commands: what is printed, written and loaded."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from handmade import arm, built, comparison
from places import ROOT
from reports import report_of, sealed

from fairaudit.cli import app
from fairaudit.gate.check import check, with_verdict
from fairaudit.gate.grammar import parse_rules
from fairaudit.report.render.markdown import to_markdown
from fairaudit.report.to_json import read_report, to_json


@pytest.fixture
def report_folder(tmp_path, monkeypatch):
    (tmp_path / "a.json").write_text(to_json(built()), "utf-8")
    (tmp_path / "b.json").write_text(to_json(report_of(comparison(costs=(0.141, 0.012)))), "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


def test_a_comparison_names_the_findings_that_only_one_report_has(report_folder, capsys):
    healthy = report_of(comparison(costs=(0.012, 0.012)))
    (report_folder / "none.json").write_text(to_json(healthy), "utf-8")
    assert app.main(["compare", "none.json", "b.json", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(f["code"], f["groups"]) for f in found["new"]] == [("gap", ["F", "M"])]
    assert {f["code"] for f in found["gone"]} == {"no_gap"}
    assert app.main(["compare", "none.json", "b.json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith(("now ", "no more ")) for line in lines) == 2


def test_reports_that_cannot_be_compared_end_in_2(report_folder, capsys):
    text = (report_folder / "b.json").read_text("utf-8").replace("3f9a", "4f9a")
    (report_folder / "c.json").write_text(sealed(json.loads(text)), "utf-8")
    assert app.main(["compare", "a.json", "c.json"]) == 2
    assert "--other-data" in capsys.readouterr().err
    assert app.main(["compare", "a.json", "c.json", "--other-data"]) == 0
    assert "different data" in capsys.readouterr().out


def test_a_report_is_named_by_its_file_or_by_its_folder(report_folder, capsys):
    def out(*words):
        assert app.main([*words]) == 0
        return capsys.readouterr().out

    for name in ("a", "b"):
        (report_folder / name).mkdir()
        (report_folder / f"{name}.json").rename(report_folder / name / "report.json")
    assert out("compare", "a", "b") == out("compare", "a/report.json", "b/report.json")
    rule = ["--fail-on", "accuracy < 0.1"]
    assert out("gate", "a", *rule, "--baseline", "b", "--json")
    assert out("report", "a", "--out", "-") == out("report", "a/report.json", "--out", "-")
    assert out("report", "a", "b") == out("report", "a/report.json", "b/report.json")
    assert app.main(["report", "a", "--format", "md"]) == 0
    assert (report_folder / "a" / "report.md").is_file()
    assert app.main(["report", "a", "a/report.json"]) == 2
    assert "given twice" in capsys.readouterr().err
    assert app.main(["compare", ".", "a"]) == 2
    said = capsys.readouterr().err
    assert "no report" in said
    assert "did you mean 'a/report.json' or 'b/report.json'?" in said


@pytest.mark.parametrize("name", ["pipe", "zero", "large"])
def test_a_report_that_is_a_pipe_or_without_end_is_refused_unread(report_folder, capsys, name):
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


def test_a_stored_report_is_rendered_as_when_it_was_made(report_folder, capsys):
    assert (
        app.main(["report", "a.json", "--format", "md,junit", "--format", "json", "--out", "again"])
        == 0
    )
    again = report_folder / "again"
    assert {p.name for p in again.iterdir()} == {"report.json", "report.md", "report.junit.xml"}
    report = read_report((report_folder / "a.json").read_text("utf-8"), name="a.json")
    assert (again / "report.md").read_text("utf-8") == to_markdown(report)
    assert "Wrote again/report.md" in capsys.readouterr().err
    stored = read_report((again / "report.json").read_text("utf-8"), name="report.json")
    assert [a.path for a in stored.artifacts] == ["report.junit.xml", "report.md"]


def test_init_writes_columns_once(report_folder, capsys):
    rows = [f"{20 + i % 40},{'F' if i % 3 else 'M'},{i % 2}" for i in range(300)]
    (report_folder / "my people.csv").write_text("age,sex,y\n" + "\n".join(rows) + "\n")
    assert app.main(["init", "my people.csv"]) == 2
    assert "--columns" in capsys.readouterr().err
    assert app.main(["plan", "--data", "my people.csv"]) == 2
    assert "`fairaudit inspect 'my people.csv'`" in capsys.readouterr().err
    assert app.main(["init", "my people.csv", "--columns"]) == 0
    assert "[age]" in (report_folder / "columns.toml").read_text("utf-8").replace('"', "")
    assert app.main(["init", "my people.csv", "--columns", "--group", "age"]) == 2
    assert "--force" in capsys.readouterr().err
    assert app.main(["init", "my people.csv", "--columns", "--group", "age", "--force"]) == 0
    told = capsys.readouterr().err
    assert "`fairaudit run --data 'my people.csv' --group age --columns columns.toml`" in told
    assert "[age]" not in (report_folder / "columns.toml").read_text("utf-8").replace('"', "")


def test_several_reports_are_one_table_over_files_methods_and_groups(report_folder, capsys):
    arms = (arm("sgd", reference=None), arm("dpsgd"), arm("global-adapt"))
    two = report_of(comparison("dpsgd", (0.08, 0.01)), comparison("global-adapt"), arms=arms)
    rules = parse_rules(["privacy_cost_gap > 5 points"])
    two = with_verdict(two, check(two, rules))
    (report_folder / "late").mkdir()
    (report_folder / "late" / "report.json").write_text(to_json(two), "utf-8")
    paths = ["a.json", "late/report.json", "b.json"]
    assert app.main(["report", *paths]) == 0
    head, _, *rows = capsys.readouterr().out.strip().splitlines()
    titles = [cell.strip() for cell in head.strip("|").split("|")]
    assert titles[:6] == ["report", "method", "ε", "verdict", "group", "test rows"]
    assert titles[6].startswith("privacy cost (points")
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    found = [(of[0], of[1], of[3]) for of in cells if of[4] == "sex = F"]
    assert found == [
        ("a.json", "global-adapt", "–"),
        ("late", "dpsgd", "FAIL"),
        ("late", "global-adapt", "PASS"),
        ("b.json", "global-adapt", "–"),
    ]
    groups = ["sex = F", "sex = M", "sex: gap, F less M", "sex: all rows"]
    assert [of[4] for of in cells] == groups * 4
    gap = next(of for of in cells if of[:2] == ["late", "dpsgd"] and "gap" in of[4])
    assert gap[6].startswith("7.0 [5.3, 8.7] ")
    assert "detected" in gap[6]
    assert "limit 5: FAIL" in gap[6]
    assert app.main(["report", *paths, "--format", "json"]) == 0
    numbers = json.loads(capsys.readouterr().out)
    (mine,) = (
        row
        for row in numbers
        if (row["report"], row["arm"], row["groups"]) == ("late", "dpsgd", ["F", "M"])
        and row["metric"] == "privacy_cost"
    )
    assert (mine["value"], mine["verdict"], mine["reading"]) == (0.07, "fail", "detected")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a.json", "b.json", "--out", "x"], "stdout"),
        (["a.json", "b.json", "--format", "html"], "md or json"),
        (["a.json", "a.json"], "twice"),
        (["a.json", "none.json"], "there is no report"),
    ],
)
def test_a_table_of_several_reports_that_cannot_be_made_ends_in_2(
    report_folder, capsys, words, said
):
    assert app.main(["report", *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("codes", "expected"),
    [("0 0 0", 0), ("3 0 0", 3), ("0 3 1", 1), ("1 3 0", 1), ("3 1 4", 4), ("2 1 3", 2)],
)
def test_the_loop_over_files_ends_with_the_worst_outcome(tmp_path, codes, expected):
    """The loop of docs/ci.md, under the shell options of a CI step, with a program in place."""
    page = (ROOT / "docs" / "ci.md").read_text("utf-8")
    loop = next(b for b in re.findall(r"```sh\n(.*?)```", page, flags=re.S) if "for file" in b)
    (tmp_path / "data").mkdir()
    for name in "abc":
        (tmp_path / "data" / f"{name}.parquet").touch()
    (tmp_path / "codes").write_text("".join(f"{code}\n" for code in codes.split()), "utf-8")
    stub = tmp_path / "fairaudit"
    stub.write_text(
        "#!/bin/sh\n[ $1 = run ] || exit 0\ncode=$(head -n 1 codes); sed -i 1d codes; exit $code\n",
        "utf-8",
    )
    stub.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run(["sh", "-e", "-c", loop], cwd=tmp_path, env={"PATH": path}, check=False)
    assert done.returncode == expected
    assert (tmp_path / "codes").read_text("utf-8") == "", "every file is audited"
