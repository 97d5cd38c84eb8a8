"""What reports say of misalignment where groups were drawn by coin flips, or differ as planted.

    python benchmarks/misalignment.py words FILE [--audits 600]
    python benchmarks/misalignment.py planted FILE [--audits 200]

Audits are small, of tables drawn anew for each: logistic regression with DP-SGD at a bound that
clips half of the records, five seeds. Each leaves one line of JSON in FILE; a second call goes on
after the last. `words`: three groupings by coin flips of shares .5, .1 and .02; an audit counts
where any sentence tells two groups' misalignments apart. `planted`: two groups of 1,000 training
rows whose misalignments differ by about ten degrees.
"""

import argparse
import json
import math
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from fairaudit.analysis.build_measured import disclosed
from fairaudit.analysis.family import family
from fairaudit.analysis.measure import measured
from fairaudit.audit import prepare
from fairaudit.config.value_sources import resolve_config
from fairaudit.execution import worker

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
    shown = [disclosed(one, least=0) for one in measured(audit).comparisons]
    compared, _ = family(shown)
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
    """One audit of groups whose misalignments differ."""
    rng = np.random.default_rng([2, number])
    frame = people(rng, 2500, apart=True, longer=PLANTED)
    found, difference = told(audited(frame, ["group"], folder, batch_size=250, epochs=80))
    return {"told": found, "difference": difference}


PLANTED = 1.2  # how much longer one group's inputs are: a difference of about ten degrees


def summary(kind: str, lines: list[dict]) -> str:
    """The figures of all audits so far."""
    from scipy.stats import beta

    count = len(lines)
    hits = sum(bool(line["told"]) for line in lines)
    upper = beta.ppf(0.95, hits + 1, count - hits)
    text = f"{count} audits: told in {hits} ({hits / count:.3f}; upper exact limit {upper:.3f})"
    if kind == "planted":
        text += f"; mean difference {np.mean([line['difference'] for line in lines]):.1f} degrees"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["words", "planted"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--audits", type=int, default=600)
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    done = given.file.read_text().splitlines() if given.file.exists() else []
    run = {"words": words, "planted": planted}[given.kind]
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
