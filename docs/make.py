"""Write the pages of this folder that are made by the program.

The reference (every option, setting, metric and field; built, not kept), an example, its figure.

python docs/make.py reference     from the command line and the report's schema; a second
python docs/make.py findings      the codes of findings, with their sentences; likewise
python docs/make.py example       an audit of the sample table; ten seconds
"""

import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from fairaudit.cli import app
from fairaudit.cli.lines_catalog import described
from fairaudit.methods.catalog import BUILT_IN
from fairaudit.metrics.registry import METRICS
from fairaudit.report.model import Report
from fairaudit.report.phrases import ADVICE, phrases

HERE = Path(__file__).resolve().parent
SAMPLE = "sample_data/loans.parquet"
AUDIT = ("run", "--data", SAMPLE, "--group", "sex", "--method", "dpsgd", "--max-grad-norm", "1")
RULE = "privacy_cost_gap > 0.02"  # it fails
_USAGE = "Usage: fairaudit "


def reference() -> str:
    """Every command's help, method's number, metric and field of the report."""
    lines = [
        "# Reference",
        "",
        "Made by `python docs/make.py reference`.",
        "",
        "## Commands",
        "",
    ]
    for command in _commands():
        lines += [f"### fairaudit {command}", "", "```text", _help(command).strip(), "```", ""]
    lines += ["## Settings", "", *_settings(), ""]
    lines += ["## Metrics", "", *metrics(), ""]
    report = Report.model_json_schema(mode="serialization")
    lines += ["## Fields of report.json", "", *_fields("report.json", report)]
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
    for code, phrase in phrases().items():
        lines.append(f"| `{code}` | {phrase.when} | {_plain(phrase.text)} |")
    lines += ["", "What a finding advises:", "", "| advice | in words |", "|---|---|"]
    for knob, text in ADVICE.items():
        lines.append(f"| {knob} | {_plain(text)} |")
    return "\n".join(lines) + "\n"


def _plain(template: str) -> str:
    """A template with the names of its numbers alone."""
    return re.sub(r"\{(\w+)[^}]*\}", r"*\1*", template)


def example() -> None:
    """A report whose gate fails, and the figure of the page on reading."""
    with tempfile.TemporaryDirectory() as folder:
        options = ("--fail-on", RULE, "--out", folder, "--format", "md,svg", "--quiet")
        subprocess.run(
            [sys.executable, "-m", "fairaudit", *AUDIT, *options],
            cwd=HERE.parent,
            check=False,  # it ends with 1
        )
        text = (Path(folder) / "report.md").read_text(encoding="utf-8")
        text = re.sub(r"!\[[^\n]*\n\n", "", text)  # the figures would be most of this folder
        (HERE / "examples" / "fail.md").write_text(text, encoding="utf-8")
        picture = (Path(folder) / "figures" / "privacy-cost.svg").read_bytes()
        (HERE / "figures" / "privacy-cost.svg").write_bytes(picture)


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
        worst = spec.worst + ("" if spec.is_judged else _UNJUDGED)
        yield (
            f"| {name} | {spec.words} | {spec.unit} | {low} to {high} | {needs or '–'} | {worst} |"
        )


def _fields(file: str, schema: Mapping[str, object]) -> Iterator[str]:
    """A table for the file and for every kind of part in it."""
    parts = schema["$defs"]
    assert isinstance(parts, dict)
    for name, part in {file: schema, **dict(sorted(parts.items()))}.items():
        properties = part.get("properties")
        if not properties:
            continue
        yield f"### {name}"
        yield ""
        text, meanings = _meanings(part.get("description", ""))
        yield from text.splitlines()
        yield ""
        yield "| field | type | meaning |" if meanings else "| field | type |"
        yield "|---|---|---|" if meanings else "|---|---|"
        for field, kind in properties.items():
            yield f"| {field} | {_type(kind)} |" + (
                f" {meanings.get(field, '')} |" if meanings else ""
            )
        yield ""


def _meanings(description: str) -> tuple[str, dict[str, str]]:
    """A class's description without the list of its fields, and what that says of each."""
    text, _, listed = description.partition("\n\nArgs:\n")
    entries = re.findall(r"^    (\w+(?:, \w+)*): (.+(?:\n     .+)*)", listed, flags=re.M)
    said = {name: " ".join(words.split()) for names, words in entries for name in names.split(", ")}
    return text, {name: words.replace("|", "\\|") for name, words in said.items()}


def _type(kind: Mapping[str, object]) -> str:
    """A JSON schema type in words."""
    if "$ref" in kind:
        return f"{str(kind['$ref']).rpartition('/')[2]}"
    if "anyOf" in kind:
        return " or ".join(dict.fromkeys(_type(one) for one in kind["anyOf"]))
    if "enum" in kind:
        return " or ".join(f"`{value}`" for value in kind["enum"])
    if "const" in kind:
        return f"`{str(kind['const']).lower()}`"
    if kind.get("type") == "array":
        return f"list of {_type(kind['items'])}" if kind.get("items") else "list"
    if kind.get("type") == "object" and isinstance(kind.get("additionalProperties"), dict):
        return f"by name: {_type(kind['additionalProperties'])}"
    return str(kind.get("type", "any"))


if __name__ == "__main__":
    if sys.argv[1:] == ["reference"]:
        (HERE / "reference.md").write_text(reference(), encoding="utf-8")
    elif sys.argv[1:] == ["findings"]:
        (HERE / "findings-codes.md").write_text(findings(), encoding="utf-8")
    elif sys.argv[1:] == ["example"]:
        example()
    else:
        sys.exit(__doc__)
