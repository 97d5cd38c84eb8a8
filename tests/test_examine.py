"""What a user's own model is found to be, before anything is planned around it."""

import pytest
from audits import audited
from people import RECIPE, applicants
from places import LOANS
from torch import nn

from fairaudit.cli import app
from fairaudit.config.model_names import BY_TABLE, BY_VMAP, ModelFacts
from fairaudit.config.options import AuditConfig
from fairaudit.data.inputs.shared import share_inputs
from fairaudit.data.tabular import load_dataset
from fairaudit.errors import ConfigError, TrainingError
from fairaudit.execution.model_setup import examine_model
from fairaudit.planning.plan import make_plan
from fairaudit.report.render.markdown import to_markdown


def config(model, **given):
    return AuditConfig(data=LOANS, group=("sex",), model=model, method=("dpsgd",), seeds=1, **given)


def found(model):
    given = config(model)
    return examine_model(given, share_inputs(load_dataset(given), given))


@pytest.fixture(scope="module")
def chain():
    return found("own_models:chain")


def test_layers_of_the_table_take_the_fast_path(chain):
    assert chain.gradients == BY_TABLE
    assert chain.why_not_in_table == ""


def test_a_model_outside_the_table_is_isolated_and_named():
    facts = found("own_models:attention")
    assert facts.gradients == BY_VMAP
    assert "attention" in facts.why_not_in_table.lower()


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        ("own_models:wrong_width", ConfigError, "puts out"),
        ("own_models:normalised", TrainingError, "BatchNorm1d at '1'"),
        ("own_models:mixing", TrainingError, "one record alone"),
        ("own_models:branching", TrainingError, "--trainer"),
        ("own_models:remembering", TrainingError, "largest"),
        ("own_models:frozen", TrainingError, "no parameter"),
        ("own_models:partly_traced", TrainingError, "compiled by torch.jit"),
    ],
)
def test_a_model_that_cannot_be_audited_is_refused_before_any_training(model, error, message):
    with pytest.raises(error, match=message):
        found(model)


def test_an_epsilon_that_rests_on_what_a_module_hides_passes_no_gate_unasked(tmp_path, capsys):
    applicants().to_parquet(tmp_path / "people.parquet")
    given = {**RECIPE, "noise_multiplier": None, "epsilon": [1, 3], "seeds": 1}
    given |= {"model": "own_models:hiding", "method": ["dpsgd"]}
    made = audited(tmp_path, data=tmp_path / "people.parquet", **given)
    report = made.report
    condition = "established if the module keeps nothing of what it reads"
    assert {report.privacy[arm].guarantee for arm in ("dpsgd@1", "dpsgd@3")} == {condition}
    assert f"| {condition} | ε ≤ 1.00 |" in to_markdown(report)
    asked = ["gate", str(made.path), "--fail-on", "epsilon > 4"]
    assert app.main(asked) == 3
    assert condition in capsys.readouterr().err
    assert app.main([*asked, "--trust-module"]) == 0
    capsys.readouterr()


def test_a_job_is_the_models_as_well_as_its_names(chain):
    given = config("own_models:chain")
    dataset = load_dataset(given)
    ids = [
        tuple(job.id for job in make_plan(given, dataset, facts).jobs)
        for facts in (chain, chain, ModelFacts(digest="of other code"))
    ]
    assert ids[0] == ids[1]
    assert not set(ids[0]) & set(ids[2])


def test_a_model_whose_layers_are_not_tapped_is_said_to_be_copied(monkeypatch):
    """Not tapped: here PyTorch's layer computes something else than its type says."""
    facts = found("own_models:residual")
    assert (facts.copied, facts.why_copied) == (0, "")
    assert facts.products > 0
    plain = nn.Linear.forward
    monkeypatch.setattr(nn.Linear, "forward", lambda layer, x: plain(layer, x + x))
    facts = found("own_models:residual")
    assert facts.copied == facts.parameters
    given = config("own_models:residual")
    notices = make_plan(given, load_dataset(given), facts).notices
    (notice,) = (one for one in notices if one.code == "model_copied")
    assert f"{facts.parameters:,} parameters" in notice.text
    assert "by autograd" in notice.text
    assert notice.level == "notice"
