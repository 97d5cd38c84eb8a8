"""A method of somebody else.

The page's example as a package that is found, checked, trained and reported.
"""

import json
import re
import sys
from dataclasses import replace

import pytest
from people import people
from places import ROOT
from processes import ended

import fairaudit
from fairaudit import extend
from fairaudit.errors import ConfigError
from fairaudit.methods import catalog as catalog_module
from fairaudit.methods.catalog import catalog, find

PAGE = (ROOT / "docs" / "extending.md").read_text("utf-8")
EXAMPLE, LAWS_OF_IT = re.findall(r"```python\n(.*?)```", PAGE, re.S)
UNCHECKED = "third-party, not checked by fairaudit"
CHECKED = "third-party, passed fairaudit's checks"
NAME = "weighted-groups"
QUICK = ["--group", "sex", "--label", "y", "--seeds", "1", "--epochs", "1", "--workers", "1"]


@pytest.fixture
def home(tmp_path):
    """A folder of installed packages with the page's example in it, as an installer leaves it."""
    packages = tmp_path / "packages"
    info = packages / "weighted_groups-1.0.dist-info"
    info.mkdir(parents=True)
    (packages / "weighted_groups.py").write_text(EXAMPLE, encoding="utf-8")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: weighted-groups\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[fairaudit.methods]\n{NAME} = weighted_groups:SPEC\n")
    people().to_csv(tmp_path / "people.csv", index=False)
    return tmp_path


def command(home, *words, packages="packages"):
    """What the command line answers where that package is installed."""
    set_there = {"PYTHONPATH": str(home / packages), "XDG_CACHE_HOME": str(home / "cache")}
    return ended([sys.executable, "-m", "fairaudit", *words], home, **set_there)


def ran(home, *words, out="out"):
    found = command(home, "run", "--data", "people.csv", *QUICK, "--out", out, *words)
    assert found.returncode == 0, found.stderr
    report = json.loads((home / out / "report.json").read_text())
    return report, found.stdout + found.stderr


@pytest.mark.slow
def test_an_installed_method_is_trained_reported_and_not_vouched_for_until_checked(home):
    report, said = ran(home, "--method", NAME, "--format", "json,md,html")
    (arm,) = (arm for arm in report["arms"] if arm["key"] == NAME)
    assert arm["settings"]["weight"] == 0.5  # its own, at its own default
    assert arm["privacy"]["guarantee"] == UNCHECKED
    assert arm["privacy"]["epsilon"]["pld"] <= 3.0
    assert UNCHECKED in said
    assert UNCHECKED in command(home, "methods").stdout
    (reading,) = report["diagnostics"]["readings"][NAME]
    assert (reading["name"], reading["values"][0] > 0) == ("parameter_norm", True)
    for name in ("report.md", "report.html"):
        assert UNCHECKED in (home / "out" / name).read_text()
    gate = command(home, "gate", "out/report.json", "--fail-on", "epsilon > 3.5")
    assert gate.returncode == 3
    assert UNCHECKED in gate.stdout + gate.stderr
    # A stored report is read where the package is not installed.
    assert (
        command(home, "report", "out/report.json", "--format", "md", packages="none").returncode
        == 0
    )

    checked = command(home, "methods", "--check", NAME)
    assert checked.returncode == 0, checked.stdout
    assert checked.stdout.count("kept") == 7
    again, said = ran(home, "--method", NAME, "--settings", f"{NAME}.weight=0.8", out="again")
    (arm,) = (arm for arm in again["arms"] if arm["key"] == NAME)
    assert arm["privacy"]["guarantee"] == CHECKED
    assert arm["settings"]["weight"] == 0.8
    assert UNCHECKED not in said
    assert command(home, "gate", "again/report.json", "--fail-on", "epsilon > 3.5").returncode == 0
    # An edit is other code: no longer checked.
    with (home / "packages" / "weighted_groups.py").open("a") as file:
        file.write("\nEDITED = True\n")
    assert UNCHECKED in command(home, "methods").stdout


WIDER = EXAMPLE.replace("high=1.0", "high=3.0")  # a weight of 3 makes gradients too long


def test_a_method_that_exceeds_its_claim_only_at_an_end_of_its_range_fails_there(home):
    assert WIDER != EXAMPLE
    (home / "packages" / "weighted_groups.py").write_text(WIDER, encoding="utf-8")
    found = command(home, "methods", "--check", NAME)
    assert found.returncode == 5, found.stdout + found.stderr
    assert re.search(r"^broken +sensitivity .*3 times as long.* at weight 3$", found.stdout, re.M)
    assert re.search(r"^broken +contribution .* at weight 3$", found.stdout, re.M), found.stdout
    assert not (home / "cache").exists()  # it is not remembered


def test_the_pages_own_test_of_the_example_passes(home, monkeypatch):
    monkeypatch.syspath_prepend(str(home / "packages"))
    names = {}
    exec(compile(LAWS_OF_IT, "docs/extending.md", "exec"), names)
    for law in names["LAWS"].values():
        names["test_weighted_groups"](law)
    sys.modules.pop("weighted_groups")


# --- objects in place of names
# ----------------------------------------------------------------------

MODELS = """
import torch
class Linear(torch.nn.Linear):
    def __init__(self, shape, classes):
        super().__init__(shape[0], classes)
def factory(shape, classes):
    return torch.nn.Sequential(Linear(shape, classes))
def undo(shape, classes):
    raise RuntimeError("no")
"""


@pytest.fixture
def modules(home, monkeypatch):
    """The example as a module that is importable and not installed, and one that holds models."""
    (home / "of_my_own.py").write_text(EXAMPLE, encoding="utf-8")
    (home / "with_models.py").write_text(MODELS, encoding="utf-8")
    monkeypatch.chdir(home)
    monkeypatch.syspath_prepend(str(home))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    catalog.cache_clear()
    import of_my_own
    import with_models

    yield of_my_own, with_models
    catalog.cache_clear()
    catalog_module._HOMES.clear()
    for name in ("of_my_own", "with_models"):
        sys.modules.pop(name)


FIXED = {"seeds": 1, "epochs": 1, "batch_size": 50, "workers": 1, "format": "json"}
FIXED |= {"label": "y", "group": "sex", "diagnostics": "off", "twins": "off"}
FIXED["noise_multiplier"] = 1.0


def report_of_people(home, **given):
    return fairaudit.run_audit(people(), out=home / "out", **FIXED, **given)


def ids(**given):
    return {job.arm: job.id for job in fairaudit.plan_audit(people(), **FIXED, **given).jobs}


def test_a_spec_and_a_factory_serve_as_method_and_model(modules, home):
    own, models = modules
    report = report_of_people(home, method=[own.SPEC, "dpsgd"], model=models.factory)
    assert {arm.key for arm in report.arms} == {"sgd", "dpsgd", NAME}
    assert report.privacy[NAME].guarantee.value == UNCHECKED
    assert report.privacy["dpsgd"].guarantee.value.startswith("established if ")
    by_name = ids(method=["of_my_own:SPEC", "dpsgd"], model="with_models:factory")
    assert by_name == ids(method=[own.SPEC, "dpsgd"], model=models.factory)


def test_an_edited_method_of_a_module_is_trained_anew(modules, home):
    before = ids(method=modules[0].SPEC)
    with (home / "of_my_own.py").open("a") as file:
        file.write("\nEDITED = True\n")
    after = ids(method=modules[0].SPEC)
    assert {arm for arm in after if after[arm] != before[arm]} == {NAME}


def in_main(shape, classes):
    """Stands for a factory of a notebook."""


def test_what_training_processes_cannot_import_is_refused_with_what_to_do(
    modules, home, monkeypatch
):
    of_notebook = in_main
    monkeypatch.setattr(in_main, "__module__", "__main__")
    monkeypatch.setitem(globals(), "in_main", None)
    own, _ = modules
    for model in (lambda shape, classes: None, of_notebook):
        with pytest.raises(ConfigError, match="held by no module"):
            report_of_people(home, model=model)
    other = replace(own.SPEC, name="nowhere")
    with pytest.raises(ConfigError, match="'nowhere' is held by no module"):
        report_of_people(home, method=other)


@pytest.mark.parametrize("name", ["with_models:factory", "of_my_own:TAKEN"])
def test_a_module_without_a_new_method_is_refused(modules, home, name):
    own, _ = modules
    own.TAKEN = extend.MethodSpec("dpsgd", "s", "none", extend.Guarantee.NONE, "a:B", {})
    with pytest.raises(ConfigError):
        report_of_people(home, method=name)


def test_names_from_files_import_nothing(modules, home):
    """A report or a found config file may hold any name."""
    (home / "untouched.py").write_text("raise SystemExit(3)\n")
    with pytest.raises(ConfigError, match="unknown method"):
        find("untouched:SPEC")


def test_a_plugin_that_cannot_be_imported_is_named(home):
    (home / "packages" / "weighted_groups.py").write_text("import nothing_like_this\n")
    found = command(home, "methods")
    assert found.returncode == 2
    assert NAME in found.stderr
    assert "nothing_like_this" in found.stderr
