"""The page on Opacus: its example runs, and its tables are what the program computes."""

import re
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from fairaudit.opacus import make_private

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "opacus.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
def test_the_example_runs_as_it_stands(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    source, said = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)\n```", PAGE, re.S).groups()
    names = {}
    exec(compile(source, "docs/opacus.md", "exec"), names)
    assert said in capsys.readouterr().out
    assert names["optimizer"].accountant.steps == 470
    assert 2.99 < names["accountant"].epsilon() <= 3.0
    hits = names["model"](names["features"]).argmax(1) == names["labels"]
    assert float(hits.float().mean()) > 0.6
    bounds = names["optimizer"].describe()["group_bound"][0]
    assert 1.0 <= float(bounds.min()) <= float(bounds.max()) <= 3.0


@pytest.mark.slow
def test_the_table_of_epsilons_is_what_the_accountant_says():
    rows = re.findall(
        r"^\| ([a-z, -]+) \| ([\d.]+) \|(?: (\d+))? \| ([\d.]+) \|(?: ([\d.]+))? \| ([\d.]+) \|$",
        PAGE,
        re.M,
    )
    assert [row[0] for row in rows] == ["dpsgd, global", "global-adapt, dpsgd-f, reweight"]
    for methods, sigma, count, epsilon, uncharged, at_one in rows:
        for method in methods.split(", "):
            model = nn.Linear(2, 2)
            groups = 2 if method in ("dpsgd-f", "reweight") else 1
            told = []
            for given in ({"target_epsilon": 3.0}, {"noise_multiplier": 1.0}):
                optimizer = make_private(
                    model,
                    torch.optim.SGD(model.parameters(), lr=0.1),
                    DataLoader(TensorDataset(torch.zeros(23_512, 2)), batch_size=256),
                    method=method,
                    epochs=20,
                    target_delta=1e-6,
                    max_grad_norm=1.0,
                    groups=groups,
                    criterion=nn.CrossEntropyLoss(),
                    **({"count_noise_multiplier": 10.0} if count else {}),
                    **given,
                )[1]
                optimizer.accountant.steps = 1840
                told.append((optimizer.noise_multiplier, optimizer.accountant.epsilon()))
                model = nn.Linear(2, 2)
            assert told[0] == (
                pytest.approx(float(sigma), abs=1e-5),
                pytest.approx(float(epsilon), abs=1e-4),
            )
            assert told[1][1] == pytest.approx(float(at_one), abs=1e-4)
        assert not uncharged or float(uncharged) < float(epsilon)
