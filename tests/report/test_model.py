import math

from fairaudit.report.frames import AuditReport


def test_by_group_is_one_row_per_arm_and_group(report):
    frame = AuditReport.of(report).by_group()
    assert list(frame["group"]) == ["F", "M"]
    assert list(frame["arm"]) == ["global-adapt"] * 2
    assert frame.loc[0, "privacy_cost"] == 0.041
    assert frame.loc[0, "privacy_cost_low"] < 0.041 < frame.loc[0, "privacy_cost_high"]
    assert math.isclose(frame.loc[0, "reference_accuracy"] - frame.loc[0, "accuracy"], 0.041)
