"""Makes a model, an optimizer, a criterion and a loader private: ``make_private``."""

import importlib
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from math import ceil
from numbers import Integral
from typing import Any

import numpy as np
import torch
from opacus.data_loader import DPDataLoader
from opacus.grad_sample import AbstractGradSampleModule
from opacus.optimizers import DPOptimizer
from opacus.utils.uniform_sampler import UniformWithReplacementSampler
from opacus.validators import ModuleValidator
from opacus.validators.errors import UnsupportedModuleError
from torch import nn
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
)

from fairaudit.config.value_sources import resolve_config
from fairaudit.engine.pool import TrainingPool
from fairaudit.engine.refusals import refuse_uncopyable
from fairaudit.engine.rules import PublicFacts
from fairaudit.errors import ConfigError, TrainingError, said
from fairaudit.methods.base import Task
from fairaudit.methods.catalog import admit, find
from fairaudit.methods.defaults import PublicSizes, refuse_large_delta
from fairaudit.methods.gradient import GradientMethod
from fairaudit.methods.spec import MethodSpec
from fairaudit.opacus.accountant import Accountant
from fairaudit.opacus.admitted import ModelChecks, not_admitted, refuse_at_fault, refuse_for_ghost
from fairaudit.opacus.comparison import FirstComparison
from fairaudit.opacus.criterion import RecordCriterion, SingleLosses
from fairaudit.opacus.optimizer import GhostOptimizer, PoissonBatches, RuleOptimizer, Streams
from fairaudit.opacus.wrapped import GhostModel, HookedModel, wrap
from fairaudit.planning.arms import Arm, make_arms
from fairaudit.planning.settings import SettingsResolver
from fairaudit.privacy.events import SampledGaussian
from fairaudit.privacy.noise import noise_stream
from fairaudit.privacy.streams import from_operating_system, numpy_stream
from fairaudit.report.types.facts import Schedule

MODES = ("hooks", "functorch", "ghost")
MOST_GROUPS = 100_000  # a method keeps numbers of its own for each
_USABLE = "use dpsgd, global, global-adapt, dpsgd-f, reweight, or a plugin that is a rule alone"


def make_private(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loader: DataLoader[Any],
    *,
    method: str = "global-adapt",
    target_delta: float,
    target_epsilon: float | None = None,
    noise_multiplier: float | None = None,
    epochs: int,
    max_grad_norm: float,
    groups: int = 1,
    classes: int = 2,
    n_public: int | None = None,
    seed: int | None = None,
    criterion: Callable[..., torch.Tensor],
    grad_sample_mode: str = "hooks",
    loss_reduction: str = "mean",
    **settings: float,
) -> tuple[Any, ...]:
    """Make one training private with a method of this program.

    The loader deals Poisson samples, so batches differ in size and may be empty; an empty one takes
    a step like any other. Use the returned criterion and no other loader, and step once for each of
    its batches.

    A record's loss is the criterion's value on a batch of that record alone. ``accountant`` of the
    returned optimizer says what the training costs, and what that rests on.

    Args:
        model: What is trained; its frozen parameters stay as they are.
        optimizer: A PyTorch optimizer of the model's parameters; schedulers may move its step size.
        loader: Over a data set that can be indexed, all of which is trained on. Its batch size
            divides ``n_public`` into the steps of an epoch, rounded up; whether it shuffles does
            not matter.
        method: Name, or ``module:ATTRIBUTE`` of a plugin; one that has a clipping rule, trains by
            steps and has a guarantee.
        target_delta: Of ``target_epsilon``, and of the epsilon that the accountant gives.
        target_epsilon: What ``epochs`` may cost, noised counts included.
        noise_multiplier: To be given instead of ``target_epsilon``: standard deviation of the noise
            on the gradient over its sensitivity.
        epochs: Passes that are planned.
        max_grad_norm: Clipping bound C.
        groups: K, how many groups of records there are, for a method that reads them;
            ``set_groups`` of the returned optimizer then takes the groups of every batch.
        classes: Y, for a rule that reads it.
        n_public: N, where the number of records is not public; None: that number.
        seed: None draws noise and samples from the operating system, AES-256 in counter mode under
            it. A number makes them repeatable and faster: for tests.
        criterion: The loss of outputs [B, ...] and targets [B, ...]. One of PyTorch's own is known
            to treat records one by one; of another that is a condition of the guarantee.
        grad_sample_mode: How Opacus takes gradients: ``hooks``, ``functorch`` or ``ghost``.
        loss_reduction: Whether a step follows the ``mean`` of the records' losses or their ``sum``.
        settings: The method's other numbers, as ``threshold``. Those left out take the rule that
            ``fairaudit plan`` follows for a network.

    Returns:
        Model, optimizer, criterion and loader. The optimizer is a ``RuleOptimizer``; its
        ``accountant.epsilon()`` is what was spent so far.

    Raises:
        ConfigError: A method without such a rule; numbers, a loader or an optimizer that do not
            fit.
        PrivacyError: No noise meets the target, or delta is too small to be accounted for.
        TrainingError: A layer that mixes or remembers records, that cannot be copied, or of which
            Opacus takes no gradients.

    Example:
        >>> import torch
        >>> from torch.utils.data import DataLoader, TensorDataset
        >>> data = TensorDataset(torch.randn(60, 4), torch.randint(2, (60,)))
        >>> model = torch.nn.Linear(4, 2)
        >>> model, optimizer, loss, loader = make_private(
        ...     model,
        ...     torch.optim.SGD(model.parameters(), lr=0.1),
        ...     DataLoader(data, batch_size=20),
        ...     criterion=torch.nn.CrossEntropyLoss(),
        ...     method="dpsgd",
        ...     noise_multiplier=1.0,
        ...     target_delta=1e-3,
        ...     epochs=1,
        ...     max_grad_norm=1.0,
        ... )
        >>> for x, y in loader:
        ...     optimizer.zero_grad()
        ...     loss(model(x), y).backward()
        ...     optimizer.step()
        >>> optimizer.accountant.steps, str(optimizer.accountant.guarantee)
        (3, 'established')
    """
    _check_choices(grad_sample_mode, loss_reduction, target_epsilon, noise_multiplier)
    trained = _check_loop(model, optimizer)
    _check_loader(loader)
    if grad_sample_mode == "ghost":
        refuse_for_ghost(model)
    trainer = _trainer(method, groups)
    schedule = _schedule(loader, epochs, n_public)
    refuse_large_delta(target_delta, schedule.n_public)
    options = {
        "epsilon": None if target_epsilon is None else (target_epsilon,),
        "noise_multiplier": noise_multiplier,
        "delta": target_delta,
        "max_grad_norm": max_grad_norm,
        "settings": {method: settings} if settings else {},
    }
    arm = _arm(method, options, schedule, groups)
    task = _task(arm, schedule, groups, classes)
    sampling, streams = _streams(arm, seed)
    batches = PoissonBatches(
        sampling, _records(loader), schedule.steps_per_epoch, ahead=loader.num_workers > 0
    )
    poisson_loader = _with_batches(loader, batches)
    conditions = list(not_admitted(model))
    accountant = _accountant(arm, target_delta, target_epsilon, conditions)
    comparison = FirstComparison(model, grad_sample_mode)  # it copies the model without hooks
    wrapped = wrap(model, grad_sample_mode)
    wrapped.forbid_grad_accumulation()
    optimizer_type = GhostOptimizer if grad_sample_mode == "ghost" else RuleOptimizer
    private = optimizer_type(
        optimizer,
        model=wrapped,
        arm=arm,
        rule=trainer.rule(task),
        facts=_public_facts(task, trained[0].dtype, trained[0].device),
        streams=streams,
        batches=batches,
        accountant=accountant,
        loss_reduction=loss_reduction,
    )
    checks = ModelChecks(model, grad_sample_mode, accountant.rest_on, is_chain=not conditions)
    _attach(wrapped, comparison, checks, private, trained)
    return wrapped, private, _private_criterion(criterion, private, wrapped), poisson_loader


def _check_choices(
    grad_sample_mode: str,
    loss_reduction: str,
    target_epsilon: float | None,
    noise_multiplier: float | None,
) -> None:
    """Refuse words that are no choice, and a call that gives both target and noise, or neither.

    The arguments are those of :func:`make_private`.

    Raises:
        ConfigError: Names the argument.
    """
    if grad_sample_mode not in MODES:
        raise ConfigError(
            f"grad_sample_mode {grad_sample_mode!r} is not supported",
            hint=f"use {', '.join(MODES)}; PyTorch's expanded weights (ew) take no empty batch",
        )
    if (target_epsilon is None) == (noise_multiplier is None):
        raise ConfigError(
            "either a target or its noise is needed",
            hint="give target_epsilon, or noise_multiplier",
        )
    if loss_reduction not in ("mean", "sum"):
        raise ConfigError(
            f"loss_reduction {loss_reduction!r} is not supported", hint="use mean or sum"
        )


def _streams(arm: Arm, seed: int | None) -> tuple[np.random.Generator, Streams]:
    """The random streams of a training: of its samples, and of the noise on gradients and queries.

    Without a seed the operating system gives both, so that no call can repeat them.
    """
    with from_operating_system() if seed is None else nullcontext():
        # Inside from_operating_system() the seed and the names are not read: 0 stands for any.
        sampling = numpy_stream(seed or 0, "sampling", "shared")
        # Named as an audit names those of an arm with one repeat.
        noise = Streams(
            noise_stream(seed or 0, "noise", arm.method, 1),
            noise_stream(seed or 0, "query", f"{arm.method}/rule", 1),
        )
    return sampling, noise


def _accountant(
    arm: Arm, delta: float, target_epsilon: float | None, conditions: Sequence[str]
) -> Accountant:
    """The accountant of the steps that the arm plans, each a noised sum over a Poisson sample.

    Args:
        arm: Its event is what the whole training releases.
        delta: At which epsilon is told.
        target_epsilon: What the noise was set for; None: the noise was given.
        conditions: Parts of the model, in words, that the guarantee rests on.
    """
    event = arm.privacy.event
    assert event is None or isinstance(event, SampledGaussian)
    accountant = Accountant(event, delta, target_epsilon, arm.privacy.guarantee)
    for condition in conditions:
        accountant.rest_on(condition)
    return accountant


def _public_facts(task: Task, dtype: torch.dtype, device: torch.device) -> PublicFacts:
    """What a rule may know of the training: public numbers, as tensors like the gradients' norms.

    Norms are computed on the parameters' device, in their precision and at least in float32.
    """
    facts, precision = task.facts(), torch.promote_types(dtype, torch.float32)
    expected = facts.expected_batch_size.to(device=device, dtype=precision)
    return replace(facts, expected_batch_size=expected)


def _attach(
    wrapped: HookedModel | GhostModel,
    comparison: FirstComparison,
    checks: ModelChecks,
    private: RuleOptimizer,
    trained: Sequence[nn.Parameter],
) -> None:
    """Attach to the wrapped model and its parameters what checks each pass of a training.

    All of it is taken away again when the wrapped model's hooks are removed.

    Args:
        wrapped: The model in Opacus' wrapper.
        comparison: Run after each forward pass in training.
        checks: Hooks that are at the model's parts already.
        private: Told of each gradient that arrives at a trained parameter, so that it can refuse
            one that is not of its own backward pass.
        trained: The trained parameters.
    """
    # Handles of hooks that PyTorch calls when a gradient has arrived at a parameter.
    arrivals = [
        parameter.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
            lambda _: private.on_gradient()
        )
        for parameter in trained
    ]

    def end() -> None:
        """Remove the checks, and the hooks at the parameters."""
        checks.end()
        for hook in arrivals:
            hook.remove()

    wrapped.after_forward = comparison
    wrapped.rest_on = private.accountant.rest_on
    wrapped.on_end = end


def _private_criterion(
    criterion: Callable[..., torch.Tensor],
    private: RuleOptimizer,
    wrapped: HookedModel | GhostModel,
) -> RecordCriterion:
    """The user's criterion taken record by record, whose gradients go to the private optimizer."""
    return RecordCriterion(
        SingleLosses(criterion, private.loss_reduction),
        private.loss_reduction,
        take_pass=private.take_pass,
        has_put_out=wrapped.has_put_out,
        rest_on=private.accountant.rest_on,
        name=f"the criterion {getattr(criterion, '__name__', type(criterion).__name__)}",
    )


def _with_batches(loader: DataLoader[Any], batches: PoissonBatches) -> DataLoader[Any]:
    """A loader like the user's that deals the given batches, empty ones among them."""
    # Opacus' function collates as the user's does, and gives an empty batch the shapes and types
    # of the first batch that it collated. One record is collated here, lest an empty batch come
    # first.
    collate = DPDataLoader.from_data_loader(loader).collate_fn
    collate([loader.dataset[0]])
    return DataLoader(
        loader.dataset,
        batch_sampler=batches,
        collate_fn=collate,
        num_workers=loader.num_workers,
        pin_memory=loader.pin_memory,
        timeout=loader.timeout,
        worker_init_fn=loader.worker_init_fn,
        multiprocessing_context=loader.multiprocessing_context,
        generator=loader.generator,
        prefetch_factor=loader.prefetch_factor,
        persistent_workers=loader.persistent_workers,
    )


def _trainer(method: str, groups: int) -> GradientMethod:
    """The trainer of a method whose step is a rule and a noised sum, so that any loop can take it.

    Args:
        method: Name, or ``module:ATTRIBUTE``.
        groups: How many the user said that there are.

    Raises:
        ConfigError: Another method (the message says why), or too few groups for it.
    """
    admit((method,))
    spec = find(method)
    _refuse_without_noised_steps(spec)
    path, _, name = spec.trainer.partition(":")
    trainer = getattr(importlib.import_module(path), name)()
    # A loop with Opacus replaces all of these by its own; a method that overrides one would train
    # otherwise than its guarantee says.
    overridden = [
        part
        for part in ("fit", "_set_up", "objective", "release", "tape")
        if getattr(type(trainer), part, None) is not getattr(GradientMethod, part)
    ]
    if not isinstance(trainer, GradientMethod) or overridden:
        what = "how it trains or releases"
        if "objective" in overridden:
            what = "the loss that it differentiates"
        raise ConfigError(
            f"{spec.name} cannot be a loop's method: {what} is its own, and not a clipping rule "
            "alone",
            hint=_USABLE,
        )
    least = 2 if spec.reads_groups else 1  # of one group there is nothing to tell apart
    if not isinstance(groups, Integral) or not least <= groups <= MOST_GROUPS:
        raise ConfigError(
            f"{spec.name} needs to know how many groups there are, and groups is {groups}",
            hint="give groups=K, and optimizer.set_groups(group) for every batch",
        )
    return trainer


def _refuse_without_noised_steps(spec: MethodSpec) -> None:
    """Refuse a method that has no guarantee of its own, or that does not train by noised steps.

    Raises:
        ConfigError: Says why.
    """
    if not spec.is_private:
        why = "it has no guarantee"
    elif spec.control_of:
        why = f"it reads what a training of {spec.control_of} released"
    elif not spec.trains_by_steps:
        why = "it does not train by noised steps"
    else:
        return
    raise ConfigError(f"{spec.name} cannot be a loop's method: {why}", hint=_USABLE)


def _check_loop(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[nn.Parameter]:
    """Check that model and optimizer can be made private; give the parameters that are trained.

    Raises:
        ConfigError: Model or optimizer is private already, or they do not belong together.
        TrainingError: A layer that mixes or remembers records, that cannot be copied, or that
            Opacus refuses.
    """
    _refuse_unsupported(model, optimizer)
    for path, part in model.named_modules():
        refuse_at_fault(path, part)
    refuse_uncopyable(model)
    trained = _trained_parameters(model, optimizer)
    try:
        ModuleValidator.validate(model, strict=True)
    except UnsupportedModuleError as error:
        raise TrainingError(
            f"the model cannot be trained with a guarantee for each record: {said(error)}",
            hint="model.train(); opacus.layers for recurrent layers and attention",
        ) from error
    return trained


def _refuse_unsupported(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Refuse a model or an optimizer by its kind, or by another training that it is in.

    Raises:
        ConfigError: Says which, and what to use.
    """
    if isinstance(optimizer, DPOptimizer) or isinstance(model, AbstractGradSampleModule):
        raise ConfigError(
            "the optimizer or the model is one of Opacus' already",
            hint="pass PyTorch's own, before any wrapping",
        )
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        raise ConfigError(
            "a training that is spread over processes is not supported", hint="use one process"
        )
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ConfigError(
            "LBFGS asks for several gradients in a step, and a private step has one",
            hint="use SGD, Adam or another optimizer of one gradient",
        )
    if hasattr(model, "autograd_grad_sample_hooks"):  # Opacus sets it where it adds its hooks
        raise ConfigError(
            "the model is in another private training",
            hint="to_standard_module() of what that make_private returned ends it",
        )


def _trained_parameters(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[nn.Parameter]:
    """The optimizer's parameters that are not frozen; all of its parameters must be the model's.

    Raises:
        ConfigError: None is trained, or one is not the model's.
    """
    # By identity: == of two tensors compares their numbers.
    of_model = {id(p) for p in model.parameters()}
    of_optimizer = [p for group in optimizer.param_groups for p in group["params"]]
    trained = [p for p in of_optimizer if p.requires_grad]
    if not trained or any(id(p) not in of_model for p in of_optimizer):
        problem = "the optimizer trains no parameter"
        if trained:
            problem = "the optimizer's parameters are not the model's"
        raise ConfigError(problem, hint="make the optimizer of model.parameters()")
    return trained


def _check_loader(loader: DataLoader[Any]) -> None:
    """Refuse a loader that chooses records in a way that would be lost with Poisson samples.

    Raises:
        ConfigError: It leaves records out, weights or groups them, or has none.
    """
    if not isinstance(loader, DataLoader) or isinstance(loader.dataset, IterableDataset):
        raise ConfigError(
            "the loader cannot deal Poisson samples",
            hint="use a DataLoader over a data set with an index",
        )
    if not _records(loader):
        raise ConfigError("the data set has no record", hint="check how it is read")
    if type(loader).__iter__ is not DataLoader.__iter__:
        raise ConfigError(
            f"{type(loader).__name__} deals its batches itself, and Poisson samples take its place",
            hint="use a DataLoader",
        )
    if _deals_poisson_samples(loader):
        return
    batches: Any = loader.batch_sampler
    # Unless it deals Poisson samples, the loader has to deal all records, singly and unweighted.
    if loader.batch_size is None:  # a batch sampler was given, or no batches were asked for
        what = "deals no batches"
        if batches is not None:
            what = f"deals batches by {type(batches).__name__}"
        raise ConfigError(
            f"the loader {what}, and Poisson samples of single records take their place",
            hint="use a DataLoader with batch_size=..., of a data set that gives single records; a "
            "part of it is torch.utils.data.Subset",
        )
    sampler: Any = loader.sampler
    is_whole = type(sampler) is SequentialSampler or (
        type(sampler) is RandomSampler
        and not sampler.replacement
        and len(sampler) == _records(loader)
    )
    if (
        not is_whole
        or sampler.data_source is not loader.dataset
        or type(batches) is not BatchSampler
    ):
        raise ConfigError(
            f"the loader's {type(sampler).__name__} is not kept: every batch is a Poisson sample "
            "of the whole data set",
            hint="torch.utils.data.Subset leaves records out; a weight for each class belongs in "
            "the criterion: CrossEntropyLoss(weight=..., reduction='none')",
        )


def _deals_poisson_samples(loader: DataLoader[Any]) -> bool:
    """Whether a loader's batches are Poisson samples of all records, by this program or by Opacus.

    Such a loader comes of an earlier ``make_private``. It is taken, though it has no batch size:
    the new samples are of the same kind as those whose place they take.
    """
    batches: Any = loader.batch_sampler
    if type(batches) is PoissonBatches:
        return batches.records == _records(loader)
    if type(batches) is UniformWithReplacementSampler:
        return bool(batches.num_samples == _records(loader))
    return False


def _records(loader: DataLoader[Any]) -> int:
    """How many records the loader's data set has."""
    return len(loader.dataset)  # type: ignore[arg-type]


def _schedule(loader: DataLoader[Any], epochs: int, n_public: int | None) -> Schedule:
    """How long the training is, as an audit plans it.

    An epoch has as many steps as N over the batch size, rounded up.

    Args:
        loader: One without a batch size deals Poisson samples already, and keeps its length.
        epochs: Passes.
        n_public: N; None: the number of records, which is then public.

    Raises:
        ConfigError: A number below 1; N of one's own without a batch size to divide it.
    """
    records = _records(loader) if n_public is None else n_public
    if not all(isinstance(number, Integral) and number >= 1 for number in (epochs, records)):
        raise ConfigError(
            "epochs and n_public are whole numbers above 0", hint=f"{epochs=}, {n_public=}"
        )
    if loader.batch_size is None and n_public is not None:
        raise ConfigError(
            "n_public needs a loader with a batch size", hint="DataLoader(batch_size=...)"
        )
    steps = ceil(records / loader.batch_size) if loader.batch_size else len(loader)
    return Schedule(n_public=records, steps_per_epoch=steps, epochs=epochs)


def _arm(method: str, options: dict[str, Any], schedule: Schedule, groups: int) -> Arm:
    """The arm that an audit's plan would hold for these options: its numbers, noise and guarantee.

    Args:
        method: Name, or ``module:ATTRIBUTE``.
        options: As of an audit, by name: ``epsilon`` as a tuple of one number, or None and a
            ``noise_multiplier``; ``delta``, ``max_grad_norm``, and the method's other numbers in
            ``settings``.
        schedule: How long the training is.
        groups: K.
    """
    # An audit's options need data: "." is a path that exists, and nothing is read from there.
    config = resolve_config({**options, "data": ".", "method": (method,), "twins": "off"}).config
    # Settings left out get the defaults of a network on a table, which do not depend on columns.
    sizes = PublicSizes(schedule.n_public, columns=0, model="mlp", groups=groups)
    numbers = SettingsResolver(config, sizes)
    # Other arms of the plan, as the reference without privacy, are left out.
    arms = make_arms(numbers, schedule, options["delta"])
    return next(arm for arm in arms if arm.method == find(method).name)


def _task(arm: Arm, schedule: Schedule, groups: int, classes: int) -> Task:
    """A task without records, from which a method makes its rule: settings and public facts alone.

    Fields that neither a rule nor ``Task.facts`` reads are left empty: no rule is told how steps
    are taken or which model is trained.
    """
    no_labels = torch.zeros(0, dtype=torch.int64)
    pool = TrainingPool(torch.zeros(0, 1), no_labels, no_labels, n_classes=classes, n_groups=groups)
    return Task(
        arm=arm.method,
        seed=0,
        repeats=1,
        settings=arm.settings,
        optimizer="",
        model=nn.Module(),
        pool=pool,
        steps_per_epoch=schedule.steps_per_epoch,
        epochs=schedule.epochs,
        n_public=schedule.n_public,
        sampling=("shared",),
        source={},
        budget=0,
    )
