"""How often intervals hold a known gap, and how wide they are: the report's form beside others.

    python benchmarks/coverage.py [--audits 4000] [--cells accuracy]

Audits are drawn directly, with no training: in group k record i differs between the arms at seed s
by

    d_si = effect of the record + effect of record and seed + gap of the group + effect of the seed
    on k

and each seed tests 30 % of each group, its own or the same at all seeds. The share of the first
effect is ``stable``; ``seed_sd`` is the standard deviation of a seed's effect on a group in units
of that of the group's mean over one seed's test rows. For accuracy d is -1, 0 or 1; for loss it has
a long tail. Trained models are in ``benchmarks/trainings.py``.
"""

import argparse
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Array = NDArray[np.float64]
TESTED, AT_ONCE = 0.3, 200
LOSS_SD = 0.5


@dataclass(frozen=True)
class Cell:
    """One setting. ``sizes``: rows of each group in the file.

    ``skewed``: groups whose effect is skewed.
    """

    seeds: int
    fixed_split: bool = False
    metric: str = "accuracy"
    seed_sd: float = 1.0
    stable: float = 0.5
    shape: str = "normal"
    skewed: tuple[int, ...] = (0, 1)
    sizes: tuple[int, ...] = (420, 180)
    lost: float = 0.15
    gained: float = 0.03


class Spreads(NamedTuple):
    """Of A audits and all pairs of groups.

    Estimates, V_seed, V_shared and V_rec, ``[A, pairs]``.
    """

    value: Array
    seed: Array
    shared: Array
    records: Array


class _Group(NamedTuple):
    by_seed: Array  # [A, S]
    shared: Array  # [A], without floor
    records: Array
    floor: Array


def simulate(cell: Cell, audits: int, rng: np.random.Generator) -> Spreads:
    """Draw audits and reduce each as the report does; the true gap is 0 for every pair."""
    parts = []
    for first in range(0, audits, AT_ONCE):
        count = min(AT_ONCE, audits - first)
        groups = [_group(cell, k, n, count, rng) for k, n in enumerate(cell.sizes)]
        contrasts = itertools.combinations(groups, 2) if len(groups) > 1 else [groups]
        parts.append([contrast(*several) for several in contrasts])
    return Spreads(
        *(
            np.concatenate([np.stack([pair[field] for pair in part], axis=1) for part in parts])
            for field in range(4)
        )
    )


def contrast(*groups: _Group) -> tuple[Array, Array, Array, Array]:
    """One group, whose interval is the conservative one, or the first minus the second."""
    y = groups[0].by_seed - sum(g.by_seed for g in groups[1:])
    floor = sum(g.floor * correlation_between_seeds(g) for g in groups)
    records = sum(g.records for g in groups) + floor
    shared = sum(g.shared for g in groups) + floor
    if len(groups) == 1:
        shared = records
    return y.mean(1), y.var(1, ddof=1) / y.shape[1], np.maximum(shared, 0.0), records


def correlation_between_seeds(group: _Group) -> Array:
    """Correlation of a record's influences at two seeds; 1 where they do nothing."""
    seeds = group.by_seed.shape[1]
    of_one_seed = seeds * group.records - (seeds - 1) * group.shared
    seen = of_one_seed > 0
    correlation = np.divide(group.shared, of_one_seed, out=np.ones(len(seen)), where=seen)
    return np.clip(correlation, 0.0, 1.0)


def _group(cell: Cell, k: int, n: int, audits: int, rng: np.random.Generator) -> _Group:
    s, tested = cell.seeds, round(n * TESTED)
    width = tested if cell.fixed_split else n
    shift = _seed_effects(cell, k, tested, audits, rng)[:, :, None]
    d = _differences(cell, (audits, s, width), shift, rng)
    mask = np.ones((audits, s, width), dtype=bool)
    if not cell.fixed_split:
        ranks = rng.random((audits, s, width), dtype=np.float32)
        mask = ranks <= np.partition(ranks, tested - 1, axis=2)[:, :, tested - 1 : tested]
    return reduced(d, mask, cell.metric)


def reduced(d: Array, mask: NDArray[np.bool_], metric: str) -> _Group:
    """One group's differences and which of them were tested, ``[A, S, n]``."""
    audits, s, _ = d.shape
    count = mask.sum(2)
    mean = (d * mask).sum(2) / count
    psi = mask * (d - mean[:, :, None]) / count[:, :, None]
    everything, alone = (psi.sum(1) ** 2).sum(1), (psi**2).sum((1, 2))
    distinct = mask.any(1).sum(1)
    floor = 2.0 / (distinct + 2.0) ** 2 if metric == "accuracy" else np.zeros(audits)
    return _Group(mean, (everything - alone) / (s * (s - 1)), everything / s**2, floor)


def _seed_effects(cell: Cell, k: int, tested: int, audits: int, rng: np.random.Generator) -> Array:
    """Of each seed on group k, mean 0, ``[A, S]``."""
    of_record = (
        (cell.lost + cell.gained - (cell.lost - cell.gained) ** 2) ** 0.5
        if cell.metric == "accuracy"
        else LOSS_SD
    )
    sd, shape = cell.seed_sd * of_record / tested**0.5, (audits, cell.seeds)
    kind = cell.shape if k in cell.skewed else "normal"
    if kind == "exponential":
        return sd * (rng.exponential(size=shape) - 1)
    if kind == "bad":  # 15 % of the trainings are worse by this much
        bad = 0.15
        return sd * ((rng.random(shape) < bad) - bad) / (bad * (1 - bad)) ** 0.5
    return sd * rng.normal(size=shape)


def _differences(
    cell: Cell, shape: tuple[int, int, int], shift: Array, rng: np.random.Generator
) -> Array:
    """d_si with mean 0 apart from the shift, ``[A, S, n]``."""
    person = (shape[0], 1, shape[2])
    if cell.metric == "loss":
        ours, theirs = rng.exponential(size=person) - 1, rng.normal(size=shape)
        return LOSS_SD * (cell.stable**0.5 * ours + (1 - cell.stable) ** 0.5 * theirs) + shift
    latent = cell.stable**0.5 * rng.normal(size=person) + (1 - cell.stable) ** 0.5 * rng.normal(
        size=shape
    )
    lost = latent < stats.norm.ppf(np.clip(cell.lost + shift, 1e-4, 0.9))
    gained = latent > stats.norm.ppf(1 - cell.gained)
    return lost * 1.0 - gained - (cell.lost - cell.gained)


Form = Callable[[Spreads, float, float, int], Array]
# Squares of half-widths from t and z at one level. V_rec - V_shared is what records put into
# V_seed.
FORMS: Mapping[str, Form] = {
    "report": lambda v, t, z, s: t**2 * v.seed + z**2 * v.shared,
    "twice": lambda v, t, z, s: t**2 * v.seed + z**2 * v.records,
    "less V_rec": lambda v, t, z, s: t**2 * np.maximum(v.seed - v.records, 0) + z**2 * v.records,
    "less excess": lambda v, t, z, s: (
        t**2 * np.maximum(v.seed - v.records + v.shared, 0) + z**2 * v.records
    ),
    "one t": lambda v, t, z, s: (
        stats.t.ppf(stats.norm.cdf(z), (s - 1) * ((v.seed + v.shared) / v.seed.clip(1e-30)) ** 2)
        ** 2
        * (v.seed + v.shared)
    ),
    "seeds only": lambda v, t, z, s: t**2 * v.seed,
}


def covered(cell: Cell, found: Spreads) -> dict[str, tuple[float, float]]:
    """Form -> (share of audits whose intervals all hold, mean half-width).

    Bonferroni over pairs.
    """
    level = 1 - 0.025 / found.value.shape[1]
    t, z = stats.t.ppf(level, cell.seeds - 1), stats.norm.ppf(level)
    halves = {name: np.sqrt(form(found, t, z, cell.seeds)) for name, form in FORMS.items()}
    return {
        name: (float((np.abs(found.value) <= half).all(1).mean()), float(half.mean()))
        for name, half in halves.items()
    }


SEEDS = (3, 5, 10, 20)


GATED = (700, 700)  # a gate reads a loss from 200 records of a group, also on a fixed split


def cells() -> dict[str, list[Cell]]:
    """Family -> its cells."""
    both = (False, True)
    sds, stables = (0.0, 0.5, 1.0, 2.0), (0.0, 0.5, 1.0)
    accuracy = [
        Cell(*of, "accuracy", sd, stable)
        for *of, sd, stable in itertools.product(SEEDS, both, sds, stables)
    ]
    loss = [
        Cell(*of, "loss", sd, stable, sizes=GATED)
        for *of, sd, stable in itertools.product(SEEDS, both, (0.0, 1.0), (0.0, 1.0))
    ]
    mixed = [Cell(s, fixed, seed_sd=sd) for s in SEEDS for fixed in both for sd in (0.5, 1.0, 2.0)]
    far = [Cell(s, fixed, seed_sd=5.0) for s in SEEDS for fixed in both]
    skewed, skewed_far = (
        [replace(c, shape="exponential") for c in group] for group in (mixed, far)
    )
    return {
        "accuracy": accuracy,
        "loss": loss,
        "small groups": [replace(c, sizes=(420, 40)) for c in mixed],
        "one group alone": [replace(c, sizes=(420,)) for c in mixed],
        "rarely a difference": [
            replace(c, lost=0.01, gained=0.01, seed_sd=0.5, stable=stable)
            for c in mixed
            for stable in (0.5, 1.0)
            if c.seed_sd == 0.5
        ],
        "loss of small groups, not gated": [
            replace(c, metric="loss", sizes=(420, 100)) for c in mixed
        ],
        "five groups, all pairs at once": [
            replace(c, sizes=(300, 200, 120, 120, 100)) for c in mixed
        ],
        "exponential seeds in both groups": [*skewed, *skewed_far],
        "exponential seeds in one group": [replace(c, skewed=(1,)) for c in skewed],
        "exponential seeds, one group alone": [
            replace(c, skewed=(0,), sizes=(420,)) for c in skewed
        ],
        "far larger exponential seeds in one group": [replace(c, skewed=(1,)) for c in skewed_far],
        "rarely bad seeds in one group": [
            replace(c, shape="bad", skewed=(1,)) for c in (*mixed, *far)
        ],
    }


def main() -> None:
    """Print a table per family.

    Per number of seeds and size of seed effects, the least of its cells.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--audits", type=int, default=4000)
    parser.add_argument("--cells", default="", help="families whose name starts so")
    options = parser.parse_args()
    for family, members in cells().items():
        if not family.startswith(options.cells):
            continue
        began, rows = time.process_time(), {}
        for number, cell in enumerate(members):
            rng = np.random.default_rng([7, number])
            found = covered(cell, simulate(cell, options.audits, rng))
            rows.setdefault((cell.seeds, cell.seed_sd), []).append(found)
        print(
            f"\n{family}: {options.audits} audits a cell; least coverage (mean width, 'twice' = 1)"
        )
        print(
            f"{'seeds':>5} {'seed sd':>7} {'cells':>5}  " + "".join(f"{name:>16}" for name in FORMS)
        )
        for (seeds, sd), several in rows.items():
            print(f"{seeds:5d} {sd:7.1f} {len(several):5d}  " + _told(several))
        every = [found for several in rows.values() for found in several]
        print(
            f"{'all':>5} {'':7} {len(every):5d}  "
            + _told(every)
            + f"   {time.process_time() - began:.0f} s"
        )


def _told(several: Sequence[Mapping[str, tuple[float, float]]]) -> str:
    told = []
    for name in FORMS:
        least = min(found[name][0] for found in several)
        width = np.mean([found[name][1] / found["twice"][1] for found in several])
        told.append(f"{least:9.3f} ({width:.2f})")
    return "".join(f"{text:>16}" for text in told)


if __name__ == "__main__":
    main()
