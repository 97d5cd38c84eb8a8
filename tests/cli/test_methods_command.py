"""`fairaudit methods` and `fairaudit methods NAME`."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

import fairaudit
from fairaudit.cli.app import app
from fairaudit.cli.lines_catalog import one_method_lines
from fairaudit.errors import ConfigError
from fairaudit.methods.catalog import BUILT_IN, find

MITIGATIONS = ("global", "global-adapt", "dpsgd-f", "reweight", "fairlens")


def said(*words):
    result = CliRunner().invoke(app, ["methods", *words], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


@pytest.mark.parametrize("spec", BUILT_IN, ids=lambda spec: spec.name)
def test_one_method_says_what_it_does_its_settings_guarantee_and_paper(spec):
    text = said(spec.name)
    for fact in (
        spec.summary,
        spec.source,
        spec.guarantee.value if spec.is_private else "no privacy",
    ):
        assert fact in text
    for name, setting in spec.known_settings.items():
        assert f"  {name}: {setting.meaning}" in text
        assert setting.default is None or f"default: {setting.default.text}" in text
    assert said(*spec.aliases[:1] or [spec.name]) == text


def test_what_variants_alone_read_and_what_sets_another_setting_say_so():
    spec = find("fairlens")
    less = {name: setting for name, setting in spec.settings.items() if name != "gamma1"}
    for settings, is_alone in ((spec.settings, False), (less, True)):
        lines = one_method_lines(replace(spec, settings=settings), [])
        (line,) = [line for line in lines if line.startswith("  gamma1:")]
        assert line.startswith("  gamma1: weight of the penalty on what clipping takes")
        assert line.endswith(", in as-published and t21-eq6 alone") == is_alone
    assert "default: none; given, it sets student_penalty" in said("pate-soft")


def test_presets_are_named_by_the_methods_that_they_set():
    assert "presets    xu-adult, xu-dutch\n" in said("reweight")
    assert "esipova-mnist" in said("global-adapt")
    assert "tran-output-perturbation" in said("output-perturbation")


def test_a_name_that_is_none_is_refused_with_the_nearest():
    with pytest.raises(ConfigError, match="dpsdg"):
        said("dpsdg")


def test_one_method_as_json_is_that_of_the_list():
    (alone,) = json.loads(said("fairlens", "--json")).items()
    assert alone == ("fairlens", json.loads(said("--json"))["fairlens"])


def test_every_mitigation_says_what_it_did_on_the_sample_beside_dpsgd():
    listed = said()
    for name in MITIGATIONS:
        value, low, high = find(name).gap_on_sample
        assert f"{value:.1f} points [{low:.1f}, {high:.1f}]; dpsgd 5.2" in listed
        assert f"{value:.1f} points" in said(name)


@pytest.mark.slow
def test_what_methods_did_on_the_sample_is_what_they_do(tmp_path):
    report = fairaudit.run_audit(
        "sample_data/loans.parquet",
        group="sex",
        method=["dpsgd", *MITIGATIONS],
        max_grad_norm=1.0,
        twins="off",
        diagnostics="off",
        out=tmp_path / "out",
    )
    for comparison in report.costs:
        if comparison.arm == "dpsgd" or comparison.arm in MITIGATIONS:
            gap = next(g for g in comparison.gaps if (g.metric, g.kind) == ("privacy_cost", "pair"))
            found = gap.signed.value, gap.signed.low, gap.signed.high
            expected = find(comparison.arm).gap_on_sample
            assert [100 * number for number in found] == pytest.approx(expected, abs=0.06)
