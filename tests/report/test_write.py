import hashlib

import pytest
from documents import charts

from fairaudit.errors import OutputError
from fairaudit.report.to_json import read_report
from fairaudit.report.write import report_paths, write_report


def test_the_json_names_the_other_files_by_digest(report, tmp_path):
    written = write_report(report, tmp_path, ("json", "md"))
    markdown = (tmp_path / "report.md").read_bytes()
    assert written.artifacts[0].sha256 == hashlib.sha256(markdown).hexdigest()
    stored = read_report((tmp_path / "report.json").read_text("utf-8"), name="report.json")
    assert stored.artifacts == written.artifacts


def test_only_the_formats_asked_for_are_written(report, tmp_path):
    write_report(report, tmp_path, ("json",))
    assert [p.name for p in tmp_path.iterdir()] == ["report.json"]
    assert report_paths(tmp_path, ("md", "json")) == [
        tmp_path / "report.json",
        tmp_path / "report.md",
    ]


def test_the_other_files_are_the_same_to_the_byte_when_made_again_from_the_json(report, tmp_path):
    formats = ("md", "html", "junit", "svg")
    value = report.comparisons[0].by_group[0].estimates["privacy_cost"]
    assert value.high != float(f"{value.high:.6g}")  # the object is more precise than its file
    write_report(report, tmp_path / "first", ("json", *formats))
    stored = read_report(
        (tmp_path / "first" / "report.json").read_text("utf-8"), name="report.json"
    )
    write_report(stored, tmp_path / "again", formats)
    again = [path for path in (tmp_path / "again").rglob("*") if path.is_file()]
    assert len(again) == 3 + len(charts(report))
    for path in again:
        assert (
            path.read_bytes()
            == (tmp_path / "first" / path.relative_to(tmp_path / "again")).read_bytes()
        )


def test_pictures_stand_in_a_folder_and_the_markdown_shows_them(report, tmp_path):
    written = write_report(report, tmp_path, ("json", "md", "svg", "png"))
    drawn = charts(report)
    for chart in drawn:
        assert (tmp_path / "figures" / f"{chart.name}.svg").read_bytes().startswith(b"<svg")
        assert (tmp_path / "figures" / f"{chart.name}.png").read_bytes().startswith(b"\x89PNG")
    text = (tmp_path / "report.md").read_text("utf-8")
    assert text.count("](figures/") == len(drawn)
    assert len(text.splitlines()) < 200
    assert {a.path for a in written.artifacts} == {
        "report.md",
        *(f"figures/{c.name}.{kind}" for c in drawn for kind in ("svg", "png")),
    }
    assert report_paths(tmp_path, ("json", "svg")) == [
        tmp_path / "report.json",
        tmp_path / "figures",
    ]


def test_a_folder_that_cannot_be_made_is_one_line(report, tmp_path):
    (tmp_path / "figures").write_text("in the way")
    with pytest.raises(OutputError, match="figures"):
        write_report(report, tmp_path, ("svg",))
