"""What a report holds in words: warnings, limitations, how to repeat it."""

import shlex

from fairaudit.capabilities.installed import CAPABILITIES
from fairaudit.report.document import Listing, Section, Strong, Text, Words, bullets
from fairaudit.report.model import Report
from fairaudit.report.safe_names import plain
from fairaudit.report.words import TERMS


def warnings(report: Report) -> Section | None:
    """The section on what may bias the audit, or must be known to read it."""
    by_code: dict[tuple[str, str], list[str]] = {}  # messages by level and code
    for warning in report.warnings:
        fix = ""
        if warning.fix:
            fix = f" ({plain(warning.fix, 200)})"
        by_code.setdefault((warning.level, warning.code), []).append(
            f"{plain(warning.message, 600)}{fix}"
        )
    items = [
        f"{level} {plain(code)}: {' – '.join(messages)}"
        for (level, code), messages in by_code.items()
    ]
    return Section("warnings", "Warnings", bullets(items) or (Text("None."),))


def limitations(report: Report) -> Section | None:
    """The section of every limitation that applies to this report."""
    items = []
    for limitation in report.limitations:
        text = plain(limitation.text, 800)
        # No model of an audit may be released: this says how to train one that may.
        if limitation.code == "fixed_seeds":
            commands = [one.next_command(report, "report.json") for one in CAPABILITIES]
            for command in filter(None, commands):
                text += f" Beside report.json: {plain(command, 1000)}"
        items.append(text)
    return Section("limitations", "Limitations", bullets(items))


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
    items: list[Words] = [(Strong(term), f": {meaning}") for term, meaning in TERMS.items()]
    return Section("words", "Words", bullets(items))
