"""How often `fairaudit choose` recommends what breaks the rule, and what it costs in seeds.

    python benchmarks/choosing.py [--audits 2000]

Audits are drawn as in benchmarks/coverage.py, record by record and with no training, and decided by
the code of the command: the gap of each method at each epsilon is known, and a recommendation whose
true gap is not below the limit is wrong. Beside it stand broken twins and an oracle that knows the
standard deviations.
"""

import argparse
import importlib.util
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fairaudit.choosing.sequence import FUTILITY, Course, Number
from fairaudit.choosing.tested import Outcome


def _beside(name: str):
    spec = importlib.util.spec_from_file_location(
        f"{name}_study", Path(__file__).with_name(f"{name}.py")
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


coverage = _beside("coverage")
Array = NDArray[np.float64]
FAR, NEAR = 1.0, 0.10  # limits: where the sign of a gap is sure, and one that reports really have
LOOKS = (10, 20)
AT_ONCE = 100


@dataclass(frozen=True)
class World:
    """What is true.

    Args:
        below: How far the gap of each method lies below the limit, by falling epsilon; 0 is the
            worst case.
        cell: How records and seeds vary. limit: The rule's.
    """

    below: tuple[tuple[float, ...], ...]
    cell: object
    limit: float = FAR


class Looked(NamedTuple):
    """One arm in A audits at one look, ``[A]`` each; ``value`` is the gap with its sign."""

    value: Array
    seed: Array
    own: Array
    records: Array
    limit: float


Drawn = Mapping[str, Mapping[int, Looked]]  # arm -> seeds -> what was measured


def arms_of(world: World) -> dict[str, list[str]]:
    """Method -> its arms, the largest epsilon first."""
    return {f"m{i}": [f"m{i}@{j}" for j in range(len(gaps))] for i, gaps in enumerate(world.below)}


def draw(
    world: World, audits: int, rng: np.random.Generator, looks: Sequence[int] = LOOKS
) -> Drawn:
    """Audits in which later looks keep the seeds of earlier ones."""
    found: dict[str, dict[int, Looked]] = {}
    sizes = [min(AT_ONCE, audits - start) for start in range(0, audits, AT_ONCE)]
    for family, below in zip(arms_of(world).values(), world.below, strict=True):
        for arm, part in zip(family, below, strict=True):
            drawn = [_looked(world.cell, world.limit - part, size, rng, looks) for size in sizes]
            found[arm] = {
                seeds: Looked(
                    *(np.concatenate([d[seeds][k] for d in drawn]) for k in range(4)), world.limit
                )
                for seeds in looks
            }
    return found


def _looked(
    cell, gap: float, audits: int, rng: np.random.Generator, looks: Sequence[int]
) -> dict[int, tuple[Array, Array, Array, Array]]:
    cell = replace(cell, seeds=max(looks))
    groups = []
    for k, n in enumerate(cell.sizes):
        tested = round(n * coverage.TESTED)
        width = tested if cell.fixed_split else n
        shift = coverage._seed_effects(cell, k, tested, audits, rng)[:, :, None]
        d = coverage._differences(cell, (audits, cell.seeds, width), shift, rng)
        mask = np.ones(d.shape, dtype=bool)
        if not cell.fixed_split:
            ranks = rng.random(d.shape, dtype=np.float32)
            mask = ranks <= np.partition(ranks, tested - 1, axis=2)[:, :, tested - 1 : tested]
        groups.append((d, mask))
    found = {}
    for seeds in looks:
        reduced = [
            coverage.reduced(d[:, :seeds], mask[:, :seeds], cell.metric) for d, mask in groups
        ]
        value, seed, _, records = coverage.contrast(*reduced)
        own = np.maximum(0.0, sum(group.records - group.shared for group in reduced))
        found[seeds] = value + gap, seed, own, records
    return found


Judge = Callable[[Looked, int, int, float], Outcome]  # what was measured, which audit, seeds, level


def number_of(looked: Looked, i: int, seeds: int) -> Number:
    """What the command makes of one audit."""
    own, records = looked.own[i], looked.records[i]
    return Number(abs(looked.value[i]), looked.seed[i], own, records, seeds, is_size=True)


def _judged(looked: Looked, number: Number, level: float) -> Outcome:
    return number.judged(lambda value: value > looked.limit, fails_above=True, level=level)


def as_built(looked: Looked, i: int, seeds: int, level: float) -> Outcome:
    """The command's own judgement."""
    return _judged(looked, number_of(looked, i, seeds), level)


def _by_student(looked: Looked, number: Number, level: float) -> Outcome:
    if number.plain_limits(level).high <= looked.limit:
        return "passes"
    return "breaks" if number.plain_limits(FUTILITY).low > looked.limit else "undecided"


def student(looked: Looked, i: int, seeds: int, level: float) -> Outcome:
    """Broken: the quantile of normal effects of seeds."""
    return _by_student(looked, number_of(looked, i, seeds), level)


def narrow(looked: Looked, i: int, seeds: int, level: float) -> Outcome:
    """Broken: that quantile, and V_rec is taken off V_seed.

    As if seeds told nothing of their own.
    """
    number = number_of(looked, i, seeds)
    left = max(0.0, number.seed_variance - number.record_variance)
    return _by_student(looked, number._replace(seed_variance=left), level)


def seeds_alone(looked: Looked, i: int, seeds: int, level: float) -> Outcome:
    """Broken: test records are forgotten."""
    return _judged(looked, number_of(looked, i, seeds)._replace(record_variance=0.0), level)


def at_five_per_cent(looked: Looked, i: int, seeds: int, level: float) -> Outcome:
    """Broken: methods and looks are not corrected for."""
    return as_built(looked, i, seeds, 0.05)


def point_alone(looked: Looked, i: int, seeds: int, level: float) -> Outcome:
    """Broken: a sweep read by eye."""
    return "breaks" if abs(looked.value[i]) > looked.limit else "passes"


class Result(NamedTuple):
    """Of A audits: share with a wrong recommendation.

    With the best right one, mean seeds per arm tested.
    """

    wrong: float
    best: float
    seeds: float


def decide(
    world: World,
    drawn: Drawn,
    judge: Judge = as_built,
    *,
    looks: tuple[int, ...] = LOOKS,
    upward: bool = False,
) -> Result:
    """Every audit by the course of the command.

    ``upward``: the twin that begins at the smallest epsilon.
    """
    arms = arms_of(world)
    below = dict(
        zip(
            (arm for family in arms.values() for arm in family),
            (part for parts in world.below for part in parts),
            strict=True,
        )
    )
    audits = len(next(iter(drawn.values()))[looks[0]].value)
    wrong = best = spent = 0
    for i in range(audits):
        course = Course(arms, looks)
        used: dict[str, int] = {}
        if upward:
            passed = {
                f: _from_below(family, drawn, judge, i, looks, course.level, used)
                for f, family in arms.items()
            }
        else:
            while due := course.due():
                for seeds, waiting in due.items():
                    for arm in waiting:
                        used[arm] = seeds
                        course.enter(arm, judge(drawn[arm][seeds], i, seeds, course.level))
            passed = {family: kept[-1:] for family, kept in course.passed.items()}
        recommended = [arm for kept in passed.values() for arm in kept]
        wrong += any(below[arm] <= 0 for arm in recommended)
        best += all(kept[-1:] == _smallest(arms[family], below) for family, kept in passed.items())
        spent += sum(used.values())
    return Result(wrong / audits, best / audits, spent / audits)


def _from_below(family, drawn, judge, i, looks, level, used) -> list[str]:
    for arm in reversed(family):
        for seeds in looks:
            used[arm] = seeds
            outcome = judge(drawn[arm][seeds], i, seeds, level)
            if outcome == "passes":
                return [arm]
            if outcome == "breaks":
                break
    return []


def _smallest(family: Sequence[str], below: Mapping[str, float]) -> list[str]:
    kept: list[str] = []
    for arm in family:
        if below[arm] <= 0:
            break
        kept = [arm]
    return kept


def oracle(drawn: Drawn) -> Judge:
    """Judges by the true standard deviations, at the same looks and the same level."""
    sds = {
        (id(looked)): float(looked.value.std()) for by in drawn.values() for looked in by.values()
    }

    def judge(looked: Looked, i: int, seeds: int, level: float) -> Outcome:
        value, sd = abs(looked.value[i]), sds[id(looked)]
        if value + stats.norm.ppf(1 - level) * sd <= looked.limit:
            return "passes"
        return "breaks" if value - stats.norm.ppf(1 - FUTILITY) * sd > looked.limit else "undecided"

    return judge


AT_LIMIT = ((0.0,), (0.0,))
STEP_DOWN = ((0.5, 0.0), (0.5, 0.0))
BUMP = ((0.5, 0.0, 0.5), (0.5, 0.0, 0.5))  # not falling, not rising: the smallest would pass alone
EASIER = {"half the limit": 0.5, "a quarter": 0.25, "none": 0.0}  # of gaps in accuracy


def cells() -> dict[str, object]:
    """How seeds vary: shape, and size beside that of one seed's test rows."""
    base = steady(skewed=(0,))  # in one group alone nothing makes up for the skew
    return {
        f"{shape}, {sd:g}{' fixed split' if fixed else ''}": replace(
            base, shape=shape, seed_sd=sd, fixed_split=fixed
        )
        for shape in ("normal", "exponential")
        for sd in (0.5, 1.0, 2.0, 5.0, 20.0)
        for fixed in ((False, True) if sd in (1.0, 5.0) else (False,))
    }


def bad(sd: float) -> object:
    """15 % of the trainings of one group are far worse."""
    return steady(shape="bad", skewed=(0,), seed_sd=sd)


def steady(**kept: object) -> object:
    """A cell of a measure without ends.

    A share cannot fall below 0, so large effects would move its mean.
    """
    return coverage.Cell(20, metric="loss", **kept)


def main() -> None:
    """The tables of benchmarks/README.md, "Choices"."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--audits", type=int, default=2000)
    audits = parser.parse_args().audits
    rng = np.random.default_rng(19)
    start = time.perf_counter()
    print(
        f"wrong recommendations, {audits:,} audits; 2 methods, looks at 10 and 20 seeds, at most 5 "
        "%"
    )
    print(f"{'seeds':34s} {'at the limit':>13s} {'later epsilon':>14s} {'one group alone':>16s}")
    for name, cell in {**cells(), "15 % bad, 1": bad(1.0), "15 % bad, 5": bad(5.0)}.items():
        alone = World(AT_LIMIT, replace(cell, sizes=cell.sizes[:1]))
        worlds = *(World(truth, cell) for truth in (AT_LIMIT, STEP_DOWN)), alone
        wrong = [decide(world, draw(world, audits, rng)).wrong for world in worlds]
        print(f"{name:34s} {wrong[0]:13.3f} {wrong[1]:14.3f} {wrong[2]:16.3f}", flush=True)
    bump = World(BUMP, cells()["exponential, 5"])
    wrong = decide(bump, draw(bump, audits, rng)).wrong
    print(f"exponential, 5, an epsilon below a broken one keeps the limit again: {wrong:.3f}")
    print("\nbroken twins; 2 methods, 3 epsilons, all at the limit; one group's cost")
    far = ((0.0,) * 3, (0.0,) * 3)
    twins = {
        "as built": as_built,
        "no correction": at_five_per_cent,
        "records forgotten": seeds_alone,
        "Student's t": student,
        "V_rec taken off": narrow,
        "by eye": point_alone,
    }
    for shape, sd in (("normal", 0.5), ("normal", 5.0), ("exponential", 5.0)):
        cell = steady(skewed=(0,), shape=shape, seed_sd=sd)
        world = World(far, replace(cell, sizes=cell.sizes[:1]))
        drawn = draw(world, audits, rng)
        for name, judge in twins.items():
            print(
                f"{f'{shape}, {sd:g}: {name}':34s} {decide(world, drawn, judge).wrong:14.3f}",
                flush=True,
            )
        up = decide(world, drawn, upward=True).wrong
        print(f"{f'{shape}, {sd:g}: smallest epsilon first':34s} {up:14.3f}", flush=True)
    print("\npower and seeds beside an oracle of the same looks and level; 1 method, 1 epsilon")
    print(
        f"{'true gap, seeds':34s} {'power':>7s} {'oracle':>7s} {'seeds':>7s} {'oracle':>7s} "
        f"{'ratio':>6s}"
    )
    for told, part in EASIER.items():
        for name in ("normal, 0.5", "normal, 1", "normal, 2", "exponential, 1"):
            world = World((((1 - part) * NEAR,),), replace(cells()[name], metric="accuracy"), NEAR)
            drawn = draw(world, audits, rng)
            ours, best = decide(world, drawn), decide(world, drawn, oracle(drawn))
            ratio = ours.seeds / best.seeds if best.seeds else math.nan
            print(
                f"{told + ', ' + name:34s} {ours.best:7.3f} {best.best:7.3f} {ours.seeds:7.1f} "
                f"{best.seeds:7.1f} {ratio:6.2f}",
                flush=True,
            )
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
