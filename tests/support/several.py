"""A report with more than one of everything, every number its own.

Whatever stands in a wrong place shows.

Two methods at two epsilons, two groupings, a reference that lost a seed, a pair named beforehand.
"""

import itertools
import zlib

import numpy as np
from changed import replace
from handmade import (
    arm,
    built,
    dataset,
    estimate,
    gap,
    job_result,
    measure,
    plan,
    privacy,
    resolved,
)

from fairaudit.data.dataset import Grouping
from fairaudit.metrics.compare import SEVERAL_SPLITS
from fairaudit.planning.flow import Audit
from fairaudit.results.estimates import Measured

GROUPINGS = {"sex": ("F", "M"), "region": ("E", "N", "S")}
METHODS, TARGETS = ("dpsgd", "global-adapt"), (1, 4)
PRIVATE = tuple(f"{method}@{target}" for target in TARGETS for method in METHODS)
ARMS = ("sgd", *PRIVATE)
LOST = "sgd-3"
NAMED = ("N", "S")  # not the pair with the largest gap: the names below see to it
WITHIN = ("accuracy", "loss", "selection_rate", "tpr", "fpr", "precision", "impact_ratio")
COSTS = ("privacy_cost", "excess_risk")
PARTS = (".step", ".clipping", ".noise")
SPLIT = tuple(f"{metric}{part}" for metric in COSTS for part in ("", *PARTS))
T4, Z = (
    2.776445,
    1.959964,
)  # quantiles at .975 of Student's t of four degrees of freedom and of the normal


def drawn(*place, low=0.05, high=0.95):
    """A number of that place alone."""
    return float(np.random.default_rng(zlib.crc32(repr(place).encode())).uniform(low, high))


def cost(key, grouping, group, metric="privacy_cost"):
    metric, _, part = metric.partition(".")
    if part:
        share = drawn("share", metric, key, grouping, group, low=-0.4, high=1.4)
        shares = {"step": 0.3 * share, "clipping": 0.7 * share, "noise": 1 - share}
        return cost(key, grouping, group, metric) * shares[part]
    shift = {"E": 0.1, "S": -0.02}.get(group, 0.0)
    return drawn(metric, key, grouping, group, low=-0.02, high=0.08) + shift


def epsilon(key):
    """Just above two decimals, so that rounding to the nearest would understate it."""
    return float(key.partition("@")[2]) - 0.1 * METHODS.index(key.partition("@")[0]) - 0.0189


def value_of(key, grouping, group, metric):
    """The figure of a metric; the reference's own is the same beside every arm."""
    if metric.partition(".")[0] in COSTS:
        return cost(key, grouping, group, metric)
    side, _, name = metric.rpartition(".")
    return drawn(name, "sgd" if side else key, grouping, group)


def half(*place):
    return drawn("half", *place, low=0.004, high=0.02)


def measured(key, grouping, group):
    """A group's record; ``sgd`` by itself has no cost and no reference."""
    sides = ("",) if key == "sgd" else ("", "reference.")
    metrics = [side + metric for metric in WITHIN for side in sides]
    metrics += [] if key == "sgd" else SPLIT
    units = {"excess_risk": "nats", "loss": "nats", "impact_ratio": "ratio"}
    estimates = {
        name: estimate(
            value_of(key, grouping, group, name),
            half(key, grouping, group, name),
            units.get(name.rpartition(".")[2], units.get(name.partition(".")[0], "fraction")),
        )
        for name in metrics
    }
    rows = round(drawn("rows", grouping, group, low=40, high=4000))
    return replace(measure(group, 0.0), n_test=rows, estimates=estimates)


def pair(key, grouping, metric, a, b, kind="pair"):
    if metric.startswith("change."):
        value = drawn(metric, key, grouping, a, b, low=-0.2, high=0.2)
    else:
        value = cost(key, grouping, a, metric) - cost(key, grouping, b, metric)
    place = metric, key, grouping, a, b, kind
    made = gap(a, b, value, half(*place), metric=metric, kind=kind)
    seeds = drawn("from seeds", *place, low=0.1, high=0.9)  # of half the interval, squared
    signed = replace(
        made.signed,
        training_sd=half(*place) * seeds**0.5 / T4,
        records_sd=half(*place) * (1 - seeds) ** 0.5 / Z,
    )
    return replace(
        made, signed=signed, minimum_detectable=drawn("detectable", *place, low=0.01, high=0.09)
    )


def gaps(key, grouping, names):
    found = [
        pair(key, grouping, metric, a, b)
        for metric in (*SPLIT, "change.selection_rate", "change.tpr")
        for a, b in itertools.combinations(names, 2)
    ]
    for metric in ("privacy_cost", "excess_risk"):
        if len(names) > 2:
            ordered = sorted(names, key=lambda name: cost(key, grouping, name, metric))
            found.append(pair(key, grouping, metric, ordered[-1], ordered[0], "max"))
    return tuple(found)


def compared(key, grouping):
    names = GROUPINGS[grouping]
    return Measured(
        arm=key,
        reference="" if key == "sgd" else "sgd",
        grouping=grouping,
        estimand=SEVERAL_SPLITS,
        overall=measured(key, grouping, ""),
        by_group=tuple(measured(key, grouping, name) for name in names),
        gaps=() if key == "sgd" else gaps(key, grouping, names),
    )


def several():
    settled = resolved(
        group=["sex", "region"],
        method=list(METHODS),
        epsilon=list(TARGETS),
        compare=[",".join(NAMED)],
    )
    arms = [arm("sgd", reference=None)]
    for key in PRIVATE:
        claim = privacy(
            pld=epsilon(key), rdp=epsilon(key) + 0.5, target_epsilon=float(key.partition("@")[2])
        )
        arms.append(arm(key, privacy=claim))
    made = plan(settled.config, tuple(arms))
    rows = np.arange(60)
    groupings = tuple(
        Grouping(name, (rows // (1 + i)) % len(names), names)
        for i, (name, names) in enumerate(GROUPINGS.items())
    )
    data = replace(dataset(), groupings=groupings, labels=rows % 2)
    results = {job.id: job_result(job.id) for job in made.jobs if job.id != LOST}
    comparisons = tuple(compared(key, grouping) for grouping in GROUPINGS for key in ARMS)
    found = Audit(settled, made, data, results, {LOST: "diverged"}, comparisons)
    return built(found)
