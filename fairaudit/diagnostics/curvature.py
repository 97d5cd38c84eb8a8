"""Curvature of each group's mean loss: forms v^T H v, products H v, traces, extreme eigenvalues.

One answer per group and one for the whole, in the last place. Raw data: never private. Nothing here
draws from a noise stream, and training does not know of it.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from fairaudit.diagnostics.autodiff import AutodiffSecondOrder
from fairaudit.diagnostics.exact_trace import traces_of_records, work_of
from fairaudit.diagnostics.lanczos import Extremes, extremes_of_matrix, lanczos, start_vector
from fairaudit.diagnostics.landscape import Landscape, SecondOrder
from fairaudit.diagnostics.second_order import ChainSecondOrder, is_chain
from fairaudit.diagnostics.taylor import TaylorSecondOrder, is_expandable
from fairaudit.privacy.streams import numpy_stream

PROBES = 100
BASIS_LIMIT = 2000  # parameters up to which a trace is taken by one form per parameter
DENSE_LIMIT = 512  # parameters up to which a Hessian is written out for its eigenvalues
BASIS_AT_ONCE = 128

CLOSED_FORM, BASIS, HUTCHINSON = "closed form", "one form per parameter", "random probes"


@dataclass(frozen=True, slots=True)
class Traces:
    """Traces of the groups' Hessians.

    Args:
        value: [K + 1], float64, the whole last; NaN for an absent group.
        standard_error: [K + 1]; 0 where exact.
        difference_error: Standard error of ``value[a] - value[b]``, [K + 1, K + 1]: the probes are
            the same for all groups, so it is far below that of independent estimates.
        exact: Whether no probe was drawn.
        how: Which way was taken: CLOSED_FORM, BASIS or HUTCHINSON.
    """

    value: Tensor
    standard_error: Tensor
    difference_error: Tensor
    exact: bool
    how: str


def second_order(landscape: Landscape) -> SecondOrder:
    """The quickest exact way to second derivatives that the model allows."""
    layers = landscape.layers()
    if is_chain(layers):
        return ChainSecondOrder(landscape)
    return TaylorSecondOrder(landscape) if is_expandable(layers) else AutodiffSecondOrder(landscape)


def quadratic_forms(landscape: Landscape, vectors: Tensor) -> Tensor:
    """v^T H_a v for every group a and for the whole, exact.

    Args:
        landscape: Model, parameters, records.
        vectors: [V, P], in the engine's order of parameters.

    Returns:
        [V, K + 1], float64; NaN for an absent group.
    """
    records = landscape.records
    return records.means(second_order(landscape).forms(vectors.to(landscape.theta)))


def hvp(landscape: Landscape, vectors: Tensor) -> Tensor:
    """H_a v for every group a and for the whole, exact.

    Args:
        landscape: Model, parameters, records.
        vectors: [V, P].

    Returns:
        [V, K + 1, P], in the landscape's type; NaN for an absent group.
    """
    sums = second_order(landscape).products(vectors.to(landscape.theta))
    return landscape.records.means(sums)


def probe_signs(seed: int, n_parameters: int, probes: int = PROBES, *, label: str | int = 0) -> Tensor:
    """Rademacher vectors of +-1, [V, P], int8, from a stream that no training draws from.

    Args:
        seed: The audit seed.
        n_parameters: P.
        probes: V.
        label: Tells sets of probes apart.
    """
    stream = numpy_stream(seed, "probe", "trace", label)
    return torch.from_numpy(stream.integers(0, 2, (probes, n_parameters), dtype="int8") * 2 - 1)


def traces(landscape: Landscape, *, seed: int, probes: int = PROBES) -> Traces:
    """Tr H_a of every group and of the whole.

    Exact in closed form for chains of Linear layers, where that costs less than the probes would;
    exact by one form per parameter up to 2,000 parameters; else Hutchinson's estimate with the
    same Rademacher probes for all groups.

    Args:
        landscape: Model, parameters, records.
        seed: The audit seed.
        probes: How many, where probes are drawn.

    Source: Hutchinson 1990; the closed form is in ``exact_trace.py``.
    """
    records, layers = landscape.records, landscape.layers()
    if layers is not None and is_chain(layers) and work_of(layers).gradients <= probes:
        value = records.means(records.sums(traces_of_records(landscape, layers)))
        return _exact(value, CLOSED_FORM)
    if landscape.n_parameters <= BASIS_LIMIT:
        return _exact(_trace_by_basis(landscape), BASIS)
    signs = probe_signs(seed, landscape.n_parameters, probes)
    return hutchinson(landscape, signs)


def hutchinson(landscape: Landscape, signs: Tensor) -> Traces:
    """Estimate from given Rademacher vectors [V, P], V >= 2: the mean of z^T H z, SE = sd / sqrt(V)."""
    forms = landscape.records.means(second_order(landscape).trace_forms(signs.to(landscape.theta)))
    root = len(signs) ** 0.5
    differences = forms.unsqueeze(2) - forms.unsqueeze(1)
    return Traces(forms.mean(0), forms.std(0) / root, differences.std(0) / root, exact=False, how=HUTCHINSON)


def _exact(value: Tensor, how: str) -> Traces:
    none = value.new_zeros(len(value) + 1, len(value))
    return Traces(value, none[0], none[1:], exact=True, how=how)


def _trace_by_basis(landscape: Landscape) -> Tensor:
    """The sum of e_j^T H e_j over all parameters, [K + 1]."""
    ways, size = second_order(landscape), landscape.n_parameters
    total = torch.zeros(landscape.records.n_groups, dtype=torch.float64)
    for start in range(0, size, BASIS_AT_ONCE):
        total += ways.forms(_basis(landscape, start)).sum(0)
    return landscape.records.means(total)


def _basis(landscape: Landscape, start: int) -> Tensor:
    """Some unit vectors, [V, P]."""
    count = min(BASIS_AT_ONCE, landscape.n_parameters - start)
    out = landscape.theta.new_zeros(count, landscape.n_parameters)
    out[torch.arange(count), torch.arange(start, start + count)] = 1.0
    return out


def traces_of_each_record(landscape: Landscape) -> Tensor | None:
    """tr H_i of every record, in the order they were given in, [n]; None where no closed form exists."""
    layers = landscape.layers()
    if layers is None or not is_chain(layers):
        return None
    return landscape.records.as_given(traces_of_records(landscape, layers))


def extremes(landscape: Landscape, group: int | None = None) -> Extremes:
    """The largest and the smallest eigenvalue of one group's Hessian.

    Up to 512 parameters from the whole matrix, else by Lanczos from a fixed start.

    Args:
        landscape: Model, parameters, records.
        group: Its number; None: the whole.

    Returns:
        NaN with the reason where the group is absent, or they were not found.
    """
    part = landscape if group is None else landscape.only(group)
    if not len(part.records):
        return Extremes.missing("the group has no records")
    ways, records = second_order(part), part.records

    def apply(vectors: Tensor) -> Tensor:
        return records.means(ways.products(vectors))[:, -1]

    if part.n_parameters <= DENSE_LIMIT:
        starts = range(0, part.n_parameters, BASIS_AT_ONCE)
        return extremes_of_matrix(torch.cat([apply(_basis(part, start)) for start in starts]))
    return lanczos(lambda vector: apply(vector[None])[0], start_vector(part.theta))


def extremes_of_groups(landscape: Landscape) -> list[Extremes]:
    """:func:`extremes` of every group, [K]; eta * lambda_max <= 1 is asked of groups, not of the whole."""
    return [extremes(landscape, group) for group in range(landscape.records.n_groups)]
