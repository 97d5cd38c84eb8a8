"""What both halves of FairLens would do if all that couples records were released with noise.

    python benchmarks/fairlens_halves.py [TABLE LABEL GROUP] [--seeds N] [--epochs N] ..

A prototype beside the engine, of logistic regression with two groups, to decide about gamma1
(docs/methods.md 3.7). Four statistics of a batch are released beside the gradient: counts by
group, sums of s by group, sums of gradients clipped to C1 by group, and the sum of what clipping
to C takes from those. Each has ``ratio`` times the gradient's noise multiplier; the gradient's is
raised by sqrt(1 + 4 / ratio^2), so that every row has one epsilon. Record i then differentiates
its loss l_i, whose gradient is g_i, plus gamma2 w s_i, plus gamma1 times the sum over groups a of

    sgn<u_a, v> (<u_a, g_i - clip_C(g_i)> + (1[a_i = a] / p_a - 1) <g_i, v>)

with w, p, u_a = g_a - g_D and v = g_D - gbar_D from running sums of what was released at earlier
steps, and is clipped to C. In shapes B is the number of records of a batch, Y of classes, d of
inputs with the constant one, K of groups.
"""

import argparse
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from fairaudit.config.options import AuditConfig
from fairaudit.data.inputs.encode import encode
from fairaudit.data.inputs.split import draw_split
from fairaudit.data.tabular import load_dataset

BOUND = 1.0  # C
SMALLEST = 1e-9
NOISELESS = 1e-6  # a ratio at which the statistics are all but exact: no guarantee
# Name of a row -> gamma1, gamma2, ratio, decay of the running sums.
CASES = {
    "dpsgd": (0.0, 0.0, 10.0, 0.95),
    "gamma2": (0.0, 1.0, 10.0, 0.95),
    "gamma1, ratio 10": (1.0, 0.0, 10.0, 0.95),
    "gamma1, ratio 3": (1.0, 0.0, 3.0, 0.95),
    "gamma1, ratio 1.5": (1.0, 0.0, 1.5, 0.95),
    "both, ratio 3, decay .99": (1.0, 1.0, 3.0, 0.99),
    "gamma1, statistics without noise": (1.0, 0.0, NOISELESS, 0.95),
    "both, statistics without noise": (1.0, 1.0, NOISELESS, 0.95),
}


@dataclass(frozen=True, slots=True)
class Rows:
    """One side of a split: inputs ``[n, d]`` with a constant, labels and groups ``[n]``."""

    x: Tensor
    y: Tensor
    group: Tensor


@dataclass(slots=True)
class Running:
    """Decaying sums of releases: counts, s ``[K]``; gradients ``[K, Y, d]``, lost ``[Y, d]``."""

    counts: Tensor
    closeness: Tensor
    gradients: Tensor
    lost: Tensor


def lengths(delta: Tensor, x: Tensor) -> Tensor:
    """Norms of the records' gradients ``delta_i x_i^T``, ``[B]``."""
    return (delta.norm(dim=1) * x.norm(dim=1)).clamp_min(SMALLEST)


def shares(running: Running) -> Tensor:
    """Each group's share of the records by its noised count, at least .01, ``[K]``."""
    counts = running.counts.clamp_min(0.0)
    share = (counts / counts.sum().clamp_min(1.0)).clamp_min(0.01)
    return share / share.sum()


def first_half(f: Tensor, delta: Tensor, rows: Rows, running: Running) -> Tensor:
    """gamma1's part of each record's gradient at its logits, ``[B, Y]``.

    The Hessian of a record's loss is ``(diag f - f f^T) (x) x x^T``, so that its product with a
    matrix M is ``(diag f - f f^T) M x`` times ``x^T``: only the first factor is given back.
    """
    n, share = running.counts.clamp_min(1.0), shares(running)
    mean = running.gradients.sum(0) / running.counts.sum().clamp_min(1.0)
    v = running.lost / running.counts.sum().clamp_min(1.0)
    norm = lengths(delta, rows.x)
    is_clipped = (norm > BOUND).unsqueeze(1)

    def curved(z: Tensor) -> Tensor:
        """``(diag f - f f^T) z`` of every record, ``[B, Y]``."""
        return f * (z - (f * z).sum(1, keepdim=True))

    total = torch.zeros_like(delta)
    for a in range(len(share)):
        u = running.gradients[a] / n[a] - mean
        sign = (u * v).sum().sign()
        along_v, along_u = rows.x @ v.T, rows.x @ u.T
        of_group = ((rows.group == a).float() / share[a] - 1.0).unsqueeze(1) * curved(along_v)
        # Clipping maps u to (C/|g|) (u - ghat <ghat, u>), ghat = g / |g|; unclipped it loses none.
        turned = (delta * along_u).sum(1, keepdim=True) / norm.unsqueeze(1)
        ghat_x = delta * (rows.x.square().sum(1) / norm).unsqueeze(1)
        kept = (BOUND / norm).unsqueeze(1) * (along_u - turned * ghat_x)
        total += sign * (of_group + torch.where(is_clipped, curved(along_u - kept), 0.0))
    return total


def second_half(f: Tensor, rows: Rows, running: Running) -> Tensor:
    """gamma2's part of each record's gradient at its logits, ``[B, Y]``: w_k grad s_i."""
    mean = running.closeness / running.counts.clamp_min(1.0)
    overall = running.closeness.sum() / running.counts.sum().clamp_min(1.0)
    sign = (mean - overall).sign()
    weight = sign / shares(running) - sign.sum()
    slope = 2.0 * f * (f.square().sum(1, keepdim=True) - f)
    return weight[rows.group].unsqueeze(1) * slope


def release(
    f: Tensor,
    delta: Tensor,
    rows: Rows,
    before: Running,
    noise: float,
    decay: float,
    draw: torch.Generator,
) -> Running:
    """The running sums with this batch's statistics, each noised to ``noise`` its sensitivity."""

    def noised(values: Tensor, sensitivity: float) -> Tensor:
        """A sum with noise."""
        return values + noise * sensitivity * torch.randn(values.shape, generator=draw)

    member = one_hot(rows.group, len(before.counts)).float()
    largest = math.sqrt(2.0 * rows.x.shape[1])  # C1
    norm = lengths(delta, rows.x)
    long, short = ((bound / norm).clamp_max(1.0) for bound in (largest, BOUND))
    s = 1.0 - f.square().sum(1)
    gradients = torch.einsum("bk,by,bd->kyd", member, delta * long.unsqueeze(1), rows.x)
    lost = torch.einsum("by,bd->yd", delta * (long - short).unsqueeze(1), rows.x)
    return Running(
        decay * before.counts + noised(member.sum(0), 1.0),
        decay * before.closeness + noised((member * s.unsqueeze(1)).sum(0), 0.5),
        decay * before.gradients + noised(gradients, largest),
        decay * before.lost + noised(lost, largest - BOUND),
    )


def train(
    rows: Rows,
    case: tuple[float, float, float, float] | None,
    options: argparse.Namespace,
    seed: int,
) -> Tensor:
    """Parameters ``[Y, d]`` after training; without privacy where ``case`` is None."""
    draw = torch.Generator().manual_seed(seed)
    n, d = rows.x.shape
    steps = math.ceil(n / options.batch)
    gamma1, gamma2, ratio, decay = case or CASES["dpsgd"]
    asks = bool(gamma1 or gamma2)
    sigma = options.noise * (math.sqrt(1 + 4 / ratio**2) if asks and ratio > NOISELESS else 1.0)
    theta = torch.zeros(2, d)
    k = int(rows.group.max()) + 1
    running = Running(torch.zeros(k), torch.zeros(k), torch.zeros(k, 2, d), torch.zeros(2, d))
    for step in range(steps * options.epochs):
        index = torch.nonzero(torch.rand(n, generator=draw) < 1 / steps)[:, 0]
        batch = Rows(rows.x[index], rows.y[index], rows.group[index])
        f = torch.softmax(batch.x @ theta.T, 1)
        delta = f - one_hot(batch.y, 2).float()
        total = delta
        if asks:
            after = release(f, delta, batch, running, ratio * sigma, decay, draw)
            if step:
                total = total + gamma1 * first_half(f, delta, batch, running)
                total = total + gamma2 * second_half(f, batch, after)
            running = after
        if case is not None:
            total = total * (BOUND / lengths(total, batch.x)).clamp_max(1.0).unsqueeze(1)
        gradient = total.T @ batch.x
        if case is not None:
            gradient += sigma * BOUND * torch.randn(gradient.shape, generator=draw)
        theta = theta - options.step * gradient / (n / steps)
    return theta


def sides(config: AuditConfig, seeds: int) -> list[tuple[Rows, Rows]]:
    """Training and test rows of each seed, as an audit has them."""
    dataset = load_dataset(config)
    groups, labels = (
        torch.from_numpy(np.asarray(v)) for v in (dataset.groupings[0].groups, dataset.labels)
    )
    made = []
    for seed in range(seeds):
        split = draw_split(dataset, config.split, seed)
        encoded = encode(dataset, split, config.encoding)
        pair = []
        for rows, inputs in ((split.train, encoded.train), (split.test, encoded.test)):
            x = torch.from_numpy(np.asarray(inputs[np.arange(len(rows))])).float()
            x = torch.cat([x, torch.ones(len(x), 1)], 1)
            pair.append(Rows(x, labels[rows].long(), groups[rows].long()))
        made.append((pair[0], pair[1]))
    return made


def right(theta: Tensor, rows: Rows) -> Tensor:
    """Share of each group that is decided rightly, in points, ``[K]``."""
    is_right = ((rows.x @ theta.T).argmax(1) == rows.y).float()
    return torch.stack([100 * is_right[rows.group == a].mean() for a in (0, 1)])


def main() -> None:
    """Print the cost of each group and their gap, means over seeds, for every case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", nargs="?", default="sample_data/loans.parquet", type=Path)
    parser.add_argument("label", nargs="?")
    parser.add_argument("group", nargs="?", default="sex")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=26)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--step", type=float, default=0.11)
    parser.add_argument("--noise", type=float, default=1.4, help="noise multiplier of dpsgd")
    options = parser.parse_args()
    torch.set_num_threads(1)
    config = AuditConfig(data=options.table, label=options.label, group=(options.group,))
    costs: dict[str, list[Tensor]] = {name: [] for name in CASES}
    for seed, (training, test) in enumerate(sides(config, options.seeds)):
        plain = right(train(training, None, options, seed), test)
        for name, case in CASES.items():
            costs[name].append(plain - right(train(training, case, options, 1000 + seed), test))
    for name, of_seeds in costs.items():
        cost = torch.stack(of_seeds)
        gap = cost[:, 0] - cost[:, 1]
        error = gap.std() / math.sqrt(len(gap))
        first, second = cost.mean(0).tolist()
        print(f"{name:34} {first:6.1f} {second:6.1f}  gap {gap.mean():5.1f} (se {error:.1f})")


if __name__ == "__main__":
    main()
