"""What noised votes do to a PATE student: flips, model deviation, and the bounds on both.

A query is a record of the student pool that the teachers vote on. A flip is a change of the winning
class by the noise; the deviation is the distance of a student's parameters from those of the clean
student, who sees the votes without noise. m is the number of queries, Y of classes, K of groups, J
of draws of the noise, each with a student.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from fairaudit.diagnostics.correlates import Stratum, rank_correlations
from fairaudit.diagnostics.risk_terms import mean_and_error
from fairaudit.methods.base import Method, Task, TrainedModels, TrainedReplicates
from fairaudit.methods.teachers import (
    Pate,
    PateHard,
    is_convex,
    query_inputs,
    query_rows,
    train_students,
    vote_noise,
)
from fairaudit.privacy.noise import noise_stream

# Of the trapezoid rule for flips among several classes: nodes, and the ends in standard deviations.
_NODES, _REACH = 4001, 9.0
_ROWS_AT_ONCE = 256  # queries that one pass integrates
_CORRELATED = 4096  # queries whose readings are ranked, at most
_DRAWN_BYTES = 2**27  # of the noised labels that are held at once


def read(method: Method, task: Task, trained: TrainedReplicates) -> dict[str, Tensor]:
    """Flips, model deviation and the bounds on the student pool (docs/methods.md 5.3, 5.4).

    Bounds, gradients and smoothness are NaN for a student that minimises no convex loss of labels
    that are shares.

    Args:
        method: A form of PATE.
        task: The training that is read.
        trained: Its result, with votes and queries kept.

    Returns:
        Means per group, [K] (one entry where the pool's groups are not known):
        ``flip_probability``, ``closeness`` to the decision boundary (1 - sum_y p_y^2),
        ``input_norm``, ``excess_risk`` in nats over the clean student's, ``gradient_norm`` of the
        group's mean loss at the clean student, and ``smoothness`` beta_a (Prop. 2). ``deviation``
        and ``deviation_square`` [2]: mean and standard error. [1]: ``deviation_bound`` (Thm 2,
        corrected for a mean loss and lambda/2), ``deviation_square_bound`` (Cor. 2 with p in place
        of p^2), ``xi``, the largest difference of excess risks between groups, ``xi_bound`` (Thm 1)
        and ``xi_of_bound``, xi as a share of ``xi_bound``. Rank correlations over queries with the
        ends of their intervals, [3]: ``closeness_flips``, ``input_norm_excess_risk``,
        ``flips_excess_risk``. Theorems are of Tran and Fioretto 2023.
    """
    assert isinstance(method, Pate)
    study = _NoisedStudents.of(method, task, trained)
    # A reading [m] @ share [m, K] is its mean over each group's queries, NaN for an absent group.
    risk = study.excess @ study.share
    defined = risk[~risk.isnan()]
    xi = (defined.max() - defined.min()).view(1)
    readings = {
        "flip_probability": study.flips @ study.share,
        "closeness": (1.0 - study.p.square().sum(-1)) @ study.share,
        "input_norm": study.x.norm(dim=1) @ study.share,
        "excess_risk": risk,
        "deviation": torch.stack(mean_and_error(study.deviation)),
        "deviation_square": torch.stack(mean_and_error(study.deviation.square())),
        "xi": xi,
        **_correlations(study, task.seed),
    }
    if is_convex(task) and method.keeps_the_simplex:
        bounds = _bounds(study, task.settings["student_penalty"], isinstance(method, PateHard))
    else:
        nothing = study.deviation.new_full((1,), torch.nan)
        bounds = dict.fromkeys(("deviation_bound", "deviation_square_bound", "xi_bound"), nothing)
        of_groups = nothing.expand(study.share.shape[1])
        bounds |= dict.fromkeys(("gradient_norm", "smoothness"), of_groups)
    return {**readings, **bounds, "xi_of_bound": xi / bounds["xi_bound"]}


def _correlations(study: "_NoisedStudents", seed: int) -> dict[str, Tensor]:
    """Rank correlations over queries: value, low and high end of a 95 % interval, [3] each.

    At most ``_CORRELATED`` queries are read, evenly spaced.

    Args:
        study: The students.
        seed: The audit seed.
    """
    rows = torch.arange(0, len(study.x), math.ceil(len(study.x) / _CORRELATED))
    values = {
        "closeness": 1.0 - study.p[rows].square().sum(-1),
        "flips": study.flips[rows],
        "input_norm": study.x[rows].norm(dim=1),
        "excess_risk": study.excess[rows],
    }
    known = {name: value.double().numpy() for name, value in values.items()}
    pairs = [("closeness", "flips"), ("input_norm", "excess_risk"), ("flips", "excess_risk")]
    everybody = [Stratum(slice(0, len(rows)), 1.0)]  # one stratum: groups are not told apart
    correlations = rank_correlations(known, pairs, everybody, seed=seed, label="queries")
    return {
        "_".join(pair): torch.from_numpy(one[-1])  # over all queries, behind the one stratum's
        for pair, one in zip(pairs, correlations, strict=True)
    }


def _bounds(study: "_NoisedStudents", penalty: float, is_hard: bool) -> dict[str, Tensor]:
    """Theorems 1 and 2, Corollary 2 and Proposition 2, with what Theorem 1 is made of.

    With p(x) the probability of a flip, c the gradient's change by one, m queries and Delta the
    deviation: E Delta <= c / (m lambda) sum p(x) ||x||, E Delta^2 <= c^2 / (m lambda^2) sum p(x)
    ||x||^2, xi <= 2 max_a ||G_a|| E Delta + (1/2) max_a beta_a E Delta^2 (docs/methods.md 5.4). For
    soft labels, c p(x) and c^2 p(x) are replaced by the first and second moment of how far noise
    moves the query's label.

    Args:
        study: The students.
        penalty: lambda, of the mean loss plus lambda/2 times the squared norm.
        is_hard: Whether labels are classes. A label then moves by c or not at all, so its moments
            follow from the probability of a flip, without draws.

    Returns:
        ``deviation_bound``, ``deviation_square_bound`` and ``xi_bound``, [1] each;
        ``gradient_norm`` ||G_a|| and ``smoothness`` beta_a, [K] each, NaN for an absent group.
    """
    shift, shift_square = study.shift, study.shift_square  # first and second moment, [m]
    if is_hard:
        of_flip = 1.0 if study.p.shape[-1] == 2 else 2.0**0.5  # c, in the gradient's units
        shift, shift_square = of_flip * study.flips, of_flip**2 * study.flips
    # How far a label's move by 1 moves the minimiser: ||x|| / (m lambda).
    reach = study.x.norm(dim=1) / (len(study.x) * penalty)
    # Gradients of the loss on the votes' labels. Two classes have one margin, whose second
    # derivative is at most 1/4; of more classes it is at most 1/2.
    residual, curvature = study.p - study.labels, 0.5  # gradient in the scores, [m, Y]
    if residual.shape[1] == 2:
        residual, curvature = residual[:, 1:], 0.25  # in the one margin, [m, 1]
    gradients = torch.einsum("mk,my,md->kyd", study.share, residual, study.x.to(residual))
    gradient_norm = gradients.flatten(1).norm(dim=1)
    # Of each group the largest ||x||^2 among its queries, [K].
    longest = study.x.norm(dim=1).square().unsqueeze(1).where(study.share > 0, 0.0).amax(0)
    smoothness = (curvature * longest).where(~study.share.isnan().any(0), torch.nan)
    deviation, square = study.deviation.mean(), study.deviation.square().mean()
    of_gradient = 2.0 * _largest_known(gradient_norm) * deviation
    xi_bound = of_gradient + 0.5 * _largest_known(smoothness) * square
    return {
        "deviation_bound": (shift * reach).sum().view(1),
        "deviation_square_bound": (len(study.x) * (shift_square * reach.square()).sum()).view(1),
        "xi_bound": xi_bound.view(1),
        "gradient_norm": gradient_norm,
        "smoothness": smoothness,
    }


def _largest_known(values: Tensor) -> Tensor:
    """The largest of the values that are not NaN, []."""
    return values[~values.isnan()].max()


def flipping_probability(votes: Tensor, sigma: float) -> Tensor:
    """Probability that noise N(0, sigma^2) on each count changes the winner: votes [m, Y] -> [m].

    In closed form for two classes, by numerical integration for more; the winner of tied counts is
    the lowest class. Theorem 3 of Tran and Fioretto 2023 holds for two classes only.

    Source: docs/methods.md 5.3.
    """
    # Votes by which each other class lies behind the winner, [m, Y - 1]: the winner's own margin is
    # marked by NaN, then left out.
    winner = votes.argmax(-1, keepdim=True)
    margins = votes.gather(-1, winner) - votes
    rivals = margins.scatter(-1, winner, torch.nan)
    rivals = rivals[~rivals.isnan()].view(len(votes), -1)
    if rivals.shape[1] == 1:
        flipped: Tensor = torch.special.ndtr(-rivals[:, 0] / (sigma * 2**0.5))
        return flipped
    # The winner stays if each rival's noise is below its margin plus the winner's noise sigma z.
    # The chance of that is an integral over z, taken once for all queries of the same margins.
    distinct, place = torch.unique(rivals, dim=0, return_inverse=True)
    z = torch.linspace(-_REACH, _REACH, _NODES, dtype=torch.float64)
    density = torch.exp(-z.square() / 2) / (2 * torch.pi) ** 0.5
    kept = torch.cat(
        [
            torch.trapezoid(density * torch.special.ndtr(part.unsqueeze(-1) / sigma + z).prod(1), z)
            for part in torch.split(distinct, _ROWS_AT_ONCE)
        ]
    )
    return (1.0 - kept[place]).clamp(0.0, 1.0)  # rounding may leave [0, 1]


class _NoisedStudents(NamedTuple):
    """The clean student and J students of noised votes, on the queries.

    Args:
        labels: What the clean student learns, [m, Y].
        shift: How far noise moved each query's label, mean over draws, [m].
        shift_square: The square of that, mean over draws, [m].
        excess: Loss of the students above the clean student's, mean over draws, [m], nats.
        flips: Probability of a flip, [m].
        deviation: Distance of each student's parameters from the clean student's, [J].
        p: Probabilities of the clean student, [m, Y].
        x: Inputs, [m, d].
        share: Weight of each query in each group's mean, [m, K].
    """

    labels: Tensor
    shift: Tensor
    shift_square: Tensor
    excess: Tensor
    flips: Tensor
    deviation: Tensor
    p: Tensor
    x: Tensor
    share: Tensor

    @classmethod
    def of(cls, method: Pate, task: Task, trained: TrainedReplicates) -> "_NoisedStudents":
        """Train the clean student and one for each of ``noise_draws`` draws of the votes' noise.

        Args:
            method: The form of PATE: how votes become labels.
            task: The training that is read.
            trained: Its result, with votes and queries kept.
        """
        votes, queried = trained.kept["votes"], trained.kept["x"]
        assert task.public is not None, "PATE needs a student pool"
        # [m, K]: 1 where a query is of the group; all are of one where groups are not known.
        members = torch.ones(len(queried), 1, dtype=torch.float64)
        if task.public.groups is not None:
            groups = task.public.groups[query_rows(task)]
            members = torch.nn.functional.one_hot(groups, task.pool.n_groups).double()
        draws, sigma = int(task.settings["noise_draws"]), vote_noise(task)
        clean = method.labels(task, votes, torch.zeros(1, *votes.shape, dtype=votes.dtype))[0]
        reference = train_students(task, queried, clean.unsqueeze(0))
        p = _probabilities(reference, queried)[0]
        losses_of_clean, deviation = _losses(p, clean), []
        shift, square, excess = votes.new_zeros(3, len(votes))  # sums over draws
        # Draws in portions, for the labels [J, m, Y] of all, 8 bytes each, would fill the memory.
        at_once = max(1, _DRAWN_BYTES // (8 * votes.numel()))
        for first in range(0, draws, at_once):
            noise = votes.new_empty(min(at_once, draws - first), *votes.shape)
            # Draws first, first + 1, .. as one portion of all draws would have them.
            stream = noise_stream(task.seed, "probe", task.arm, len(noise), first=first)
            labels = method.labels(task, votes, stream.fill(noise) * sigma)
            students = train_students(task, queried, labels)
            # In the gradient's units: |change| for two classes, L2 for more.
            change = labels - clean
            if clean.shape[-1] == 2:
                moved = change[..., 1].abs()
            else:
                moved = change.norm(dim=-1)
            shift += moved.sum(0)
            square += moved.square().sum(0)
            losses = _losses(_probabilities(students, queried), clean)
            excess += (losses - losses_of_clean).sum(0)
            deviation.append((students.theta - reference.theta).double().norm(dim=1))
        return cls(
            labels=clean,
            shift=shift / draws,
            shift_square=square / draws,
            excess=excess / draws,
            flips=flipping_probability(votes, sigma),
            deviation=torch.cat(deviation),
            p=p,
            x=query_inputs(queried.flatten(1)),
            share=members / members.sum(0),  # 0 / 0: an absent group has no mean
        )


def _probabilities(students: TrainedModels, queried: Tensor) -> Tensor:
    """The students' class probabilities of the queries, [J, m, Y] float64."""
    # The inputs of students are not standardised by group, so any group will do.
    return students.probabilities(queried, torch.zeros(len(queried), dtype=torch.int64)).double()


def _losses(p: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of probabilities ``p [..., m, Y]`` with the labels, [..., m], nats."""
    return -(labels * p.clamp_min(torch.finfo(torch.float32).tiny).log()).sum(-1)
