"""Markdown sections for a reviewer: selection by group, a register's fields, who asks for what."""

from collections.abc import Collection, Iterator, Mapping

from fairaudit.errors import numbered
from fairaudit.methods.catalog import Guarantee
from fairaudit.privacy.events import shown_up
from fairaudit.report.facts import NOT_SAMPLED, PrivacyFacts
from fairaudit.report.markdown_alone import ALONE
from fairaudit.report.measured import Selection
from fairaudit.report.model import Report
from fairaudit.report.names import markdown
from fairaudit.report.tables import Row, count, number, table

SELECTION = "Selection rates and impact ratios"
REGISTER = "What a register of deployments asks for"
INSTRUMENTS = "Which section speaks to which instrument"

_ASSUMED = (
    "**Nobody said that this is the outcome that people want; it is assumed.** If it is not, every ratio is "
    "of the wrong outcome. Gates on ratios are inconclusive until `--favourable VALUE` says which it is."
)
# instrument -> what it asks about, and the sections that speak to it
_SUPPORTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "New York City Local Law 144": (
        "selection rates and impact ratios by sex, by race or ethnicity and by both; rows of unknown group",
        (SELECTION, "Data and exclusions"),
    ),
    "EU AI Act (Regulation 2024/1689), Article 10": (
        "examination of data for biases and gaps",
        ("Data and exclusions", SELECTION),
    ),
    "EU AI Act (Regulation 2024/1689), Article 15": (
        "accuracy, stated with its metrics",
        ("Within each model", "Cost by group", ALONE),
    ),
    "NIST AI RMF 1.0, Measure 2.3": ("performance, measured and documented", ("Within each model", ALONE)),
    "NIST AI RMF 1.0, Measure 2.10": ("privacy risk", ("What the guarantee covers", REGISTER, "Limitations")),
    "NIST AI RMF 1.0, Measure 2.11": (
        "differences between groups",
        ("Cost by group", "Gaps between groups", ALONE),
    ),
    "NIST SP 800-226": (
        "evaluation of a differential privacy guarantee: unit, parameters, hazards",
        ("What the guarantee covers", REGISTER, "Limitations"),
    ),
    "ISO/IEC TR 24027:2021": (
        "metrics of bias in AI systems",
        ("Gaps between groups", "Within each model", ALONE),
    ),
}


def selection_section(report: Report) -> Iterator[str]:
    """How often each model selects each group, and the ratio to the most selected group."""
    yield f"## {SELECTION}"
    yield ""
    label = report.data.label
    if label.favourable is None:
        yield "The favourable class is not known, so there are no rates: set it with --favourable."
        return
    yield (
        f"Selected means that the model gives {markdown(label.column)} = {markdown(label.favourable)}. The "
        f"impact ratio is a group's selection rate divided by that of the most selected group with enough "
        f"test rows, by the same model{_over_seeds(report)}. Intervals are in report.json."
    )
    if label.is_assumed:
        yield ""
        yield _ASSUMED
    yield ""
    rows = [row for selection in report.selection for row in _of_model(report, selection)]
    yield from table(
        ("model", "grouping", "group", "#test rows", "#selection rate", "#impact ratio", "note"),
        rows,
        most=24,
    )
    yield ""
    yield from _unknown(report)
    if len(report.data.groupings) > 1 and not _is_set(report, "intersect"):
        yield "- Intersections of the groupings were not asked for: add --intersect."


def register_section(report: Report) -> Iterator[str]:
    """The fields of a public register of deployments, as far as an audit knows them."""
    established = {
        arm.key: report.privacy[arm.key]
        for arm in report.arms
        if report.privacy[arm.key].guarantee is Guarantee.ESTABLISHED
    }
    if not established or report.training is None:
        return
    first = next(iter(established.values()))
    yield f"## {REGISTER}"
    yield ""
    yield (
        "What a public register of differential privacy deployments records (Dwork, Kohli and Mulligan "
        "2019; Nanayakkara, Ghazi and Vadhan 2025), as far as an audit knows it. Who deploys the model, for "
        "what, and about whom, is for its owner to state."
    )
    yield ""
    product = f"a {markdown(report.training.model)} classifier of {markdown(report.data.label.column)}"
    yield f"- Data product: {product}"
    yield "- Flavour: (ε, δ) differential privacy; central model, one release per trained model"
    yield f"- Privacy unit: {markdown(first.unit, 300)}. Neighbours: {markdown(first.neighbouring, 300)}"
    yield f"- Records, taken as public: {report.training.n_public:,}"
    yield f"- Accounting: {markdown(first.accountant, 300)}"
    yield ""
    rows = [_register_row(key, facts) for key, facts in established.items()]
    head = ("model", "#ε", "#δ", "mechanism", "sampling", "#steps", "#noise multiplier")
    yield from table(head, rows, most=8)


def instruments_section(written: Collection[str]) -> Iterator[str]:
    """Where a reviewer finds what an instrument asks about; says nothing about whether it is met.

    Args:
        written: Headings of the report; it points to no other.
    """
    yield f"## {INSTRUMENTS}"
    yield ""
    yield (
        "Facts for whoever answers to the instrument. No section says that a requirement of it is met, and "
        "an instrument may ask for more than an audit of privacy can know."
    )
    yield ""
    for instrument, (asked, sections) in _SUPPORTS.items():
        found = [section for section in sections if section in written]
        yield f"- {instrument} ({asked}): {'; '.join(found) or 'nothing in this report'}"


def _over_seeds(report: Report) -> str:
    """What is averaged where a model was trained several times."""
    if max(arm.seeds_planned for arm in report.arms) == 1:
        return ""
    return "; shown is the mean over seeds of the per-seed ratio"


def _of_model(report: Report, selection: Selection) -> Iterator[Row]:
    compared = [
        comparison
        for comparison in report.comparisons
        if comparison.grouping == selection.grouping
        and selection.arm in (comparison.arm, comparison.reference)
    ]
    compared.sort(key=lambda comparison: comparison.arm == selection.arm)  # its own seeds have the last word
    sizes = {group.group: group.n_test for comparison in compared for group in comparison.by_group}
    notes = {
        group.group: comparison.note_on(group) for comparison in compared for group in comparison.by_group
    }
    for group, rate in selection.rate.items():
        note = "most selected" if group == selection.reference else notes.get(group, "")
        if group in selection.excluded:
            note = f"no ratio{': ' + selection.reason if selection.reason else ''}"
        yield (
            markdown(selection.arm),
            markdown(selection.grouping),
            markdown(group),
            count(sizes.get(group)),
            number(rate),
            number(selection.impact_ratio.get(group)),
            markdown(note, 80),
        )


def _rows(rows: int | None) -> str:
    return "– rows" if rows is None else numbered(rows, "row")


def _unknown(report: Report) -> Iterator[str]:
    for grouping in report.data.groupings:
        unknown = [group for group in grouping.groups if group.is_missing]
        told = f"{_rows(unknown[0].rows)}; shown, in no gap and no ratio" if unknown else "0 rows"
        yield f"- {markdown(grouping.name)} not known: {told}"


def _register_row(key: str, facts: PrivacyFacts) -> Row:
    epsilon = facts.epsilon.headline if facts.epsilon is not None else None
    noise = facts.effective_noise_multiplier
    if noise is None and facts.releases:
        noise = facts.releases[0].noise_multiplier
    sampled = facts.sampling != NOT_SAMPLED and facts.sample_rate is not None
    return (
        markdown(key),
        "–" if epsilon is None else shown_up(epsilon),
        "–" if facts.delta is None else f"{facts.delta:g}",
        "Gaussian noise on " + " and ".join(markdown(release.name) for release in facts.releases),
        f"Poisson, q = {facts.sample_rate:.4g}" if sampled else "none",
        count(facts.steps),
        "–" if noise is None else f"{noise:.4g}",
    )


def _is_set(report: Report, option: str) -> bool:
    setting = report.config.get(option)
    return setting is not None and bool(setting.value)
