"""What noised votes do to a student: flips, model deviation and its bound."""

from typing import NamedTuple

import torch
from torch import Tensor

from fairaudit.diagnostics.risk_terms import mean_and_error
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
_ROWS_AT_ONCE = 256  # in one pass
_DRAWN_BYTES = 2**27  # of labels that noise moved


def read(
    method: Method,
    task: Task,
    trained: TrainedReplicates,
) -> dict[str, Tensor]:
    """Flips, model deviation and its bound on the student pool (docs/methods.md 5.3, 5.4).

    Returns:
        Per group [K] (one entry where the pool's groups are not known): ``flip_probability``,
        ``closeness``, ``excess_risk``. ``deviation`` [2]: mean and standard error. [1]:
        ``deviation_bound`` (Thm 2, corrected for a mean loss and lambda/2; NaN for a student that
        minimises no convex loss), ``xi``, the largest difference of excess risks.
    """
    assert isinstance(method, Pate)
    study = _Study.of(method, task, trained)
    risk = study.excess @ study.share
    defined = risk[~risk.isnan()]
    bound = study.deviation.new_tensor(torch.nan)
    if is_convex(task) and method.keeps_the_simplex:
        moved = study.shift
        # A hard label moves only in a flip, by 1 in the gradient's units, or sqrt(2) in L2: its
        # expectation is known exactly, without draws.
        if isinstance(method, PateHard):
            unit = 1.0 if study.p.shape[-1] == 2 else 2.0**0.5
            moved = unit * study.flips
        reach = study.x.norm(dim=1) / (len(study.x) * task.settings["student_penalty"])
        bound = (moved * reach).sum()
    return {
        "flip_probability": study.flips @ study.share,
        "closeness": (1.0 - study.p.square().sum(-1)) @ study.share,
        "excess_risk": risk,
        "deviation": torch.stack(mean_and_error(study.deviation)),
        "deviation_bound": bound.view(1),
        "xi": (defined.max() - defined.min()).view(1),
    }


def flipping_probability(votes: Tensor, sigma: float) -> Tensor:
    """Probability that noise N(0, sigma^2) on each count changes the winner: votes [m, Y] -> [m].

    Exact; the winner of a tie is the lowest class. T23's Theorem 3 holds for two classes only.

    Source: docs/methods.md 5.3.
    """
    # How far each other class lies behind the winner, [m, Y - 1].
    winner = votes.argmax(-1, keepdim=True)
    margins = votes.gather(-1, winner) - votes
    rivals = margins.scatter(-1, winner, torch.nan)
    rivals = rivals[~rivals.isnan()].view(len(votes), -1)
    if rivals.shape[1] == 1:
        flipped: Tensor = torch.special.ndtr(-rivals[:, 0] / (sigma * 2**0.5))
        return flipped
    # The winner stays if every rival's noise less its own stays below the margin: an integral over
    # the winner's noise z, taken once for queries of the same margins.
    distinct, place = torch.unique(
        rivals,
        dim=0,
        return_inverse=True,
    )
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

    Means over draws [m] of how far noise moved a label (``shift``) and of the excess risk in nats;
    flips [m]; deviation [J]; p [m, Y] of the clean student; x [m, d]; share [m, K].
    """

    shift: Tensor
    excess: Tensor
    flips: Tensor
    deviation: Tensor
    p: Tensor
    x: Tensor
    share: Tensor

    @classmethod
    def of(cls, method: Pate, task: Task, trained: TrainedReplicates) -> "_Study":
        """Students under many draws of the votes' noise, beside the student without noise.

        Args:
            method: The form of PATE: how votes become labels.
            task: Of the training that is read.
            trained: With its votes and the records that were labelled.
        """
        votes, queried = trained.kept["votes"], trained.kept["x"]
        assert task.public is not None, "PATE needs a student pool"
        # Membership of groups, of one where they are not known; made shares of each at the end.
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
        least, deviation = _losses(p, clean), []  # the clean student's losses: excess is above them
        shift = votes.new_zeros(len(votes))
        excess = votes.new_zeros(len(votes))
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
            # In the gradient's units: |change| for two classes, L2 for more.
            change = labels - clean
            if clean.shape[-1] == 2:
                moved = change[..., 1].abs()
            else:
                moved = change.norm(dim=-1)
            shift += moved.sum(0)
            excess += (_losses(_predicted(students, queried), clean) - least).sum(0)
            deviation.append((students.theta - reference.theta).double().norm(dim=1))
        return cls(
            shift=shift / draws,
            excess=excess / draws,
            flips=flipping_probability(votes, sigma),
            deviation=torch.cat(deviation),
            p=p,
            x=INPUTS(queried.flatten(1), torch.zeros(len(queried), dtype=torch.int64)),
            share=share / share.sum(0),  # 0 / 0: an absent group has no mean
        )


def _predicted(students: Predictor, queried: Tensor) -> Tensor:
    return students.probabilities(queried, torch.zeros(len(queried), dtype=torch.int64)).double()


def _losses(p: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy, nats: [..., m, Y] -> [..., m]."""
    return -(labels * p.clamp_min(torch.finfo(torch.float32).tiny).log()).sum(-1)
