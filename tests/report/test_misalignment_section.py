"""The section on gradient misalignment: its numbers and charts, or the reason why not."""

import re

import altair
import pytest
from changed import replace
from documents import charts
from handmade import arm, comparison, estimate
from reports import report_of
from second_reader import of_html, of_markdown, says

from fairaudit.metrics.registry import of_steps
from fairaudit.report.drawing import file_spec, page_spec
from fairaudit.report.misalignment import GroupSteps, StepReadings
from fairaudit.report.render.html import to_html
from fairaudit.report.render.markdown import to_markdown
from fairaudit.report.types.measured import Reading

TITLE = "Gradient misalignment"
STEPS = (0, 40, 91)
VALUES = {spec.name: 0.1 * (1 + place) for place, spec in enumerate(of_steps())}
REASON = "it does not train by steps that clip gradients"


def read_of(key, scale):
    """A method's comparison and readings; each number is ``scale`` times that of its name."""
    made = comparison(key)
    groups = []
    for place, group in enumerate((*made.by_group, made.overall), start=1):
        own = {}
        for spec in of_steps():
            own[spec.name] = estimate(place * scale * VALUES[spec.name], 0.01, spec.unit)
        groups.append(replace(group, estimates=group.estimates | own))
    compared = replace(made, by_group=tuple(groups[:2]), overall=groups[2])
    curves = {
        name: tuple(scale * value * s for s in (1.0, 2.0, 3.0)) for name, value in VALUES.items()
    }
    of_groups = []
    for place, name in enumerate(("F", "M", ""), start=1):
        own = {key: tuple(place * v for v in values) for key, values in curves.items()}
        of_groups.append(GroupSteps(group=name, rows=10.0, undefined=0, curves=own))
    readings = StepReadings(
        arm=key,
        grouping="sex",
        steps=STEPS,
        total_steps=92,
        term_steps=STEPS[:2],
        rows=12.0,
        train_rows=16.0,
        batches=4,
        term_batches=8.0,
        seeds=5,
        groups=tuple(of_groups),
    )
    return compared, readings


@pytest.fixture(scope="module")
def report():
    arms = [
        arm("sgd", reference=None),
        arm("dpsgd"),
        arm("global-adapt"),
        arm("pate-soft", settings={"teachers": 8.0, "queries": 9.0}),
    ]
    first, second = read_of("dpsgd", 1.0), read_of("global-adapt", 3.0)
    made = report_of(first[0], second[0], comparison("pate-soft"), arms=tuple(arms))
    none = StepReadings(
        arm="pate-soft", grouping="sex", reason=REASON, method_readings=("flip_probability",)
    )
    own = [
        Reading(name=name, meaning=meaning, columns=("F", "M"), values=(0.25, 0.125), by_seed=())
        for name, meaning in (("flip_probability", "chance of a flip"), ("other", "another one"))
    ]
    update = {"steps": (first[1], second[1], none), "readings": {"pate-soft": tuple(own)}}
    diagnostics = made.diagnostics.model_copy(update=update)
    return made.model_copy(update={"diagnostics": diagnostics})


@pytest.mark.parametrize("where", ["markdown", "html"])
def test_every_reading_stands_in_the_row_of_its_method_and_group(report, where):
    read = of_markdown(to_markdown(report)) if where == "markdown" else of_html(to_html(report))
    angles, terms, own = read[TITLE]
    places = [(key, group) for key in ("dpsgd", "global-adapt") for group in ("F", "M", "all rows")]
    factors = {"fraction": 100, "nats a step": 1000}
    for table in (angles, terms):
        assert [(row[0][1], row[1][1]) for row in table] == places
    for number, (key, group) in enumerate(places):
        scale = (3.0 if key == "global-adapt" else 1.0) * (1 + ("F", "M", "all rows").index(group))
        cells = [cell for table in (angles, terms) for _, cell in table[number][2:]]
        assert len(cells) == len(VALUES)
        specs = sorted(of_steps(), key=lambda spec: spec.unit == "nats a step")
        for spec, cell in zip(specs, cells, strict=True):
            value, factor = scale * VALUES[spec.name], factors.get(spec.unit, 1)
            if spec.unit == "nats a step":  # at three significant digits
                shown = float(re.match(r"-?[\d.]+(e[+-]\d+)?", cell)[0])
                assert shown == pytest.approx(factor * value, rel=6e-3)
            else:
                assert says(cell, value, value - 0.01, value + 0.01, factor=factor)
    assert [cell for _, cell in own[0]] == ["pate-soft", "chance of a flip", "F 0.25, M 0.125"]
    assert [row[1][1] for row in read["What noise does to each group"][0]] == ["another one"]


def test_a_method_without_clipping_is_named_with_its_reason(report):
    text = to_markdown(report)
    assert f"pate-soft: none, for {REASON}." in text
    assert "from a stratified sample of 12 of 16 training rows and 4 batches a step" in text
    assert "direction, magnitude and noise at 2 of these steps" in text


def test_its_charts_hold_degrees_by_group_and_curves_over_the_steps(report):
    found = {chart.name: chart for chart in charts(report)}
    (panel,) = found["misalignment"].panels
    bars = {(bar.series, bar.row): bar.number.value for bar in panel.bars}
    degrees = VALUES["misalignment"]
    assert bars == pytest.approx(
        {
            ("dpsgd", "F"): degrees,
            ("dpsgd", "M"): 2 * degrees,
            ("global-adapt", "F"): 3 * degrees,
            ("global-adapt", "M"): 6 * degrees,
        }
    )
    first, second = found["misalignment-over-training-1"].panels
    assert (first.title, second.title) == ("dpsgd (degrees)", "global-adapt (degrees)")
    lines = {line.series: line.points for line in second.lines}
    assert set(lines) == {"F", "M"}
    assert [at for at, _ in lines["M"]] == list(STEPS)
    assert [v for _, v in lines["M"]] == pytest.approx([3 * 2 * degrees * k for k in (1, 2, 3)])
    terms = [panel.title for panel in found["curves-2"].panels]
    assert terms[-3:] == [
        "direction of a step (thousandths of a nat)",
        "magnitude of a step (thousandths of a nat)",
        "noise of a step (thousandths of a nat)",
    ]
    assert terms[0] == "loss (nats)"
    for chart in found.values():
        altair.Chart.from_dict(file_spec(chart), validate=True)
        altair.Chart.from_dict(page_spec(chart, chart.panels[-1]), validate=True)


def test_curves_are_folded_and_drawn(report):
    page = to_html(report)
    section = page[page.index('id="misalignment-title"') :].partition("</section>")[0]
    folded = section[section.index("<details>") :]
    assert "Curves over training, by group" in folded
    assert folded.count('role="img"') == sum(
        len(chart.panels) for chart in charts(report) if chart.name.startswith("curves-")
    )
    outside = section[: section.index("<details>")]
    assert outside.count('role="img"') == 1 + 2
