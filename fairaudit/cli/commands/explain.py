"""``fairaudit explain``."""

from collections.abc import Iterator
from typing import Annotated

import typer

from fairaudit.errors import ConfigError, did_you_mean


def explain(
    topic: Annotated[
        str | None,
        typer.Argument(
            help="A term, a metric, a method, or the code of a finding, warning or limitation.",
            metavar="[TOPIC]",
        ),
    ] = None,
) -> None:
    """Say what a word of a report or a rule means, or when a thing is said; without one, list them.

    Metrics and methods come with the form in which a rule names them.
    """
    # Imported here: `--help` must not wait for the report's models.
    from fairaudit.cli.printing import print_stdout
    from fairaudit.gate.vocabulary import metric_names
    from fairaudit.methods.catalog import catalog
    from fairaudit.metrics.registry import METRICS
    from fairaudit.report.messages.catalog import messages
    from fairaudit.report.words import explanation, terms

    meanings: dict[str, str] = {}
    lists = {"Terms": list(terms())}
    for title, verb, level in (
        ("Findings", "Found", "finding"),
        ("Warnings", "Warned", "warning"),
        ("Notices", "Noted", "notice"),
        ("Limitations", "Said", "limitation"),
    ):
        of_level = {code: one.when for code, one in messages().items() if one.level == level}
        lists[title] = list(of_level)
        meanings |= {code: f"{verb} where {when}." for code, when in of_level.items()}
    if topic is None:
        lists |= {"Metrics": list(METRICS), "Methods": list(catalog())}
        print_stdout([f"{title}: {', '.join(names)}" for title, names in lists.items()])
        return
    meaning = explanation(topic) or meanings.get(topic) or ""
    told = " ".join(_of_metric(topic, meaning)) or meaning or _of_method(topic)
    if not told:
        hint = did_you_mean(topic, [*terms(), *meanings, *metric_names(), *catalog()])
        raise ConfigError(f"no term, code, metric or method {topic!r}", hint=hint)
    print_stdout([f"{topic}: {told}"])


def _of_metric(topic: str, meaning: str) -> Iterator[str]:
    """What a metric is and how rules name it and its gap; nothing where the topic is no metric.

    Args:
        topic: A metric as rules name it, as ``tpr_gap`` or ``tpr[2]``, or with blanks for ``_``.
        meaning: What it means as a term or a code, which comes first; "" where it is neither.
    """
    from fairaudit.gate.vocabulary import find_metric, metric_names
    from fairaudit.metrics.registry import METRICS
    from fairaudit.report.words import explanation, sentence_case

    try:
        metric = find_metric(topic.casefold().replace(" ", "_"))
    except ConfigError:
        return
    if metric.name in METRICS:  # its title may be a term, as ``calibration error``
        meaning = meaning or explanation(METRICS[metric.name].title) or ""
    yield meaning or f"{sentence_case(metric.words)}."
    gap = f"{metric.name}_gap"
    yield f"In rules: {metric.name}{f', {gap}' if gap in metric_names() else ''}."


def _of_method(topic: str) -> str:
    """What a method does and how rules name it; "" where the topic is no method."""
    from fairaudit.methods.catalog import find
    from fairaudit.report.words import sentence_case

    try:
        method = find(topic)
    except ConfigError:
        return ""
    return (
        f"{sentence_case(method.summary)}. In rules behind a metric: accuracy:{method.name}. "
        f"Settings: fairaudit methods {method.name}."
    )
