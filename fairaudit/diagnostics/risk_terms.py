"""What one private step costs each group, split into clipping's direction, its size, and noise.

For theta' = theta - eta (gbar_B + psi) the expected change of a group's loss, to second order, is
the change that the unclipped step would bring, plus R_clip, plus R_noise. R_clip splits further by
what clipping does to the length of the batch's gradient (magnitude) and to its angle (direction).

g_B is the gradient of a Poisson batch and gbar_B the same after the method's rule has scaled each
record's (processed); both are sums divided by the expected batch size qN. psi is the noise. g_a is
the mean gradient of group a, H_a the Hessian of its mean loss, rho = ||gbar_B|| / ||g_B|| the
shrinkage. Where results have K + 1 places, the last is of all records together.

The split is made in either order: shortening first and turning the shortened gradient (magnitude,
direction), or turning first and shortening what was turned (``_star``). Both sum to R_clip.

Source: Tran et al. 2021, Thm 2; Esipova et al. 2023, Prop. 1, 2 and 2*, with the sign of R_noise
and the scale of its std corrected (the noise on the average has std sigma s / qN).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fairaudit.diagnostics.curvature import EVERY


@dataclass(frozen=True, slots=True)
class Batches:
    """M Poisson batches of one step, shared by all groups and all terms; float64.

    Args:
        plain: g_B, sums over the batch divided by qN, [M, P].
        clipped: gbar_B, likewise.
        probes: Sums over each of the first S batches of g_i less its mean over all records, each
            times a random sign (Rademacher), [S, P].
        clipped_probes: The same of processed gradients, with the same signs.
        unclipped: u, the rule's factor of a gradient that it does not clip; C/Z of a rule that
            scales all.
        typical: A shrinkage that does not depend on these batches, near theirs; see
            :func:`first_order`.
    """

    plain: Tensor
    clipped: Tensor
    probes: Tensor
    clipped_probes: Tensor
    unclipped: float = 1.0
    typical: float | None = None

    @property
    def kept(self) -> Tensor:
        """Whether every term is defined at a batch, [M]: both gradients vanish, or neither does."""
        before, after = (torch.linalg.vector_norm(v, dim=1) > 0 for v in (self.plain, self.clipped))
        same: Tensor = before == after
        return same

    @property
    def shrinkage(self) -> Tensor:
        """rho = ||gbar_B|| / ||g_B||, [M]; 1 where either vanishes, as for an empty batch."""
        before, after = self.plain.norm(dim=1), self.clipped.norm(dim=1)
        return torch.where((before > 0) & (after > 0), after / before, 1.0)

    def typical_shrinkage(self) -> float | None:
        """Mean shrinkage of the batches kept, for other batches' ``typical``; None if none is."""
        usable = self.shrinkage[self.kept]
        if len(usable):
            return float(usable.mean())
        return None


@dataclass(frozen=True, slots=True)
class Means:
    """Full-data gradients of one step, float64.

    Args:
        group: g_a of each group and of everybody, [K + 1, P].
        plain: g_D = sum g_i / N, [P].
        clipped: gbar_D, likewise.
    """

    group: Tensor
    plain: Tensor
    clipped: Tensor


@dataclass(frozen=True, slots=True)
class Forms:
    """v^T H_a v for every group and, last, all records, [..., K + 1].

    In the first four v is each vector of ``Batches`` of the same name; in ``mean_plain`` and
    ``mean_clipped`` it is ``Means.plain`` and ``Means.clipped``.
    """

    plain: Tensor
    clipped: Tensor
    probes: Tensor
    clipped_probes: Tensor
    mean_plain: Tensor
    mean_clipped: Tensor

    @classmethod
    def of(cls, flat: Tensor, batches: Batches) -> "Forms":
        """Take apart the forms [2 M + 2 S + 2, K + 1] of all vectors in :func:`vectors`' order."""
        m, s = len(batches.plain), len(batches.probes)
        plain, clipped, probes, clipped_probes, rest = torch.split(flat, [m, m, s, s, 2])
        return cls(plain, clipped, probes, clipped_probes, rest[0], rest[1])


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the step samples and moves.

    Args:
        learning_rate: eta.
        sample_rate: q.
        n_public: N, of the divisor qN.
        n_records: Records there really are.
        noise_std: sigma s / (qN), of the averaged gradient.
    """

    learning_rate: float
    sample_rate: float
    n_public: int
    n_records: int
    noise_std: float


def vectors(batches: Batches, means: Means) -> Tensor:
    """All vectors whose forms v^T H v the terms need, [2 M + 2 S + 2, P], as one array."""
    pair = torch.stack([means.plain, means.clipped])
    return torch.cat([batches.plain, batches.clipped, batches.probes, batches.clipped_probes, pair])


def places(batches: Batches) -> list[int]:
    """The slice of records that each of :func:`vectors` meets (``curvature.quadratic_forms``).

    A batch's gradients before and after clipping meet the same one; the means over all records meet
    every record.
    """
    of_batches, of_probes = (list(range(len(v))) for v in (batches.plain, batches.probes))
    return [*of_batches, *of_batches, *of_probes, *of_probes, EVERY, EVERY]


def risk_terms(
    batches: Batches, means: Means, forms: Forms, sampling: Sampling
) -> dict[str, Tensor]:
    """The terms of one step for every group and, last, everybody; nats.

    Returns:
        Those of :func:`clipping_parts`, and ``r_clip`` in closed form with the ``_se`` of its
        covariance part, [K + 1] each.
    """
    terms = clipping_parts(batches, means, forms.plain, forms.clipped, sampling)
    terms["r_clip"], terms["r_clip_se"] = clip_term(means, forms, sampling)
    return terms


def clipping_parts(
    batches: Batches, means: Means, plain: Tensor, clipped: Tensor, sampling: Sampling
) -> dict[str, Tensor]:
    """The parts of R_clip as means over batches, nats.

    Args:
        batches, means, sampling: Of the step.
        plain, clipped: v^T H_a v of each batch's gradient before and after clipping, [M, K + 1].

    Returns:
        ``r_direction``, ``r_magnitude``, ``r_magnitude_effective`` (against a plain step of eta u,
        where ``r_magnitude`` is against one of eta; direction and noise are the same in both),
        ``r_direction_star``, ``r_magnitude_star`` and their ``_se`` over batches, [K + 1] each. NaN
        where no batch is kept.
    """
    eta, rho, keep = sampling.learning_rate, batches.shrinkage.unsqueeze(1), batches.kept
    square = _by_part(rho**2, batches.unclipped**2, plain, clipped)
    # The loss changes by -eta <g_a, v> + eta^2 / 2 v^T H v of a step's gradient v, so the second
    # order of a part has the other sign than its first order.
    terms: dict[str, Tensor] = {}
    for part, first in first_order(batches, means).items():
        values = eta * first - eta**2 / 2 * square[part]
        terms[f"r_{part}"], terms[f"r_{part}_se"] = mean_and_error(values[keep])
    return terms


def first_order(batches: Batches, means: Means) -> Mapping[str, Tensor]:
    """The first order of each part of clipping, per batch: what it takes from <g_a, g_B>.

    Only the mean over batches is wanted, and a control variate lessens its error: the expectations
    of <g_a, g_B> and <g_a, gbar_B> are known, <g_a, g_D> and <g_a, gbar_D> of all records. With
    ``typical`` in place of the batch's own shrinkage a part is linear in these two products. So how
    far that linear part is off its expectation is known, and is taken off the value. This moves no
    expectation, for ``typical`` is fixed before the batches are drawn; it removes from the spread
    over batches all but what the shrinkage's own spread makes. Nothing is taken off without
    ``typical``, or if some batch is not kept: the expectation over the others is then not known.

    Returns:
        ``magnitude``, ``magnitude_effective``, ``direction``, ``magnitude_star`` and
        ``direction_star``, [M, K + 1] each.
    """
    rho, typical = batches.shrinkage.unsqueeze(1), batches.typical
    on_plain = batches.plain @ means.group.T  # [M, K + 1]
    on_clipped = batches.clipped @ means.group.T
    on_batches = _by_part(rho, batches.unclipped, on_plain, on_clipped)
    if typical is None or not bool(batches.kept.all()):
        return on_batches
    # How far each product is off its expectation.
    off_plain = on_plain - means.plain @ means.group.T
    off_clipped = on_clipped - means.clipped @ means.group.T
    off_batches = _by_part(rho.new_tensor(typical), batches.unclipped, off_plain, off_clipped)
    return {part: value - off_batches[part] for part, value in on_batches.items()}


def _by_part(rho: Tensor, unclipped: float, plain: Tensor, clipped: Tensor) -> dict[str, Tensor]:
    """Split ``plain - clipped``, by what clipping lowers a number of the gradient, into parts.

    Args:
        rho: Shrinkage, or its square where the numbers are quadratic forms.
        unclipped: u, the rule's factor of a gradient that it does not clip, or its square likewise.
        plain, clipped: The number of g_B and of gbar_B, [...]: a product <g_a, v>, or a form
            v^T H_a v.
    """
    return {
        "magnitude": (1 - rho) * plain,
        # eta u is the step that an unclipped gradient takes; a rule that scales all gradients down
        # is given a longer eta, and eta times the plain gradient is a step that nobody would take.
        "magnitude_effective": (unclipped - rho) * plain,
        "direction": rho * plain - clipped,
        "magnitude_star": (1 / rho - 1) * clipped,
        "direction_star": plain - clipped / rho,
    }


def clip_term(means: Means, forms: Forms, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """R_clip of every group, expected over Poisson batches, and its standard error, [K + 1] each.

    R_clip = eta g_a^T (g_D - gbar_D) + eta^2 / 2 E (gbar_B^T H_a gbar_B - g_B^T H_a g_B), where D
    is all training records. By the variance of a Poisson batch

        E gbar_B^T H gbar_B = gbar_D^T H gbar_D + (1 - q) / (q N^2) sum_i gbar_i^T H gbar_i

    and the sum splits into that of the mean gradient and that of the deviations d_i from it. Only
    the latter is estimated, so the error is of it alone. A probe, the sum over a batch of d_i times
    random signs z_i, gives it without bias: E (sum_{i in B} z_i d_i)^T H (sum_{i in B} z_i d_i) =
    q sum_i d_i^T H d_i. The same holds of g without the bar.

    Args:
        means: Gradients of the groups, g_D and gbar_D.
        forms: v^T H_a v of g_D, gbar_D and the probes.
        sampling: q, N (the public count that sums are divided by), n (``n_records``, the true
            count), eta.
    """
    # In the code ``n`` is N, the public count, and ``size`` is n, the true one.
    q, n, size = sampling.sample_rate, sampling.n_public, sampling.n_records
    factor = (1 - q) / (q * n**2)
    # The mean gradient of the records is (N / n) gbar_D, as gbar_D is their sum over N; so its part
    # of sum_i gbar_i^T H gbar_i is n (N / n)^2 gbar_D^T H gbar_D.
    of_mean = 1 + factor * n**2 / size
    # sum_i of dbar_i^T H dbar_i - d_i^T H d_i, by the probes.
    deviations, error = mean_and_error((forms.clipped_probes - forms.probes) / q)
    linear = means.group @ (means.plain - means.clipped)
    quadratic = of_mean * (forms.mean_clipped - forms.mean_plain) + factor * deviations
    eta = sampling.learning_rate
    return eta * linear + eta**2 / 2 * quadratic, eta**2 / 2 * factor * error


def noise_term(traces: Tensor, sampling: Sampling) -> Tensor:
    """R_noise = + (eta^2 / 2) Tr(H_a) (sigma s / qN)^2, [K + 1], from the traces of H_a [K + 1]."""
    return traces * (sampling.learning_rate * sampling.noise_std) ** 2 / 2


def mean_and_error(values: Tensor) -> tuple[Tensor, Tensor]:
    """Mean over the first axis [M, ...], and its standard error.

    The mean is NaN where M is 0, the error where M is 0 or 1.
    """
    count = len(values)
    if not count:
        nothing = torch.full(values.shape[1:], torch.nan, dtype=values.dtype)
        return nothing, nothing
    if count > 1:
        error = values.std(0) / count**0.5
    else:
        error = torch.full_like(values[0], torch.nan)
    return values.mean(0), error
