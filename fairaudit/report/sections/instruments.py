"""Where a reviewer finds what an instrument asks about; says nothing about whether it is met."""

from collections.abc import Mapping

from fairaudit.report.document import Bullets, Link, Rank, Section, Text
from fairaudit.report.model import Report

# instrument -> what it asks about, and the sections that speak to it
SUPPORTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "New York City Local Law 144": (
        "selection rates and impact ratios by sex, by race or ethnicity and by both; rows of unknown group",
        ("selection", "data"),
    ),
    "EU AI Act (Regulation 2024/1689), Article 10": (
        "examination of data for biases and gaps",
        ("data", "selection"),
    ),
    "EU AI Act (Regulation 2024/1689), Article 15": (
        "accuracy, stated with its metrics",
        ("within", "costs", "metrics"),
    ),
    "NIST AI RMF 1.0, Measure 2.3": ("performance, measured and documented", ("within", "metrics")),
    "NIST AI RMF 1.0, Measure 2.10": ("privacy risk", ("guarantee", "leakage", "register", "limitations")),
    "NIST AI RMF 1.0, Measure 2.11": ("differences between groups", ("costs", "gaps", "metrics")),
    "NIST SP 800-226": (
        "evaluation of a differential privacy guarantee: unit, parameters, hazards",
        ("guarantee", "register", "limitations"),
    ),
    "ISO/IEC TR 24027:2021": ("metrics of bias in AI systems", ("gaps", "within", "metrics")),
}


def section(report: Report) -> Section | None:
    """It points to the sections that the report has, and to no other."""
    told = (
        "Facts for whoever answers to the instrument. No section says that a requirement of it is met, and "
        "an instrument may ask for more than an audit of privacy can know."
    )
    items = tuple(
        (f"{instrument} ({asked}): ", Link(sections, "nothing in this report"))
        for instrument, (asked, sections) in SUPPORTS.items()
    )
    return Section(
        "instruments",
        "Appendix: mapping to regulations and standards",
        Rank.APPENDIX,
        (Text(told), Bullets(items)),
    )
