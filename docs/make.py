"""Write the pages of this folder that are made by the program.

Built and not kept: every option, setting and metric; the codes of findings.

python docs/make.py reference     from the command line; a second
python docs/make.py findings      the codes of findings, with their sentences; likewise
"""

import contextlib
import io
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from fairaudit.cli import app
from fairaudit.cli.lines_catalog import described
from fairaudit.methods.catalog import BUILT_IN
from fairaudit.metrics.registry import METRICS
from fairaudit.report.messages.advice import ADVICE
from fairaudit.report.messages.base import FindingMessage
from fairaudit.report.messages.catalog import messages

HERE = Path(__file__).resolve().parent
_USAGE = "Usage: fairaudit "


def reference() -> str:
    """Every command's help, method's number and metric."""
    lines = ["# Reference", "", "Made by `python docs/make.py reference`.", "", "## Commands", ""]
    for command in _commands():
        lines += [f"### fairaudit {command}", "", "```text", _help(command).strip(), "```", ""]
    lines += ["## Settings", "", *_settings(), ""]
    lines += ["## Metrics", "", *metrics()]
    return "\n".join(lines).rstrip("\n") + "\n"


def findings() -> str:
    """Every code with its condition and its sentence, then every advice."""
    lines = [
        "# Codes of findings",
        "",
        "Made by `python docs/make.py findings`. `report.json` holds them as `findings`, with the "
        "numbers that each sentence names.",
        "",
        "| code | where | sentence |",
        "|---|---|---|",
    ]
    for code, message in messages().items():
        if issubclass(message, FindingMessage):
            lines.append(f"| `{code}` | {message.when} | {_plain(message.sentence)} |")
    lines += ["", "What a finding advises:", "", "| advice | in words |", "|---|---|"]
    for knob, text in ADVICE.items():
        lines.append(f"| {knob} | {_plain(text)} |")
    return "\n".join(lines) + "\n"


def _plain(template: str) -> str:
    """A template with the names of its numbers alone."""
    return re.sub(r"\{(\w+)[^}]*\}", r"*\1*", template)


def _commands() -> list[str]:
    listed = _help("").split("Commands:")[1]
    return re.findall(r"^  (\w+) ", listed, flags=re.M)


def _help(command: str) -> str:
    words = [command] if command else []
    os.environ.update(COLUMNS="100", TERM="dumb")
    page = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with contextlib.redirect_stdout(page):
        app.main([*words, "--help"])
    page.flush()
    return page.buffer.getvalue().decode()


def _settings() -> Iterator[str]:
    """A table of every number that a method reads."""
    yield (
        "`--settings METHOD.SETTING=VALUE` sets one method's number. A value outside its range is "
        "refused; so is, on the command line, a setting that nothing reads. A file or a variable "
        "may serve several runs: there it is noted."
    )
    yield ""
    yield "| setting | what it is | unit | range | default |"
    yield "|---|---|---|---|---|"
    told = {name: facts for spec in BUILT_IN for name, facts in described(spec).items()}
    for name, facts in told.items():
        cells = (facts["meaning"], facts["unit"] or "–", facts["range"], facts["default"] or "–")
        yield f"| {name} | {' | '.join(cells)} |"


_UNJUDGED = ", if the outcome makes it so"
_NEEDS = {
    "reference": "a model to compare with",
    "probabilities": "probabilities",
    "positive": "a positive class",
    "score": "a positive class, or two classes",
    "favourable": "a favourable class",
    "groups": "two groups",
}


def metrics() -> Iterator[str]:
    """A table of everything that is measured of a group."""
    yield (
        "Each is measured for every group and for all test rows, with the gaps between groups. A "
        "report holds it under its name, and of the model without privacy as `reference.NAME`; a "
        "rule may add `_gap` ([rules](ci.md)). What is about one class, where no positive class "
        "is known, has one value for each class, as `tpr[2]`. What needs probabilities is "
        "undefined for predictions that are labels. Where whom a difference harms depends on what "
        "the outcome means, it is called higher or lower, and not worse."
    )
    yield ""
    yield "| metric | what it is | unit | range | needs | worst value |"
    yield "|---|---|---|---|---|---|"
    for name, spec in METRICS.items():
        needs = ", ".join(said for need, said in _NEEDS.items() if need in spec.needs)
        low, high = (f"{end:g}".replace("inf", "∞") for end in spec.bounds)
        worst = spec.worst + ("" if spec.is_judged else _UNJUDGED) if spec.has_gap else "–"
        yield (
            f"| {name} | {spec.words} | {spec.unit} | {low} to {high} | {needs or '–'} | {worst} |"
        )


if __name__ == "__main__":
    if sys.argv[1:] == ["reference"]:
        (HERE / "reference.md").write_text(reference(), encoding="utf-8")
    elif sys.argv[1:] == ["findings"]:
        (HERE / "findings-codes.md").write_text(findings(), encoding="utf-8")
    else:
        sys.exit(__doc__)
