"""``fairaudit explain``."""

from typing import Annotated

import typer

from fairaudit.errors import ConfigError, did_you_mean


def explain(
    topic: Annotated[
        str | None, typer.Argument(help="A term, or a finding's code.", metavar="[TOPIC]")
    ] = None,
) -> None:
    """Say what a term of a report means, or when a finding is made; without one, list them."""
    # Imported here: `--help` must not wait for the report's models.
    from fairaudit.cli.printing import print_stdout
    from fairaudit.report.phrases import phrases
    from fairaudit.report.words import TERMS, explanation

    known = phrases()
    if topic is None:
        print_stdout(["Terms: " + ", ".join(TERMS), "Findings: " + ", ".join(known)])
        return
    meaning = explanation(topic)
    if meaning is None and topic in known:
        meaning = f"Found where {known[topic].when}."
    if meaning is None:
        hint = did_you_mean(topic, [*TERMS, *known])
        raise ConfigError(f"no term or finding {topic!r}", hint=hint)
    print_stdout([f"{topic}: {meaning}"])
