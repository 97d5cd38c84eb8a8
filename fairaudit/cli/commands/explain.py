"""``fairaudit explain``."""

from typing import Annotated

import typer

from fairaudit.errors import ConfigError, did_you_mean


def explain(
    topic: Annotated[
        str | None,
        typer.Argument(
            help="A term, or the code of a finding, warning or limitation.", metavar="[TOPIC]"
        ),
    ] = None,
) -> None:
    """Say what a term of a report means, or when a thing is said; without one, list them."""
    # Imported here: `--help` must not wait for the report's models.
    from fairaudit.cli.printing import print_stdout
    from fairaudit.report.messages.catalog import messages
    from fairaudit.report.words import TERMS, explanation

    meanings: dict[str, str] = {}
    lists = {"Terms": list(TERMS)}
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
        print_stdout([f"{title}: {', '.join(names)}" for title, names in lists.items()])
        return
    meaning = explanation(topic) or meanings.get(topic)
    if meaning is None:
        hint = did_you_mean(topic, [*TERMS, *meanings])
        raise ConfigError(f"no term or code {topic!r}", hint=hint)
    print_stdout([f"{topic}: {meaning}"])
