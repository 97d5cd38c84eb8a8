"""How much is read of a training's steps: decided from public sizes, before anything is trained."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Amount:
    """How much is read of each training.

    Args:
        steps: The checkpoints: steps that are kept and read, ascending.
        term_steps: Those of them at which the terms are read, too.
        rows: Training rows read at a checkpoint, for all groupings together. Each grouping reads an
            equal share of them: a sample that is stratified by its groups.
        curved: The same of the fewer rows that the second order of the terms is read from.
        batches: The most Poisson batches behind the terms.
    """

    steps: tuple[int, ...]
    term_steps: tuple[int, ...]
    rows: int = 8192
    curved: int = 512
    batches: int = 64

    @property
    def is_nothing(self) -> bool:
        """Whether no step is read."""
        return not self.steps


NOTHING = Amount((), ())


def spread(steps: tuple[int, ...], count: int) -> tuple[int, ...]:
    """``count`` of the steps, evenly spread: cut into as many equal parts, the middle of each.

    Args:
        steps: Ascending.
        count: How many, 0 or more; all steps if there are not more.
    """
    if len(steps) <= count:
        return steps
    return tuple(steps[int((i + 0.5) * len(steps) / count)] for i in range(count))
