"""The step of fairaudit's engine as an Opacus optimizer: Opacus computes the records' gradients.

Some rules ask a query of a batch before they scale its gradients: a noised count, which moves a
threshold or bounds, and which the accountant charges with the step. A rule that asks nothing has
``query_noise_multiplier`` None. Opacus may cut a batch into parts (``BatchMemoryManager``), each
with a backward pass of its own; together they are one step.

Shapes: B records of a batch or of its part, P parameters, P_j numbers of parameter tensor j. The
engine's functions have a first axis of replicates; here it is always 1.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from opacus.optimizers import DPOptimizer
from torch import Tensor
from torch.utils.data import Sampler

from fairaudit.engine.devices import working_on
from fairaudit.engine.loop import Asking, scaled
from fairaudit.engine.release import GaussianRelease
from fairaudit.engine.rules import ClippingRule, PublicFacts
from fairaudit.engine.sampling import PoissonSampler
from fairaudit.errors import ConfigError, TrainingError
from fairaudit.opacus.accountant import Accountant
from fairaudit.opacus.criterion import HOW_TO_ADD, Part
from fairaudit.opacus.wrapped import ELSEWHERE, GhostModel, HookedModel
from fairaudit.planning.arms import Arm
from fairaudit.privacy.noise import GaussianNoise


class Streams(NamedTuple):
    """Where a training's noise is drawn from: on its gradients, and on what its rule asks."""

    noise: GaussianNoise
    query: GaussianNoise


class PoissonBatches(Sampler[list[int]]):
    """The engine's Poisson samples as a batch sampler of a PyTorch loader.

    Every record joins every batch with probability exactly 1 / steps_per_epoch. The sampler also
    keeps the sizes of the batches that it dealt: :meth:`take` refuses a step of another batch.

    Args:
        stream: Draws the samples.
        records: Number of records in the data set.
        steps_per_epoch: Batches of one iteration, empty ones included.
        ahead: Whether the loader's worker processes draw batches before the loop asks for them.
    """

    # Called when an iteration begins; the optimizer puts its own function here.
    on_begin: Callable[[], object] = staticmethod(lambda: None)

    def __init__(
        self, stream: np.random.Generator, records: int, steps_per_epoch: int, *, ahead: bool
    ) -> None:
        self.records, self.steps_per_epoch, self.ahead = records, steps_per_epoch, ahead
        self.dealt: deque[int] = deque()  # sizes of the batches that no step has taken
        self._sampler = PoissonSampler([stream], records, steps_per_epoch)

    def __len__(self) -> int:
        return self.steps_per_epoch

    def __iter__(self) -> Iterator[list[int]]:
        """The record numbers of each batch of one iteration; empty batches are dealt, too."""
        self.on_begin()  # the optimizer forgets what is left of an iteration that broke off
        for _ in range(self.steps_per_epoch):
            batch = self._sampler.draw()[0].tolist()  # [0]: record numbers; [1] tells padding
            self.dealt.append(len(batch))
            yield batch

    def take(self, records: int) -> None:
        """Strike out the next dealt batch, for a step that is about to be taken on it.

        Args:
            records: How many records the step has read; they must be as many as the batch has.

        Raises:
            ConfigError: No batch was dealt, or the next is of another size, or one was skipped.
        """
        # Without processes that draw ahead, a second batch is dealt only after the first's step.
        skipped = len(self.dealt) > 1 and not self.ahead
        if not self.dealt or skipped or self.dealt[0] != records:
            raise ConfigError(
                f"a step of {records:,} records is not of the loader's next batch",
                hint="take one step for every batch of the loader that make_private returned, the "
                "empty ones too",
            )
        self.dealt.popleft()


class _BatchPart(NamedTuple):
    """A batch or a part of it: norms and groups [1, B], gradients [B, P_j] at each parameter."""

    norms: Tensor
    group: Tensor
    gradients: list[Tensor]


class RuleOptimizer(DPOptimizer):  # type: ignore[misc]  # Opacus has no types
    """An Opacus optimizer whose step is the engine's: ask, scale, sum, add noise, divide by qN.

    :func:`make_private` makes it. ``accountant`` says what its steps cost. Where a batch comes in
    parts (``BatchMemoryManager``), a rule that asks about the batch keeps the records' gradients
    until its last part.

    Args:
        optimizer: The PyTorch optimizer, which moves the parameters along released gradients.
        model: The wrapped model, which is differentiated.
        arm: Method, numbers and guarantee.
        rule: The method's clipping rule.
        facts: What is public; its tensors lie where the norms are computed, in their precision.
        streams: Draws that nothing has used.
        batches: Deals the records.
        accountant: Counts the steps.
        loss_reduction: Whether a step follows the ``mean`` of the records' losses or their ``sum``.

    Example:
        >>> import torch
        >>> from torch.utils.data import DataLoader, TensorDataset
        >>> from fairaudit.opacus import make_private
        >>> x, y, group = torch.randn(40, 3), torch.randint(2, (40,)), torch.arange(40) % 2
        >>> model = torch.nn.Linear(3, 2)
        >>> model, optimizer, loss, loader = make_private(
        ...     model,
        ...     torch.optim.SGD(model.parameters(), lr=0.1),
        ...     DataLoader(TensorDataset(x, y, group), batch_size=20),
        ...     criterion=torch.nn.CrossEntropyLoss(),
        ...     method="dpsgd-f",
        ...     noise_multiplier=1.0,
        ...     target_delta=1e-3,
        ...     epochs=1,
        ...     max_grad_norm=1.0,
        ...     groups=2,
        ...     count_noise_multiplier=2.0,
        ... )
        >>> for features, labels, groups in loader:
        ...     optimizer.zero_grad()
        ...     optimizer.set_groups(groups)
        ...     loss(model(features), labels).backward()
        ...     optimizer.step()
        >>> optimizer.describe()["group_bound"].shape  # a clipping bound for each group
        torch.Size([1, 2])
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        *,
        model: HookedModel | GhostModel,
        arm: Arm,
        rule: ClippingRule[Any],
        facts: PublicFacts,
        streams: Streams,
        batches: PoissonBatches,
        accountant: Accountant,
        loss_reduction: str = "mean",
    ) -> None:
        sigma, bound = arm.settings["noise_multiplier"], arm.settings["max_grad_norm"]
        super().__init__(
            optimizer,
            noise_multiplier=sigma,
            max_grad_norm=bound,
            expected_batch_size=float(facts.expected_batch_size),
            loss_reduction=loss_reduction,
        )
        self.arm, self.facts, self.accountant = arm, facts, accountant
        self._model = model
        self._is_in_pass = False  # while a pass differentiates the model
        self._device = facts.expected_batch_size.device
        self._batches = batches
        batches.on_begin = self._forget
        with working_on(self._device):
            # The rule, with its state and the noise on its query, for one replicate. Where steps
            # have noise, no factor may take a gradient beyond the sensitivity that the rule claims.
            self._rule = Asking(rule, 1, facts, streams.query, is_limited=sigma > 0)
        self._release = GaussianRelease(sigma, streams.noise)
        self._trained = self.params  # as they are now; a step refuses others
        self._group: Tensor | None = None
        self._forget()

    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute; refuse another noise multiplier or clipping bound.

        Opacus' schedulers set these, but neither the rule nor the accountant would know of it.

        Raises:
            ConfigError: One of the two would change.
        """
        # Allowed are the first assignment, in Opacus' constructor, and one of the same value.
        if (
            name in ("noise_multiplier", "max_grad_norm")
            and self.__dict__.get(name, value) != value
        ):
            raise ConfigError(
                f"{name} is fixed: epsilon was planned with it", hint="give it to make_private"
            )
        super().__setattr__(name, value)

    def set_groups(self, group: Tensor) -> None:
        """Say the group of each record of this batch, or part of a batch, before its backward pass.

        For a method that does not read groups nothing is done.

        Args:
            group: Whole numbers [B] in 0..K-1, in the order of the batch.

        Raises:
            ConfigError: Other numbers, or not one for each record.
        """
        if not self.arm.reads_groups:
            return
        n_groups = self.facts.n_groups
        is_whole = not (
            group.is_floating_point() or group.is_complex() or group.dtype == torch.bool
        )
        # An empty batch may come in any type: torch.tensor([]) is one of floats.
        if group.dim() != 1 or (len(group) and not is_whole):
            raise ConfigError(
                "groups are not one whole number for each record", hint="give a tensor [B], int64"
            )
        if len(group) and not 0 <= int(group.min()) <= int(group.max()) < n_groups:
            raise ConfigError(
                f"a group lies outside 0 to {n_groups - 1}",
                hint="make_private(groups=K) says how many there are",
            )
        self._group = group.to(self._device, torch.int64)

    def describe(self) -> dict[str, Tensor]:
        """The rule's state by name, as a threshold or bounds, [1, ...] each.

        All of it was released, so that it may be shown.
        """
        described: dict[str, Tensor] = self._rule.part.describe(self._rule.released)
        return described

    def pre_step(self, closure: Callable[[], float] | None = None) -> bool:
        """Take a batch, or a part of it, and after the last part release the step's gradient.

        Opacus' ``step`` calls it in place of its own clipping and noise.

        Args:
            closure: Not read: ``step`` has called it.

        Returns:
            Whether the released gradient is in ``p.grad``, so that the PyTorch optimizer may move;
            False after a part that is not the last.

        Raises:
            ConfigError: Groups are missing, the loss is not of the returned criterion, the batch
                not the loader's next, or the parameters are others than those of ``make_private``.
            PrivacyError: The planned steps are taken.
        """
        if [id(p) for p in self.params] != [id(p) for p in self._trained]:
            raise ConfigError(
                "parameters were frozen, unfrozen or added since make_private",
                hint="decide what is trained first; make_private again starts another training",
            )
        # BatchMemoryManager marks every part of a batch but the last as a step to skip.
        last = not self._check_skip_next_step()
        self._is_last_step_skipped = not last  # Opacus' ``zero_grad`` reads it
        with working_on(self._device), torch.no_grad():
            self._gather(last)
            if last:
                self._close()
        if last and self.step_hook:  # one that the user attached, as to Opacus' own optimizer
            self.step_hook(self)
        return last

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Refuse it: the state of the noise's streams, and the steps taken, are nowhere saved.

        Raises:
            ConfigError: Always.
        """
        raise ConfigError(
            "a private training cannot be taken up again",
            hint="make_private starts another one, whose epsilon comes on top",
        )

    def _forget(self) -> None:
        """Drop what is left of a batch that broke off: added to the next, it would count twice.

        Called when an iteration of the loader begins.
        """
        self._waiting: list[_BatchPart] = []  # parts of this step's batch that are not scaled yet
        self._sums: Tensor | None = None  # of scaled gradients, [1, P]; None before the first part
        self._sensitivity: Tensor | None = None  # that the rule claims of this step's sum, [1]
        self._records = 0  # of this step's batch so far
        # Records of the backward pass that waits for its step; None: none waits.
        self._pass_records: int | None = None
        self._step_skip_queue.clear()
        self._batches.dealt.clear()
        self._model.clear()

    def take_pass(self, parts: Sequence[Part], *, retain_graph: bool) -> None:
        """Have the model take the gradients of a batch, or of a part of it, for the next step.

        ``backward()`` of a loss calls it.

        Args:
            parts: Outputs [B, ...] and each record's own gradient at them, a pair for each loss.
            retain_graph: Whether the model's graph is kept.

        Raises:
            ConfigError: The last pass waits for its step, or a parameter has a hook on its
                gradient.
            PrivacyError: With ghost clipping: the planned steps are taken.
            TrainingError: Opacus cannot take gradients of some layer.
        """
        if self._pass_records is not None:
            self._refuse_second()
        self._refuse_hooks()
        # Such hooks are the user's: they may change gradients, and mix those of records.
        has_hooks = any(outputs._backward_hooks for outputs, _ in parts)
        if has_hooks or self._model.has_hooks_on_outputs:
            self.accountant.rest_on("hooks on the model's outputs")
        self._is_in_pass = True
        try:
            self._differentiate(parts, retain_graph=retain_graph)
        finally:
            self._is_in_pass = False
            for p in self.params:
                p.grad = None  # PyTorch's sum, unclipped; a step writes the released gradient
        self._pass_records = len(parts[0][0])

    def _refuse_hooks(self) -> None:
        """Refuse hooks on a parameter's gradient: they would be lost, or reach clipped sums.

        Raises:
            ConfigError: A parameter has one.
        """
        for p in self.params:
            after = p._post_accumulate_grad_hooks or ()  # one is this program's: `on_gradient`
            if p._backward_hooks or len(after) > 1:
                raise ConfigError(
                    "a parameter has a hook on its gradient, which a private step does not follow",
                    hint="remove it: freeze what is not to move, or give it a step size of its own",
                )

    def _differentiate(self, parts: Sequence[Part], *, retain_graph: bool) -> None:
        """Have the model leave each record's gradient at each parameter, in ``p.grad_sample``.

        Args:
            parts: As of :meth:`take_pass`.
            retain_graph: Whether the model's graph is kept.
        """
        self._model.differentiate(parts, retain_graph=retain_graph)

    def on_gradient(self) -> None:
        """Check a gradient that arrived at a trained parameter; a hook at each of them calls it.

        Raises:
            ConfigError: It comes from a backward pass that is not of ``make_private``'s criterion,
                and would be lost.
        """
        if self._is_in_pass:
            return
        if self._pass_records is not None:
            self._refuse_second()
        raise ConfigError(
            "a gradient that does not come from the criterion of make_private would be lost",
            hint=HOW_TO_ADD,
        )

    def zero_grad(self, set_to_none: bool = False) -> None:
        """Clear the gradients, and drop a pass that waits for its step."""
        super().zero_grad(set_to_none)
        self._pass_records = None

    def _refuse_second(self) -> None:
        """Refuse a backward pass while another waits for its step, and drop the one that waits.

        Raises:
            ConfigError: Always.
        """
        self._pass_records = None
        raise ConfigError("a second backward pass before a step", hint=HOW_TO_ADD)

    def _admit(self, records: int, last: bool) -> None:
        """Count the records of a part of the batch; with the last part, charge the step.

        Args:
            records: Of this part.
            last: Whether it is the batch's last part.

        Raises:
            ConfigError: The batch is not the loader's next.
            PrivacyError: The planned steps are taken.
        """
        self._records += records
        if last:  # the next part is one of another batch, which counts from 0
            size, self._records = self._records, 0
            self._batches.take(size)
            self.accountant.charge()

    def _gather(self, last: bool) -> None:
        """Take a part of the batch from the backward pass, and add it to the step's sum.

        A rule that asks about the batch can scale nothing before it has seen all of it: parts then
        wait for the last.

        Args:
            last: Whether it is the batch's last part.

        Raises:
            ConfigError: No backward pass waits, or it left no gradient for each record.
        """
        records, self._pass_records = self._pass_records, None
        if records is None:
            raise ConfigError(
                "the loss of a step does not come from the criterion of make_private",
                hint=HOW_TO_ADD,
            )
        part = self._take_gradients(records)
        self._admit(records, last)
        self._waiting.append(part)
        if last or self._rule.part.query_noise_multiplier is None:
            self._scale()

    def _take_gradients(self, records: int) -> _BatchPart:
        """Take the records' gradients from the parameters, with their norms and groups.

        A record whose gradient is not finite counts with a gradient of 0.

        Args:
            records: How many the criterion read, B.

        Raises:
            ConfigError: A parameter has not one gradient for each of them.
        """
        gradients = []
        for p in self.params:
            # [B, *shape of p], taken away so that no other step can use it.
            sample, p.grad_sample = p.grad_sample, None
            self._check_rows(p, None if sample is None else len(sample), records)
            # On the device and in the precision in which the engine computes.
            gradients.append(sample.reshape(records, p.numel()).to(self.facts.expected_batch_size))
        # A record's norm [B] over all parameters, from its norms at each of them.
        norms = torch.stack([torch.linalg.vector_norm(rows, dim=1) for rows in gradients], 1)
        norms = torch.linalg.vector_norm(norms, dim=1)
        finite = norms.isfinite()
        if not bool(finite.all()):
            gradients = [torch.where(finite.unsqueeze(1), rows, 0.0) for rows in gradients]
            norms = torch.where(finite, norms, 0.0)
        return _BatchPart(norms.unsqueeze(0), self._take_groups(len(norms)), gradients)

    def _check_rows(self, parameter: Tensor, rows: int | None, records: int) -> None:
        """Refuse gradients at a parameter that are not one row for each record.

        Args:
            parameter: Where the gradients are.
            rows: How many rows they have; None: there are no gradients.
            records: How many records the criterion read.

        Raises:
            ConfigError: There are more or fewer rows than records.
        """
        if rows == records:
            return
        name = self._model.name_of(parameter)
        if rows is None:
            raise ConfigError(f"{name!r} has no gradient of single records", hint=ELSEWHERE)
        raise ConfigError(
            f"the layer of {name!r} reads {rows:,} rows where the criterion reads "
            f"{records:,} records",
            hint=f"give the criterion outputs [B, ...], tokens as [B, classes, T]; {ELSEWHERE}",
        )

    def _take_groups(self, records: int) -> Tensor:
        """The groups that were set for this batch or part of it, [1, B].

        They are zeros if the method reads no groups. They serve once, and must be set anew then.

        Args:
            records: How many there must be, B.

        Raises:
            ConfigError: They were not set, or for another number of records.
        """
        group, self._group = self._group, None
        # An empty batch has no group that the loop could have set.
        if group is None and (records == 0 or not self.arm.reads_groups):
            group = torch.zeros(records, dtype=torch.int64)
        if group is None or len(group) != records:
            count = "none" if group is None else f"{len(group):,}"
            raise ConfigError(
                f"{self.arm.method} reads the group of each of {records:,} records, and {count} "
                "are given",
                hint="call optimizer.set_groups(group) with the groups of every batch",
            )
        return group.unsqueeze(0)

    def _scale(self) -> None:
        """Scale the gradients of the parts that wait, and add them to the step's sum.

        The rule sees these parts as one batch, asks its query of it, and gives a factor for each
        record.
        """
        norms = torch.cat([part.norms for part in self._waiting], 1)
        group = torch.cat([part.group for part in self._waiting], 1)
        # All parts of a batch have one claimed sensitivity: the rule's state moves in `_close`.
        factors, self._sensitivity = scaled(self._rule, norms, group)
        sizes = [part.norms.shape[1] for part in self._waiting]
        for part, factor in zip(self._waiting, torch.split(factors[0], sizes), strict=True):
            self._add([factor @ rows for rows in part.gradients])  # [B] @ [B, P_j]
        self._waiting.clear()

    def _add(self, sums: list[Tensor]) -> None:
        """Add sums of scaled gradients, [P_j] for each parameter, to the step's sum."""
        flat = torch.cat(sums).unsqueeze(0)
        self._sums = flat if self._sums is None else self._sums.add_(flat)

    def _close(self) -> None:
        """Release the step's gradient into ``p.grad``, and move the rule to its next state.

        Noise is added to the sum once, and the result divided by qN, the expected batch size.
        """
        # Both are set: the last part of a batch has been scaled.
        assert self._sums is not None
        assert self._sensitivity is not None
        released = self._release([self._sums], self._sensitivity, self.facts)[0]
        if self.loss_reduction == "sum":  # the optimizer expects a sum's gradient, not a mean's
            released = released * self.facts.expected_batch_size
        # ``released`` [P] in the order of the parameters, a part [P_j] for each.
        for p, part in zip(
            self.params, torch.split(released, [p.numel() for p in self.params]), strict=True
        ):
            p.grad = part.view_as(p).to(p)
        self._rule.step()
        self._sums = self._sensitivity = None


class GhostOptimizer(RuleOptimizer):
    """A :class:`RuleOptimizer` with ghost clipping, which never holds the records' gradients.

    A first backward pass gives their norms, :meth:`factors` makes a factor for each of them, and a
    second backward pass gives the sum of the scaled gradients.

    A rule that asks about a batch has to see all of it, so such a batch cannot come in parts.

    Example:
        >>> import torch
        >>> from torch.utils.data import DataLoader, TensorDataset
        >>> from fairaudit.opacus import make_private
        >>> data = TensorDataset(torch.randn(40, 3), torch.rand(40, 1))
        >>> model = torch.nn.Linear(3, 1)
        >>> model, optimizer, loss, loader = make_private(
        ...     model,
        ...     torch.optim.SGD(model.parameters(), lr=0.1),
        ...     DataLoader(data, batch_size=20),
        ...     criterion=torch.nn.MSELoss(),
        ...     method="dpsgd",
        ...     noise_multiplier=1.0,
        ...     target_delta=1e-3,
        ...     epochs=1,
        ...     max_grad_norm=1.0,
        ...     grad_sample_mode="ghost",
        ... )
        >>> for features, targets in loader:
        ...     optimizer.zero_grad()
        ...     loss(model(features), targets).backward()
        ...     optimizer.step()
        >>> type(optimizer).__name__, optimizer.accountant.steps
        ('GhostOptimizer', 2)
    """

    _model: GhostModel
    # Of the backward pass that waits for its step: a sum of scaled gradients [P_j] for each
    # parameter.
    _pass_sums: list[Tensor]

    def _differentiate(self, parts: Sequence[Part], *, retain_graph: bool) -> None:
        """Take the norms of the records' gradients, and then the sum of the scaled gradients.

        The step is charged in between, by :meth:`factors`. The sum is kept in ``_pass_sums``.
        """
        self._model.differentiate(parts, retain_graph=True)  # the second pass reads the graph, too
        factors = self.factors(self._norms(len(parts[0][0])))
        self._model.scale(parts, factors, self.params, retain_graph)
        # Of an empty batch ``p.grad`` is zeros, which `differentiate` left there.
        self._pass_sums = [
            p.grad.detach().reshape(-1).to(self.facts.expected_batch_size) for p in self.params
        ]

    def _norms(self, records: int) -> Tensor:
        """The norms [B] of the records' gradients over all parameters, as Opacus took them.

        Args:
            records: How many there must be, B.

        Raises:
            ConfigError: A parameter has not one norm for each record, or has them in half
                precision.
        """
        norms = [p._norm_sample for p in self.params]
        for p, each in zip(self.params, norms, strict=True):
            self._check_rows(p, None if each is None else len(each), records)
        if any(each.dtype.itemsize < 4 for each in norms):  # below float32, as autocast makes them
            raise ConfigError(
                "ghost clipping would take norms in half precision, and round them down",
                hint="use grad_sample_mode='hooks', or float32",
            )
        together: Tensor = torch.linalg.vector_norm(torch.stack(norms), dim=0)
        return together

    def factors(self, norms: Tensor) -> Tensor:
        """Each record's factor [B], by the rule, from the norms [B] of the records' gradients.

        The step is charged here, for the rule's query is answered here.

        Raises:
            ConfigError: The norms are of a part of a batch, and the rule asks about whole batches;
                the batch is not the loader's next; or the groups that the rule reads are missing.
            PrivacyError: The planned steps are taken.
            TrainingError: A gradient that is not finite: a factor cannot leave its record out.
        """
        # The mark of BatchMemoryManager stays for `pre_step`, which comes later.
        last = not self._check_skip_next_step(pop_next=False)
        if not last and self._rule.part.query_noise_multiplier is not None:
            raise ConfigError(
                f"{self.arm.method} asks about a whole batch, and ghost clipping sees a part of it",
                hint="use grad_sample_mode='hooks' with BatchMemoryManager, or no "
                "BatchMemoryManager",
            )
        if not bool(norms.isfinite().all()):
            raise TrainingError(
                "a record's gradient is not finite, and ghost clipping cannot leave a record out",
                hint="use grad_sample_mode='hooks', where such a record counts as zero",
            )
        self._admit(len(norms), last)
        with working_on(self._device), torch.no_grad():
            norms = norms.to(self.facts.expected_batch_size).unsqueeze(0)
            factor, self._sensitivity = scaled(self._rule, norms, self._take_groups(norms.shape[1]))
        return factor[0]

    def _gather(self, last: bool) -> None:
        """Add the backward pass's sums of scaled gradients to the step's sum.

        Args:
            last: Not read: the pass has counted its records.

        Raises:
            ConfigError: No backward pass waits.
        """
        if self._pass_records is None:
            raise ConfigError(
                "a step without factors from a backward pass",
                hint="call backward() on what make_private's criterion returns, then step()",
            )
        self._pass_records = None
        self._add(self._pass_sums)
        self._pass_sums = []
