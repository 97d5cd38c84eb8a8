"""One training step beside plain PyTorch SGD and Opacus: correctness first, then interleaved timings.

    python benchmarks/step.py [--model logistic|mlp] [--rounds 30] [--malloc stock|tuned]

Prints medians and ratios of one run. "tuned" raises glibc's mmap and trim thresholds for every
system of the process, as the audit's own workers do.
"""

import argparse
import statistics
import time

import torch
from systems import Problem, Take, opacus_ghost, opacus_hooks, ours, plain_sgd
from torch import nn

from fairaudit.models.zoo import make_model
from fairaudit.pool import keep_freed_memory

# records, inputs, classes of Adult (MLP) and Dutch (logistic) in the presets
SHAPES = {"logistic": (23_512, 59, 2), "mlp": (23_512, 98, 2)}
STEPS = {"logistic": 150, "mlp": 20}
SYSTEMS = {
    "plain SGD": plain_sgd,
    "Opacus hooks": opacus_hooks,
    "Opacus ghost": opacus_ghost,
    "fairaudit": ours,
}


def make_problem(model: str) -> Problem:
    """Random records of the preset's shape; timings do not depend on their values."""
    records, inputs, classes = SHAPES[model]
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(records, inputs, generator=generator)
    labels = torch.randint(classes, (records,), generator=generator)

    def build() -> nn.Sequential:
        return make_model(model, inputs, classes, hidden=(256, 256), activation="tanh", seed=1)

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


def timed(take: Take, steps: int) -> float:
    """Milliseconds per step over a burst."""
    began = time.perf_counter()
    take(steps)
    return (time.perf_counter() - began) / steps * 1e3


def compare(model: str, rounds: int) -> None:
    """Bursts of each system in turn, so that whatever else the machine does hits all alike."""
    problem = make_problem(model)
    print(f"\n{model}: batch {problem.expected_batch_size:.0f}")
    check(problem)
    systems = {name: make(problem)[0] for name, make in SYSTEMS.items()}
    times: dict[str, list[float]] = {name: [] for name in systems}
    for take in systems.values():
        timed(take, 5)
    for number in range(rounds):
        for name, take in systems.items():
            slow = name == "Opacus hooks" and model != "logistic"
            if slow and number % 5:
                continue
            times[name].append(timed(take, 4 if slow else STEPS[model]))
    medians = {name: statistics.median(values) for name, values in times.items()}
    for name, value in medians.items():
        print(f"  {name:13} {value:8.3f} ms   {value / medians['plain SGD']:6.2f} x plain SGD"
              f"   {value / medians['fairaudit']:6.2f} x fairaudit")  # fmt: skip


def replicates(rounds: int) -> None:
    """A hundred stacked replicates of the logistic model beside a hundred single runs."""
    problem = make_problem("logistic")
    together, alone = ours(problem, replicates=100)[0], ours(problem)[0]
    ratios = []
    for _ in range(rounds):
        stacked = timed(together, 5)
        ratios.append(100 * timed(alone, 100) / stacked)
    print(f"\n100 replicates of logistic: {statistics.median(ratios):.1f} times faster than 100 single runs")


def main() -> None:
    """Parse, tune, run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=SHAPES, action="append")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--malloc", choices=("stock", "tuned"), default="stock")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.malloc == "tuned":
        keep_freed_memory()
    print(f"malloc {arguments.malloc}, torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}")
    for model in arguments.model or SHAPES:
        compare(model, arguments.rounds)
    if not arguments.model or "logistic" in arguments.model:
        replicates(max(3, arguments.rounds // 5))


if __name__ == "__main__":
    main()
