import math

import pytest
from handmade import findings, metadata
from pydantic import ValidationError

from fairaudit.analysis.build import build_report


@pytest.fixture
def report():
    return build_report(findings(), metadata())


def test_by_group_is_one_row_per_arm_and_group(report):
    frame = report.by_group()
    assert list(frame["group"]) == ["F", "M"]
    assert list(frame["arm"]) == ["global-adapt"] * 2
    assert frame.loc[0, "privacy_cost"] == 0.041
    assert frame.loc[0, "privacy_cost_low"] < 0.041 < frame.loc[0, "privacy_cost_high"]
    assert math.isclose(frame.loc[0, "reference_accuracy"] - frame.loc[0, "accuracy"], 0.041)


def test_a_report_cannot_be_changed_or_extended(report):
    with pytest.raises(ValidationError):
        report.status = "partial"
    with pytest.raises(ValidationError):
        type(report).model_validate({**report.model_dump(), "verdict_is_good": True})
