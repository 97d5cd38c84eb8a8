"""Whether the part of a cost that was made large is the one that an audit names.

    python benchmarks/parts.py [--audits 100]

People of two groups, whose classes follow their inputs with unlike slopes, are drawn anew for each
audit. Each world makes one part of the cost of `dpsgd` large by its settings; it is named where the
report holds its finding. Trainings run in this process, those of twins where `--twins auto` asks.
"""

import argparse
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from fairaudit.analysis.build import build_report, run_metadata
from fairaudit.analysis.measure import measured
from fairaudit.audit import prepare
from fairaudit.config.value_sources import resolve_config
from fairaudit.execution.worker import run_job
from fairaudit.planning.flow import Audit
from fairaudit.report.conditions import arms_with_harm
from fairaudit.report.model import Report

ROWS = 1_500
INPUTS = 20  # over which noise of one coordinate averages out
SCHEDULE = {"epochs": 10, "batch_size": 100, "seeds": 5, "diagnostics": "basic", "delta": 1e-5}
RATE = 0.4  # of the reference
# part -> settings of dpsgd, the others' being out of their way
WORLDS = {
    "step": {"learning_rate": 0.003, "max_grad_norm": 20.0, "noise_multiplier": 0.3},
    "clipping": {"learning_rate": RATE, "max_grad_norm": 0.01, "noise_multiplier": 0.3},
    "noise": {"learning_rate": RATE, "max_grad_norm": 10.0, "noise_multiplier": 4.0},
}


def people(seed: int) -> pd.DataFrame:
    """Inputs of which three matter, a group and a class."""
    rng = np.random.default_rng([11, seed])
    x = rng.normal(size=(ROWS, INPUTS))
    group = rng.integers(0, 2, ROWS)
    slope = np.where(group == 1, 3.0, 2.0)
    frame = pd.DataFrame(x, columns=[f"x{number}" for number in range(INPUTS)])
    chance = 1 / (1 + np.exp(-slope * (x[:, 0] + x[:, 1] - x[:, 2])))
    frame["paid"] = np.where(rng.random(ROWS) < chance, "yes", "no")
    frame["team"] = np.where(group == 1, "Quill", "Ember")
    return frame


def audited(frame: pd.DataFrame, **options: object) -> Report:
    """The report of an audit whose trainings run here, one after the other."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "people.parquet"
        frame.to_parquet(path)
        given = {"data": path, "group": ["team"], "label": "paid", "out": Path(folder) / "out"}
        audit = prepare(resolve_config({**given, **options}))
        report = _reported(audit := _trained(audit))
        plan = audit.plan.splitting(arms_with_harm(report))
        if plan.twins:
            report = _reported(_trained(replace(audit, plan=plan)))
        return report


def _trained(audit: Audit) -> Audit:
    results = dict(audit.results)
    for job in audit.plan.every_job:
        if job.id not in results:
            source = results.get(job.source_id or "")
            results[job.id] = run_job(audit.plan, job, source, audit.inputs)
    return measured(replace(audit, results=results))


def _reported(audit: Audit) -> Report:
    return build_report(audit, run_metadata((), (), workers=1, seconds={}))


def named(world: str, seed: int) -> set[str]:
    """The parts that the report of one audit of a world names."""
    settings = {name: value for name, value in WORLDS[world].items() if name != "noise_multiplier"}
    report = audited(
        people(seed),
        method=["dpsgd"],
        learning_rate=RATE,
        noise_multiplier=WORLDS[world]["noise_multiplier"],
        settings={"dpsgd": settings},
        **SCHEDULE,
    )
    codes = [finding.code for finding in report.findings]
    return {code.removeprefix("from_") for code in codes if code.startswith("from_")}


def main() -> None:
    """Print how often each part is named in each world."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--audits", type=int, default=100)
    audits = parser.parse_args().audits
    for world in WORLDS:
        counts = Counter(part for seed in range(audits) for part in named(world, seed))
        shares = ", ".join(f"{part} {counts[part] / audits:.3f}" for part in WORLDS)
        print(f"{world} made large: named {shares} ({audits} audits)", flush=True)


if __name__ == "__main__":
    main()
