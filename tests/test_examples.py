"""The examples in docstrings run, and every public function has one."""

import doctest
import importlib
import inspect
import pkgutil

import pytest
from people import RECIPE
from places import ROOT

import fairaudit
from fairaudit import extend, metrics, testing

METRICS = [f"fairaudit.metrics.{module.name}" for module in pkgutil.iter_modules(metrics.__path__)]


def public():
    """Public name -> what it stands for, of all that users and contributors import."""
    for module in (fairaudit, extend):
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isfunction(thing) or inspect.isclass(thing):
                yield f"{module.__name__}.{name}", thing
    for name in (testing.__name__, *METRICS):
        for part, thing in vars(importlib.import_module(name)).items():
            if getattr(thing, "__module__", "") == name and part[0] != "_":
                yield f"{name}.{part}", thing


PUBLIC = dict(public())


def test_every_public_function_has_an_example():
    functions = {name for name, thing in PUBLIC.items() if callable(inspect.unwrap(thing))}
    lacking = [
        name
        for name in functions
        if not inspect.isclass(PUBLIC[name]) and ">>>" not in (PUBLIC[name].__doc__ or "")
    ]
    assert lacking == []
    assert {"fairaudit.run_audit", "fairaudit.metrics.compare.compare"} <= functions
    assert {"fairaudit.extend.FlatClip", "fairaudit.testing.broken_laws"} <= PUBLIC.keys()
    assert len(functions) > 60


@pytest.fixture(scope="module")
def examples_folder(tmp_path_factory):
    """Where examples run: the sample beside them, and a model that was trained for release."""
    from audits import audited

    from fairaudit.release.planned import ReleaseRequest, plan_release
    from fairaudit.release.train import release

    path = tmp_path_factory.mktemp("examples")
    (path / "sample_data").symlink_to(ROOT / "sample_data")
    report = audited(
        path / "audited",
        data=ROOT / "sample_data" / "loans.parquet",
        method=["dpsgd"],
        **{**RECIPE, "group": ["sex"], "label": "approved", "batch_size": 512, "delta": None},
    ).path
    release(
        plan_release(ReleaseRequest(report, "dpsgd", set_aside=("--accept-fitted-preprocessing",))),
        path / "model",
    )
    return path


@pytest.mark.parametrize("name", [n for n in PUBLIC if ">>>" in (PUBLIC[n].__doc__ or "")])
def test_an_example_says_what_comes_out(name, examples_folder, monkeypatch):
    monkeypatch.chdir(examples_folder)
    thing = PUBLIC[name]
    home = vars(importlib.import_module(thing.__module__)).copy()
    finder = doctest.DocTestFinder(recurse=False)
    (example,) = finder.find(thing, name, module=False, globs=home)
    options = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    said = []
    doctest.DocTestRunner(optionflags=options).run(example, out=said.append)
    assert "".join(said) == ""
