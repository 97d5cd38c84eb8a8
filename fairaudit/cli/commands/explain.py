"""``fairaudit explain``."""

from typing import Annotated

import typer

from fairaudit.errors import ConfigError, nearest_name
from fairaudit.gate.vocabulary import Metric, find_metric, metric_names, names_of
from fairaudit.metrics.registry import METRICS


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
    from fairaudit.methods.catalog import catalog
    from fairaudit.report.messages.catalog import messages
    from fairaudit.report.words import explanation, terms

    when_said: dict[str, str] = {}  # code -> when it is said
    lists = {"Terms": list(terms())}
    for title, verb, level in (
        ("Findings", "Found", "finding"),
        ("Warnings", "Warned", "warning"),
        ("Notices", "Noted", "notice"),
        ("Limitations", "Said", "limitation"),
    ):
        of_level = {code: one.when for code, one in messages().items() if one.level == level}
        lists[title] = list(of_level)
        when_said |= {code: f"{verb} where {when}." for code, when in of_level.items()}
    lists |= {"Metrics": list(METRICS), "Methods": list(catalog())}
    if topic is None:
        print_stdout([f"{title}: {', '.join(names)}" for title, names in lists.items()])
        return
    metric = _metric(topic)  # a code may be a metric's name, too, as ``one_answer``
    meaning = explanation(topic) if metric is None else _of_metric(metric)
    in_rules = "" if metric is None else _in_rules(metric)
    texts = [text for text in (meaning, when_said.get(topic), in_rules) if text]
    texts = texts or _of_method(topic)
    if not texts:
        near = nearest_name(topic, [*terms(), *when_said, *metric_names(), *catalog()], alike=0.75)
        kinds = ", ".join(title.lower() for title in lists)
        hint = f"did you mean {near!r}?" if near else f"fairaudit explain lists all {kinds}"
        raise ConfigError(f"no term, code, metric or method {topic!r}", hint=hint)
    print_stdout([f"{topic}: {' '.join(texts)}"])


def _metric(topic: str) -> Metric | None:
    """The metric that rules name so, as ``tpr_gap`` or ``tpr[2]``; blanks may stand for ``_``."""
    try:
        return find_metric(topic.casefold().replace(" ", "_"))
    except ConfigError:
        return None


def _of_metric(metric: Metric) -> str:
    """What a metric says; of a gap, a part or one class also where its metric is explained."""
    from fairaudit.report.words import explanation, sentence_case

    if metric.name in METRICS:
        meaning = METRICS[metric.name].meaning
    else:
        meaning = explanation(metric.name) or ""  # as ``epsilon``
    if meaning:
        return meaning
    words = f"{sentence_case(metric.words)}."
    if metric.kind != "arm" and metric.name not in METRICS:
        words += f" See fairaudit explain {metric.base}."
    return words


def _in_rules(metric: Metric) -> str:
    """The names of a metric in rules; of a gap, a part or one class its own alone."""
    names = names_of(metric.name) if metric.name in METRICS else (metric.name,)
    return f"In rules: {', '.join(names)}."


def _of_method(topic: str) -> list[str]:
    """What a method does and how rules name it; [] where the topic is no method."""
    from fairaudit.methods.catalog import find
    from fairaudit.report.words import sentence_case

    try:
        method = find(topic)
    except ConfigError:
        return []
    return [
        f"{sentence_case(method.summary)}.",
        f"In rules behind a metric: accuracy:{method.name}.",
        f"Settings: fairaudit methods {method.name}.",
    ]
