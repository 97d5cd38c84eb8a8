"""Report -> the sections of a model card that an audit can fill. Source: Mitchell et al. 2019."""

import json
from collections.abc import Iterator, Mapping

from fairaudit.errors import numbered
from fairaudit.report.arm_names import listed
from fairaudit.report.markdown_review import SELECTION
from fairaudit.report.model import Report
from fairaudit.report.names import markdown, plain
from fairaudit.report.placing import passages
from fairaudit.report.to_markdown import full_text

_OWNER = "Not known to an audit: for the owner of the model to write."
# heading of the card -> headings of the report whose text stands there
_PARTS: Mapping[str, tuple[str, ...]] = {
    "Evaluation data": ("Data and exclusions",),
    "Quantitative analyses": (
        *("Cost of privacy by group", "Gaps between groups", "Within each model", SELECTION),
    ),
    "Privacy": ("What the guarantee covers",),
    "Caveats and recommendations": ("Warnings", "Limitations"),
}


def to_model_card(report: Report) -> str:
    """A card for a model trained by the audited recipe; what only its owner knows is left to them."""
    lines = [*_front_matter(report), "", *_details(report)]
    sections = {p.title: [p.lead, p.rest] for p in passages("\n".join(full_text(report)), ())}
    for title, sources in _PARTS.items():
        lines += ["", f"## {title}"]
        for source in sources:
            body = [part for part in sections.get(source, []) if part]
            if body:
                lines += ["", f"### {source}", "", "\n\n".join(body)]
    return "\n".join(lines) + "\n"


def _front_matter(report: Report) -> Iterator[str]:
    """The header that model hubs read; JSON strings are YAML strings."""
    yield "---"
    yield "tags:"
    yield "- differential-privacy"
    yield "metrics:"
    yield "- accuracy"
    if report.training is not None:
        yield f"model_name: {json.dumps(plain(report.training.model))}"
    yield "---"


def _details(report: Report) -> Iterator[str]:
    data, training = report.data, report.training
    arms = markdown(listed(arm.key for arm in report.arms), 600)
    groups = ", ".join(markdown(grouping.name) for grouping in data.groupings[:6])
    yield f"# Model card: {markdown(data.label.column)} from {markdown(data.name)}"
    yield ""
    yield "## Model details"
    yield ""
    kind = "" if training is None else f"{markdown(training.model)} "
    yield f"- Kind: {kind}classifier of {markdown(data.label.column)}"
    yield f"- Recipes compared: {arms}"
    seeds = max(arm.seeds_planned for arm in report.arms)
    if training is None:
        yield f"- Training: not known here, predictions were given. {_OWNER}"
    else:
        counted = ((training.epochs, "epoch"), (training.steps, "step"), (training.n_public, "record"))
        yield f"- Training: {', '.join(numbered(count, noun) for count, noun in counted)}"
    yield f"- Figures from fairaudit {report.tool.version}, {numbered(seeds, 'seed')}, 95 % intervals"
    if training is not None:
        yield "- No model of the audit is the model of this card: train again, with fresh noise, for release"
    yield ""
    yield "## Intended use"
    yield ""
    yield _OWNER
    yield ""
    yield "## Factors"
    yield ""
    yield f"Groups compared: {groups}."
    yield ""
    yield "## Metrics"
    yield ""
    yield (
        "Accuracy, loss, error rates and selection rates on test rows; privacy cost is accuracy without "
        "privacy minus accuracy with it; excess risk is loss with privacy minus loss without, in nats."
    )
    yield ""
    yield "## Training data"
    yield ""
    yield f"{markdown(data.name)}, sha256 {data.sha256[:16]}…. Where it comes from: {_OWNER.lower()}"
