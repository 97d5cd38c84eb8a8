"""One training for release, and the folder of its model.

Every draw is from the operating system, and nothing is kept but the model.
"""

import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import save
from torch import nn

from fairaudit import __version__
from fairaudit.config.model_names import is_factory
from fairaudit.config.options import SplitOptions
from fairaudit.data.dataset import Dataset, Int64, Split
from fairaudit.data.inputs.shared import share_inputs
from fairaudit.data.inputs.split import group_counts
from fairaudit.data.reading.stored import type_of_names
from fairaudit.engine.devices import CPU, find_device
from fairaudit.engine.isolation import PerRecord
from fairaudit.engine.stacked import DEFAULT_BUDGET
from fairaudit.errors import TrainingError, is_out_of_memory
from fairaudit.execution.model_setup import start_model
from fairaudit.execution.outcomes import on_test
from fairaudit.execution.seed_data import SeedData, prepare_rows
from fairaudit.execution.trained import KeptTraining, Sanitised, method_of
from fairaudit.io.atomic import write_atomically
from fairaudit.io.code_digest import code_digest
from fairaudit.methods.base import Task, TrainedReplicates
from fairaudit.models.convex import LogisticModels, n_heads
from fairaudit.privacy.streams import from_operating_system, numpy_stream
from fairaudit.release.held_out import HeldOut, held_out
from fairaudit.release.model_folder import (
    CARD,
    EVIDENCE,
    MODEL,
    PRIVACY,
    RECIPE,
    as_json,
    write_folder,
)
from fairaudit.release.model_recipe import Images, LinearMake, NetworkMake, ReleaseRecipe
from fairaudit.release.planned import ReleasePlan
from fairaudit.release.statements import card, evidence, privacy_statement

WEIGHTS = "weights"  # of a linear model


@dataclass(frozen=True, slots=True)
class TrainedRelease:
    """A model to be released, and how it did on the rows that it did not see.

    Args:
        tensors: Name -> values of a parameter or buffer.
        recipe: What else a prediction needs.
        test: The rows that were held out, as places in the data, [n].
        probabilities: What the model predicts of them, [n, Y].
        kept: The training that a search kept; None without a search.
    """

    tensors: dict[str, NDArray[np.generic]]
    recipe: ReleaseRecipe
    test: Int64
    probabilities: NDArray[np.float32]
    kept: KeptTraining | None = None


def train_for_release(plan: ReleasePlan) -> TrainedRelease:
    """Train the planned arm once, or run its search, and predict the held-out rows.

    A training that diverged is refused, but not one that a search kept: to refuse that would tell
    of the rows. It becomes a model that says the same of every row, as its score took it to be.

    Raises:
        ConfigError: There is no such device.
        TrainingError: Diverged, out of memory, or too few rows or records of a student pool.
        OutputError: The disk is full.
    """
    torch.set_flush_denormal(True)  # as workers of an audit do; tiny numbers are slow
    config, arm = plan.config, plan.arm
    device = find_device(config.device)
    with from_operating_system():
        split = coin_split(plan.dataset, config.split)
        if not len(split.train):
            raise TrainingError("no row is left to train on", hint="use a larger table")
        queries = int(arm.settings.get("queries", 0))  # records that PATE's student learns from
        inputs = share_inputs(plan.dataset, config, by_pool=plan.by_pool).value
        prepared = prepare_rows(inputs, config, split, by_pool=plan.by_pool, queries=queries)
        if prepared.public is not None and len(prepared.public.features) < queries:
            raise TrainingError(
                f"the student needs {queries:,} records, and coins left "
                f"{len(prepared.public.features):,}",
                hint="audit with more test rows, fewer queries, or --public-data",
            )
        task = _task(plan, prepared, device)
        model, kept = _fitted(plan, task, prepared)
    trained = model.trained  # None: diverged
    if trained is not None and not torch.isfinite(trained.parameters).all():
        if kept is None:
            raise TrainingError(f"{arm.key} diverged: its parameters are not finite")
        trained = None
    make: NetworkMake | LinearMake
    if trained is None:  # kept by a search, whose score took it to say the same of every row
        tensors, make = _same_for_all(plan, prepared)
    else:
        tensors, make = _model(plan, task.model, trained)
    recipe = _recipe(plan, prepared, make)
    probabilities = on_test(model, prepared, 1)[0]  # of the one repeat
    return TrainedRelease(tensors, recipe, prepared.encoded.split.test, probabilities, kept)


def _fitted(
    plan: ReleasePlan, task: Task, prepared: SeedData
) -> tuple[Sanitised, KeptTraining | None]:
    """Train the arm once, or run its search: the model, and what the search kept (None: no search).

    Args:
        plan: What is trained.
        task: The one training; of a search, at its default setting.
        prepared: The encoded rows.

    Raises:
        TrainingError: Diverged, or out of memory; the message does not name the seed.
    """
    arm = plan.arm
    method = method_of(arm)
    kept: KeptTraining | None = None
    try:
        if arm.search is None:
            model = Sanitised(method.fit(task, []), len(prepared.dataset.classes))
        else:
            n_fit = plan.training.n_public
            kept = arm.search.train_for_release(arm, method, task, prepared, n_fit=n_fit)
            model = kept.model
    except TrainingError as error:
        # The seed is drawn for the release, and nothing that was drawn is told.
        message = error.message.replace(f" at seed {task.seed}", "")
        raise TrainingError(message, error.hint) from None
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise TrainingError("out of memory", hint="train where more memory is free") from None
    # What was done is what was planned; a search has checked each of its trainings by itself.
    is_as_planned = arm.search is not None or model.event == arm.privacy.event
    assert is_as_planned, f"{arm.key} did {model.event}"
    return model, kept


def _same_for_all(
    plan: ReleasePlan, prepared: SeedData
) -> tuple[dict[str, NDArray[np.generic]], LinearMake]:
    """A model that gives every class the same probability: tensors, and how it is made of them.

    Its weights are 0, of each head one for every input.
    """
    width = int(np.prod(prepared.encoded.test.shape[1:]))
    # The norm does not matter where all weights are 0.
    make = LinearMake(make="linear", feature_norm=1.0, intercept=0.0, same_for_all=True)
    return {WEIGHTS: np.zeros((n_heads(len(plan.dataset.classes)), width))}, make


def _recipe(plan: ReleasePlan, prepared: SeedData, make: NetworkMake | LinearMake) -> ReleaseRecipe:
    """All that turns a row into a prediction beside the weights.

    Args:
        plan: What was trained.
        prepared: The data, with what the encoding of inputs was fitted to or declared.
        make: How the model is made of its weights.
    """
    config = plan.config
    images = None
    if plan.dataset.image_shape is not None:
        images = Images(
            shape=plan.dataset.image_shape,
            resized=config.resize is not None,
            pixel_range=config.pixel_range,
            pixels=config.pixels,
        )
    columns = prepared.encoded.columns
    marks = list(config.missing_values)  # NAME=TEXT: of one column
    for name, declared in config.declared.items():
        marks += [f"{name}={text}" for text in declared.missing_values]
    return ReleaseRecipe(
        fairaudit=__version__,
        label=plan.dataset.label,
        classes=plan.dataset.classes,
        label_type=type_of_names(plan.dataset.classes),
        columns=columns,
        images=images,
        model=make,
        fitted=tuple(line for column in columns for line in column.learned),
        missing_values=tuple(marks),
        number_format=config.number_format,
    )


def coin_split(dataset: Dataset, options: SplitOptions) -> Split:
    """Draw training and test rows by a coin for each row, whatever other rows there are.

    So epsilon covers a row of the file, and not only one of a training set that was drawn with
    regard to the others. A split that the data bring stays. The options ``balance`` and ``keep``
    are coins, too; the rates of ``balance`` follow from the groups' sizes (with such a split, on
    each side of it), which count as public.

    Args:
        dataset: All rows.
        options: Share of test rows, ``balance`` and ``keep``.
    """
    # The seed 0 is not read inside ``from_operating_system``, where a release draws its coins.
    coins = numpy_stream(0, "split", "release")
    grouping = dataset.groupings[0]
    if dataset.split is None:
        is_test = coins.random(dataset.n_rows) < options.test_size
    else:
        is_test = dataset.split == 1  # 0: training row
    # ``balance`` leaves rows out of training and test, ``keep`` out of training alone.
    chosen = np.ones(dataset.n_rows, np.bool_)  # rows that ``balance`` leaves
    if options.balance:
        named = np.ones(len(grouping.names), np.bool_)  # groups; rows without one are left out
        if grouping.missing is not None:
            named[grouping.missing] = False
        # As in an audit: all rows together, or each side of a split that the data bring.
        sides = [chosen] if dataset.split is None else [is_test, ~is_test]
        rates = np.zeros(dataset.n_rows)
        for side in sides:
            sizes = group_counts(dataset, side)
            # The chance that a row of the group stays, so that all groups come out equally large.
            of_group = np.where(named, sizes[named].min() / np.maximum(sizes, 1), 0.0)
            rates[side] = of_group[grouping.groups[side]]
        chosen = coins.random(dataset.n_rows) < rates
    # The chance of each group that a training row of it stays, [K].
    keep = np.array([options.keep.get(name, 1.0) for name in grouping.names])
    kept = coins.random(dataset.n_rows) < keep[grouping.groups]
    return Split(0, np.flatnonzero(chosen & ~is_test & kept), np.flatnonzero(chosen & is_test))


def _task(plan: ReleasePlan, prepared: SeedData, device: torch.device = CPU) -> Task:
    """The one training of a release as a task for the arm's method.

    It is made inside ``from_operating_system``, where streams follow from no seed.

    Args:
        plan: What is trained.
        prepared: The encoded rows.
        device: Where the engine computes.
    """
    config, arm, schedule = plan.config, plan.arm, plan.training
    seed = secrets.randbits(62)  # for what a model of the user's own draws; streams do not read it
    budget = DEFAULT_BUDGET
    if config.memory:
        budget = config.memory * 2**20  # MiB to bytes
    return Task(
        arm=arm.key,
        seed=seed,
        repeats=1,
        settings=arm.settings,
        optimizer=config.optimizer,
        model=start_model(config, prepared.pool, seed, prepared.encoded.columns),
        pool=prepared.pool,
        steps_per_epoch=schedule.steps_per_epoch,
        epochs=schedule.epochs,
        n_public=schedule.n_public,
        sampling=[arm.key],  # name of the stream that the one repeat's batches are drawn from
        source={},
        budget=budget,
        public=prepared.public,
        records=prepared.encoded.split.train,
        device=device,
    )


def named_tensors(model: nn.Module) -> dict[str, torch.Tensor]:
    """Name -> parameter, frozen ones too, or buffer of a network.

    A module that a user's factory made stands inside a ``PerRecord``; its own names are taken.
    """
    inner = model.inner if isinstance(model, PerRecord) else model
    return dict([*inner.named_parameters(), *inner.named_buffers()])


def _model(
    plan: ReleasePlan, start: nn.Module, trained: TrainedReplicates
) -> tuple[dict[str, NDArray[np.generic]], NetworkMake | LinearMake]:
    """What is released of a trained model: tensors by name, and how a model is made of them.

    Args:
        plan: What was trained.
        start: The network before training; its parameters are replaced by the trained ones.
        trained: The one that was trained: a network or a linear model.
    """
    network, name = trained.network, plan.training.model
    if isinstance(network, LogisticModels):
        assert network.inputs.means is None, "its inputs are scaled by groups"
        make = LinearMake(
            make="linear", feature_norm=network.inputs.norm, intercept=network.inputs.intercept
        )
        return {WEIGHTS: network.weights[0].numpy()}, make
    tensors = named_tensors(start)
    # One replicate was trained: its parameters are put into those of ``start``, which ``tensors``
    # holds. Buffers and frozen parameters are as they were at the start.
    learned = [tensor for tensor in tensors.values() if tensor.requires_grad]
    nn.utils.vector_to_parameters(trained.parameters[0], learned)
    network_make = NetworkMake(
        make="network",
        model=name,
        hidden=plan.config.hidden if name == "mlp" else (),
        activation=plan.config.activation,
        code_sha256=code_digest([name.partition(":")[0]]) if is_factory(name) else "",
    )
    stored = {key: tensor.detach().contiguous().numpy() for key, tensor in tensors.items()}
    return stored, network_make


def release(plan: ReleasePlan, out: Path) -> list[HeldOut]:
    """Train, write the folder, then look at the rows that were held out.

    Args:
        plan: What is trained.
        out: The folder; it must not be there.

    Returns:
        Accuracy by group on the held-out rows; it stays beside the report and is no part of the
        folder.

    Raises:
        ConfigError, TrainingError: As of :func:`train_for_release`. OutputError: The folder cannot
            be written.
    """
    trained = train_for_release(plan)
    write_model(plan, trained, out)
    return held_out(plan.report, plan.arm.key, plan.dataset, trained.test, trained.probabilities)


def write_model(plan: ReleasePlan, trained: TrainedRelease, out: Path) -> None:
    """Write the folder of a trained model. Raises: OutputError, as :func:`release`."""
    recipe = trained.recipe
    files = {
        MODEL: save(trained.tensors),
        RECIPE: as_json(recipe.model_dump(mode="json")),
        PRIVACY: as_json(privacy_statement(plan, recipe, trained.kept)),
        CARD: card(plan, recipe).encode(),
    }
    # Last, since it holds the digests of the others.
    files[EVIDENCE] = as_json(evidence(plan, files))
    write_folder(out, files)


def write_held_out(report: Path, out: Path, checks: Sequence[HeldOut]) -> Path:
    """Write the held-out accuracies into a file beside the audit's report, and return its path.

    The accuracies are exact functions of rows, so they are no part of the model's folder.

    Args:
        report: Path of the report's file.
        out: The model's folder, by which the file is named.
        checks: The accuracy of each group.

    Raises:
        OutputError: The folder of the report is not writable.
    """
    path = report.parent / f"held-out-{out.absolute().name}.json"
    groups = list(map(asdict, checks))
    content = {"report_is_dp": False, "model": str(out), "groups": groups}
    write_atomically(path, as_json(content), mode=0o600)
    return path
