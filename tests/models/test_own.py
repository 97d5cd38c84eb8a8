import sys

import own_models
import pytest
import torch
from refusals import refused_in_one_line
from torch import nn

from fairaudit.errors import ConfigError
from fairaudit.models.zoo import check_outputs, digest, own_model
from fairaudit.privacy.borrowed import global_stream

HERE = "own_models"


def own(name, shape=(6,), seed=0):
    with global_stream(seed):
        return own_model(f"{HERE}:{name}", shape, 3)


def test_a_factory_is_called_with_the_shape_and_the_number_of_classes(monkeypatch):
    given = []
    spy = lambda *args: given.append(args) or nn.Linear(2, 2)  # noqa: E731
    monkeypatch.setattr(own_models, "spy", spy, raising=False)
    own("spy", (6,))
    own("spy", (28, 27, 3))
    assert given == [((6,), 3), ((3, 28, 27), 3)]


def test_the_start_is_the_seeds_and_the_global_generator_is_left_alone():
    before = torch.get_rng_state()
    first, second, other = own("residual"), own("residual"), own("residual", seed=1)
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(first.inner.weight, second.inner.weight)
    assert not torch.equal(first.inner.weight, other.inner.weight)


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        (f"{HERE}:residul", "has no 'residul'", "did you mean 'residual'"),
        ("no_such_package.models:net", "ModuleNotFoundError", "PYTHONPATH"),
        (f"{HERE}:", "names no factory", "package.module:factory"),
        (f"{HERE}:not_callable", "cannot be called", "factory(input_shape, classes)"),
        (f"{HERE}:no_module", "returned a str", "factory(input_shape, classes)"),
        (f"{HERE}:raises", "raised ValueError: no such width", "factory(input_shape, classes)"),
    ],
)
def test_a_factory_that_cannot_be_used_is_one_clear_line(name, message, hint):
    with refused_in_one_line(ConfigError, message) as caught:
        own_model(name, (6,), 3)
    assert hint in caught.value.hint
    assert caught.value.exit_code == 2


def test_a_factory_beside_the_user_is_found(tmp_path, monkeypatch):
    (tmp_path / "beside_me.py").write_text(
        "from torch import nn\ndef net(s, c): return nn.Linear(s[0], c)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p not in ("", str(tmp_path))])
    try:
        assert own_model("beside_me:net", (2,), 2).out_features == 2
    finally:
        sys.modules.pop("beside_me", None)


def write_module(path, body):
    path.write_text(f"from torch import nn\nimport torch\n{body}\n")


def test_the_digest_follows_architecture_start_and_code(tmp_path, monkeypatch):
    assert digest("x", own("residual")) == digest("x", own("residual"))
    assert digest("x", own("residual")) != digest("x", own("residual", seed=1))
    assert digest("x", own("residual")) != digest("y", own("residual"))
    assert digest("x", own("residual")) != digest("x", own("residual", (5,)))
    model = own("residual")
    before = digest("x", model)
    model.outer.requires_grad_(False)
    assert digest("x", model) != before
    made = []
    for model.k in ((1.0, [None]), {"a": 2}, torch.ones(1), torch.zeros(1)):
        made.append(digest("x", model))
    assert len({before, *made}) == 5
    write_module(tmp_path / "by_digest.py", "def net(s, c): return nn.Linear(s[0], c)")
    monkeypatch.syspath_prepend(str(tmp_path))
    made = own_model("by_digest:net", (2,), 2)
    first = digest("by_digest:net", made)
    write_module(tmp_path / "by_digest.py", "def net(s, c): return nn.Linear(s[0], c)  # changed")
    second = digest("by_digest:net", made)
    assert second != first
    write_module(tmp_path / "by_digest.py", "from beside_digest import net")
    (tmp_path / "beside_digest.py").write_text(
        "from torch import nn\ndef net(s, c): return nn.Linear(*s, c)\n"
    )
    third = digest("by_digest:net", made)
    (tmp_path / "beside_digest.py").write_text("def net(s, c): ...\n")
    assert len({first, second, third, digest("by_digest:net", made)}) == 4


def test_one_record_whose_logits_add_up_to_one_by_chance_is_let_through():
    answers = torch.tensor([[0.25, 0.75], [0.5, 0.5], [0.5, 0.75]])

    class Answering(nn.Module):
        def forward(self, x):
            return answers[x[:, 0].long()]

    for rows in ([0], [1], [0, 2]):
        check_outputs("nets:net", Answering(), torch.tensor(rows).unsqueeze(1), 2)
    with pytest.raises(ConfigError, match="puts out probabilities"):
        check_outputs("nets:net", Answering(), torch.tensor([[0], [1]]), 2)
