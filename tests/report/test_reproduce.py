import shlex

import pytest
from handmade import resolved

from fairaudit.cli import app
from fairaudit.config.value_sources import ResolvedConfig, resolve_config
from fairaudit.report.reproduce import EXECUTION_FIELDS, reproduce_command


@pytest.fixture
def typed(monkeypatch, tmp_path):
    """The config that a command line gives."""

    def parse(command):
        found = []

        def stop(settled, listener):
            found.append(settled)
            raise KeyboardInterrupt

        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr("fairaudit.audit.prepare", stop)
        app.main([*shlex.split(command)[1:], "--quiet"])
        return found[0].config

    return parse


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"label": 'it\'s | $(rm) "x"', "positive": "> 50K", "intersect": True},
        {"preset": "esipova-adult", "epsilon": [1.5, 2.0]},
        {"preset": "esipova-dutch", "balance": True, "group_as_feature": False},
        {
            "noise_multiplier": 1.25,
            "delta": 1e-6,
            "settings": {"global": {"threshold": 7.5, "learning_rate": 0.1}},
        },
        {
            "bin": {"a=b": "18,30"},
            "keep": {"F": 0.5},
            "hidden": [32, 16],
            "model": "mlp",
            "format": ["json"],
        },
    ],
)
def test_the_reproduce_command_means_the_same_audit(typed, options):
    settled = resolved(**options)
    again = typed(reproduce_command(settled))
    ignored = set(EXECUTION_FIELDS)
    assert again.model_dump(exclude=ignored) == settled.config.model_dump(exclude=ignored)


def test_files_and_environment_are_written_out(typed, tmp_path):
    (tmp_path / "fairaudit.toml").write_text("epochs = 7\n")
    settled = resolve_config(
        {"data": "x.csv"}, environment={"FAIRAUDIT_SEEDS": "9"}, folder=tmp_path
    )
    (tmp_path / "fairaudit.toml").unlink()
    config = typed(reproduce_command(settled))
    assert (config.epochs, config.seeds) == (7, 9)


def test_how_it_was_computed_is_left_out():
    settled = resolved(workers=3, out="elsewhere", memory=10, resume=False)
    assert reproduce_command(settled) == reproduce_command(resolved())


def test_a_frame_is_reproduced_by_a_python_call():
    settled = resolved(epsilon=[2.0])
    framed = ResolvedConfig(settled.config, {**settled.origins, "data": "frame"})
    assert reproduce_command(framed) == (
        "fairaudit.run_audit(frame, group=['sex'], method=['global-adapt'], epsilon=[2.0])"
    )
