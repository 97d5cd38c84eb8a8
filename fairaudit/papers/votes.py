"""What noised votes do to a student: flips, model deviation, and the bounds on both."""

from typing import NamedTuple

import torch
from torch import Tensor

from fairaudit.diagnostics.risk_terms import mean_and_error
from fairaudit.engine.stacked import Stacked
from fairaudit.methods.base import Method, Predictor, Task, TrainedReplicates
from fairaudit.methods.teachers import (
    INPUTS,
    Pate,
    PateHard,
    is_convex,
    query_rows,
    train_students,
    vote_noise,
)
from fairaudit.privacy.noise import noise_stream

_NODES, _REACH = 4001, 9.0  # of the trapezoid rule for flips among several classes
_ROWS_AT_ONCE = 256
_SUMMED = 2**16  # records
_DRAWN_BYTES = 2**27  # of labels that noise moved


def read(
    method: Method,
    task: Task,
    trained: TrainedReplicates,
) -> dict[str, Tensor]:
    """Flips, model deviation and their bounds on the student pool (docs/methods.md 5.3, 5.4).

    Returns:
        Per group [K] (one entry where the pool's groups are not known): ``flip_probability``,
        ``closeness``, ``input_norm``, ``excess_risk``, ``gradient_norm``, ``beta_largest``. Mean
        and standard error [2]: ``deviation``, ``deviation_square``. [1]: ``deviation_bound``
        (Thm 2), ``deviation_square_bound`` (Cor. 2), ``xi``, ``xi_bound`` (Thm 1).
        Bounds are NaN for a student that minimises no convex loss.
    """
    assert isinstance(method, Pate)
    study = _study(method, task, trained)
    return {
        "flip_probability": study.flips @ study.share,
        "closeness": (1.0 - study.p.square().sum(-1)) @ study.share,
        "input_norm": study.x.norm(dim=1) @ study.share,
        "excess_risk": study.excess @ study.share,
        "deviation": torch.stack(mean_and_error(study.deviation)),
        "deviation_square": torch.stack(mean_and_error(study.deviation.square())),
        **_bounds(method, task, study),
    }


def flipping_probability(votes: Tensor, sigma: float) -> Tensor:
    """Probability that noise N(0, sigma^2) on each count changes the winner: votes [m, Y] -> [m].

    Exact; the winner of a tie is the lowest class. T23's Theorem 3 holds for two classes only.

    Source: docs/methods.md 5.3.
    """
    winner = votes.argmax(-1, keepdim=True)
    margins = votes.gather(-1, winner) - votes
    rivals = margins.scatter(-1, winner, torch.nan)
    rivals = rivals[~rivals.isnan()].view(len(votes), -1)
    if rivals.shape[1] == 1:
        flipped: Tensor = torch.special.ndtr(-rivals[:, 0] / (sigma * 2**0.5))
        return flipped
    distinct, place = torch.unique(rivals, dim=0, return_inverse=True)
    z = torch.linspace(-_REACH, _REACH, _NODES, dtype=torch.float64)
    density = torch.exp(-z.square() / 2) / (2 * torch.pi) ** 0.5
    kept = torch.cat(
        [
            torch.trapezoid(density * torch.special.ndtr(part.unsqueeze(-1) / sigma + z).prod(1), z)
            for part in torch.split(distinct, _ROWS_AT_ONCE)
        ]
    )
    return (1.0 - kept[place]).clamp(0.0, 1.0)


class _Study(NamedTuple):
    """Clean student and J students of noised votes, on the pool.

    votes [m, Y], clean labels [m, Y]; means over draws [m] of how far noise moved a label
    (``shift``), of its square, and of the excess risk in nats; flips [m]; deviation [J]; p [m, Y]
    of the clean student; x [m, d]; share [m, K].
    """

    votes: Tensor
    labels: Tensor
    shift: Tensor
    shift_square: Tensor
    excess: Tensor
    flips: Tensor
    deviation: Tensor
    p: Tensor
    x: Tensor
    share: Tensor


def _study(method: Pate, task: Task, trained: TrainedReplicates) -> _Study:
    votes, queried = trained.kept["votes"], trained.kept["x"]
    assert task.public is not None, "PATE needs a student pool"
    share = torch.ones(len(queried), 1, dtype=torch.float64)
    if task.public.groups is not None:
        groups = task.public.groups[query_rows(task)]
        share = torch.nn.functional.one_hot(groups, task.pool.n_groups).double()
    draws, sigma = int(task.settings["noise_draws"]), vote_noise(task)
    clean = method.labels(
        task,
        votes,
        torch.zeros(
            1,
            *votes.shape,
            dtype=votes.dtype,
        ),
    )[0]
    reference = train_students(task, queried, clean.unsqueeze(0))
    p = _predicted(reference, queried)[0]
    least, deviation = _losses(p, clean), []
    shift, square, excess = (votes.new_zeros(len(votes)) for _ in range(3))
    at_once = max(1, _DRAWN_BYTES // (8 * votes.numel()))
    for first in range(0, draws, at_once):
        noise = votes.new_empty(min(at_once, draws - first), *votes.shape)
        stream = noise_stream(
            task.seed,
            "probe",
            task.arm,
            len(noise),
            first=first,
        )
        labels = method.labels(task, votes, stream.fill(noise) * sigma)
        students = train_students(task, queried, labels)
        change = labels - clean  # in the gradient's units: |change| for two classes, L2 for more
        if clean.shape[-1] == 2:
            moved = change[..., 1].abs()
        else:
            moved = change.norm(dim=-1)
        shift += moved.sum(0)
        square += moved.square().sum(0)
        excess += (_losses(_predicted(students, queried), clean) - least).sum(0)
        deviation.append((students.theta - reference.theta).double().norm(dim=1))
    return _Study(
        votes=votes,
        labels=clean,
        shift=shift / draws,
        shift_square=square / draws,
        excess=excess / draws,
        flips=flipping_probability(votes, sigma),
        deviation=torch.cat(deviation),
        p=p,
        x=INPUTS(queried.flatten(1), torch.zeros(len(queried), dtype=torch.int64)),
        share=share / share.sum(0),  # 0 / 0: an absent group has no mean
    )


def _predicted(students: Predictor | Stacked, queried: Tensor) -> Tensor:
    if isinstance(students, Stacked):
        return students.probabilities(queried).double()
    return students.probabilities(queried, torch.zeros(len(queried), dtype=torch.int64)).double()


def _losses(p: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy, nats: [..., m, Y] -> [..., m]."""
    return -(labels * p.clamp_min(torch.finfo(torch.float32).tiny).log()).sum(-1)


def _bounds(
    method: Pate,
    task: Task,
    study: _Study,
) -> dict[str, Tensor]:
    """Theorems 1 and 2 and Corollary 2, corrected: mean loss, lambda/2, p and not its square."""
    groups, one = study.share.shape[1], study.deviation.new_full((1,), torch.nan)
    risk = study.excess @ study.share
    present = risk[~risk.isnan()]
    xi = (present.max() - present.min()).view(1)
    if not is_convex(task) or not method.keeps_the_simplex:
        names = ("deviation_bound", "deviation_square_bound", "xi_bound")
        per_group = ("gradient_norm", "beta_largest")
        return {
            "xi": xi,
            **dict.fromkeys(names, one),
            **dict.fromkeys(per_group, one.expand(groups)),
        }
    gradient, beta = _smoothness(study)
    first, second = study.deviation.mean(), study.deviation.square().mean()
    # Exact moments of a flip for hard labels, drawn ones for soft labels.
    moved, square = study.shift, study.shift_square
    if isinstance(method, PateHard):
        unit = 1.0 if study.labels.shape[-1] == 2 else 2.0**0.5
        moved, square = unit * study.flips, unit**2 * study.flips
    reach = study.x.norm(dim=1) / (len(study.x) * task.settings["student_penalty"])
    xi_bound = 2.0 * _most(gradient) * first + 0.5 * _most(beta) * second
    return {
        "xi": xi,
        "deviation_bound": (moved * reach).sum().view(1),
        "deviation_square_bound": (len(study.x) * (square * reach.square()).sum()).view(1),
        "gradient_norm": gradient,
        "beta_largest": beta,
        "xi_bound": xi_bound.view(1),
    }


def _smoothness(study: _Study) -> tuple[Tensor, Tensor]:
    """Per group [K]: norm of the mean gradient, and beta_a by the longest input."""
    residual = study.p - study.labels
    curvature = 0.5
    if residual.shape[1] == 2:
        curvature, residual = 0.25, residual[:, 1:]
    gradients, betas = [], []
    squares = study.x.norm(dim=1).square()
    for share in study.share.T:
        if share.isnan().any():
            gradients.append(share[0])
            betas.append(share[0])
            continue
        gradient = residual.new_zeros(residual.shape[1], study.x.shape[1])
        for rows in torch.split(torch.arange(len(residual)), _SUMMED):
            gradient += (residual[rows] * share[rows].unsqueeze(1)).T @ study.x[rows]
        gradients.append(gradient.norm())
        betas.append(curvature * squares[share > 0].max())
    return torch.stack(gradients), torch.stack(betas)


def _most(values: Tensor) -> Tensor:
    return values[~values.isnan()].max()
