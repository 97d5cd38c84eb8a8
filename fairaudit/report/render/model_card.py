"""Report -> the sections of a model card that an audit can fill. Source: Mitchell et al. 2019."""

import re
from collections.abc import Iterator, Mapping

from fairaudit.errors import numbered
from fairaudit.report.model import Report
from fairaudit.report.render.markdown import lines_of, literal
from fairaudit.report.reproduce import train_command
from fairaudit.report.safe_names import NAME_LIMIT, plain
from fairaudit.report.sections.order import document
from fairaudit.report.written import listed

# Characters that are something to YAML or Markdown; the first knows the escape, the second shows it.
_MEANT = re.compile(r"[^\w .,:-]|(?<![^\W_])_|_(?![^\W_])|(?<=www)\.")
_OWNER = "Not known to an audit: for the owner of the model to write."
_METRICS = (
    "Accuracy, loss, error rates and selection rates on test rows; privacy cost is accuracy without privacy "
    "minus accuracy with it; excess risk is loss with privacy minus loss without, in nats."
)
# heading of the card -> sections of the report that stand there
_PARTS: Mapping[str, tuple[str, ...]] = {
    "Evaluation data": ("data",),
    "Quantitative analyses": ("costs", "tuning", "gaps", "tried", "within", "selection"),
    "Privacy": ("guarantee", "leakage"),
    "Caveats and recommendations": ("warnings", "limitations"),
}


def to_model_card(report: Report) -> str:
    """A card for a model trained by the audited recipe; what only its owner knows is left to them."""
    lines = [*_front_matter(report), "", *_details(report)]
    sections = {section.id: section for section in document(report).sections}
    for title, sources in _PARTS.items():
        lines += ["", f"## {title}"]
        for section in (sections[source] for source in sources if source in sections):
            lines += ["", f"### {literal(section.title)}", *lines_of(section.blocks)]
    return "\n".join(lines) + "\n"


def _front_matter(report: Report) -> Iterator[str]:
    """The header that model hubs read, and other readers of Markdown take for a part of the text."""
    yield from ("---", "tags:", "- differential-privacy", "metrics:", "- accuracy")
    if report.training is not None and not any(arm.trainer for arm in report.arms):
        name = _MEANT.sub(lambda found: f"\\u{ord(found[0]):04x}", plain(report.training.model))
        yield f'model_name: "{name}"'
    yield "---"


def _details(report: Report) -> Iterator[str]:
    data, training = report.data, report.training
    arms = _name(listed(arm.key for arm in report.arms), 600)
    groups = ", ".join(_name(grouping.name) for grouping in data.groupings[:6])
    yield f"# Model card: {_name(data.label.column)} from {_name(data.name)}"
    yield from ("", "## Model details", "")
    own = dict.fromkeys(arm.trainer for arm in report.arms if arm.trainer)
    kind = "" if training is None or own else f"{_name(training.model)} "
    yield f"- Kind: {kind}classifier of {_name(data.label.column)}"
    yield f"- Recipes compared: {arms}"
    seeds = max(arm.seeds_planned for arm in report.arms)
    if training is None:
        yield f"- Training: not known here, predictions were given. {_OWNER}"
    elif own:
        yield f"- Training: by {_name(', '.join(own), 300)}, code that this audit ran and did not check"
    else:
        counted = ((training.epochs, "epoch"), (training.steps, "step"), (training.n_public, "record"))
        default = ", ".join(numbered(count, noun) for count, noun in counted)
        sought = report.settings_tried
        tried = "" if sought is None else f"best of {sought} settings; default: "
        yield f"- Training: {tried}{default}"
    version = _name(report.tool.version)
    yield f"- Figures from fairaudit {version}, {numbered(seeds, 'seed')}, 95 % intervals"
    if training is not None:
        trains = "`fairaudit train --from report.json --method NAME --out model` trains one, with fresh noise"
        yield "- No model of the audit is the model of this card" + f": {trains}" * bool(
            train_command(report)
        )
    digest = _name(data.sha256[:16])
    for title, text in (
        ("Intended use", _OWNER),
        ("Factors", f"Groups compared: {groups}."),
        ("Metrics", _METRICS),
        ("Training data", f"{_name(data.name)}, sha256 {digest}…. Where it comes from: {_OWNER.lower()}"),
    ):
        yield from ("", f"## {title}", "", text)


def _name(name: str, limit: int = NAME_LIMIT) -> str:
    return literal(plain(name, limit).strip())
