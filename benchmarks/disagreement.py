"""How often intervals of what is decided by chance hold, and what a report tells of it.

    python benchmarks/disagreement.py trained --out FOLDER [--data german.parquet]
    python benchmarks/disagreement.py worlds [--audits 600]
    python benchmarks/disagreement.py coins [--audits 600]
    python benchmarks/disagreement.py power [--audits 400]

``trained``: each method is trained 100 times on one split of the sample, of a table that is made
here, and of UCI German credit, if that file is given (its columns ``sex`` and ``credit_risk``).
What all pairs of the 100 say of the test rows is the truth. 500 times five (three, ten) of them
are drawn, once on all test rows and once on as many drawn from them with replacement, as from a
population: the mean of the estimates less the truth and their standard deviation, how often the
95 % interval holds, and half its width. Trainings are kept in the folder: a run that was stopped
goes on.

``worlds``: trainings and people are drawn afresh for each audit from laws that are known, so that
nothing is shared between audits. ``coins``: the private law is that of the reference, and groups
are coin flips: in how many audits anything is told, by the two claims alone (``alone``) and beside
all else that a report judges (``report``). ``power``: the same of groups of 1,000 people whose
shares differ by five points.

Everything goes through the audit's own code: `with_disagreement`, `family`, the study's findings.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import beta

import fairaudit
from fairaudit.analysis.disclosure import Disclosure
from fairaudit.analysis.family import family
from fairaudit.config.options import AuditConfig
from fairaudit.data.dataset import Grouping
from fairaudit.data.tabular import load_dataset
from fairaudit.disagreement.measure import Answered, with_disagreement
from fairaudit.metrics.compare import FIXED_SPLIT, Evaluation, compare
from fairaudit.metrics.disagreement import disagreement_tables, pairs
from fairaudit.metrics.intervals import EvaluatedRecords, contrast
from fairaudit.metrics.within_model import ArmPredictions, LabelOutcome, predicted_class
from fairaudit.planning.plan import make_plan
from fairaudit.report.measures import is_detected, main_gap
from fairaudit.results.estimates import Comparison
from fairaudit.results.jobs import JOBS, read_result

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
ROOT = Path(__file__).resolve().parents[1]
TRAININGS, DRAWS = 100, 500
OWN, COST = "disagreement", "disagreement_cost"


# --- models that are really trained


def made_table(rows: int = 8_000) -> pd.DataFrame:
    """A table of three groups whose outcome follows eight numbers in three ways."""
    rng = np.random.default_rng(46)
    group = rng.choice(["a", "b", "c"], rows, p=[0.6, 0.3, 0.1])
    k = pd.Categorical(group).codes
    x = rng.normal(size=(rows, 8)) * np.array([1.0, 1.3, 0.7])[k][:, None]
    x[:, 0] += np.array([0.0, 0.6, -0.6])[k]
    ways = [[1, 0.5, 0.3, 0, 0, 0, 0.2, 0], [0.6, -0.5, 0.3, 0.4, 0, 0, 0.2, 0]]
    weights = np.array([*ways, [0.2, 0.5, -0.8, 0, 0.5, 0, 0.2, 0]])
    logit = (x * weights[k]).sum(1) + np.array([-0.2, 0.3, 0.0])[k]
    answer = np.where(rng.random(rows) < 1 / (1 + np.exp(-logit)), "yes", "no")
    columns = [f"x{i}" for i in range(8)]
    return pd.DataFrame(x, columns=columns).assign(group=group, answer=answer)


def files(out: Path, german: Path | None) -> Iterator[tuple[str, pd.DataFrame, dict[str, object]]]:
    """Name of each file, its table with a split, and the options of its audit."""

    def split(table: pd.DataFrame, share: float) -> pd.DataFrame:
        is_test = np.random.default_rng(0).random(len(table)) < share
        return table.assign(split=np.where(is_test, "test", "train"))

    sample = pd.read_parquet(ROOT / "sample_data" / "loans.parquet")
    of_sample = {"group": ["sex"], "label": "approved", "positive": "1", "drop": ["applicant_id"]}
    yield "sample", split(sample, 0.2), {**of_sample, "epsilon": [1.0, 3.0, 8.0]}
    of_made = {"group": ["group"], "label": "answer", "positive": "yes", "epsilon": [1.0]}
    yield "made", split(made_table(), 0.3), of_made
    if german is not None:
        of_german = {"group": ["sex"], "label": "credit_risk", "positive": "good"}
        of_german |= {"epsilon": [3.0], "drop": ["personal_status_sex", "age_group"]}
        yield "german", split(pd.read_parquet(german), 0.4), of_german


def trained(out: Path, german: Path | None) -> None:
    """Train, and print what five, three and ten of the trainings say beside all of them."""
    for name, table, options in files(out, german):
        out.mkdir(parents=True, exist_ok=True)
        path = out / f"{name}.parquet"
        table.to_parquet(path)
        every = {"data": path, "split_column": "split", "method": ["dpsgd"], "twins": "off"}
        every |= {"seeds": TRAININGS, "diagnostics": "off", "out": out / name, "format": ["json"]}
        fairaudit.run_audit(AuditConfig.model_validate({**every, **options, "workers": 1}))
        config = AuditConfig.model_validate({**every, **options})
        data = load_dataset(config)
        answers: dict[str, list[Ints]] = {}
        for job in make_plan(config, data).jobs:
            result = read_result(out / name / JOBS, job.id)
            assert result is not None
            rows = result.arrays["test_rows"].astype(np.int64)
            classes = predicted_class(result.arrays["probabilities"][:1].astype(np.float32))[0]
            answers.setdefault(job.arm, []).append(classes)
        grouping = data.groupings[0]
        order = np.argsort(grouping.groups[rows], kind="stable")
        sides = {arm: np.stack(given)[:, order] for arm, given in answers.items()}
        groups = grouping.groups[rows][order]
        for arm in sides:
            if arm != "sgd":
                of_draws(f"{name}, {arm}", grouping.names, groups, sides[arm], sides["sgd"])


def share(answers: Ints, groups: Ints, n_groups: int) -> Floats:
    """The share of each group that is decided by chance, from all pairs, ``[K]``."""
    counted = pairs(answers)
    of_person = counted.differing.sum(0) / counted.tested.sum(0)
    return np.bincount(groups, of_person, n_groups) / np.bincount(groups, minlength=n_groups)


def questions(names: tuple[str, ...], private: Floats, reference: Floats):
    """(words, table, a, b, truth) of every group, its cost, and both gaps of every pair."""
    cost = private - reference
    for k, name in enumerate(names):
        yield f"{name}", OWN, k, None, private[k]
        yield f"{name} without privacy", f"reference.{OWN}", k, None, reference[k]
        yield f"{name} added", COST, k, None, cost[k]
    for a in range(len(names)):
        for b in range(a + 1, len(names)):
            between = f"{names[a]} less {names[b]}"
            yield between, OWN, a, b, private[a] - private[b]
            yield f"{between} added", COST, a, b, cost[a] - cost[b]


def of_draws(title: str, names: tuple[str, ...], groups: Ints, private: Ints, reference: Ints):
    """Print how well some of the trainings tell what all of them tell."""
    rng = np.random.default_rng(0)
    true = [share(side, groups, len(names)) for side in (private, reference)]
    asked = list(questions(names, *true))
    people = np.bincount(groups, minlength=len(names))
    print(f"\n{title}: test rows {dict(zip(names, people.tolist(), strict=True))}")
    print(
        "of | trainings | truth | mean less truth | sd | half width | holds | people drawn: holds"
    )
    for trainings in (3, 5, 10):
        seen = [[] for _ in asked]
        for is_drawn in (False, True):
            for _ in range(DRAWS):
                chosen = rng.choice(len(private), trainings, replace=False)
                other = rng.choice(len(reference), trainings, replace=False)
                who = np.arange(len(groups))
                if is_drawn:
                    parts = [np.flatnonzero(groups == k) for k in range(len(names))]
                    who = np.concatenate([rng.choice(part, len(part)) for part in parts])
                records = EvaluatedRecords.of([np.arange(len(who))], groups, len(names))
                ours, theirs = private[chosen][:, who], reference[other][:, who]
                tables = disagreement_tables(ours, records, theirs)
                for place, (_, table, a, b, truth) in enumerate(asked):
                    spread = contrast(tables[table], a, b)
                    seen[place].append((is_drawn, spread.value - truth, spread.half_width()))
        for (words, *_, truth), found in zip(asked, np.array(seen), strict=True):
            drawn = found[:, 0] == 1
            off, half = found[:, 1], found[:, 2]
            holds = np.abs(off) <= half
            print(
                f"{words} | {trainings} | {100 * truth:.2f} | {100 * off[~drawn].mean():+.2f} "
                f"(se {100 * off[~drawn].std() / DRAWS**0.5:.2f}) | {100 * off[drawn].std():.2f} | "
                f"{100 * half[drawn].mean():.2f} | {holds[~drawn].mean():.3f} | "
                f"{holds[drawn].mean():.3f}",
                flush=True,
            )


# --- laws that are known


@dataclass(frozen=True)
class Law:
    """People and trainings: one who is x is answered 1 where w x + b > 0, with w, b of a training.

    Args:
        words: What is special about it.
        inputs: d.
        private, reference: How far weights are spread between trainings.
        people: Of each group.
        trainings: S.
        away: How far the middle of group 1 lies from the boundary, along the mean weights.
        flips: Whether coins decide the groups.
    """

    words: str
    inputs: int = 20
    private: float = 0.1
    reference: float = 0.05
    people: tuple[int, int] = (400, 400)
    trainings: int = 5
    away: float = 0.5
    flips: bool = False

    def population(self, size: tuple[int, int], rng: np.random.Generator) -> tuple[Floats, Ints]:
        """Inputs ``[n, d + 1]``, the last of them 1, and groups ``[n]``, sorted."""
        groups = np.repeat([0, 1], size)
        x = rng.normal(size=(len(groups), self.inputs))
        if not self.flips:
            x[groups == 1] += self.away * self.inputs**-0.5
        return np.append(x, np.ones((len(x), 1)), axis=1), groups

    def models(self, spread: float, count: int, rng: np.random.Generator) -> Floats:
        """Weights of some trainings, ``[count, d + 1]``."""
        centre = np.append(np.full(self.inputs, self.inputs**-0.5), 0.3)
        scale = np.linspace(1.5, 0.5, self.inputs + 1)
        return np.asarray(centre + spread * rng.normal(size=(count, self.inputs + 1)) * scale)

    def truth(self, spread: float) -> Floats:
        """The disagreement of each group, from 1,000 trainings and 40,000 people, ``[2]``."""
        rng = np.random.default_rng(7)
        x, groups = self.population((20_000, 20_000), rng)
        ones = np.zeros(len(x))
        for _ in range(10):
            ones += (x @ self.models(spread, 100, rng).T > 0).sum(1)
        p = ones / 1_000
        return np.bincount(groups, 2 * p * (1 - p) * 1_000 / 999) / np.bincount(groups)


def worlds(audits: int) -> None:
    """Print how often intervals hold where trainings and people are new in each audit."""
    laws = (
        Law("three trainings", trainings=3),
        Law("five"),
        Law("ten", trainings=10),
        Law("a small group", people=(60, 2_000)),
        Law("many people, little chance", private=0.02, reference=0.01, people=(2_000, 2_000)),
        Law("few inputs", inputs=5),
        Law("two inputs", inputs=2),
        Law("two groups that differ", private=0.05, people=(1_000, 1_000), away=1.5),
        Law("privacy adds nothing", reference=0.1),
    )
    print(
        "law | truth (%) | " + " | ".join(w for w, *_ in questions(("F", "M"), *np.zeros((2, 2))))
    )
    for law in laws:
        rng = np.random.default_rng(1)
        asked = list(questions(("F", "M"), law.truth(law.private), law.truth(law.reference)))
        hits, halves = np.zeros(len(asked)), np.zeros(len(asked))
        for _ in range(audits):
            x, groups = law.population(law.people, rng)
            records = EvaluatedRecords.of([np.arange(len(x))], groups, 2)
            ours, theirs = (
                (x @ law.models(spread, law.trainings, rng).T > 0).T.astype(np.int64)
                for spread in (law.private, law.reference)
            )
            tables = disagreement_tables(ours, records, theirs)
            for place, (_, table, a, b, truth) in enumerate(asked):
                spread = contrast(tables[table], a, b)
                half = spread.half_width()
                hits[place] += abs(spread.value - truth) <= half
                halves[place] += half
        cells = [
            f"{h / audits:.3f} ({100 * w / audits:.1f})" for h, w in zip(hits, halves, strict=True)
        ]
        true = ", ".join(f"{100 * t:.1f}" for *_, t in asked[::3][:2])
        print(f"{law.words} | {true} | " + " | ".join(cells), flush=True)


def judged(law: Law, rng: np.random.Generator) -> tuple[Comparison, Comparison]:
    """One audit of that law: what is told of it by its two claims alone, and by a whole report."""
    x, groups = law.population(law.people, rng)
    if law.flips:
        groups = np.sort(groups)
    labels = (rng.random(len(x)) < 1 / (1 + np.exp(-2 * x @ law.models(0, 1, rng)[0]))).astype(int)
    grouping = Grouping("sex", groups, ("F", "M"), None)
    on = Evaluation(labels, grouping, LabelOutcome(2, positive=1), FIXED_SPLIT)
    given, sides = [], []
    for spread in (law.private, law.reference):
        predictions, answered = [], {}
        for seed, weights in enumerate(law.models(spread, law.trainings, rng)):
            chance = 1 / (1 + np.exp(-2 * x @ weights))
            probabilities = np.stack([1 - chance, chance], axis=-1).astype(np.float32)[None]
            rows, none = np.arange(len(x)), np.zeros(2, dtype=np.int64)
            predictions.append(ArmPredictions(seed, rows, probabilities, none))
            answered[seed] = Answered(rows, predicted_class(probabilities)[0])
        given.append(predictions)
        sides.append(answered)
    measured = compare(on, "dpsgd", "sgd", *given)
    whole = Disclosure().of_measured(with_disagreement(measured, grouping, sides))
    own = {"gaps": tuple(gap for gap in whole.gaps if gap.metric == OWN), "doubtful": ()}
    numbers = {COST: whole.overall.estimates[COST]}
    own["overall"] = whole.overall.model_copy(update={"estimates": numbers})
    (alone,) = family([whole.model_copy(update=own)]).comparisons
    (report,) = family([whole]).comparisons
    return alone, report


def told(comparison: Comparison) -> tuple[bool, bool]:
    """Whether a gap is detected in what is decided by chance, and whether privacy adds to it."""
    gap = main_gap(comparison, OWN)
    return gap is not None and is_detected(gap), COST in comparison.paid


def counted(laws: tuple[Law, ...], audits: int, show: Callable[[int], str]) -> None:
    """Print in how many audits of each law something is told."""
    print(
        "law | alone: gap | alone: added | alone: any | report: gap | report: added | report: any"
    )
    for law in laws:
        rng = np.random.default_rng(2)
        counts = np.zeros((2, 3), dtype=int)
        for _ in range(audits):
            for place, comparison in enumerate(judged(law, rng)):
                gap, added = told(comparison)
                counts[place] += np.array([gap, added, gap or added])
        print(f"{law.words} | " + " | ".join(show(int(n)) for n in counts.ravel()), flush=True)


def coins(audits: int) -> None:
    """Print how often anything is told where nothing differs."""
    alike = {"reference": 0.1, "flips": True}
    laws = (
        Law("halves of 1,000, 5 trainings", people=(500, 500), **alike),
        Law("halves of 1,000, 10 trainings", people=(500, 500), trainings=10, **alike),
        Law("a fifth of 1,000, 5 trainings", people=(200, 800), **alike),
        Law("few inputs, 5 trainings", people=(500, 500), inputs=4, **alike),
        Law("little chance, 5 trainings", 20, 0.02, 0.02, (500, 500), flips=True),
    )

    def with_limit(n: int) -> str:
        return f"{100 * n / audits:.1f} % (at most {100 * beta.ppf(0.975, n + 1, audits - n):.1f})"

    counted(laws, audits, with_limit)


def power(audits: int) -> None:
    """Print how often a gap of about five points is told between groups of 1,000."""
    laws = (
        Law("5 trainings", 20, 0.04, 0.02, (1_000, 1_000), 5, away=1.18),
        Law("10 trainings", 20, 0.04, 0.02, (1_000, 1_000), 10, away=1.18),
        Law("10 trainings, few inputs", 5, 0.075, 0.04, (1_000, 1_000), 10, away=1.3),
        Law("10 trainings, more chance", 20, 0.07, 0.035, (1_000, 1_000), 10, away=0.78),
    )
    for law in laws:
        first, second = 100 * law.truth(law.private)
        print(f"{law.words}: {first:.1f} and {second:.1f} %, gap {first - second:.1f} points")
    counted(laws, audits, lambda n: f"{100 * n / audits:.1f} %")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("trained", "worlds", "coins", "power"))
    parser.add_argument("--out", type=Path, default=Path("disagreement"))
    parser.add_argument("--data", type=Path, help="UCI German credit, as a Parquet file")
    parser.add_argument("--audits", type=int, default=600)
    given = parser.parse_args()
    if given.what == "trained":
        trained(given.out, given.data)
    else:
        {"worlds": worlds, "coins": coins, "power": power}[given.what](given.audits)


if __name__ == "__main__":
    main()
