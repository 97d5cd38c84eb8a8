"""What a number of the report is called, and what its name says."""

COSTS = ("privacy_cost", "excess_risk")
# A cost is that of the method without its noise, and the noise's. The first is named after what else the
# method does to a model: no epsilon removes it.
PARTS = {
    "clipping": "of clipping and schedule, without any noise",
    "regularisation": "of regularisation, without any noise",
    "partition": "of the partition into teachers, without any noise",
    "noise": "of the noise alone",
}

LEAST_FOR_LOSS = 200  # test records; below it a loss is shown and decides nothing: it has no floor

# A cost against the model that predicts the classes' shares in the training rows for everybody.
CONSTANT = "constant"


def base_metric(name: str) -> str:
    """``change.tpr[2]`` -> ``tpr``; ``privacy_cost.noise`` -> ``privacy_cost``."""
    stem, _, last = name.rpartition(".")
    return base_metric(stem) if last in PARTS or last == CONSTANT else last.partition("[")[0]


def part_of(name: str) -> str:
    """``noise`` of ``privacy_cost.noise``; "" for a whole cost and any other metric."""
    last = name.rpartition(".")[2]
    return last if last in PARTS else ""
