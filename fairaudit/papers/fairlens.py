"""Published forms of FairLens: every record's gradient holds the penalty of the whole batch.

The loss of record i is its cross-entropy l_i plus gamma1 R1(B) + gamma2 R2(B), penalties on the
batch B: R1 on what clipping takes from the groups, R2 on the groups' distances to the decision
boundary. g_i is the gradient of l_i, g_a the mean of group a, g_D that of the whole batch and
gbar_D the mean of gradients clipped to C; f are probabilities and s = 1 - sum_c f_c^2 is how close
a record is to the boundary. In shapes R is the number of replicates, B of records, P of parameters,
Y of classes, d of inputs, K' of groups that are in the batch.
"""

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.func import grad, vmap

from fairaudit.engine.layer import Elementwise, Layer
from fairaudit.engine.linear import Linear
from fairaudit.engine.loop import TapeMaker
from fairaudit.engine.network import Network, Tape
from fairaudit.engine.rules import Erm, Objective
from fairaudit.engine.stacked import DEFAULT_BUDGET, Stacked
from fairaudit.errors import TrainingError
from fairaudit.methods.base import Task
from fairaudit.methods.dpsgd import DpSgd
from fairaudit.papers.clipping import RealisedMeanMethod

# P beyond which gradients of every record, differentiated again, cost too much and are refused.
LARGEST_MODEL = 2000


class BatchMoments(NamedTuple):
    """What the penalties are made of, as functions of theta; K' groups are in the batch.

    The first three are empty where gamma1 is 0, for only R1 reads them.

    Args:
        group_gradients: g_a, [K', P].
        gradient: g_D, [P].
        lost: g_D - gbar_D, [P].
        group_probabilities: Mean probabilities f_a, [K', Y].
        group_scores, score: E_a s [K'] and E s, s = 1 - sum_c f_c^2.
    """

    group_gradients: Tensor
    gradient: Tensor
    lost: Tensor
    group_probabilities: Tensor
    group_scores: Tensor
    score: Tensor


class Coupled(Erm):
    """Cross-entropy plus a penalty on the batch: grad l_i + gamma1 grad R1(B) + gamma2 grad R2(B).

    R1 and R2 are functions of all records of the batch, so one record more changes the gradient of
    every other one and clipping each bounds nothing (rule R1). Logits alone do not suffice for the
    penalty, so :class:`CoupledTape` adds its gradient; this object keeps what it needs.

    Source: docs/methods.md 3.7.
    """

    def __init__(self, gamma1: float, gamma2: float, max_grad_norm: float) -> None:
        self.gamma1, self.gamma2, self.max_grad_norm = gamma1, gamma2, max_grad_norm
        self.targets = self.group = torch.empty(0)

    def output_gradient(
        self, released: None, logits: Tensor, targets: Tensor, group: Tensor
    ) -> Tensor:
        """Gradient of each record's cross-entropy at its logits, ``[(R,) B, Y]``.

        Targets and groups are kept for the penalty, whose gradient the tape adds.
        """
        self.targets, self.group = targets, group
        return super().output_gradient(released, logits, targets, group)

    @abstractmethod
    def first(self, moments: BatchMoments) -> Tensor:
        """R1, a scalar: how differently the groups lose by clipping."""

    @abstractmethod
    def second(self, moments: BatchMoments) -> Tensor:
        """R2, a scalar: how close, or how differently close, the groups are to the boundary."""

    def penalty(self, theta: Tensor, layers: Sequence[Layer], batch: "BatchRecords") -> Tensor:
        """gamma1 R1 + gamma2 R2 of one replicate's batch, a scalar, as a function of ``theta [P]``.

        R1 is left out at gamma1 = 0, because it needs every record's gradient.
        """
        moments = self._moments(theta, layers, batch)
        value = self.gamma2 * self.second(moments)
        if self.gamma1:
            return value + self.gamma1 * self.first(moments)
        return value

    def _moments(
        self, theta: Tensor, layers: Sequence[Layer], batch: "BatchRecords"
    ) -> BatchMoments:
        """What both penalties are made of, at parameters ``theta [P]``.

        Means of gradients and predictions, over each group and over the batch.
        """
        # Weights of the records in each group's mean, [B, K'], and in the batch's, [B].
        of_groups = batch.member / batch.member.sum(0)
        of_batch = batch.member.sum(1) / batch.member.sum()
        f = torch.softmax(logits_of(layers, theta, batch.x), -1)
        s = 1.0 - f.square().sum(-1)
        group_f, group_s, s_of_batch = of_groups.T @ f, of_groups.T @ s, of_batch @ s
        if not self.gamma1:
            nothing = theta.new_zeros(0)
            return BatchMoments(nothing, nothing, nothing, group_f, group_s, s_of_batch)
        g = record_gradients(theta, layers, batch)
        squared = g.square().sum(1)
        longer = squared > self.max_grad_norm**2
        # The root is differentiated, and its slope at 0 is infinite. So of records within the
        # bound, whose factor is 1 anyway, the root of 1 is taken instead.
        norm = torch.where(longer, squared, 1.0).sqrt()
        factor = torch.where(longer, self.max_grad_norm / norm, 1.0)
        lost = of_batch @ g - of_batch @ (g * factor.unsqueeze(1))
        gradients = of_groups.T @ g, of_batch @ g
        return BatchMoments(*gradients, lost, group_f, group_s, s_of_batch)


class EsipovaPenalty(Coupled):
    """R1 = |<g_a - g_b, gbar - g>|, R2 = (f_a (1 - f_a) + f_b (1 - f_b)) / 2.

    f_k is a group's MEAN probability of the second class. Printed for two groups and two classes;
    more groups are summed over (pairs of) groups, more classes enter as sum_c f_c^2.

    Source: Esipova et al. 2023, Alg. 4.
    """

    def first(self, moments: BatchMoments) -> Tensor:
        """R1, a scalar: summed over pairs of groups, how differently they lose by clipping."""
        against = moments.group_gradients @ moments.lost
        pairs = [(against[a] - against[b]).abs() for a, b in combinations(range(len(against)), 2)]
        if pairs:
            return torch.stack(pairs).sum()
        return moments.lost.sum() * 0.0  # one group: zero, as a function of theta

    def second(self, moments: BatchMoments) -> Tensor:
        """R2, a scalar: summed over groups, (1 - sum_c f_c^2) / 4 of the mean probabilities f.

        For two classes that is f (1 - f) / 2.
        """
        return (1.0 - moments.group_probabilities.square().sum(1)).sum() / 4.0


class TranPenalty(Coupled):
    """R1 = sum_a |<g_a - g_D, g_D - gbar_D>|, R2 = sum_a |E_a s - E s|.

    R2 is the form that the paper computes in place of |Tr H_a - Tr H|.

    Source: Tran et al. 2021, eq. (6) and the equation after it.
    """

    def first(self, moments: BatchMoments) -> Tensor:
        """R1, a scalar: how far a group's loss by clipping is from the batch's, over all groups."""
        return ((moments.group_gradients - moments.gradient) @ moments.lost).abs().sum()

    def second(self, moments: BatchMoments) -> Tensor:
        """R2, a scalar: how far each group's mean of s lies from the whole batch's, summed."""
        return (moments.group_scores - moments.score).abs().sum()


class BatchRecords(NamedTuple):
    """The usable records of one replicate's batch.

    Args:
        x: Inputs [B, d], zero where not usable.
        targets: One-hot labels [B, Y], likewise.
        member: Group membership [B, K'], a zero row where not usable.
    """

    x: Tensor
    targets: Tensor
    member: Tensor


def logits_of(layers: Sequence[Layer], theta: Tensor, x: Tensor) -> Tensor:
    """Logits [..., Y] of inputs [..., d], as a differentiable function of flat parameters [P]."""
    for layer in layers:
        if isinstance(layer, Linear):
            x = x @ theta[layer.start : layer.split].view(layer.shape).T
            if layer.has_bias:
                x = x + theta[layer.split : layer.end]
        else:
            x = layer.forward(x)
    return x


def record_gradients(theta: Tensor, layers: Sequence[Layer], batch: BatchRecords) -> Tensor:
    """Gradient of every record's cross-entropy, [B, P], itself differentiable by ``theta [P]``."""

    def loss(parameters: Tensor, x: Tensor, target: Tensor) -> Tensor:
        """Cross-entropy of one record: parameters ``[P]``, input ``[d]``, target ``[Y]``."""
        return -(target * torch.log_softmax(logits_of(layers, parameters, x), -1)).sum()

    rows: Tensor = vmap(grad(loss), (None, 0, 0))(theta, batch.x, batch.targets)
    return rows


class CoupledTape(Tape):
    """A tape that adds the gradient of the batch's penalty to every record's gradient.

    A tape takes a batch forward and backward through the network. Here the gradients are held for
    every record, [R, B, P]. Records that are not finite are left out altogether.

    Raises:
        TrainingError: A layer that is not linear or elementwise, or gamma1 > 0 and more than
            LARGEST_MODEL parameters.
    """

    def __init__(
        self, objective: Coupled, network: Stacked, most_sums: int = 1, budget: int = DEFAULT_BUDGET
    ) -> None:
        if not isinstance(network, Network) or not all(
            isinstance(layer, Linear | Elementwise) for layer in network.layers
        ):
            raise TrainingError(
                "the published fairlens forms train models of linear layers only",
                hint="use --model logistic",
            )
        super().__init__(network, most_sums, budget)
        if objective.gamma1 and network.n_parameters > LARGEST_MODEL:
            raise TrainingError(
                "the published fairlens forms differentiate every record's gradient, which is "
                f"limited to {LARGEST_MODEL} parameters; this model has {network.n_parameters}",
                hint="use --model logistic, or --settings fairlens.gamma1=0",
            )
        self.objective = objective
        self.inputs = self.gradients = torch.empty(0)

    def forward(self, x: Tensor, norms: Tensor | None = None, *, clean: bool = False) -> Tensor:
        """Logits of inputs ``x``, as of any tape; the inputs are kept for the penalty."""
        self.inputs = x
        return super().forward(x, norms, clean=clean)

    def backward(self, output_gradient: Tensor) -> Tensor:
        """Norms ``[(R,) B]`` of the records' gradients g_i + u, u the penalty's gradient.

        They are computed from the kept batch and not from ``output_gradient``, which lacks the
        penalty.
        """
        batch = [self.inputs, self.objective.targets, self.objective.group]
        if self.single:  # one replicate, whose tensors have no axis for it
            batch = [value.unsqueeze(0) for value in batch]
        # In inference mode torch 2.6 differentiates to zeros without a word. Tensors that were made
        # in that mode it refuses, so copies are made outside.
        with torch.inference_mode(mode=False):
            copies = [value.clone() for value in (self.network.theta, *batch)]
            of_replicates = zip(*copies, strict=True)
            self.gradients = torch.stack([self._coupled_gradients(*one) for one in of_replicates])
        norms: Tensor = torch.linalg.vector_norm(self.gradients, dim=-1)
        if self.single:
            return norms[0]
        return norms

    def sums(self, weights: Sequence[Tensor]) -> list[Tensor]:
        """Weighted sums of the records' gradients, ``[R, P]`` each, one for each of ``weights``.

        For weights w ``[R, B]`` that is sum_i w_i (g_i + u), u the penalty's gradient. The sums lie
        in memory that the next call writes over.
        """
        # Not strict: there may be fewer weights than the tape has memory for.
        for total, weight in zip(self._sums, weights, strict=False):
            torch.bmm(weight.unsqueeze(1), self.gradients, out=total.unsqueeze(1))
        return self._sums[: len(weights)]

    def _coupled_gradients(
        self, theta: Tensor, x: Tensor, targets: Tensor, group: Tensor
    ) -> Tensor:
        """The records' gradients g_i + u in one replicate, [B, P], u the penalty's gradient.

        Rows of padding and of records that are not finite are zero.

        Args:
            theta: Parameters, [P].
            x: Inputs, [B, d].
            targets: One-hot labels, [B, Y]; all zero for padding.
            group: [B].
        """
        layers = self.network.layers
        present = targets.sum(-1) > 0
        whole = BatchRecords(x, targets, torch.empty(0))  # gradients read no membership
        plain = record_gradients(theta, layers, whole)
        usable = present & torch.isfinite(plain.square().sum(1))
        if not usable.any():
            return torch.zeros_like(plain)
        keep = usable.unsqueeze(1)
        member = torch.nn.functional.one_hot(group).to(x.dtype) * keep
        member = member[:, member.sum(0) > 0]  # groups with a record: others have no mean
        batch = BatchRecords(torch.where(keep, x, 0.0), torch.where(keep, targets, 0.0), member)
        shift = grad(self.objective.penalty)(theta, layers, batch)
        # A sign at 0 or a group of equal records gives 0, never NaN; what overflows is dropped.
        shift = torch.where(torch.isfinite(shift), shift, 0.0)
        return torch.where(keep, plain + shift, 0.0)


class _PublishedFairLens(RealisedMeanMethod, DpSgd):
    """Flat clipping of the penalised gradient, and the noised mean over the realised batch."""

    penalty: type[Coupled]  # the paper's R1 and R2

    def objective(self, task: Task) -> Coupled:
        """What is differentiated: cross-entropy plus the paper's penalty on the batch."""
        settings = task.settings
        return self.penalty(settings["gamma1"], settings["gamma2"], settings["max_grad_norm"])

    def tape(self, objective: Objective[Any]) -> TapeMaker:
        """What makes the tape, one that adds the penalty's gradient to every record's."""
        assert isinstance(objective, Coupled)
        return partial(CoupledTape, objective)


class FairLensEsipova(_PublishedFairLens):
    """FairLens as printed by Esipova et al. 2023, Alg. 4."""

    penalty = EsipovaPenalty


class FairLensTran(_PublishedFairLens):
    """FairLens as printed by Tran et al. 2021, eq. (6)."""

    penalty = TranPenalty
