"""What noise on a minimiser costs each group: predicted from the Hessian, and drawn."""

import itertools

import torch
from torch import Tensor

from fairaudit.diagnostics.risk_terms import mean_and_error
from fairaudit.methods.base import Method, Task, TrainedReplicates
from fairaudit.methods.minimiser import bounded, noise_std
from fairaudit.models.convex import LogisticModels, hessian_traces, losses
from fairaudit.privacy.noise import noise_stream

_ROWS_AT_ONCE = 2048  # in one pass


def read(method: Method, task: Task, trained: TrainedReplicates) -> dict[str, Tensor]:
    """Each group's excess risk by Theorem 1 and by Monte Carlo, on the training records.

    Theorem 1 predicts std^2 / 2 Tr H_a, with std that of the noise on each coordinate; the Monte
    Carlo draws the noise and takes the mean loss above the minimiser's.

    Args:
        method: Output perturbation.
        task: The training that is read.
        trained: Its result, with the minimiser kept.

    Returns:
        ``hessian_trace``, ``excess_risk_predicted``, ``excess_risk_drawn``,
        ``excess_risk_drawn_se``: [K] for K groups, nats but for the trace, NaN for an absent group.
        ``trace_agreement`` [1]: share of the pairs of groups in which the one of larger trace has
        the larger excess risk.

    Source: Tran et al. 2021, Thm 1, with the Hessian of the mean loss; docs/methods.md 4.3.
    """
    assert isinstance(trained.network, LogisticModels)
    point, std = trained.kept["minimiser"], noise_std(task)
    draws = int(task.settings["noise_draws"])
    noise = noise_stream(task.seed, "probe", task.arm, draws).fill(
        point.new_empty(draws, *point.shape[1:])
    )
    # Without the null record, which pads batches.
    sizes = torch.bincount(task.pool.groups[: task.pool.n_records], minlength=task.pool.n_groups)
    x, targets, groups = bounded(task.pool, trained.network.inputs)
    member = torch.nn.functional.one_hot(groups, task.pool.n_groups).double()
    share = member / sizes.double()  # weights in each group's mean, [n, K]; 0 / 0 if absent
    trace = hessian_traces(x, point)[0] @ share  # [0]: there is one minimiser
    risk = group_losses(x, targets, point + std * noise, share)
    risk -= group_losses(x, targets, point, share)  # [draws, K] less [1, K]
    drawn, drawn_error = mean_and_error(risk)
    return {
        "hessian_trace": trace,
        "excess_risk_predicted": 0.5 * std**2 * trace,
        "excess_risk_drawn": drawn,
        "excess_risk_drawn_se": drawn_error,
        "trace_agreement": agreement(trace, drawn),
    }


def group_losses(x: Tensor, targets: Tensor, theta: Tensor, share: Tensor) -> Tensor:
    """Mean loss of R logistic regressions in each of K groups, [R, K], nats.

    Args:
        x: Inputs, [n, d].
        targets: One-hot labels, [n, Y].
        theta: Parameters of the models, [R, H, d]; H is 1 for two classes, else Y.
        share: Weight of each record in each group's mean, [n, K].
    """
    replicates, height, width = theta.shape
    flat = theta.reshape(replicates * height, width)
    total = theta.new_zeros(replicates, share.shape[1])
    for rows in torch.split(torch.arange(len(x)), _ROWS_AT_ONCE):
        margins = (x[rows] @ flat.T).view(len(rows), replicates, height)
        if height == 1:
            # For two classes the loss is softplus(-margin) of a record of class 1, softplus(margin)
            # of one of class 0; the difference of the one-hot labels is the sign.
            loss = torch.nn.functional.softplus(
                margins[..., 0] * (targets[rows, :1] - targets[rows, 1:])
            )
        else:
            loss = losses(margins, targets[rows].unsqueeze(1))
        total += loss.T @ share[rows]
    return total


def agreement(a: Tensor, b: Tensor) -> Tensor:
    """Share of the pairs of groups that two readings [K] put in the same order, [1].

    Groups of which a reading is NaN are in no pair; NaN without a pair.
    """
    pairs = [
        (i, j)
        for i, j in itertools.combinations(range(len(a)), 2)
        if not torch.isnan(a[i] + a[j] + b[i] + b[j])  # NaN if any of the four is
    ]
    if not pairs:
        return torch.full((1,), torch.nan, dtype=torch.float64)
    same = [float((a[i] > a[j]) == (b[i] > b[j])) for i, j in pairs]
    return torch.tensor([sum(same) / len(same)], dtype=torch.float64)
