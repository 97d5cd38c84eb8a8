"""One training step of the systems a user would pick instead, on the same records and batches."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from opacus import GradSampleModule
from opacus.grad_sample.grad_sample_module_fast_gradient_clipping import (
    GradSampleModuleFastGradientClipping,
)
from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from fairaudit.engine.devices import CPU, working_on
from fairaudit.engine.loop import Loop, Training
from fairaudit.engine.optimizers import GradientDescent
from fairaudit.engine.pool import TrainingPool
from fairaudit.engine.release import GaussianRelease
from fairaudit.engine.replicates import stack
from fairaudit.engine.rules import Erm, FlatClip, PublicFacts
from fairaudit.engine.sampling import PoissonSampler
from fairaudit.engine.stacked import Stacked
from fairaudit.opacus import make_private
from fairaudit.privacy.noise import noise_stream
from fairaudit.privacy.streams import numpy_stream

LEARNING_RATE, MAX_GRAD_NORM, NOISE_MULTIPLIER = 0.1, 0.5, 1.0
STEPS_PER_EPOCH = 92


@dataclass(frozen=True, slots=True)
class Problem:
    """Records and a model. features [N, d], labels [N], build() a fresh model of equal start.

    ``device``: where records and models lie; ``on`` moves them.
    """

    features: Tensor
    labels: Tensor
    classes: int
    build: Callable[[], nn.Module]
    device: torch.device = CPU

    def on(self, device: torch.device) -> "Problem":
        """The same problem on another device."""
        here = self.features.to(device), self.labels.to(device)
        return Problem(*here, self.classes, lambda: self.build().to(device), device)

    @property
    def expected_batch_size(self) -> float:
        """qN."""
        return len(self.features) / STEPS_PER_EPOCH

    def sampler(self) -> PoissonSampler:
        """The same batches for every system."""
        return PoissonSampler(
            [numpy_stream(0, "sampling", "shared")], len(self.features), STEPS_PER_EPOCH
        )


Take = Callable[[int], None]  # takes so many steps


def _steps(
    problem: Problem,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    criterion: Callable[[Tensor, Tensor], Tensor],
) -> Take:
    """PyTorch's usual loop; the systems differ in what they hand to it."""
    sampler = problem.sampler()

    def take(steps: int) -> None:
        for _ in range(steps):
            index = sampler.draw()[0].to(problem.device)
            optimizer.zero_grad()
            logits = model(problem.features.index_select(0, index))
            criterion(logits, problem.labels.index_select(0, index)).backward()
            optimizer.step()

    return take


def plain_sgd(problem: Problem) -> tuple[Take, nn.Module]:
    """PyTorch as anyone would write it."""
    model = problem.build()
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)

    return _steps(problem, model, optimizer, F.cross_entropy), model


def opacus_functorch(problem: Problem, sigma: float = NOISE_MULTIPLIER) -> tuple[Take, nn.Module]:
    """Opacus with per-sample gradients by ``torch.func``, layer by layer."""
    return opacus_hooks(problem, sigma, functorch=True)


def opacus_hooks(
    problem: Problem, sigma: float = NOISE_MULTIPLIER, *, functorch: bool = False
) -> tuple[Take, nn.Module]:
    """Opacus with materialised per-sample gradients."""
    model = GradSampleModule(problem.build(), force_functorch=functorch)
    inner = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    optimizer = DPOptimizer(
        inner,
        noise_multiplier=sigma,
        max_grad_norm=MAX_GRAD_NORM,
        expected_batch_size=problem.expected_batch_size,
    )

    return _steps(problem, model, optimizer, F.cross_entropy), model


def opacus_ghost(problem: Problem, sigma: float = NOISE_MULTIPLIER) -> tuple[Take, nn.Module]:
    """Opacus with ghost clipping: two backward passes, no per-sample gradients."""
    model = GradSampleModuleFastGradientClipping(
        problem.build(), max_grad_norm=MAX_GRAD_NORM, use_ghost_clipping=True, loss_reduction="mean"
    )
    optimizer = DPOptimizerFastGradientClipping(
        torch.optim.SGD(model.parameters(), lr=LEARNING_RATE),
        noise_multiplier=sigma,
        max_grad_norm=MAX_GRAD_NORM,
        expected_batch_size=problem.expected_batch_size,
        loss_reduction="mean",
    )
    criterion = DPLossFastGradientClipping(
        model, optimizer, nn.CrossEntropyLoss(reduction="mean"), loss_reduction="mean"
    )

    return _steps(problem, model, optimizer, criterion), model


def own_cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """A loss of the user's own, of which nothing is known beforehand."""
    return F.nll_loss(outputs.log_softmax(1), targets)


def private_loop(
    problem: Problem,
    sigma: float = NOISE_MULTIPLIER,
    *,
    mode: str,
    criterion: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> tuple[Take, nn.Module]:
    """``make_private`` in PyTorch's usual loop, with cross entropy if no criterion is given."""
    model = problem.build()
    batch_size = -(-len(problem.features) // STEPS_PER_EPOCH)
    wrapped, optimizer, loss, loader = make_private(
        model,
        torch.optim.SGD(model.parameters(), lr=LEARNING_RATE),
        DataLoader(TensorDataset(problem.features, problem.labels), batch_size=batch_size),
        criterion=criterion or nn.CrossEntropyLoss(),
        method="dpsgd",
        noise_multiplier=sigma,
        target_delta=1e-6,
        epochs=1,
        max_grad_norm=MAX_GRAD_NORM,
        seed=0,
        grad_sample_mode=mode,
    )
    batches = iter(loader.batch_sampler)

    def take(steps: int) -> None:
        nonlocal batches
        for _ in range(steps):
            batch = next(batches, None)
            if batch is None:
                batches = iter(loader.batch_sampler)
                batch = next(batches)
            index = torch.tensor(batch, dtype=torch.int64)
            optimizer.zero_grad()
            outputs = wrapped(problem.features.index_select(0, index))
            loss(outputs, problem.labels.index_select(0, index)).backward()
            optimizer.step()

    return take, model


def ours(
    problem: Problem, sigma: float = NOISE_MULTIPLIER, replicates: int = 1
) -> tuple[Take, Stacked]:
    """fairaudit's step: ghost norms, book-keeping, one noise draw."""
    groups = torch.zeros_like(problem.labels)
    with working_on(problem.device):
        pool = TrainingPool(
            problem.features, problem.labels, groups, n_classes=problem.classes, n_groups=1
        )
    streams = [
        numpy_stream(0, "sampling", f"own/{number}" if number else "shared")
        for number in range(replicates)
    ]
    expected = torch.full((replicates,), problem.expected_batch_size, device=problem.device)
    training = Training(
        objective=Erm(),
        rule=FlatClip(MAX_GRAD_NORM),
        release=GaussianRelease(sigma, noise_stream(0, "noise", "benchmark", replicates)),
        objective_noise=noise_stream(0, "query", "objective", replicates),
        rule_noise=noise_stream(0, "query", "rule", replicates),
        optimizer=GradientDescent(LEARNING_RATE),
        sampler=PoissonSampler(streams, len(problem.features), STEPS_PER_EPOCH),
        facts=PublicFacts(len(problem.features), expected, 1, problem.classes),
        epochs=1,
    )
    with working_on(problem.device):
        network = stack([problem.build()] * replicates, device=problem.device)
        loop = Loop(network, pool, training)

    def take(steps: int) -> None:
        with working_on(problem.device):
            loop.take(steps)

    return take, network
