"""Golden files: what a rendering gave when its diff was last reviewed.

``REWRITE_GOLDEN=1 python -m pytest tests/report tests/cli`` writes them anew.
"""

import os
from pathlib import Path

GOLDEN = Path(__file__).resolve().parent.parent / "golden"


def assert_golden(name, text):
    path = GOLDEN / name
    if os.environ.get("REWRITE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert path.is_file(), (
        f"tests/golden/{name} does not exist: run with REWRITE_GOLDEN=1 and review it"
    )
    assert text == path.read_text("utf-8"), f"differs from tests/golden/{name}"
