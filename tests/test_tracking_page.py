"""The page on experiment trackers: its lines log what the report says."""

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import fairaudit

ROOT = Path(__file__).parents[1]
LINES = re.search(
    r"```python\n(.*?)```", (ROOT / "docs" / "tracking.md").read_text(encoding="utf-8"), re.S
)[1]
STORED = ROOT / "tests" / "golden" / "report.json"


def test_every_number_is_logged_under_a_name_of_its_own(monkeypatch):
    logged = {}
    monkeypatch.setitem(sys.modules, "mlflow", SimpleNamespace(log_metrics=logged.update))
    source = LINES.replace("fairaudit-report/train/report.json", str(STORED))
    assert source != LINES
    exec(compile(source, "docs/tracking.md", "exec"), {})
    expected = {}
    for comparison in fairaudit.load_report(STORED).comparisons:
        for group in (*comparison.by_group, comparison.overall):
            place = f"{comparison.arm}/{comparison.grouping}/{group.group or 'overall'}"
            for metric, estimate in group.estimates.items():
                if estimate.value is not None:
                    name = re.sub(r"[^A-Za-z0-9_ ./-]", "_", f"{place}/{metric}")
                    expected[name] = estimate.value
    assert logged == expected
    assert len(logged) > 20
