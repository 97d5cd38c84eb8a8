"""What `--diagnostics` costs beside training: of `basic` and of `full`, and the count of `full`.

    python benchmarks/diagnostics_cost.py [--data FOLDER]

Times are CPU times of one process with one thread, of one seed: training is all steps, twins
included; ratios are of one run. FOLDER holds adult.parquet; without it the sample files alone are
measured.
"""

import argparse
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path

import torch

from fairaudit.audit import prepare
from fairaudit.config.value_sources import resolve_config
from fairaudit.diagnostics import causes, misalignment
from fairaudit.execution import worker as worker

SAMPLE = Path(__file__).resolve().parents[1] / "sample_data"
LOANS = {"data": str(SAMPLE / "loans.parquet"), "group": ["sex"], "method": ["dpsgd"]}


class Clock:
    """CPU seconds of the calls of wrapped functions."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def around(self, call: Callable[..., object]) -> Callable[..., object]:
        """The function, timed."""

        @wraps(call)
        def timed(*args: object, **kept: object) -> object:
            began = time.process_time()
            try:
                return call(*args, **kept)
            finally:
                self.seconds += time.process_time() - began

        return timed


def measure(options: dict[str, object], level: str) -> tuple[float, float, float]:
    """The counted and the measured ratio of the readings, and seconds of training."""
    made = prepare(resolve_config({**options, "seeds": 1, "diagnostics": level}))
    plan = made.plan
    count = plan.effort
    training, reading = Clock(), Clock()
    own_method, own, turned = worker.method_of, causes.read, misalignment.read

    def method_of(arm):
        found = own_method(arm)

        class Timed(type(found)):
            fit = training.around(type(found).fit)

        found.__class__ = Timed
        return found

    worker.method_of = method_of
    causes.read, misalignment.read = reading.around(own), reading.around(turned)
    try:
        for job in plan.jobs:
            worker.run_job(plan, job, None, made.inputs)
    finally:
        worker.method_of, causes.read, misalignment.read = own_method, own, turned
    counted = count.full / count.work_without_readings
    return counted, reading.seconds / training.seconds, training.seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    folder = parser.parse_args().data
    torch.set_num_threads(1)
    cases = {"sample, logistic": LOANS, "sample, mlp": {**LOANS, "model": "mlp"}}
    if folder is not None:
        adult = {
            "data": str(folder / "adult.parquet"),
            "group": ["sex"],
            "label": "income",
            "method": ["dpsgd"],
        }
        cases |= {"adult, logistic": adult, "adult, 100 epochs": {**adult, "epochs": 100}}
        cases |= {"adult, mlp": {**adult, "model": "mlp"}}
    cases["images, cnn"] = {
        "data": str(SAMPLE / "images"),
        "group": ["style"],
        "method": ["dpsgd"],
        "epochs": 5,
    }
    print(f"torch {torch.__version__}, one thread, CPU time; readings / training")
    measure(LOANS, "full")  # imports
    for name, options in cases.items():
        _, basic, _ = measure(options, "basic")
        counted, found, seconds = measure(options, "full")
        print(
            f"  {name:18} basic {basic:6.2f}  full {found:6.2f}  counted {counted:6.2f}  "
            f"(training {seconds:.1f} s)",
            flush=True,
        )


if __name__ == "__main__":
    main()
