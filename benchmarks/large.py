"""Ten million rows: time and memory of reading, encoding, one training and its measurement.

    python benchmarks/make_large.py large.parquet
    python benchmarks/large.py large.parquet [--seeds 2] [--rounds 30] [--method dpsgd]

First an audit runs from the command line, and the anonymous memory (RssAnon) of its process and of
every worker is watched, and the disk. Then reading and encoding are timed, and a training step on
batches from a file beside the same step on inputs that are kept in memory, in turns. Files go to a
folder beside the table and are removed.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from processes import anonymous_mib, family
from systems import LEARNING_RATE, MAX_GRAD_NORM, NOISE_MULTIPLIER

from fairaudit.config.options import AuditConfig
from fairaudit.data.dataset import Split
from fairaudit.data.inputs.encode import DecodedRows
from fairaudit.data.inputs.shared import Inputs, share_inputs
from fairaudit.data.inputs.split import draw_split
from fairaudit.data.tabular import load_dataset
from fairaudit.diagnostics.observers import EpochCurves
from fairaudit.engine.loop import Loop, Training
from fairaudit.engine.network import Network
from fairaudit.engine.optimizers import GradientDescent
from fairaudit.engine.pool import TrainingPool
from fairaudit.engine.release import GaussianRelease
from fairaudit.engine.rules import Erm, FlatClip, PublicFacts
from fairaudit.engine.sampling import PoissonSampler
from fairaudit.execution.local import keep_freed_memory
from fairaudit.models.zoo import make_model
from fairaudit.privacy.noise import noise_stream
from fairaudit.privacy.streams import numpy_stream

BATCH = 4096  # what the rule chooses for ten million rows
STEPS = 10
LIMIT_MIB = 2048


def loop(pool: TrainingPool, model: str) -> Loop:
    """A private training on a pool."""
    steps = -(-pool.n_records // BATCH)
    expected = torch.full((1,), pool.n_records / steps)
    training = Training(
        objective=Erm(),
        rule=FlatClip(MAX_GRAD_NORM),
        release=GaussianRelease(NOISE_MULTIPLIER, noise_stream(0, "noise", "benchmark", 1)),
        objective_noise=noise_stream(0, "query", "objective", 1),
        rule_noise=noise_stream(0, "query", "rule", 1),
        optimizer=GradientDescent(LEARNING_RATE),
        sampler=PoissonSampler([numpy_stream(0, "sampling", "shared")], pool.n_records, steps),
        facts=PublicFacts(pool.n_records, expected, 1, pool.n_classes),
        epochs=1,
        observers=[EpochCurves()],
    )
    made = make_model(
        model, pool.width, pool.n_classes, hidden=(256, 256), activation="tanh", seed=1
    )
    return Loop(Network([made]), pool, training)


def compare_steps(inputs: Inputs, split: Split, config: AuditConfig, rounds: int) -> None:
    """Steps on batches from the file and on kept ones in turns; the parameters end alike."""
    rows = inputs.encoder.encode(split).train
    assert isinstance(rows, DecodedRows)
    labels = torch.from_numpy(inputs.dataset.labels[split.train])
    groups, classes = torch.zeros_like(labels), len(inputs.dataset.classes)
    began = time.perf_counter()
    kept = torch.from_numpy(rows[:])
    print(
        f"all inputs made at once: {time.perf_counter() - began:.1f} s, {kept.nbytes / 2**30:.2f} "
        "GiB"
    )
    for model in ("logistic", "mlp"):
        pools = [
            TrainingPool(p, labels, groups, n_classes=classes, n_groups=1) for p in (rows, kept)
        ]
        loops = [loop(pool, model) for pool in pools]
        times: list[list[float]] = [[], []]
        for number in range(rounds + 1):
            for one, seen in zip(loops, times, strict=True):
                began = time.perf_counter()
                one.take(STEPS)
                if number:  # the first round draws the epoch's batches and touches the file's pages
                    seen.append((time.perf_counter() - began) / STEPS * 1e3)
        made, memory = (statistics.median(seen) for seen in times)
        ratio = statistics.median(a / b for a, b in zip(*times, strict=True))
        off = float((loops[0].network.theta - loops[1].network.theta).abs().max())
        print(
            f"{model}: step on made batches {made:.2f} ms, on kept ones {memory:.2f} ms, "
            f"ratio {ratio:.2f} (target 1.3); parameters differ by {off:.1e}"
        )


def watch_audit(path: Path, folder: Path, seeds: int, method: str) -> None:
    """Run an audit and print the largest anonymous memory of each of its processes.

    And the disk it took.
    """
    command = [sys.executable, "-m", "fairaudit", "run", "--data", str(path), "--group", "sex"]
    command += ["--label", "approved", "--method", method, "--epochs", "1", "--seeds", str(seeds)]
    began = time.perf_counter()
    audit = subprocess.Popen([*command, "--out", str(folder / "report")])
    most: dict[int, float] = {}
    before = least = shutil.disk_usage(folder).free
    while audit.poll() is None:
        least = min(least, shutil.disk_usage(folder).free)
        for process in family(audit.pid):
            most[process] = max(most.get(process, 0.0), anonymous_mib(process))
        time.sleep(0.05)
    print(f"the audit ended with {audit.returncode} after {time.perf_counter() - began:.0f} s")
    print(f"disk: at most {(before - least) / 2**30:.1f} GiB")
    for process, mib in most.items():
        if mib > 100:
            what = "parent" if process == audit.pid else "worker"
            print(f"{what}: at most {mib:,.0f} MiB anonymous (target {LIMIT_MIB:,})")


def main() -> None:
    """Parse, prepare, compare, watch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument(
        "--method", default="dpsgd", help="of the audit; another than dpsgd is watched alone"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory(dir=arguments.path.parent) as folder:
        watch_audit(arguments.path, Path(folder), arguments.seeds, arguments.method)
        if arguments.method != "dpsgd":
            return
        config = AuditConfig(
            data=arguments.path, group=("sex",), label="approved", out=Path(folder)
        )
        clock, processor = time.perf_counter(), time.process_time()
        dataset = load_dataset(config)
        seconds, computing = time.perf_counter() - clock, time.process_time() - processor
        print(f"reading: {seconds:.0f} s, {computing:.0f} s of it computing")
        clock, processor = time.perf_counter(), time.process_time()
        inputs = share_inputs(dataset, config).value
        print(
            f"encoding: {time.perf_counter() - clock:.0f} s (target 180), "
            f"{time.process_time() - processor:.0f} s of it computing"
        )
        del dataset
        split = draw_split(inputs.dataset, config.split, 0)
        compare_steps(inputs, split, config, arguments.rounds)


if __name__ == "__main__":
    main()
