"""A whole audit beside plain PyTorch SGD loops of the same trainings, on the same cores.

In one run.

    python benchmarks/audit.py --data adult.parquet [--seeds 5] [--rounds 1]

The audit reads, encodes, trains sgd and four private arms, evaluates and writes its report; the
plain loops only train as many models for as many steps on records of the same shape, one process
per core.
"""

import argparse
import math
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from fairaudit.execution.local import available_cores

METHODS = ("dpsgd", "global", "global-adapt", "dpsgd-matched")
RECORDS, INPUTS, BATCH, EPOCHS = 23_512, 98, 256, 20


def plain_training(seed: int) -> float:
    """One model of the preset by plain PyTorch; its seconds."""
    import torch
    import torch.nn.functional as F
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    features, labels = torch.randn(RECORDS, INPUTS), torch.randint(2, (RECORDS,))
    model = nn.Sequential(
        nn.Linear(INPUTS, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 2)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    began = time.perf_counter()
    for _ in range(EPOCHS * math.ceil(RECORDS / BATCH)):
        index = torch.randint(RECORDS, (BATCH,))
        optimizer.zero_grad()
        F.cross_entropy(
            model(features.index_select(0, index)), labels.index_select(0, index)
        ).backward()
        optimizer.step()
    return time.perf_counter() - began


def plain_loops(trainings: int, cores: int) -> float:
    """Wall seconds of that many plain trainings on that many processes, start-up included."""
    began = time.perf_counter()
    with ProcessPoolExecutor(cores, mp_context=get_context("spawn")) as pool:
        list(pool.map(plain_training, range(trainings)))
    return time.perf_counter() - began


def whole_audit(command: Sequence[str]) -> float:
    """Wall seconds of one `fairaudit run` from a fresh output directory."""
    out = tempfile.mkdtemp(prefix="fairaudit-benchmark-")
    began = time.perf_counter()
    try:
        subprocess.run(
            [sys.executable, "-m", "fairaudit", *command, "--out", out, "--quiet"], check=True
        )
        return time.perf_counter() - began
    finally:
        shutil.rmtree(out)


def main() -> None:
    """Parse and alternate the two."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the Adult table (parquet)")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=1)
    arguments = parser.parse_args()
    command = ["run", "--data", str(arguments.data), "--group", "sex", "--label", "income"]
    command += ["--preset", "esipova-adult", "--seeds", str(arguments.seeds)]
    command += [word for method in METHODS for word in ("--method", method)]
    trainings, cores = arguments.seeds * (len(METHODS) + 1), available_cores()
    print(f"{trainings} trainings of {EPOCHS * math.ceil(RECORDS / BATCH)} steps, {cores} cores")
    for number in range(arguments.rounds):
        audit = whole_audit(command)
        plain = plain_loops(trainings, cores)
        print(
            f"round {number + 1}: audit {audit:.1f} s, plain loops {plain:.1f} s, ratio "
            f"{audit / plain:.2f}"
        )


if __name__ == "__main__":
    main()
