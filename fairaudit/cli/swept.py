"""An option that was typed several times, as the audits of its values."""

from collections.abc import Iterator
from dataclasses import replace

from fairaudit.cli.durations import duration_text
from fairaudit.cli.run_options import Given, settled
from fairaudit.config.value_sources import ResolvedConfig
from fairaudit.errors import ConfigError, numbered


def swept_audits(given: Given) -> tuple[str, list[tuple[float, ResolvedConfig]]]:
    """The option that has several values, and each value with the options of its audit.

    Raises:
        ConfigError: Two options have several values, or the options contradict each other.
    """
    # Imported here: `--help` must not wait for pandas and pyarrow.
    from fairaudit.sweep import folder_of

    if len(given.swept) > 1:
        raise ConfigError("one option at a time can be swept over")
    ((setting, texts),) = given.swept.items()  # texts: the values as they were typed
    out = settled(given).config.out  # of the sweep; each audit has a folder in it
    audits = []
    for text in texts:
        resolved = settled(replace(given, values={**given.values, setting: text}))
        value = float(getattr(resolved.config, setting))
        config = resolved.config.model_copy(update={"out": out / folder_of(setting, value)})
        audits.append((value, replace(resolved, config=config)))
    return setting, audits


def total_lines(values: int, trainings: int, shared: int, seconds: float) -> Iterator[str]:
    """The line on how many trainings a whole sweep has, and about how long they take.

    Args:
        values: How many are audited.
        trainings: Of all values together, each training once.
        shared: Trainings that a value takes over from another one.
        seconds: Estimated wall time of the whole sweep.
    """
    line = f"  total   {numbered(values, 'value')}, {numbered(trainings, 'training')}"
    if shared:
        line += f" ({shared:,} more are taken over from another value)"
    yield f"{line} · about {duration_text(seconds)}"
