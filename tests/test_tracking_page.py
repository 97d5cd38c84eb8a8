"""The page on experiment trackers: its lines log what the report says."""

import re
import types
from pathlib import Path

import pytest

import fairaudit

ROOT = Path(__file__).parents[1]
LINES = re.search(r"```python\n(.*?)```", (ROOT / "docs" / "tracking.md").read_text(encoding="utf-8"), re.S)[
    1
]
STORED = ROOT / "tests" / "golden" / "report.json"


def run(monkeypatch, mlflow):
    monkeypatch.setitem(__import__("sys").modules, "mlflow", mlflow)
    names = {}
    source = LINES.replace("fairaudit-report/train/report.json", str(STORED))
    assert source != LINES
    exec(compile(source, "docs/tracking.md", "exec"), names)
    return names["values"]


def test_every_number_is_logged_under_a_name_of_its_own(monkeypatch):
    logged = {}
    run(monkeypatch, types.SimpleNamespace(log_metrics=logged.update))
    report = fairaudit.load_report(STORED)
    expected = {}
    for comparison in report.comparisons:
        for group in (*comparison.by_group, comparison.overall):
            for metric, estimate in group.estimates.items():
                if estimate.value is not None:
                    place = f"{comparison.arm}/{comparison.grouping}/{group.group or 'overall'}/{metric}"
                    expected[re.sub(r"[^A-Za-z0-9_ ./-]", "_", place)] = estimate.value
    assert logged == expected
    assert len(logged) > 20


@pytest.mark.filterwarnings("ignore")  # theirs
def test_mlflow_takes_them(monkeypatch, tmp_path):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    with mlflow.start_run() as started:
        values = run(monkeypatch, mlflow)
    kept = mlflow.get_run(started.info.run_id).data.metrics
    assert kept == pytest.approx(values)
