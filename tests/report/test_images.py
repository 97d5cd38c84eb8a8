"""What a report says of images and of pairs that were named before training."""

import numpy as np
import pyarrow as pa
import pytest
from changed import replace
from handmade import (
    arm,
    built,
    comparison,
    dataset,
    estimate,
    gap,
    measure,
    plan,
    resolved,
    results,
)

from fairaudit.cli.lines import result_lines
from fairaudit.data.dataset import Grouping, image_column
from fairaudit.planning.flow import Audit
from fairaudit.report.render.markdown import to_markdown
from fairaudit.report.to_json import to_json

DIGITS = ("1", "2", "8")


def pictures():
    """30 rows of 4 x 6 grey images, the classes as groups."""
    kept = dataset(DIGITS)
    images = np.arange(30 * 24, dtype=np.uint32).astype(np.uint8).reshape(30, 4, 6, 1)
    features = pa.table({"image": image_column(images)})
    groups = (Grouping("digit", kept.groupings[0].groups, DIGITS),)
    return replace(
        kept,
        features=features,
        groupings=groups,
        format="image folder",
        name="digits",
        rows_read=33,
    )


def compared():
    kept = comparison(costs=(0.01, 0.02, 0.3), names=DIGITS)
    gaps = [
        gap("1", "2", -0.01, 0.02),
        gap("1", "8", -0.29, 0.02),
        gap("2", "8", -0.28, 0.01),
        gap("8", "1", 0.29, 0.03, kind="max"),
        gap("2", "8", -1.5, 0.2, metric="excess_risk", signed=estimate(-1.5, 0.2, "nats")),
        gap("8", "1", 1.6, 0.3, metric="excess_risk", kind="max"),
    ]
    return replace(kept, grouping="digit", gaps=tuple(gaps))


def report(**options):
    settled = resolved(group=["digit"], **options)
    made = plan(settled.config, (arm("sgd", reference=None), arm("global-adapt")))
    found = Audit(settled, made, pictures(), results(made), {}, (compared(),))
    return built(found)


def test_the_report_holds_the_shape_and_what_was_done_to_the_images():
    images = report(resize="4x6", pixel_range="unit").data.images
    assert (images.height, images.width, images.channels, images.resized) == (4, 6, 1, True)
    assert images.scaling.startswith("x / 255")
    assert report().data.images.resized is False


@pytest.mark.parametrize("pair", ["2,8", "8,2"])
def test_a_named_pair_is_marked_whatever_its_order(pair):
    named = [g for c in report(compare=[pair]).comparisons for g in c.gaps if g.named]
    assert [(g.metric, g.kind, {g.a, g.b}) for g in named] == [
        ("privacy_cost", "pair", {"2", "8"}),
        ("excess_risk", "pair", {"2", "8"}),
    ]
    assert '"named": true' in to_json(report(compare=[pair]))


def test_the_summary_names_a_named_pair_beside_the_largest_gap():
    found = [f for f in report(compare=["2,8"]).findings if f.code == "gap"]
    told = [(f.measure, f.groups, f.numbers["size"].value) for f in found]
    assert told == [
        ("privacy_cost", ("8", "1"), pytest.approx(0.29)),
        ("privacy_cost", ("8", "2"), pytest.approx(0.28)),
        ("excess_risk", ("8", "1"), pytest.approx(1.6)),
        ("excess_risk", ("8", "2"), pytest.approx(1.5)),
    ]
    assert any(
        "28 points of accuracy [27.0, 29.0] more for digit = 8 than for digit = 2" in x
        for x in result_lines(report(compare=["2,8"]))
    )


def test_a_suppressed_group_has_no_named_pair():
    settled = resolved(group=["digit"], compare=["2,8"], suppress_below=400)
    made = plan(settled.config)
    small = replace(
        compared(), by_group=tuple(measure(n, 0.1, n_test=500 if n != "8" else 300) for n in DIGITS)
    )
    found = Audit(settled, made, pictures(), results(made), {}, (small,))
    written = built(found)
    assert not any(g.named for c in written.comparisons for g in c.gaps)
    assert "2, 8" not in to_markdown(written)


def test_the_named_pair_is_in_the_command_that_repeats_the_audit():
    assert "--compare 2,8" in report(compare=["2,8"]).reproduce
