"""Hessian readings beside 100 Hutchinson probes by Hessian-vector products.

First equal, then timed.

    python benchmarks/diagnostics.py [--model logistic|mlp] [--rounds 15] [--rows 1024]

The other side is what one would write in PyTorch: for each group one graph of its gradient, kept
for all probes, and one backward pass through it per probe. Times are those of the process's CPU,
one thread, the same records; medians of interleaved rounds, and ratios of one run.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fairaudit.diagnostics.curvature import (
    PROBES,
    extremes_of_groups,
    hvp,
    probe_signs,
    quadratic_forms,
    traces,
)
from fairaudit.diagnostics.landscape import GroupedRecords, Landscape
from fairaudit.models.zoo import make_model

Vector = tuple[Tensor, ...]  # in the shapes of the parameters

GROUPS, CLASSES, VECTORS = 2, 2, 20
BURST = 0.01  # seconds
INPUTS = {"logistic": 59, "mlp": 98}  # of Dutch and of Adult in the presets
TARGETS = {"logistic": 90.0, "mlp": 50.0}


@dataclass(frozen=True)
class Problem:
    """A model a little trained on made-up records, so that its Hessians are not those of chance."""

    module: nn.Sequential
    features: Tensor
    labels: Tensor
    groups: Tensor

    def landscape(self, dtype: torch.dtype = torch.float32) -> Landscape:
        """Where our side reads."""
        theta = torch.cat([p.detach().flatten() for p in self.module.parameters()]).to(dtype)
        return Landscape(
            self.module,
            theta,
            GroupedRecords.of(self.features, self.labels, self.groups, n_groups=GROUPS),
        )


def make_problem(model: str, rows: int) -> Problem:
    """Records whose first inputs decide the class, with noise; 200 steps of SGD."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(rows, INPUTS[model], generator=generator)
    noise = torch.randn(rows, generator=generator)
    labels = (features[:, :5].sum(1) + noise > 0).long()
    groups = (features[:, 0] + noise > 0.5).long()
    module = make_model(model, INPUTS[model], CLASSES, hidden=(256, 256), activation="tanh", seed=1)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05)
    for _ in range(200):
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(features), labels).backward()
        optimizer.step()
    return Problem(module, features, labels, groups)


def loop(problem: Problem, probes: list[Vector], read: Callable[[Vector, Vector], object]) -> list:
    """``read(probe, H probe)`` for every group and probe."""
    parameters = list(problem.module.parameters())
    out = []
    for group in range(GROUPS):
        rows = problem.groups == group
        loss = nn.functional.cross_entropy(
            problem.module(problem.features[rows]), problem.labels[rows]
        )
        gradient = torch.autograd.grad(loss, parameters, create_graph=True)
        products = (
            torch.autograd.grad(gradient, parameters, probe, retain_graph=True) for probe in probes
        )
        out.extend(read(probe, product) for probe, product in zip(probes, products, strict=True))
    return out


def shaped(problem: Problem, vectors: Tensor) -> list[Vector]:
    """Flat vectors [V, P] in the shapes of the parameters."""
    shapes = [p.shape for p in problem.module.parameters()]
    sizes = [shape.numel() for shape in shapes]
    return [
        tuple(part.view(shape) for part, shape in zip(vector.split(sizes), shapes, strict=True))
        for vector in vectors
    ]


def form(probe: Vector, product: Vector) -> float:
    return float(sum((a * b).sum() for a, b in zip(probe, product, strict=True)))


def flat(_: Vector, product: Vector) -> Tensor:
    return torch.cat([part.flatten() for part in product])


def cpu_ms(run: Callable[[], object]) -> float:
    """Of one call, over a burst where one is short: the loops are bursts of themselves."""
    began, calls = time.process_time(), 0
    while calls == 0 or time.process_time() - began < BURST:
        run()
        calls += 1
    return (time.process_time() - began) / calls * 1e3


def interleaved(systems: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median CPU milliseconds of each, taken in turn."""
    for run in systems.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in systems}
    for _ in range(rounds):
        for name, run in systems.items():
            times[name].append(cpu_ms(run))
    return {name: statistics.median(values) for name, values in times.items()}


def check(problem: Problem) -> None:
    """Both sides compute the same; ours has the smaller error."""
    landscape, exact = problem.landscape(), traces(problem.landscape(torch.float64), seed=0)
    found = traces(landscape, seed=0)
    signs = probe_signs(0, landscape.n_parameters, PROBES).float()
    forms = torch.tensor(loop(problem, shaped(problem, signs), form)).view(GROUPS, PROBES).double()
    ours = quadratic_forms(landscape, signs)[:, :GROUPS].t()
    relative = float((ours - forms).abs().max() / forms.abs().max())
    print(f"  largest difference of {PROBES} forms, relative to the largest: {relative:.1e}")
    assert relative < 1e-4, "the two sides do not compute the same thing"
    distance = (forms.mean(1) - exact.value[:GROUPS]).abs() / (forms.std(1) / PROBES**0.5)
    assert float(distance.max()) < 5, "the probes do not agree with the traces"
    error = (found.value - exact.value).abs()[:GROUPS] / exact.value.abs()[:GROUPS]
    probe_error = forms.std(1) / PROBES**0.5 / exact.value.abs()[:GROUPS]
    print(
        f"  relative error of the traces: {float(error.max()):.1e} here, "
        f"{float(probe_error.min()):.1e} or more (SE) by {PROBES} probes"
    )
    assert float(error.max()) <= float(probe_error.min())


def compare(model: str, rounds: int, rows: int) -> bool:
    problem = make_problem(model, rows)
    landscape = problem.landscape()
    print(f"\n{model}: {rows} records in {GROUPS} groups, {landscape.n_parameters} parameters")
    check(problem)
    generator = torch.Generator().manual_seed(1)
    vectors = torch.randn(VECTORS, landscape.n_parameters, generator=generator)
    pieces = shaped(problem, vectors)

    def hutchinson_loop() -> None:
        signs = torch.randint(0, 2, (PROBES, landscape.n_parameters)) * 2.0 - 1.0
        loop(problem, shaped(problem, signs), form)

    systems = {
        f"{PROBES} probes by a loop": hutchinson_loop,
        "traces of all groups": lambda: traces(landscape, seed=0),
        f"{VECTORS} forms by a loop": lambda: loop(problem, pieces, form),
        f"{VECTORS} forms": lambda: quadratic_forms(landscape, vectors),
        f"{VECTORS} products by a loop": lambda: loop(problem, pieces, flat),
        f"{VECTORS} products": lambda: hvp(landscape, vectors),
        "both ends of each spectrum": lambda: extremes_of_groups(landscape),
    }
    times = interleaved(systems, rounds)
    for name, value in times.items():
        print(f"  {name:28} {value:9.2f} ms")
    loops, own = list(times.values())[0:6:2], list(times.values())[1:6:2]
    ratios = dict(
        zip(
            ("traces", "forms", "products"),
            (a / b for a, b in zip(loops, own, strict=True)),
            strict=True,
        )
    )
    print(
        "  times faster than the loops: "
        + ", ".join(f"{name} {ratio:.1f}" for name, ratio in ratios.items())
    )
    reached = ratios["traces"] >= TARGETS[model]
    print(f"  traces at least {TARGETS[model]:.0f} times faster: {'yes' if reached else 'NO'}")
    return reached


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=INPUTS, action="append")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--rows", type=int, default=1024)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(
        f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}, one thread, CPU "
        "time"
    )
    reached = [
        compare(model, arguments.rounds, arguments.rows) for model in arguments.model or INPUTS
    ]
    raise SystemExit(not all(reached))


if __name__ == "__main__":
    main()
