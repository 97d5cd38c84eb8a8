import re
import sys
from importlib import import_module

import pytest

from fairaudit.errors import ConfigError
from fairaudit.methods import catalog as catalog_module
from fairaudit.methods.catalog import (
    BUILT_IN,
    REFERENCE,
    Guarantee,
    MethodSpec,
    admit,
    catalog,
    find,
    home_of,
)
from fairaudit.methods.defaults import FLAT

SETTINGS = dict.fromkeys(find("global-adapt").settings, 1.0)


@pytest.mark.parametrize("spec", catalog().values(), ids=lambda s: s.name)
def test_a_spec_is_whole(spec):
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", spec.name)
    assert spec.summary
    assert "fair" not in spec.name.removeprefix("fairlens")  # a name that a paper gave
    assert spec.reference is None or spec.reference in catalog()
    assert spec.control_of is None or spec.control_of in catalog()
    assert {*spec.side_queries.values(), *spec.relative_queries.values()} <= set(spec.settings)
    for name in spec.known_settings:
        needs_no_default = name == "noise_multiplier" or name in spec.conversions
        assert (spec.known_settings[name].default is None) == needs_no_default
    assert {c.into for c in spec.conversions.values()} <= set(spec.settings)
    assert (spec.name == REFERENCE or spec.reference_of is not None) == (spec.reference is None)
    assert spec.reference_of is None or catalog()[spec.reference_of].reference == spec.name
    assert spec.gaussian is None or spec.gaussian.count in (None, *spec.settings)
    assert spec.is_private == ("noise_multiplier" in spec.settings)
    assert all(variant.reason for variant in spec.variants)


def test_every_name_and_alias_leads_to_one_method():
    names = [name for spec in catalog().values() for name in (spec.name, *spec.aliases)]
    assert len(set(names)) == len(names)
    for spec in catalog().values():
        for name in (spec.name, *spec.aliases, spec.name.upper()):
            assert find(name) is spec


@pytest.mark.parametrize("wrong", ["dp-sdg", "globl-adapt"])
def test_a_mistyped_method_gets_the_nearest_name(wrong):
    with pytest.raises(ConfigError, match=wrong) as caught:
        find(wrong)
    assert "did you mean" in caught.value.hint


def test_events_need_no_data_and_name_every_release():
    event = find("global-adapt").events({**SETTINGS, "count_noise_multiplier": 10.0}, 92, 20)
    assert (event.steps_per_epoch, event.steps) == (92, 1840)
    assert [(r.name, r.noise_multiplier) for r in event.releases] == [
        ("gradient", 1.0),
        ("count", 10.0),
    ]
    assert event.effective_noise_multiplier == pytest.approx((1 + 0.01) ** -0.5)


class Point:
    """An entry point that loads what it is given."""

    def __init__(self, value):
        self.name, self.value = "plugin", value

    def load(self):
        return self.value


def added(name):
    return MethodSpec(name, "a plugin", "none", Guarantee.ESTABLISHED, "somewhere:Class", FLAT)


@pytest.fixture
def entry_points(monkeypatch):
    def install(*values):
        monkeypatch.setattr(
            catalog_module, "entry_points", lambda group: [Point(v) for v in values]
        )
        catalog.cache_clear()

    yield install
    monkeypatch.undo()
    catalog.cache_clear()


def test_an_entry_point_adds_a_method(entry_points):
    spec = added("mine")
    entry_points(spec)
    assert find("mine") is spec
    assert next(iter(catalog())) == REFERENCE


@pytest.mark.parametrize("value", ["text", added("dpsgd")], ids=["no spec", "a name that is taken"])
def test_an_entry_point_that_is_no_new_method_is_refused(entry_points, value):
    entry_points(value)
    with pytest.raises(ConfigError, match="plugin"):
        catalog()


@pytest.mark.parametrize("alias", ["adapt", "SGD-2"])
def test_an_entry_points_aliases_do_not_shadow_a_built_in_method(entry_points, alias):
    entry_points(MethodSpec("other", "s", "none", Guarantee.NONE, "a:B", {}, aliases=(alias,)))
    if alias == "adapt":
        assert find("adapt").name == "global-adapt"
    else:
        assert catalog()["other"].aliases == (alias,)


def test_a_module_in_the_current_folder_is_found(tmp_path, monkeypatch):
    (tmp_path / "beside_us.py").write_text("SPEC = 1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    with pytest.raises(ConfigError, match="is no MethodSpec"):
        admit(["beside_us:SPEC"])
    sys.modules.pop("beside_us")


@pytest.mark.parametrize("spec", BUILT_IN, ids=lambda spec: spec.name)
def test_a_built_in_method_is_named_by_its_name_and_not_as_code_from_outside(spec):
    module = import_module("fairaudit.methods.catalog")
    (attribute,) = (name for name, value in vars(module).items() if value is spec)
    with pytest.raises(ConfigError, match=f"is the built-in method '{spec.name}'"):
        admit([f"{module.__name__}:{attribute}"])
    assert home_of(find(spec.name)) == ""
