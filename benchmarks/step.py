"""One training step beside plain PyTorch SGD and Opacus.

Correctness first, then interleaved timings.

    python benchmarks/step.py [--model logistic|mlp|cnn|own-...] [--rounds 30] [--malloc
    stock|tuned] [--loop] [--against CHECKOUT]

``--loop`` times ``make_private`` in a loop of one's own beside Opacus' modes, with PyTorch's cross
entropy and with one of the user's own; ``--against CHECKOUT`` the same of another checkout, in the
same run.

Prints medians and ratios of one run. "tuned" raises glibc's mmap and trim thresholds for every
system of the process, as the audit's own workers do. Where other work runs beside it, --clock cpu
counts this process's own time. --memory runs each system in a process of its own and prints by how
much its resident memory grew at most, over that before its first step. Networks "own-..." are in
``networks.py``.
"""

import argparse
import multiprocessing
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from networks import OWN
from systems import (
    Problem,
    Take,
    opacus_functorch,
    opacus_ghost,
    opacus_hooks,
    ours,
    own_cross_entropy,
    plain_sgd,
    private_loop,
)
from torch import nn

from fairaudit.engine.small_layers import ChannelsFirst
from fairaudit.execution.local import keep_freed_memory
from fairaudit.models.zoo import make_model

# records, inputs, classes of Dutch (logistic), Adult (MLP) and MNIST (CNN) in the presets
SHAPES = {
    "logistic": (23_512, (59,), 2),
    "mlp": (23_512, (98,), 2),
    "cnn": (23_512, (28, 28, 1), 10),
}
RECORDS = 23_512  # of networks of users' own
STEPS = {
    "logistic": 150,
    "mlp": 20,
    "cnn": 3,
    "own-residual": 4,
    "own-transformer": 4,
    "own-convolution": 1,
    "own-tabular": 3,
    "own-vit": 1,
}
LOOP_STEPS = {"logistic": 20, "mlp": 2, "cnn": 1}
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
SYSTEMS = {
    "plain SGD": plain_sgd,
    "Opacus hooks": opacus_hooks,
    "Opacus ghost": opacus_ghost,
    "fairaudit": ours,
}
OF_OWN = {**SYSTEMS, "Opacus functorch": opacus_functorch}
MODES = {"hooks": opacus_hooks, "functorch": opacus_functorch, "ghost": opacus_ghost}
CRITERIA = {"": None, ", own criterion": own_cross_entropy}


def make_problem(model: str) -> Problem:
    """Random records of the preset's shape; timings do not depend on their values."""
    generator = torch.Generator().manual_seed(0)
    if model in OWN:
        own, records = OWN[model], RECORDS
        shape, classes = own.shape, own.classes
        features = own.features(records, generator)
    else:
        records, shape, classes = SHAPES[model]
        features = torch.randn(records, *shape, generator=generator)
    labels = torch.randint(classes, (records,), generator=generator)

    def build() -> nn.Module:
        if model in OWN:
            torch.manual_seed(1)
            return OWN[model].build()
        made = make_model(model, shape, classes, hidden=(256, 256), activation="tanh", seed=1)
        return made if len(shape) == 1 else nn.Sequential(ChannelsFirst(shape), made)

    return Problem(features, labels, classes, build)


def check(problem: Problem) -> None:
    """Without noise, ten steps of ours and of Opacus end at the same parameters."""
    finals = []
    for make in (ours, opacus_hooks, opacus_ghost):
        take, model = make(problem, 0.0)
        take(10)
        parameters = model.theta[0] if hasattr(model, "theta") else None
        if parameters is None:
            parameters = torch.cat([p.detach().flatten() for p in model.parameters()])
        finals.append(parameters)
    for other in finals[1:]:
        error = float((finals[0] - other).abs().max())
        print(f"  largest difference after 10 noiseless steps: {error:.1e}")
        assert error < 1e-4, "the systems do not compute the same thing"


def timed(take: Take, steps: int, clock: Callable[[], float]) -> float:
    """Milliseconds per step over a burst."""
    began = clock()
    take(steps)
    return (clock() - began) / steps * 1e3


def grown(model: str, system: str, malloc: str) -> float:
    """By how many MB a process's resident memory grew at most in ten steps of a system."""
    context = multiprocessing.get_context("spawn")
    answers: multiprocessing.Queue[float] = context.Queue()
    process = context.Process(target=_grow, args=(model, system, malloc, answers))
    process.start()
    found = answers.get()
    process.join()
    return found


def _grow(model: str, system: str, malloc: str, answers: "multiprocessing.Queue[float]") -> None:
    torch.set_num_threads(1)
    if malloc == "tuned":
        keep_freed_memory()
    take, _ = OF_OWN[system](make_problem(model))
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak starts from here
    before = _status("VmRSS")
    take(10)
    answers.put((_status("VmHWM") - before) / 1024)


def _status(field: str) -> int:
    """A field of this process's status, in kB."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(field)))


def compare(model: str, rounds: int, clock: Callable[[], float]) -> None:
    """Bursts of each system in turn, so that whatever else the machine does hits all alike."""
    problem = make_problem(model)
    print(f"\n{model}: batch {problem.expected_batch_size:.0f}")
    check(problem)
    chosen = OF_OWN if model in OWN else SYSTEMS
    systems = {name: make(problem)[0] for name, make in chosen.items()}
    times: dict[str, list[float]] = {name: [] for name in systems}
    for take in systems.values():
        timed(take, min(5, STEPS[model]), clock)
    for number in range(rounds):
        for name, take in systems.items():
            slow = name == "Opacus hooks" and model == "mlp"
            if slow and number % 5:
                continue
            times[name].append(timed(take, 4 if slow else STEPS[model], clock))
    medians = {name: statistics.median(values) for name, values in times.items()}
    for name, value in medians.items():
        print(
            f"  {name:16} {value:8.3f} ms   {value / medians['plain SGD']:6.2f} x plain SGD"
            f"   {value / medians['fairaudit']:6.2f} x fairaudit"
        )


class Loop:
    """``make_private``'s loop in a process of its own, with the fairaudit of some checkout."""

    def __init__(self, checkout: Path, model: str, mode: str, criterion: str, clock: str) -> None:
        here = str(Path(__file__).resolve())
        asked = ["--serve", mode, criterion, "--model", model, "--clock", clock]
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", here, *asked],
            env={**os.environ, "PYTHONPATH": str(checkout)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def timed(self, steps: int) -> float:
        """Milliseconds per step over a burst."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(steps, file=self._process.stdin, flush=True)
        return float(self._process.stdout.readline())

    def end(self) -> None:
        """End the process."""
        self._process.communicate()


def serve(model: str, mode: str, criterion: str, clock: Callable[[], float]) -> None:
    """Time bursts of so many steps as are asked for, line by line."""
    take = private_loop(make_problem(model), mode=mode, criterion=CRITERIA[criterion])[0]
    for line in sys.stdin:
        print(timed(take, int(line), clock), flush=True)


def loops(model: str, rounds: int, clock: str, against: Path | None) -> None:
    """``make_private`` beside Opacus' own modes, and beside itself in another checkout."""
    problem, here = make_problem(model), Path(__file__).resolve().parent.parent
    print(
        f"\n{model}: make_private in a loop of one's own, batch {problem.expected_batch_size:.0f}"
    )
    for mode, opacus in MODES.items():
        running = {f"make_private{name}": Loop(here, model, mode, name, clock) for name in CRITERIA}
        if against is not None:
            running["other checkout"] = Loop(against, model, mode, "", clock)
        opacus_burst = partial(timed, opacus(problem)[0], clock=CLOCKS[clock])
        bursts = {f"Opacus {mode}": opacus_burst, **{n: loop.timed for n, loop in running.items()}}
        times: dict[str, list[float]] = {name: [] for name in bursts}
        for number in range(rounds + 1):
            for name, burst in bursts.items():
                took = burst(LOOP_STEPS[model])
                if number:  # the first warms up
                    times[name].append(took)
        for loop in running.values():
            loop.end()
        medians = {name: statistics.median(values) for name, values in times.items()}
        for name, value in medians.items():
            beside = [f"Opacus {mode}", *(["other checkout"] if against else [])]
            ratios = "".join(f"   {value / medians[other]:6.2f} x {other}" for other in beside)
            print(f"  {name:28} {value:8.3f} ms{ratios}")


def replicates(rounds: int, clock: Callable[[], float]) -> None:
    """A hundred stacked replicates of the logistic model beside a hundred single runs."""
    problem = make_problem("logistic")
    together, alone = ours(problem, replicates=100)[0], ours(problem)[0]
    ratios = []
    for _ in range(rounds):
        stacked = timed(together, 5, clock)
        ratios.append(100 * timed(alone, 100, clock) / stacked)
    print(
        f"\n100 replicates of logistic: {statistics.median(ratios):.1f} times faster than 100 "
        "single runs"
    )


def main() -> None:
    """Parse, tune, run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=(*SHAPES, *OWN), action="append")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--malloc", choices=("stock", "tuned"), default="stock")
    parser.add_argument("--loop", action="store_true")
    parser.add_argument("--against", type=Path)
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.serve:
        serve(arguments.model[0], *arguments.serve, CLOCKS[arguments.clock])
        return
    if arguments.malloc == "tuned":
        keep_freed_memory()
    print(
        f"malloc {arguments.malloc}, torch {torch.__version__}, "
        f"{torch.backends.cpu.get_cpu_capability()}"
    )
    if arguments.memory:
        for model in arguments.model or SHAPES:
            print(
                f"\n{model}: resident memory over that before the first step, malloc "
                f"{arguments.malloc}"
            )
            for system in OF_OWN if model in OWN else SYSTEMS:
                print(f"  {system:16} {grown(model, system, arguments.malloc):8.0f} MB")
        return
    if arguments.loop or arguments.against:
        for model in arguments.model or SHAPES:
            loops(model, arguments.rounds, arguments.clock, arguments.against)
        return
    clock = CLOCKS[arguments.clock]
    for model in arguments.model or SHAPES:
        compare(model, arguments.rounds, clock)
    if not arguments.model or "logistic" in arguments.model:
        replicates(max(3, arguments.rounds // 5), clock)


if __name__ == "__main__":
    main()
