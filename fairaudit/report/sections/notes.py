"""What a report holds in words: warnings, limitations, how to repeat it."""

import shlex
from contextlib import suppress

from fairaudit.capabilities.installed import CAPABILITIES
from fairaudit.errors import ConfigError
from fairaudit.methods.catalog import find
from fairaudit.report.document import Listing, Section, Strong, Text, Words, bullets
from fairaudit.report.model import Report
from fairaudit.report.safe_names import plain
from fairaudit.report.types.facts import DataFacts
from fairaudit.report.words import terms
from fairaudit.results.estimates import Comparison

_MOST_NAMES, _MOST_NUMBERS = 12, 6  # columns of few values, and of numbers, that are named


def warnings(report: Report) -> Section | None:
    """The section on what may bias the audit, or must be known to read it."""
    by_code: dict[tuple[str, str], list[str]] = {}  # (level, code) -> its messages
    for warning in report.warnings:
        fix = f" ({plain(warning.fix, 200)})" if warning.fix else ""
        message = f"{plain(warning.message, 600)}{fix}"
        by_code.setdefault((warning.level, warning.code), []).append(message)
    items = [
        f"{level} {plain(code)}: {' – '.join(messages)}"
        for (level, code), messages in by_code.items()
    ]
    return Section("warnings", "Warnings", bullets(items) or (Text("None."),))


def limitations(report: Report) -> Section | None:
    """The section of every limitation that applies to this report.

    That of fixed seeds ends with the command that trains a model for release.
    """
    items = []
    for limitation in report.limitations:
        text = plain(limitation.text, 800)
        # No model of an audit may be released: the command trains one that may.
        if limitation.code == "fixed_seeds":
            commands = [one.next_command(report, "report.json") for one in CAPABILITIES]
            for command in filter(None, commands):
                text += f" Beside report.json: {plain(command, 1000)}"
        items.append(text)
    return Section("limitations", "Limitations", bullets(items))


def not_looked_at(report: Report) -> Section | None:
    """The section on what the audit did not compare, though somebody may ask for it."""
    data = report.data
    items: list[str] = []
    if data.could_be_groups:
        names = ", ".join(plain(name) for name in data.could_be_groups[:_MOST_NAMES])
        if len(data.could_be_groups) > _MOST_NAMES:
            names += f" and {len(data.could_be_groups) - _MOST_NAMES} more"
        items.append(f"Groups by columns of few values: {names} (--group COLUMN).")
    numbers = _ungrouped_numbers(data)
    if numbers:
        names = ", ".join(numbers[:_MOST_NUMBERS])
        if len(numbers) > _MOST_NUMBERS:
            names += f" and {len(numbers) - _MOST_NUMBERS} more"
        items.append(
            f"Groups by numbers, as by age: {names} (--group COLUMN --bin COLUMN=18,30,60)."
        )
    if len(data.groupings) > 1 and not _is_set(report, "intersect"):
        names = " and ".join(plain(grouping.name) for grouping in data.groupings)
        items.append(f"People by {names} together, as the women of one race (--intersect).")
    if len(data.label.classes) > 2 and not _is_set(report, "group_by_label"):
        items.append("The classes as groups (--group-by-label).")
    if small := _small_groups(report):
        items.append(f"Groups of too few rows, which are shown and not judged: {small}.")
    items.append(
        "People with several rows: every row counts as one person, in epsilon, in the split into "
        "training and test rows, and in the intervals."
    )
    return Section("not-looked-at", "What was not looked at", bullets(items))


def _small_groups(report: Report) -> str:
    """The groups that are too small to be judged, of every grouping; "" where there are none.

    Of several groupings each is named before its groups: ``sex: X; race: A, B``.
    """
    first: dict[str, Comparison] = {}  # by grouping: group sizes are alike in all comparisons
    for comparison in report.comparisons:
        first.setdefault(comparison.grouping, comparison)
    of_groupings = []
    for grouping, comparison in first.items():
        small = [plain(group.group) for group in comparison.by_group if comparison.note_on(group)]
        if small:
            before = f"{plain(grouping)}: " if len(first) > 1 else ""
            of_groupings.append(before + ", ".join(small))
    return "; ".join(of_groupings)


def _ungrouped_numbers(data: DataFacts) -> list[str]:
    """Names of the numeric features by which people were not compared; [] of images.

    Columns of few values (``could_be_groups``) are left out, for another line names them.
    """
    if data.images is not None:
        return []
    grouped = {grouping.name for grouping in data.groupings}
    not_listed = {*data.categorical, *data.could_be_groups, *grouped}
    return [plain(name) for name in data.features if name not in not_listed]


def _is_set(report: Report, option: str) -> bool:
    """Whether an option is on; a report of given predictions does not have all of them."""
    return option in report.config and bool(report.config[option].value)


def reproduce(report: Report) -> Section | None:
    """The section with the command that repeats the audit and the versions that it depends on."""
    versions = f"numerics {plain(report.numerics_version)}, report schema {report.schema_version}"
    blocks = (
        Listing(plain(report.reproduce, 3000)),
        Text(f"fairaudit {plain(report.tool.version)}, {versions}."),
    )
    return Section("reproduce", "Reproduce", blocks)


def foot(report: Report) -> Words:
    """How the report was made: when, of which data, by which command and versions."""
    versions = {"fairaudit": report.tool.version, "numerics": report.numerics_version}
    versions |= report.environment
    shown = ", ".join(f"{plain(name)} {plain(version)}" for name, version in versions.items())
    command = plain(shlex.join(report.command), 2000)
    return (
        f"Made {plain(report.created_utc)} of data with sha256 {plain(report.data.sha256, 80)} by "
        f"{command}; {shown}."
    )


def words(report: Report) -> Section | None:
    """The section that says what the terms of a report mean."""
    items: list[Words] = [(Strong(term), f": {meaning}") for term, meaning in terms().items()]
    for method in dict.fromkeys(arm.method for arm in report.arms):
        with suppress(ConfigError):  # a method of another installation, or given predictions
            items.append((Strong(plain(method)), f": {plain(find(method).summary, 300)}."))
    return Section("words", "Words", bullets(items))
