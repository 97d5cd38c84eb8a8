"""Names and sizes of what a finished training holds of its own steps, as it was read after it.

Arrays of a :class:`JobResult`, C checkpoints, R repeats, K groups of grouping G, J = BLOCKS + 1:
``misalignment.steps`` [C] int64, the checkpoints' steps; ``misalignment.G.rows`` [K + 1] float64,
training rows that were read of each group and of all; ``misalignment.0.batches`` [C] int64, Poisson
batches behind the terms, 0 where they were not read; ``misalignment.G.NAME`` [C, R, K + 1, J]
float64, each reading of all these rows and, behind it, of all but those of one block. NAME_se
[C, R, K + 1] is the error of a term at one step, from batches and from the rows of its second
order.
"""

PREFIX = "misalignment."
STEPS = f"{PREFIX}steps"
BLOCKS = 10  # of a group's rows, each left out once (the jackknife)
BATCHES = 4  # Poisson batches of a checkpoint, behind the angles
# What turning the step takes from a group, to first order, in units that all groups share: by it
# pairs are told apart.
TURNED = "turned"
# Readings of records whose rank correlations `full` takes at checkpoints, `cause.correlations`
# [C, R, pairs, K + 1, 3] float64: value, low and high end.
CORRELATED = (("input_norm", "gradient_norm"), ("closeness", "trace"), ("input_norm", "trace"))


def array_name(grouping: int, reading: str) -> str:
    """The name of a reading's array: ``misalignment.G.NAME``, G the place of the grouping."""
    return f"{PREFIX}{grouping}.{reading}"
