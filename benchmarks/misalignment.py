"""What reports say of misalignment where groups were drawn by coin flips, or differ as planted.

    python benchmarks/misalignment.py words FILE [--audits 600]
    python benchmarks/misalignment.py planted FILE [--audits 200]
    python benchmarks/misalignment.py converged FILE [--audits 200]
    python benchmarks/misalignment.py coverage FILE [--audits 500]
    python benchmarks/misalignment.py own-steps FILE [--audits 500]

Audits are small, of tables drawn anew for each: logistic regression with DP-SGD at a bound that
clips half of the records, five seeds. Each leaves one line of JSON in FILE; a second call goes on
after the last.

`words`: three groupings by coin flips of shares .5, .1 and .02; an audit counts where any sentence
tells two groups' misalignments apart.

`planted`: two groups of 1,000 training rows whose misalignments differ by about ten degrees: tables
drawn anew by the mechanism of the sample (``sample_data/make_loans.py``), half of the rows women.

`converged`: two such groups whose outcomes follow different columns, so that no model is right for
both, read while training goes nowhere any more: there a batch's gradient is mostly chance.

`coverage`: how often intervals hold what they are about. Files are drawn from a population whose
group gradients are known; five seeds split each file, train with clipping and noise by a loop of
this script's own, and the program's own functions read four checkpoints. The truth of a file is the
reading with the population's gradients in place of the sample's, at the same steps and batches.
Groups have 1,350, 150 and 60 rows. Steps are those of a second file, for intervals are about given
steps and new people.

`own-steps`: the same with steps of the file itself, as in an audit. There training has fitted the
very rows whose gradients are read.
"""

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from fairaudit.analysis.disclosure import Disclosure
from fairaudit.analysis.family import reported
from fairaudit.analysis.measure import measured
from fairaudit.analysis.misalignment import ArmSteps
from fairaudit.audit import prepare
from fairaudit.config.value_sources import resolve_config
from fairaudit.diagnostics.amount import Amount
from fairaudit.diagnostics.checkpoints import BlockSums
from fairaudit.diagnostics.misalignment import Cut, CutReader, angles, blocks_of
from fairaudit.diagnostics.step_batches import StepBatches
from fairaudit.diagnostics.step_terms import StepProducts, Turns
from fairaudit.execution import worker
from fairaudit.metrics.intervals import contrast, estimate
from fairaudit.results.steps import BATCHES, BLOCKS, TURNED, array_name

sys.path.insert(0, str(Path(__file__).parents[1] / "sample_data"))
from make_loans import Mechanism, make

WIDTH, SEEDS = 6, 5
TOLD = "misalignment"


def people(
    rng: np.random.Generator, count: int, *, apart: bool = False, longer: float = 1.0
) -> pd.DataFrame:
    """A table of two groups of equal size.

    Args:
        rng: Draws it.
        count: Rows.
        apart: Whether the groups' outcomes follow different columns, so that no linear model is
            right for both and each keeps a gradient of its own.
        longer: How many times as long the first group's inputs are, so that it is clipped more.
    """
    first = rng.random(count) < 0.5
    x = rng.normal(size=(count, WIDTH)) * np.where(first, longer, 1.0)[:, None]
    law = np.zeros((2, WIDTH))
    law[0, :2], law[1, 2:4] = 1.5, 1.5
    own = law[np.where(first, 0, 1)] if apart else np.tile(law.sum(0) / 2, (count, 1))
    chance = 1 / (1 + np.exp(-(x * own).sum(1) - 0.3))
    frame = pd.DataFrame(x, columns=[f"x{i}" for i in range(WIDTH)])
    frame["y"] = (rng.random(count) < chance).astype(int)
    frame["group"] = np.where(first, "a", "b")
    return frame


def audited(frame: pd.DataFrame, groups: list[str], folder: str, **options: object):
    """An audit of the table in this process: its plan, data and finished trainings."""
    path = Path(folder) / "people.parquet"
    frame.to_parquet(path)
    given = {
        "data": str(path),
        "label": "y",
        "group": groups,
        "method": ["dpsgd"],
        "max_grad_norm": 1.0,
        "epsilon": [8.0],
        "batch_size": 100,
        "epochs": 5,
        "seeds": SEEDS,
        "twins": "off",
    }
    made = prepare(resolve_config({**given, **options}))
    results = {}
    for job in made.plan.jobs:
        results[job.id] = worker.run_job(made.plan, job, None, made.inputs)
    return replace(made, results=results)


def told(audit) -> tuple[list[str], float]:
    """The groupings whose groups' misalignments are told apart, and the first one's difference."""
    compared, _ = reported(measured(audit).comparisons, Disclosure())
    words, difference = [], math.nan
    for comparison in compared:
        for gap in comparison.gaps:
            if gap.metric == TOLD and gap.kind == "pair":
                if gap.reading == "detected":
                    words.append(comparison.grouping)
                if math.isnan(difference) and gap.signed.value is not None:
                    difference = gap.signed.value
    return words, difference


def words(number: int, folder: str) -> dict[str, object]:
    """One audit of groups by coin flips."""
    rng = np.random.default_rng([1, number])
    frame = people(rng, 2000).drop(columns="group")
    shares = {"half": 0.5, "tenth": 0.1, "fiftieth": 0.02}
    for name, share in shares.items():
        frame[name] = np.where(rng.random(len(frame)) < share, "a", "b")
    found, _ = told(audited(frame, list(shares), folder))
    return {"told": found}


def planted(number: int, folder: str) -> dict[str, object]:
    """One audit of women and men whose misalignments differ, of the sample's mechanism."""
    frame = make(Mechanism(seed=1_000 + number, rows=2_666, women=1_333))
    frame = frame.drop(columns=["applicant_id", "race"])
    found, difference = told(audited(frame, ["sex"], folder, **PLANTED))
    return {"told": found, "difference": difference}


def converged(number: int, folder: str) -> dict[str, object]:
    """One audit of groups whose misalignments differ, near convergence."""
    rng = np.random.default_rng([2, number])
    frame = people(rng, 2500, apart=True, longer=CONVERGED)
    found, difference = told(audited(frame, ["group"], folder, batch_size=250, epochs=80))
    return {"told": found, "difference": difference}


POPULATION, ROWS, SHARES = 40_000, 1_560, (1_350, 150, 60)
CHECKPOINTS = (20, 60, 100, 140)
READ = ("misalignment", "direction")


class Population(NamedTuple):
    """A large table of three groups with laws of their own.

    Args:
        x: Inputs, the last of them 1, [N, P].
        y: Outcomes, [N].
        groups: [N], equally many of each.
    """

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    groups: NDArray[np.int64]

    @classmethod
    def drawn(cls) -> "Population":
        """The one population of all files."""
        rng = np.random.default_rng([3, 0])
        groups = np.arange(POPULATION) % 3
        law = rng.normal(size=(3, WIDTH))
        x = rng.normal(size=(POPULATION, WIDTH)) * np.array([1.0, 1.5, 1.2])[groups, None]
        y = rng.random(POPULATION) < 1 / (1 + np.exp(-(x * law[groups]).sum(1)))
        return cls(np.c_[x, np.ones(POPULATION)], y.astype(float), groups)

    def gradients(self, rows: NDArray[np.int64], theta: NDArray[np.float64]):
        """Gradients of some rows' losses, [n, P]."""
        x = self.x[rows]
        return (1 / (1 + np.exp(-x @ theta)) - self.y[rows])[:, None] * x


def clipped(gradients):
    """Each of at most length 1."""
    lengths = np.linalg.norm(gradients, axis=1, keepdims=True)
    return gradients / np.maximum(1.0, lengths)


def coverage(number: int, folder: str, *, own_steps: bool = False) -> dict[str, object]:
    """One file: its estimates with their ends, and the truth.

    Args:
        number: Of the file; folder: not used.
        own_steps: Whether training is on the file itself, else on another one.
    """
    del folder
    everybody = Population.drawn() if not _POPULATION else _POPULATION[0]
    _POPULATION[:] = [everybody]
    rng = np.random.default_rng([4, number])
    file, other = (
        np.concatenate(
            [
                rng.choice(np.flatnonzero(everybody.groups == k), n, False)
                for k, n in enumerate(SHARES)
            ]
        )
        for _ in range(2)
    )
    trained = file if own_steps else other
    of_file = everybody.groups[file]
    blocks = blocks_of(of_file, 0)
    read, truth = {}, {name: [] for name in READ}
    for seed in range(SEEDS):
        train = np.sort(rng.permutation(ROWS)[: ROWS * 3 // 4])
        theta, of_seed = np.zeros(WIDTH + 1), []
        for step in range(CHECKPOINTS[-1] + 1):
            if step in CHECKPOINTS:
                which = file[train], trained[train], blocks[train]
                of_seed.append(read_step(everybody, *which, theta, rng))
            taken = everybody.gradients(trained[train[rng.random(len(train)) < 0.1]], theta)
            noise = rng.normal(size=theta.shape) * 2.0
            theta = theta - 0.5 * (clipped(taken).sum(0) + noise) / (0.1 * len(train))
        arrays, true = zip(*of_seed, strict=True)
        read[seed] = {
            array_name(0, name): torch.stack([one[name] for one in arrays]) for name in arrays[0]
        } | {array_name(0, "rows"): np.array([*np.bincount(of_file[train]), len(train)], float)}
        for name in READ:
            truth[name].append(np.nanmean([one[name] for one in true], axis=0))
    steps = ArmSteps.__new__(ArmSteps)
    steps.number, steps.groups, steps.of_seed, steps.steps = 0, 3, read, CHECKPOINTS
    found: dict[str, list] = {}
    for name in READ:
        table = steps.table({"direction": TURNED}.get(name, name), "", (-math.inf, math.inf))
        true = np.mean(truth[name], axis=0)
        for k in range(3):
            one = estimate(contrast(table, k, None))
            found[f"{name} of {SHARES[k]} rows"] = [one.value, one.low, one.high, true[k]]
        one = estimate(contrast(table, 0, 1))
        found[f"{name}, {SHARES[0]} less {SHARES[1]} rows"] = [
            *(one.value, one.low, one.high),
            true[0] - true[1],
        ]
    return found


_POPULATION: list[Population] = []


def read_step(everybody: Population, rows, trained, blocks, theta, rng):
    """The readings of one step, and the same with the population's gradients.

    Args:
        everybody: The population.
        rows: The records whose gradients are read, in it.
        trained: Those that are trained on, as many.
        blocks: Blocks of the first.
        theta: The model.
        rng: Draws the batches.

    Returns:
        Of each reading [1, K + 1, J] of the sample, and [K] of the population.
    """
    size = 0.1 * len(rows)
    drawn = [trained[rng.random(len(rows)) < 0.1] for _ in range(BATCHES)]
    taken = [everybody.gradients(one, theta) for one in drawn]
    sums = [(one.sum(0) / size, clipped(one).sum(0) / size) for one in taken]
    batches = StepBatches(
        *(torch.from_numpy(np.stack(one))[None] for one in zip(*sums, strict=True))
    )
    groups = everybody.groups[rows]
    cut = Cut(torch.from_numpy(groups), torch.from_numpy(blocks), 3)
    # All rows are read, so that nothing of a training is asked for but the seed of a sample.
    everything = Amount((), (), rows=3 * len(rows))
    reader = CutReader(cut, SimpleNamespace(seed=0), everything, 1)
    every = everybody.gradients(rows, theta)
    of_sample = [block_sums(every[groups == k], blocks[groups == k]) for k in range(3)]
    of_all = []
    for k in range(3):
        mean = everybody.gradients(np.flatnonzero(everybody.groups == k), theta).mean(0)
        # Of records with equal gradients every block has the same mean, and chance adds nothing.
        of_all.append(block_sums(np.tile(mean, (BLOCKS, 1)), np.arange(BLOCKS)))
    found, true = (readings(reader, one, batches) for one in (of_sample, of_all))
    arrays = {"misalignment": found["misalignment"], TURNED: found["direction"]}
    return arrays, {name: value[0, :3, 0].numpy() for name, value in true.items()}


def block_sums(gradients: NDArray[np.float64], blocks: NDArray[np.int64]) -> BlockSums:
    """A group's sums by block, as the program reads them; those of clipped gradients are 0.

    Args:
        gradients: Of the group's records, [n, P].
        blocks: Block of each record, [n].
    """
    members = (np.arange(BLOCKS)[:, None] == blocks).astype(float)  # [BLOCKS, n]
    none = torch.zeros(1, BLOCKS).double()
    return BlockSums(
        gradients=torch.from_numpy(members @ gradients)[None],
        counts=torch.from_numpy(members.sum(1)),
        squares=torch.from_numpy(members @ (gradients**2).sum(1))[None],
        norms=none,
        ratios=none,
        clipped=none,
        processed=torch.zeros(1, gradients.shape[1]).double(),
    )


def readings(
    reader: CutReader, of_groups: Sequence[BlockSums], batches: StepBatches
) -> dict[str, torch.Tensor]:
    """Degrees and direction of each group and, last, of all records, [1, K + 1, J] each.

    Direction is <g_a, E (rho g_B - gbar_B)> over these batches: what turning is worth to a group,
    to first order.

    Args:
        reader: Of the grouping.
        of_groups: Sums of each group.
        batches: Those of the step.
    """
    means = reader.means(of_groups)
    plain, clipped = (means.products(vectors) for vectors in batches)
    degrees = angles(means, (plain, clipped), batches.lengths)["misalignment"]
    # No known expectations: the intervals are about the batches that were drawn.
    products = StepProducts(plain, clipped, batches.shrinkage, None)
    unclipped = torch.ones(1).double()
    return {"misalignment": degrees, "direction": Turns.of(products, unclipped).direction}


# Differences of about ten degrees: the bound, and how much longer one group's inputs are.
PLANTED = {
    "label": "approved",
    "max_grad_norm": 2.5,
    "epsilon": [3.0],
    "batch_size": None,
    "epochs": None,
}
CONVERGED = 1.2


def summary(kind: str, lines: list[dict]) -> str:
    """The figures of all audits so far."""
    from scipy.stats import beta

    count = len(lines)
    if kind in ("coverage", "own-steps"):
        return "\n".join(covered(name, [line[name] for line in lines]) for name in lines[0])
    hits = sum(bool(line["told"]) for line in lines)
    upper = beta.ppf(0.95, hits + 1, count - hits)
    text = f"{count} audits: told in {hits} ({hits / count:.3f}; upper exact limit {upper:.3f})"
    if kind in ("planted", "converged"):
        text += f"; mean difference {np.mean([line['difference'] for line in lines]):.1f} degrees"
    return text


def covered(name: str, found: list[list[float | None]]) -> str:
    """How often an interval held the truth, where there is one."""
    known = [one for one in found if one[1] is not None]
    if not known:
        return f"{name}: undefined in all of {len(found)}"
    value, low, high, true = np.array(known, float).T
    held = ((low <= true) & (true <= high)).mean()
    return (
        f"{name}: held in {held:.3f} of {len(known)} (undefined in {len(found) - len(known)}); "
        f"truth {true.mean():.4g} (sd {true.std():.2g}), error {(value - true).mean():.2g} "
        f"(sd {(value - true).std():.2g}), half width {np.mean(high - low) / 2:.2g}"
    )


KINDS: dict[str, Callable[[int, str], dict[str, object]]] = {
    "words": words,
    "planted": planted,
    "converged": converged,
    "coverage": coverage,
    "own-steps": partial(coverage, own_steps=True),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=list(KINDS))
    parser.add_argument("file", type=Path)
    parser.add_argument("--audits", type=int, default=600)
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    done = given.file.read_text().splitlines() if given.file.exists() else []
    run = KINDS[given.kind]
    with given.file.open("a") as file:
        for number in range(len(done), given.audits):
            with tempfile.TemporaryDirectory() as folder:
                line = json.dumps(run(number, folder))
            file.write(line + "\n")
            file.flush()
            done.append(line)
    print(summary(given.kind, [json.loads(line) for line in done]))


if __name__ == "__main__":
    main()
