"""FairLens: DP-SGD whose loss has penalties on what noise and clipping do to groups.

With f_c the model's probability of class c, s = 1 - sum_c f_c^2 says how close a record is to the
decision boundary: 0 where one class is certain, largest where all are equally likely. gamma2 weighs
how far the groups' means of s are apart, which is the half about noise, gamma1 how unlike they are
in what clipping takes from their gradients. In shapes R is the number of replicates, B of records
in a batch, K of groups, Y of classes, d of inputs, D of inputs and the constant.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar  # noqa: TID251 - it is read without torch

from fairaudit.engine.rules import Objective, PublicFacts, StepRecords
from fairaudit.errors import TrainingError
from fairaudit.methods.defaults import FLAT, SMALLEST_COUNT, PublicSizes, Rule, Setting
from fairaudit.methods.dpsgd import DpSgd
from fairaudit.methods.spec import Guarantee, MethodSpec

if TYPE_CHECKING:
    from torch import Tensor, nn

    from fairaudit.methods.base import Task

LARGEST_MODEL = 2000  # parameters; beyond, noise outweighs the released sums of gradients
ROW_NUMBERS = 2**22  # numbers in the rows of a query that are held at a time
# An addend and a factor that make computed norms upper bounds in spite of rounding, as the
# engine's.
HIDDEN, NORM_GUARD = 1e-15, 1.0 + 1e-5
SMALLEST_NORM = 1e-30  # of a gradient; a shorter one is none
# What a row's four parts are multiplied by: two of counts and s, of which little noise is enough,
# and two of gradients. The sum of the squares is 1.
SMALL_PART = 0.2
LARGE_PART = math.sqrt(0.5 - SMALL_PART**2)
NOISE_STDS = 2.0  # a running count within so many noise stds of 0 says nothing of its group


def _has_clipping_half(sizes: PublicSizes) -> bool:
    """Whether the half about clipping is trained by default, as public numbers say.

    It is known for small logistic regressions alone, and has nothing to do at a bound that clips no
    usual record. A column is one input at least: how many more the levels of a category are, is
    known once rows are encoded.
    """
    least_parameters = sizes.classes * (sizes.columns + 1)
    is_small = sizes.model == "logistic" and least_parameters <= LARGEST_MODEL
    return is_small and sizes.max_grad_norm < sizes.longest_gradient


def _remark_at(settings: Mapping[str, float]) -> str:
    """What the report says of an arm that has the half about noise alone; "" for another."""
    if settings["gamma1"] and settings["statistic_grad_norm"] > settings["max_grad_norm"]:
        return ""
    return (
        "it has the half about noise alone here. The half about clipping is for logistic "
        f"regressions of at most {LARGEST_MODEL:,} parameters, at a clipping bound below "
        "sqrt(2 (columns + 1))."
    )


FAIRLENS = MethodSpec(
    name="fairlens",
    summary="dpsgd whose loss also pulls the groups together: in their mean distance to the "
    "decision boundary, and in what clipping takes from them",
    source="Tran et al. 2021, eq. (6), in a form of this tool in which no record sees another",
    guarantee=Guarantee.ESTABLISHED,
    gap_on_sample=(3.9, 0.1, 7.6),
    remark="its two penalties, gamma1 on what clipping takes and gamma2 on distances to the "
    "boundary, read statistics of earlier steps that are released with noise. On three files at "
    "clipping bound 1 it took gaps of 5.2, -0.4 and -3.1 points to 3.9, 3.7 and 1.0, with gamma2 "
    "alone to 6.7, 2.3 and -1.5.",
    remark_at=_remark_at,
    trainer=f"{__name__}:FairLensDecoupled",
    settings={
        **FLAT,
        "gamma1": Setting(
            "weight of the penalty on what clipping takes from the groups' gradients",
            0.0,
            1e6,
            default=Rule(
                "1 for logistic regressions with classes (columns + 1) of at most "
                f"{LARGEST_MODEL:,} and a clipping bound below sqrt(2 (columns + 1)), else 0",
                lambda s: float(_has_clipping_half(s)),
            ),
            applies=_has_clipping_half,
        ),
        "gamma2": Setting(
            "weight of the penalty on distances to the boundary",
            0.0,
            1e6,
            default=Rule("1", lambda s: 1.0),
        ),
        "statistic_noise_ratio": Setting(
            "noise multiplier of the groups' statistics over the gradient's",
            0.1,
            1e6,
            default=Rule(
                "1.5 where gamma1 is 1 by rule; else 10 / sqrt(2): counts and sums each get 10 "
                "times the gradient's noise multiplier",
                lambda s: 1.5 if _has_clipping_half(s) else 10.0 / math.sqrt(2.0),
            ),
        ),
        "statistic_decay": Setting(
            "share of the running statistics that is kept at each step",
            0.0,
            1.0,
            default=Rule(
                "0.995 where gamma1 is 1 by rule, else 0.95",
                lambda s: 0.995 if _has_clipping_half(s) else 0.95,
            ),
        ),
        "statistic_grad_norm": Setting(
            "bound of gradients in the groups' sums; at most C, there is no gamma1",
            1e-6,
            1e6,
            "norm of a record's gradient",
            default=Rule(
                "sqrt(2 (columns + 1)), a typical record's longest gradient",
                lambda s: s.longest_gradient,
            ),
        ),
        "smallest_count": SMALLEST_COUNT,
        "smallest_share": Setting(
            "a smaller share of a group is taken for this one",
            1e-6,
            1.0,
            "of the records",
            default=Rule("0.01", lambda s: 0.01),
        ),
    },
    relative_queries={"statistics": "statistic_noise_ratio"},
    reads_groups=True,
    part_words="clipping and penalty",
)


@dataclass(frozen=True, slots=True)
class GroupStatistics:
    """The objective's state, per group and all released, [R, K] each.

    Args:
        counts: Running noised counts of records.
        sums: Running noised sums of s.
        weights: The penalty weights w_k that follow from both.
    """

    counts: Tensor
    sums: Tensor
    weights: Tensor


@dataclass(frozen=True, slots=True)
class FairLens(Objective[GroupStatistics]):
    """Cross-entropy plus gamma2 sum_a |E_a s - E s|, s = 1 - sum_c f_c^2, record by record.

    E_a is the mean over group a, E over all records. The penalty's gradient is E[w_a grad s] with
    w_k = xi_k / p_k - sum_a xi_a, xi_a the sign of E_a s - E s and p_k the share of group k. Only
    shares and means couple the records; they are released with noise, and each record's own
    gradient follows from the released weights. This is a construction of this project: the paper's
    own penalty bounds no record's influence.

    Source: Tran et al. 2021, eq. (6), practical form; docs/methods.md 3.7. Guarantee: the output
    gradient of a record depends on that record and on released values; a row of the query is at
    most 1 long.
    """

    gamma2: float  # weight of the penalty
    noise_multiplier: float  # of the query, whose sensitivity is 1
    decay: float  # beta of the running sums
    smallest_count: float  # n_min, floor of every count that divides
    smallest_share: float  # p_min, floor of a group's share
    n_classes: int  # Y

    query_name: ClassVar[str] = "statistics"

    @property
    def query_noise_multiplier(self) -> float:
        """Noise multiplier of the query; one row holds counts and sums, so its sensitivity is 1."""
        return self.noise_multiplier

    @property
    def largest(self) -> float:
        """s_max = 1 - 1/Y, the largest value of s, which equal probabilities have."""
        return 1.0 - 1.0 / self.n_classes

    def init(self, replicates: int, facts: PublicFacts) -> GroupStatistics:
        """The state before the first step: all zero, so there is no penalty yet."""
        # Zeros of the type and on the device of the public numbers.
        nothing = facts.expected_batch_size.new_zeros(replicates, facts.n_groups)
        return GroupStatistics(nothing, nothing.clone(), nothing.clone())

    def query(self, state: GroupStatistics, logits: Tensor, group: Tensor) -> Tensor:
        """What each record adds to the counts and sums, [R, B, 2K]: one row for both statistics.

        The row is (onehot, s / s_max * onehot) / sqrt(2) with the one-hot code of its group, so
        that its norm is at most 1.
        """
        n_groups = state.counts.shape[1]
        probabilities = logits.softmax(-1)
        s = (1.0 - probabilities.square().sum(-1)) / self.largest
        # Logits that overflow, and rounding, must not make the row longer than 1.
        s = s.where(s.isfinite(), 0.0).clamp_(0.0, 1.0)
        rows = s.new_zeros(*s.shape, 2 * n_groups)
        cell = group.unsqueeze(-1)
        rows.scatter_(2, cell, math.sqrt(0.5))
        return rows.scatter_(2, cell + n_groups, s.unsqueeze(-1) * math.sqrt(0.5))

    def update(self, state: GroupStatistics, answer: Tensor) -> GroupStatistics:
        """The state with this step's noised ``answer [R, 2 K]``: running statistics, then weights.

        The factors undo the query's division by sqrt(2) and by s_max.
        """
        counts, sums = (answer * math.sqrt(2.0)).chunk(2, 1)
        running = replace(
            state,
            counts=self.decay * state.counts + counts,
            sums=self.decay * state.sums + self.largest * sums,
        )
        return replace(running, weights=self.weights(running.counts, running.sums))

    def weights(self, counts: Tensor, sums: Tensor) -> Tensor:
        """The penalty weight w_k of every group, from running counts and sums of s, [R, K] each.

        w_k = xi_k / p_k - sum_a xi_a, with xi the sign of the group's mean of s less that of all.
        """
        share = self.shares(counts)
        mean = sums / counts.clamp_min(self.smallest_count)
        overall = sums.sum(1, keepdim=True) / counts.sum(1, keepdim=True).clamp_min(
            self.smallest_count
        )
        sign = (mean - overall).sign().where(self.is_above_noise(counts), 0.0)
        return sign / share - sign.sum(1, keepdim=True)

    def shares(self, counts: Tensor) -> Tensor:
        """Share p_k of every group by its running count, [R, K], none below ``smallest_share``.

        Noise may make a count negative, and a share too small to divide by.
        """
        present = counts.clamp_min(0.0)
        share = present / present.sum(1, keepdim=True).clamp_min(self.smallest_count)
        share = share.clamp_min(self.smallest_share)
        return share / share.sum(1, keepdim=True)

    def is_above_noise(self, counts: Tensor) -> Tensor:
        """Which groups' running counts stand out of their noise, booleans, [R, K].

        The mean of any other group (one without members, or at the first steps) has a random sign,
        which would push all other records; it is left out. The bound is public.
        """
        return counts > NOISE_STDS * self.running_noise

    @property
    def running_noise(self) -> float:
        """Standard deviation of the noise on a running count, in records, after many steps.

        A step adds noise of sqrt(2) times the multiplier, the sqrt(2) from the query's rows; the
        decaying sum of squares is 1 / (1 - decay^2).
        """
        return self.noise_multiplier * math.sqrt(2.0 / max(1.0 - self.decay**2, 1e-6))

    def output_gradient(
        self, released: GroupStatistics, logits: Tensor, targets: Tensor, group: Tensor
    ) -> Tensor:
        """Gradient of each record's own objective at its logits z, ``[(R,) B, Y]``.

        (f - y) + gamma2 w_a ds/dz with y the target, a the record's group, and
        ds/dz = -2 f (f - sum_c f_c^2).
        """
        f = logits.softmax(-1)
        if group.dim() == 2:  # else one replicate, whose tensors have no axis for it
            table = released.weights
        else:
            table = released.weights[0]
        weight = table.gather(-1, group).unsqueeze(-1)
        slope = f * (f.square().sum(-1, keepdim=True) - f) * 2.0
        return (f - targets).addcmul(weight, slope, value=self.gamma2)

    def describe(self, released: GroupStatistics) -> dict[str, Tensor]:
        """The series for the trace: this step's weights w_k, [R, K]."""
        return {"group_penalty_weight": released.weights}


@dataclass(frozen=True, slots=True)
class HalvesStatistics(GroupStatistics):
    """The state of :class:`FairLensHalves`, all released.

    Args:
        gradients: Running noised sums of gradients clipped to C_1, by group, [R, K, Y, D].
        lost: Running noised sum of what clipping to C takes of them, [R, Y, D].
        v: Mean of what clipping takes, [R, Y, D].
        pull: sum_a sgn_a u_a, [R, Y, D], with u_a = g_a - g_D and sgn_a the sign of <u_a, v>.
        shift: sgn_k / p_k - sum_a sgn_a of every group, [R, K].
    """

    gradients: Tensor
    lost: Tensor
    v: Tensor
    pull: Tensor
    shift: Tensor


@dataclass(frozen=True, slots=True)
class FairLensHalves(FairLens):
    """The same plus gamma1 sum_a |<g_a - g_D, g_D - gbar_D>|, of a softmax regression.

    g_a is the mean gradient of group a, g_D that of all records, gbar_D that of gradients clipped
    to C. With u_a = g_a - g_D, v = g_D - gbar_D and sgn_a the sign of <u_a, v>, the gradient of
    this penalty is a mean over records of

        sum_a sgn_a ((1[a_i = a] / p_a - 1) H_i v + (H_i - Jc_i)^T u_a)

    with H_i the Hessian of record i's loss and Jc_i the Jacobian of its clipped gradient. Means
    couple the records, and they are released with noise. For logits z = W x with the constant 1 in
    x the gradient of a record is the outer product of its error delta = f - y and x, and H_i v is
    that of (diag f - f f^T) v x and x. So a record's part follows from its input, logits, label and
    group, and from what was released.

    Sensitivity. Record i adds to the query's sum the one row

        (a e, a s / s_max e, b e (x) clip_C1(g_i) / C1, b (clip_C1(g_i) - clip_C(g_i)) / (C1 - C))

    with e the one-hot code of its group, C1 > C, a = SMALL_PART and b = LARGE_PART. Without these
    factors each of the four parts is at most 1 long: e by itself; 0 <= s <= s_max; the third is one
    clipped gradient in the cell of one group; the fourth is a gradient of length n made
    (min(n, C1) - min(n, C)) / (C1 - C) long, within 0 and 1. So the row is at most
    sqrt(2 a^2 + 2 b^2) = 1 long, for whatever input, label, group, parameters and earlier releases,
    and a record more or less moves the sum by at most 1. The engine cuts longer
    rows. Of one row is one Gaussian release, so the event is that of :class:`FairLens`: the query's
    multiplier and the gradient's, on one sample (docs/methods.md 2.1).

    Source: Tran et al. 2021, eq. (6); docs/methods.md 3.7. Guarantee: row and output gradient of a
    record depend on that record and on released values; the row is at most 1 long.
    """

    gamma1: float  # weight of the penalty on what clipping takes
    max_grad_norm: float  # C
    statistic_grad_norm: float  # C1, above C
    width: int  # D, inputs of a record and the constant
    has_constant: int  # 1 where the model has a bias, so that the constant is one of them

    reads_inputs: ClassVar[bool] = True

    def init(self, replicates: int, facts: PublicFacts) -> HalvesStatistics:
        """The state before the first step: all zero, so there is no penalty yet."""
        new = facts.expected_batch_size.new_zeros  # of their type, on their device
        of_groups, of_model = (replicates, facts.n_groups), (self.n_classes, self.width)
        return HalvesStatistics(
            counts=new(of_groups),
            sums=new(of_groups),
            weights=new(of_groups),
            gradients=new(*of_groups, *of_model),
            lost=new(replicates, *of_model),
            v=new(replicates, *of_model),
            pull=new(replicates, *of_model),
            shift=new(of_groups),
        )

    def records_at_once(self, state: GroupStatistics) -> int:
        """How many records' rows hold ROW_NUMBERS numbers in all replicates together; 1 or more."""
        replicates, n_groups = state.counts.shape
        of_row = 2 * n_groups + (n_groups + 1) * self.n_classes * self.width
        return max(1, ROW_NUMBERS // (replicates * of_row))

    def rows(self, state: GroupStatistics, records: StepRecords) -> Tensor:
        """What each record adds to the four sums, [R, B, 2K + (K + 1) Y D], at most 1 long.

        The row (a e, a s / s_max e, b e (x) clip_C1(g) / C1, b (clip_C1(g) - clip_C(g)) / (C1 - C))
        of the class's docstring. The gradient is g = delta (x) x, so its last K + 1 cells [Y, D]
        are g times a factor each.
        """
        import torch

        n_groups = state.counts.shape[1]
        x = self._with_constant(records.inputs)
        delta = records.logits.softmax(-1) - records.targets
        # An upper bound of |g|, as in the engine: rounding must not make a row longer than 1.
        norm = (delta.norm(dim=-1) + HIDDEN) * x.norm(dim=-1) * NORM_GUARD
        norm = norm.clamp_min(SMALLEST_NORM)
        # The factors of g in the third part, min(1, C1 / |g|) / C1, and in the fourth,
        # (min(|g|, C1) - min(|g|, C)) / (C1 - C) / |g|.
        clipped = (self.statistic_grad_norm / norm).clamp_max(1.0) / self.statistic_grad_norm
        taken = norm.clamp(self.max_grad_norm, self.statistic_grad_norm) - self.max_grad_norm
        taken /= self.statistic_grad_norm - self.max_grad_norm
        factors = x.new_zeros(*norm.shape, n_groups + 1)
        factors.scatter_(2, records.group.unsqueeze(-1), clipped.unsqueeze(-1))
        factors[..., n_groups] = taken.clamp_max(1.0) / norm
        gradient = (delta.unsqueeze(-1) * x.unsqueeze(-2)).flatten(2)  # [R, B, Y D]
        cells = (factors.unsqueeze(-1) * gradient.unsqueeze(-2)).flatten(2)
        # A gradient that is not finite adds nothing (rule R6).
        cells = cells.where(norm.isfinite().unsqueeze(-1), 0.0)
        counts_and_s = self.query(state, records.logits, records.group)
        # FairLens's row is divided by sqrt(2), which is undone here.
        small = counts_and_s * (SMALL_PART * math.sqrt(2.0))
        return torch.cat([small, cells * LARGE_PART], -1)

    def update(self, state: GroupStatistics, answer: Tensor) -> HalvesStatistics:
        """The state with this step's noised answer: four running sums, and what follows from them.

        The factors undo SMALL_PART and LARGE_PART, and s_max, C1 and C1 - C, by which :meth:`rows`
        divides.

        Args:
            state: Before this step.
            answer: The noised sum of the rows, [R, 2K + (K + 1) Y D].
        """
        assert isinstance(state, HalvesStatistics)
        n_groups, of_model = state.counts.shape[1], state.lost[0].numel()  # K, Y D
        small, large = answer.tensor_split([2 * n_groups], 1)
        counts, sums = (small / SMALL_PART).chunk(2, 1)
        gradients, lost = (large / LARGE_PART).tensor_split([n_groups * of_model], 1)
        taken = self.statistic_grad_norm - self.max_grad_norm
        running = replace(
            state,
            counts=self.decay * state.counts + counts,
            sums=self.decay * state.sums + self.largest * sums,
            gradients=self.decay * state.gradients
            + self.statistic_grad_norm * gradients.reshape(state.gradients.shape),
            lost=self.decay * state.lost + taken * lost.reshape(state.lost.shape),
        )
        return self._with_means(running)

    def _with_means(self, running: HalvesStatistics) -> HalvesStatistics:
        """The state with the weights, v, pull and shift that follow from its running sums.

        u_a = g_a - g_D and v = g_D - gbar_D, each from a running sum over its running count.
        """
        counts = running.counts
        # Counts to divide by; noise may bring a count near 0, or below.
        of_group = counts.clamp_min(self.smallest_count)
        total = counts.sum(1, keepdim=True).clamp_min(self.smallest_count)
        of_all = running.gradients.sum(1, keepdim=True) / total.view(-1, 1, 1, 1)  # g_D
        u = running.gradients / of_group.unsqueeze(-1).unsqueeze(-1) - of_all
        v = running.lost / total.view(-1, 1, 1)
        sign = (u * v.unsqueeze(1)).sum((2, 3)).sign().where(self.is_above_noise(counts), 0.0)
        return replace(
            running,
            weights=self.weights(counts, running.sums),
            v=v,
            pull=(sign.unsqueeze(-1).unsqueeze(-1) * u).sum(1),
            shift=sign / self.shares(counts) - sign.sum(1, keepdim=True),
        )

    @property
    def running_noise(self) -> float:
        """As of :class:`FairLens`, whose counts are multiplied by 1 / sqrt(2), not SMALL_PART."""
        return self.noise_multiplier / SMALL_PART / math.sqrt(max(1.0 - self.decay**2, 1e-6))

    def gradient(self, released: GroupStatistics, records: StepRecords) -> Tensor:
        """Gradient of each record's own objective at its logits, ``[(R,) B, Y]``.

        A record's parameter gradient is the outer product of what is returned with its input x.
        Returned is the gradient of :class:`FairLens` plus gamma1 times (diag f - f f^T) (shift_k
        V x + q). There V x is ``along_v``, U x with U the ``pull`` is ``along_u``, and q, ``lost``,
        is what the Jacobian of clipping takes from U x: 0 for a gradient g not longer than C, else
        U x - (C / |g|) (U x - <ghat, U> ghat x), ghat = g / |g|.
        """
        assert isinstance(released, HalvesStatistics)
        _, logits, targets, group = records
        plain = self.output_gradient(released, logits, targets, group)
        v, pull, shift = released.v, released.pull, released.shift
        if group.dim() == 1:  # one replicate, whose tensors have no axis for it
            v, pull, shift = v[0], pull[0], shift[0]
        f = logits.softmax(-1)
        delta = f - targets
        x = self._with_constant(records.inputs, group.dim())
        norm_x, norm_delta = x.norm(dim=-1, keepdim=True), delta.norm(dim=-1, keepdim=True) + HIDDEN
        norm = norm_x * norm_delta  # |g|, of the outer product of delta and x
        along_v, along_u = x @ v.mT, x @ pull.mT
        # Where g is longer than C, the Jacobian of clipping, transposed, keeps of u the part
        # (C / |g|) (u - ghat <ghat, u>), with <ghat, u> = <delta, u x> / |g| and, times x,
        # ghat x = delta |x|^2 / |g| = delta |x| / |delta|.
        ghat_part = (delta * along_u).sum(-1, keepdim=True) / norm * delta * (norm_x / norm_delta)
        kept = self.max_grad_norm / norm * (along_u - ghat_part)
        lost = (along_u - kept).where(norm > self.max_grad_norm, 0.0)
        # (diag f - f f^T) times the sum, which is H_i without its outer product with x.
        direction = shift.gather(-1, group).unsqueeze(-1) * along_v + lost
        through_softmax = f * (direction - (f * direction).sum(-1, keepdim=True))
        return plain.add(through_softmax, alpha=self.gamma1)

    def _with_constant(self, inputs: Tensor, leading: int = 2) -> Tensor:
        """Inputs as rows [(R,) B, D], with a 1 behind them where the model has a bias.

        ``leading``: axes before those of a record.
        """
        import torch

        x = inputs.flatten(leading)
        if not self.has_constant:
            return x
        return torch.cat([x, x.new_ones(*x.shape[:-1], 1)], -1)


class FairLensDecoupled(DpSgd):
    """Flat clipping of a penalised loss, decoupled: no record's gradient reads another record.

    Source: Tran et al. 2021, eq. (6); docs/methods.md 3.7.
    """

    def objective(self, task: Task) -> FairLens:
        """Cross-entropy and penalty: :class:`FairLensHalves`, or with gamma1 = 0 :class:`FairLens`.

        The noise multiplier of its query is a multiple of the gradient's, so that one scale of all
        noise meets a target epsilon.
        """
        settings = task.settings
        numbers: dict[str, Any] = {
            "gamma2": settings["gamma2"],
            "noise_multiplier": settings["statistic_noise_ratio"] * settings["noise_multiplier"],
            "decay": settings["statistic_decay"],
            "smallest_count": settings["smallest_count"],
            "smallest_share": settings["smallest_share"],
            "n_classes": task.pool.n_classes,
        }
        bound, largest = settings["max_grad_norm"], settings["statistic_grad_norm"]  # C, C1
        # What clipping takes is read from gradients between C and C1, so it needs C1 > C.
        if not settings["gamma1"] or largest <= bound:
            return FairLens(**numbers)
        layer = _only_layer(task)
        has_constant = layer.bias is not None
        return FairLensHalves(
            **numbers,
            gamma1=settings["gamma1"],
            max_grad_norm=bound,
            statistic_grad_norm=largest,
            width=layer.in_features + has_constant,
            has_constant=int(has_constant),
        )


def _only_layer(task: Task) -> nn.Linear:
    """The layer of a softmax regression, of which alone the gamma1 half is known.

    Raises:
        TrainingError: The model is another, or has more than LARGEST_MODEL parameters.
    """
    from torch import nn

    from fairaudit.engine.network import flatten
    from fairaudit.engine.small_layers import ChannelsFirst

    layers = [
        layer for layer in flatten(task.model) if not isinstance(layer, ChannelsFirst | nn.Flatten)
    ]
    size = sum(parameter.numel() for parameter in task.model.parameters())
    if len(layers) == 1 and type(layers[0]) is nn.Linear and size <= LARGEST_MODEL:
        return layers[0]
    raise TrainingError(
        "fairlens's half about clipping is for softmax regressions of at most "
        f"{LARGEST_MODEL:,} parameters; this model has {size:,}",
        hint="use --settings fairlens.gamma1=0: the half about noise alone",
    )
