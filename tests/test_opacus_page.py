"""The page on Opacus: its example runs."""

import re

import pytest
from places import ROOT

PAGE = (ROOT / "docs" / "opacus.md").read_text("utf-8")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
def test_the_example_runs_as_it_stands(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    source, said = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)\n```", PAGE, re.S).groups()
    names = {}
    exec(compile(source, "docs/opacus.md", "exec"), names)
    assert said in capsys.readouterr().out
    assert names["optimizer"].accountant.steps == 470
    assert 2.99 < names["optimizer"].accountant.epsilon() <= 3.0
    hits = names["model"](names["features"]).argmax(1) == names["labels"]
    assert float(hits.float().mean()) > 0.6
    bounds = names["optimizer"].describe()["group_bound"][0]
    assert 1.0 <= float(bounds.min()) <= float(bounds.max()) <= 3.0
