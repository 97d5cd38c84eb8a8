"""How much work a plan is, counted from public sizes and never by a clock: equal plans count alike.

``plan`` estimates its time by these counts.

The unit is one multiplication of a record's value by a weight in a forward pass. All other work is
expressed in it, by constants that ``benchmarks/diagnostics_cost.py`` compares with measured times.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from fairaudit.config.model_names import BY_TABLE, BY_VMAP, LINEAR, ModelFacts
from fairaudit.config.options import AuditConfig
from fairaudit.diagnostics.amount import NOTHING, Amount, spread
from fairaudit.methods.catalog import find
from fairaudit.methods.spec import FitSizes
from fairaudit.planning.arms import Arm
from fairaudit.report.types.facts import Schedule
from fairaudit.results.steps import BATCHES as BATCHES_OF_ANGLES

# Names below are short for "the work of"; all are in multiplications, as the module says.
STEP = 1.2e6  # of a step, whatever its size: calls, noise, the update
RECORD = 2_500.0  # of a record in a step, weights aside
# Where the layer table lacks the model and torch.func.vmap gives its gradients: of a multiplication
# in a layer of known type, and of a weight that is copied for each record.
VMAP_FACTOR = 2.0
COPY_FACTOR = 30.0
INPUTS = 100  # a table's usual width once encoded; the plan does not encode
ANSWER = 1 / 3  # of predicting a record (a forward pass), over that of a training step on it
HESSIAN = 0.5  # of adding a record to a Hessian, over the square of the number of inputs
# `--diagnostics basic` reads *angles* (misalignment) and *terms* (what a step adds to the loss of a
# group) at some checkpoints: docs/methods.md 8.1 to 8.3. These are the largest shares of an arm's
# training that the two may take. An audit trains a reference, too, and mostly twins, so that both
# together stay below 15 % of it.
ANGLES_SHARE, TERMS_SHARE = 0.12, 0.1
JOB = 2e9  # of the rest of an audit of one arm at one seed: data, predictions, their measures
ANGLES = 2e7  # of the angles of a checkpoint by one grouping, whatever the model
TERMS = 5e7  # of the terms of a checkpoint, likewise
BATCH = 1.5e6  # of a batch that is drawn for angles or terms, whatever the model
READ = 1.5  # of a gradient that is read (summed plain and clipped), over one in training
FORMS = 24.0  # of the second order of the terms for one record, over a gradient in training
# How much of the angles to read, as (checkpoints, training rows): the first that is in the share.
# First the sample shrinks, then the checkpoints, never to none.
ANGLE_AMOUNTS = (
    *((8, rows) for rows in (8192, 4096, 2048, 1024)),
    *((count, 1024) for count in (6, 4)),
    *((count, 512) for count in (4, 3, 2)),
)
# The same of the terms, as (checkpoints, batches, training rows of the second order).
TERM_AMOUNTS = (
    (8, 64, 512),
    (4, 64, 512),
    (4, 32, 512),
    (4, 16, 256),
    (4, 8, 256),
    (3, 8, 256),
    (2, 8, 256),
    (1, 8, 160),
)
CHECKPOINT = 4.5e8  # of a checkpoint, whatever the model and the batch
PASSES = 2.5  # passes over all training records that their gradients at a checkpoint amount to
CURVATURE_RECORDS = 16_000.0  # gradients of a record that a checkpoint's curvature amounts to
BATCHES = 72  # drawn at a checkpoint at most: those of a pilot and what it can ask for
BATCH_RECORDS = 1_200.0  # gradients of a record that the curvature along a batch's step amounts to


@dataclass(frozen=True, slots=True)
class ArmEffort:
    """The work of one arm at one seed, in multiplications (see the module).

    Args:
        training: Of its training, search and repeats included.
        twins: Of its two twins, itself without noise and its steps alone; 0 where it has none.
        full: Of the readings of checkpoints that ``--diagnostics full`` takes.
    """

    training: float
    twins: float = 0.0
    full: float = 0.0


@dataclass(frozen=True, slots=True)
class Effort:
    """The work of one seed of an audit, in multiplications, by the keys of its arms."""

    by_arm: Mapping[str, ArmEffort]

    @property
    def full(self) -> float:
        """The work of the readings of checkpoints that ``--diagnostics full`` takes."""
        return sum(arm.full for arm in self.by_arm.values())

    @property
    def work_without_readings(self) -> float:
        """The work that readings are compared with: the arms', and one noiseless twin of each.

        The sum is the same whether or not ``--twins`` trains twins: the level of diagnostics is
        part of a job's id, and ``--twins`` must not change an arm's training.
        """
        return sum(arm.training + arm.twins / 2 for arm in self.by_arm.values())


def record_work(config: AuditConfig, facts: ModelFacts, model: str) -> float:
    """The work of one record in a training step; arguments as of :func:`effort`."""
    # Multiplications in a record's forward pass. They stay 0 for a linear model on a table, whose
    # few are in RECORD.
    products = 0.0
    if facts.gradients == BY_VMAP:
        products = VMAP_FACTOR * (facts.products or 0) + COPY_FACTOR * facts.copied
    elif facts.products is not None:
        products = facts.products
    elif model == "mlp":
        products = sum(a * b for a, b in pairwise((INPUTS, *config.hidden)))
    return RECORD + products


def amount_read(
    config: AuditConfig, schedule: Schedule, facts: ModelFacts, model: str, *, kept: int
) -> Amount:
    """How much ``--diagnostics`` reads of the steps of a private training.

    With ``full`` angles and terms are read at every checkpoint. With ``basic`` it is the first of
    ``ANGLE_AMOUNTS`` and of ``TERM_AMOUNTS`` whose work is in its share of the training's, or the
    last of them.

    Args:
        config, facts, model: As of :func:`effort`.
        schedule: Of the training.
        kept: How many checkpoints memory holds.
    """
    if config.diagnostics == "off":
        return NOTHING
    if config.diagnostics == "full":
        every = schedule.kept(config.diagnostics_every)
        return Amount(every, every, curved=512 if is_closed(facts, model) else 256)
    record = record_work(config, facts, model)
    batch = schedule.expected_batch_size * record
    training = JOB + schedule.steps * (STEP + batch)  # one training, with what goes with it
    steps = schedule.kept(None)  # eight at most
    groupings = max(1, len(config.group))

    def angles_work(checkpoints: int, rows: int) -> float:
        """The work of reading angles at so many checkpoints, from so many training rows."""
        records = min(rows, schedule.n_public) * record
        read = READ * (records + BATCHES_OF_ANGLES * batch) + BATCHES_OF_ANGLES * BATCH
        return min(checkpoints, len(steps)) * (groupings * ANGLES + read)

    def terms_work(checkpoints: int, batches: int, curved: int) -> float:
        """The work of reading terms, from so many batches and ``curved`` rows at second order."""
        second_order = 0.0 if is_closed(facts, model) else FORMS * curved * record
        read = batches * (READ * batch + BATCH)
        return min(checkpoints, len(steps)) * (groupings * TERMS + read + second_order)

    angle_checkpoints, rows = next(
        (one for one in ANGLE_AMOUNTS if angles_work(*one) <= ANGLES_SHARE * training),
        ANGLE_AMOUNTS[-1],
    )
    term_checkpoints, batches, curved = next(
        (one for one in TERM_AMOUNTS if terms_work(*one) <= TERMS_SHARE * training),
        TERM_AMOUNTS[-1],
    )
    # Terms are read at some of the checkpoints at which angles are.
    steps = spread(steps, min(angle_checkpoints, kept))
    return Amount(steps, spread(steps, term_checkpoints), rows, curved, batches)


def is_closed(facts: ModelFacts, model: str) -> bool:
    """Whether the curvature of the model is known in closed form, as of a linear one."""
    return model in LINEAR and facts.gradients == BY_TABLE


def effort(
    config: AuditConfig, arms: tuple[Arm, ...], schedule: Schedule, facts: ModelFacts, model: str
) -> Effort:
    """Count the work of one seed of a plan: trainings, twins, and readings of ``full``.

    A training by steps is repeats x steps x (STEP + batch size x work of a record), times the
    trainings of a search.

    Args:
        config: The options.
        arms, schedule: What is trained; each repeat of an arm counts.
        facts: What is known of the model's size and of how its gradients are computed.
        model: Its resolved name.
    """
    record = record_work(config, facts, model)
    step = STEP + schedule.expected_batch_size * record  # of one step
    passes = PASSES * schedule.n_public * record  # of all records' gradients at a checkpoint
    curvature = 0.0 if is_closed(facts, model) else record
    # Of one checkpoint; a private arm's reading also looks at all gradients and at drawn batches.
    reference_reading = CHECKPOINT + CURVATURE_RECORDS * curvature
    private_reading = reference_reading + passes + BATCHES * (step + BATCH_RECORDS * curvature)
    checkpoints = len(schedule.kept(config.diagnostics_every))
    by_arm = {}
    for arm in arms:
        spec = find(arm.method)
        if not spec.trains_by_steps:
            by_arm[arm.key] = ArmEffort(_of_no_steps(config, arm, schedule, facts, model))
            continue
        work = arm.repeats * schedule.steps * step
        if arm.search is not None:
            work *= arm.search.trials * arm.search.mean_length
        reading = private_reading if arm.reference else reference_reading
        by_arm[arm.key] = ArmEffort(
            training=work,
            twins=2 * work if arm.has_twins else 0.0,
            full=arm.repeats * checkpoints * reading,
        )
    return Effort(by_arm)


def _of_no_steps(
    config: AuditConfig, arm: Arm, schedule: Schedule, facts: ModelFacts, model: str
) -> float:
    """The work of a training that does not go by steps on samples, readings included.

    The work is 0 where the method does not say what its training does.

    Args:
        config, schedule, facts, model: As of :func:`effort`.
        arm: What is trained.
    """
    spec = find(arm.method)
    if spec.fit_work is None:
        return 0.0
    is_read = config.diagnostics != "off" and bool(spec.readings)
    is_convex = is_closed(facts, model)
    sizes = FitSizes(
        arm.settings, schedule.n_public, schedule.epochs, arm.repeats, is_convex, is_read
    )
    work = spec.fit_work(sizes)  # counts of steps and records, which are weighted below
    record = record_work(config, facts, model)
    # Multiplications of a linear model's answer; the inputs of a table are not known before it is
    # encoded.
    inputs = facts.products or INPUTS
    answer = inputs if is_convex else ANSWER * record
    return (
        (work.steps + work.newton_steps) * STEP
        + work.records * record
        + work.newton_records * HESSIAN * inputs**2
        + work.answers * answer
    )
