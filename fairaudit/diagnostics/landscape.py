"""Where curvature is read: a model at one parameter vector, and the records of each group."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from fairaudit.engine.layer import Layer
from fairaudit.engine.layers import bind
from fairaudit.engine.network import flatten
from fairaudit.errors import TrainingError


@dataclass(frozen=True, slots=True)
class GroupedRecords:
    """Records in group order, so that every group is one slice. Build with :meth:`of`.

    Args:
        features: [n, ...].
        targets: Class numbers, [n].
        groups: Group numbers, ascending, [n].
        edges: Group k is rows ``edges[k]`` to ``edges[k + 1]``, [K + 1].
        shares: Weight of each group's mean in the whole, [K], float64; they sum to 1.
        counts: Records of each group, [K], float64.
    """

    features: Tensor
    targets: Tensor
    groups: Tensor
    edges: tuple[int, ...]
    shares: Tensor
    counts: Tensor

    @classmethod
    def of(
        cls,
        features: Tensor,
        targets: Tensor,
        groups: Tensor,
        *,
        n_groups: int,
        shares: Tensor | None = None,
    ) -> "GroupedRecords":
        """Sort records by group; a group may be absent.

        Args:
            features: [n, ...].
            targets: [n].
            groups: [n], in 0..K-1.
            n_groups: K.
            shares: Each group's share of all records, [K], where these are a sample that is not
                proportional to them; default: their own shares.

        Raises:
            TrainingError: There are no records.
        """
        if not len(features):
            raise TrainingError("there are no records to read the curvature from")
        order = torch.argsort(groups, stable=True)
        counts = torch.bincount(groups, minlength=n_groups).double().cpu()
        edges = (0, *(int(edge) for edge in torch.cumsum(counts, 0)))
        if shares is None:
            shares = counts / len(features)
        shares = shares.double().cpu()
        return cls(features[order], targets[order], groups[order], edges, shares, counts)

    def __len__(self) -> int:
        return len(self.features)

    @property
    def n_groups(self) -> int:
        """K, absent groups included."""
        return len(self.counts)

    def pieces(self, rows_at_once: int) -> Iterator[tuple[int, slice]]:
        """Pairs (group, slice): all rows, in slices of at most so many rows of one group each."""
        for group, (first, end) in enumerate(itertools.pairwise(self.edges)):
            for start in range(first, end, rows_at_once):
                yield group, slice(start, min(start + rows_at_once, end))

    def loss_gradient(self, logits: Tensor, rows: Tensor | slice) -> tuple[Tensor, Tensor]:
        """Softmax outputs p of some rows, and their loss's gradient in the logits, [n, Y] each.

        Args:
            logits: Of these rows, [n, Y].
            rows: Which of the records they are.
        """
        probabilities = torch.softmax(logits, -1)
        gradient = probabilities.clone()  # p - y, y the one-hot label
        gradient[torch.arange(len(gradient)), self.targets[rows]] -= 1.0
        return probabilities, gradient

    def sums(self, values: Tensor) -> Tensor:
        """Sum of per-record values [..., n] over each group, [..., K], float64."""
        parts = [
            values[..., a:b].sum(-1, dtype=torch.float64) for a, b in itertools.pairwise(self.edges)
        ]
        return torch.stack(parts, -1).cpu()

    def means(self, sums: Tensor) -> Tensor:
        """Group means, then the whole, from group sums; NaN for an absent group.

        The whole weighs the means by ``shares``; a group with share 0 does not count in it.

        Args:
            sums: [..., K], float64.

        Returns:
            [..., K + 1].
        """
        means = sums / self.counts
        counted = self.shares > 0
        whole = (means[..., counted] * self.shares[counted]).sum(-1, keepdim=True)
        return torch.cat([means, whole], -1)


@dataclass(frozen=True, slots=True)
class Landscape:
    """The mean loss of each group as a function of the parameters, at one parameter vector.

    The loss is the softmax cross-entropy in nats. What is read here is raw data, never private;
    nothing is drawn from a noise stream and nothing is written.

    Args:
        module: The architecture; its own parameter values are not used.
        theta: The parameters in the engine's order, [P], float32 or float64; readings have its
            type.
        records: The records.
    """

    module: nn.Module
    theta: Tensor
    records: GroupedRecords

    def __post_init__(self) -> None:
        """Detach the parameters, and give the records' features their type."""
        object.__setattr__(self, "theta", self.theta.detach().contiguous())
        if self.records.features.dtype != self.theta.dtype:
            features = self.records.features.to(self.theta.dtype)
            object.__setattr__(self, "records", replace(self.records, features=features))

    @property
    def n_parameters(self) -> int:
        """P."""
        return len(self.theta)

    def layers(self) -> list[Layer] | None:
        """The model as the engine's layers over ``theta``; None where the engine lacks one."""
        try:
            return bind(flatten(self.module), self.theta.unsqueeze(0))
        except TrainingError:
            return None
