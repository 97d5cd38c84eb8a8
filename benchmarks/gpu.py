"""Everything that wants a GPU to be seen, in one run of at most eight minutes; writes one JSON.

    python benchmarks/gpu.py --out gpu.json [--mnist mnist.parquet] [--minutes 8]
    python benchmarks/gpu.py --out gpu.json --device cpu     # a rehearsal without a GPU

MNIST is a table of raw pixels (image), label and split.
Needs this repository, PyTorch with CUDA and what fairaudit needs; Opacus is compared where it is
installed. A part that fails or that time does not suffice for is named with its reason, and the
others go on. The file is written anew after each part:

``equal``: of each network the first steps on the device and on the CPU, with the same batches and
the same noise (both are drawn on the CPU whatever the device): by how much of the steps' length the
parameters differ. Products on the device keep float32's precision (no TF32). Dropout masks are
drawn on the device, so a network with dropout is not among them.

``steps``: a training step beside plain PyTorch SGD and Opacus' hooks and ghost clipping on the same
card, in turns: medians in milliseconds and ratios.

``runs``: a whole ``fairaudit run`` on the sample images, and on MNIST where that table is given, on
the device and on the CPU: wall seconds, and the largest difference between the two reports'
accuracies.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # a bare machine has the repository and no installed package

STEPS = 3  # of which parameters are compared
CLOSE = 1e-5  # of the length of those steps
COMPARED = ("logistic", "mlp", "cnn", "own-residual", "own-transformer", "own-convolution")
COMPARED += ("own-tabular", "own-vit")
TIMED = ("mlp", "cnn", "own-transformer", "own-residual", "own-vit")
BURST = {"mlp": 20, "cnn": 10, "own-residual": 20}  # steps at a time; else 10
ROUNDS = 7
RESERVE = 20.0  # seconds that are left for writing, and for what a part takes over its time


def synchronise(device: torch.device) -> None:
    """Wait for what the device was given to do."""
    if device.type == "cuda":
        torch.cuda.synchronize()


def described(device: torch.device) -> dict[str, Any]:
    """The machine, in words."""
    found: dict[str, Any] = {
        "device": str(device),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "cpu": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
    }
    if device.type == "cuda":
        found["card"] = torch.cuda.get_device_name()
        found["cuda"] = torch.version.cuda
        found["card_memory_gib"] = round(
            torch.cuda.get_device_properties(0).total_memory / 2**30, 1
        )
        found["tf32_by_default"] = {
            "matmul": torch.backends.cuda.matmul.allow_tf32,
            "convolutions": torch.backends.cudnn.allow_tf32,
        }
    return found


def equal_steps(model: str, device: torch.device) -> dict[str, Any]:
    """By how much the parameters differ after the first steps on the device and on the CPU."""
    from step import make_problem
    from systems import NOISE_MULTIPLIER, ours

    problem = make_problem(model)
    found: dict[str, Any] = {}
    for name, sigma in (("without_noise", 0.0), ("with_noise", NOISE_MULTIPLIER)):
        ends, moved = [], []
        for where in (torch.device("cpu"), device):
            take, network = ours(problem.on(where), sigma)
            start = network.theta.cpu().clone()
            take(STEPS)
            ends.append(network.theta.cpu())
            moved.append(float((ends[-1] - start).norm()))
        found[name] = float((ends[0] - ends[1]).norm()) / moved[0]
    found["is_close"] = max(found["without_noise"], found["with_noise"]) <= CLOSE
    return found


def timed_steps(model: str, device: torch.device, seconds: float) -> dict[str, Any]:
    """Medians of bursts in turn, in milliseconds a step, and ratios to plain SGD."""
    from step import make_problem

    makers = systems()
    problem = make_problem(model).on(device)
    found: dict[str, Any] = {"batch": round(problem.expected_batch_size)}
    takes: dict[str, Callable[[int], None]] = {}
    burst = BURST.get(model, 10)
    for name, make in makers.items():
        try:
            takes[name] = make(problem)[0]
            takes[name](3)
        except Exception as error:
            found[name] = f"failed: {type(error).__name__}: {error}"[:300]
            takes.pop(name, None)
    times: dict[str, list[float]] = {name: [] for name in takes}
    until = time.perf_counter() + seconds
    for number in range(ROUNDS):
        if number > 1 and time.perf_counter() > until:
            break
        for name, take in takes.items():
            synchronise(device)
            began = time.perf_counter()
            take(burst)
            synchronise(device)
            times[name].append((time.perf_counter() - began) / burst * 1e3)
    for name, values in times.items():
        median = statistics.median(values)
        found[name] = {"ms": round(median, 3), "rounds": len(values)}
        found[name]["x_plain_sgd"] = round(median / statistics.median(times["plain SGD"]), 2)
    if device.type == "cuda":
        found["most_memory_mib"] = round(torch.cuda.max_memory_allocated() / 2**20)
        torch.cuda.reset_peak_memory_stats()
    return found


def systems() -> dict[str, Any]:
    """What makes a training of each system."""
    from systems import opacus_ghost, opacus_hooks, ours, plain_sgd

    return {
        "plain SGD": plain_sgd,
        "fairaudit": ours,
        "Opacus hooks": opacus_hooks,
        "Opacus ghost": opacus_ghost,
    }


def mnist_archive(table: Path, folder: Path) -> Path:
    """MNIST as an npz archive, from a table of raw pixels (image), label and split."""
    columns = pq.read_table(table, columns=["image", "label", "split"])
    pixels = np.frombuffer(b"".join(columns.column("image").to_pylist()), np.uint8)
    labels, split = columns.column("label").to_numpy(), columns.column("split").to_pylist()
    path = folder / "mnist.npz"
    np.savez(path, images=pixels.reshape(-1, 28, 28), label=labels, split=np.array(split))
    return path


def whole_runs(asked: list[str], device: str, seconds: float) -> dict[str, Any]:
    """Wall seconds of a whole audit on the device and on the CPU, and how far they agree.

    Args:
        asked: Options that name data, label and group.
        device: ``cuda``, or ``cpu`` in a rehearsal.
        seconds: For both together.
    """
    found: dict[str, Any] = {}
    accuracies = []
    until = time.perf_counter() + seconds
    with tempfile.TemporaryDirectory() as folder:
        for name, where in (("device", device), ("cpu", "cpu")):
            out = Path(folder) / name
            command = [sys.executable, "-m", "fairaudit", "run", *asked, "--device", where]
            command += ["--method", "dpsgd", "--method", "global-adapt", "--epochs", "1"]
            command += ["--seeds", "1", "--twins", "off", "--out", str(out), "--quiet"]
            began = time.perf_counter()
            done = subprocess.run(
                command,
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                capture_output=True,
                text=True,
                timeout=max(1.0, until - began),
            )
            found[f"{name}_seconds"] = round(time.perf_counter() - began, 1)
            if done.returncode:
                found[f"{name}_failed"] = done.stderr[-1000:]
                return found
            accuracies.append(list(accuracies_of(json.loads((out / "report.json").read_text()))))
    pairs = zip(*accuracies, strict=True)
    found["largest_difference_in_accuracy"] = max(abs(a - b) for a, b in pairs)
    found["accuracies_compared"] = len(accuracies[0])
    return found


def mnist_runs(table: Path, device: str, seconds: float) -> dict[str, Any]:
    """As :func:`whole_runs`, of MNIST with its classes as groups."""
    with tempfile.TemporaryDirectory() as folder:
        archive = mnist_archive(table, Path(folder))
        asked = ["--data", str(archive), "--preset", "esipova-mnist"]
        return whole_runs(asked, device, seconds)


def accuracies_of(report: dict[str, Any]) -> Iterator[float]:
    """Accuracy of every model for everybody and every group, by seed, as a report has them."""
    for comparison in report["comparisons"]:
        for measured in (comparison["overall"], *comparison["by_group"]):
            estimate = measured["estimates"].get("accuracy")
            yield from estimate["by_seed"] if estimate else ()


def parts(device: torch.device, mnist: Path | None) -> Iterator[tuple[str, str, Any]]:
    """Section, name and function (seconds it may take -> result) of every part, in their order."""
    for model in COMPARED:
        yield "equal", model, lambda _, model=model: equal_steps(model, device)
    images = ["--data", str(ROOT / "sample_data" / "images"), "--group", "style"]
    yield "runs", "sample images", lambda seconds: whole_runs(images, device.type, seconds)
    for model in TIMED:
        yield (
            "steps",
            model,
            lambda seconds, model=model: timed_steps(model, device, min(seconds, 25.0)),
        )
    if mnist is not None:
        yield "runs", "MNIST", lambda seconds: mnist_runs(mnist, device.type, seconds)


def main() -> None:
    """Parse, and do part after part while there is time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--mnist", type=Path)
    parser.add_argument("--minutes", type=float, default=8.0)
    arguments = parser.parse_args()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no CUDA device can be used here; --device cpu rehearses")
    until = time.perf_counter() + 60.0 * arguments.minutes - RESERVE
    device = torch.device(arguments.device)
    torch.set_num_threads(1)
    found: dict[str, Any] = {"machine": described(device)}
    for section, name, part in parts(device, arguments.mnist and arguments.mnist.resolve()):
        began = time.perf_counter()
        left = until - began
        try:
            result = part(left) if left > 0 else {"left_out": "the time was up"}
        except Exception as error:
            result = {"failed": f"{type(error).__name__}: {error}"[:500]}
            result["where"] = traceback.format_exc()[-1500:]
        result["seconds"] = round(time.perf_counter() - began, 1)
        found.setdefault(section, {})[name] = result
        arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print(section, name, json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
