import hashlib

import pytest
from handmade import circumstances, findings

from fairaudit.errors import OutputError
from fairaudit.report.build import build_report
from fairaudit.report.to_json import read_report
from fairaudit.report.write import report_paths, write_report


@pytest.fixture
def report():
    return build_report(findings(), circumstances())


def test_the_json_names_the_other_files_by_digest(report, tmp_path):
    written = write_report(report, tmp_path, ("json", "md"))
    markdown = (tmp_path / "report.md").read_bytes()
    assert written.artifacts[0].sha256 == hashlib.sha256(markdown).hexdigest()
    stored = read_report((tmp_path / "report.json").read_text(encoding="utf-8"), name="report.json")
    assert stored.artifacts == written.artifacts


def test_only_the_formats_asked_for_are_written(report, tmp_path):
    write_report(report, tmp_path, ("json",))
    assert [p.name for p in tmp_path.iterdir()] == ["report.json"]
    assert report_paths(tmp_path, ("md", "json")) == [tmp_path / "report.json", tmp_path / "report.md"]


def test_a_full_disk_leaves_the_old_report_whole(report, tmp_path, monkeypatch):
    write_report(report, tmp_path, ("json", "md"))
    before = (tmp_path / "report.json").read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fairaudit.atomic.os.replace", full)
    with pytest.raises(OutputError, match="no space left"):
        write_report(report.model_copy(update={"created_utc": "later"}), tmp_path, ("json", "md"))
    assert (tmp_path / "report.json").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 2
