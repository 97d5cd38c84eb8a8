"""How much work a plan is, counted from public sizes and never by a clock: equal plans count alike.

``plan`` estimates its time by these counts.

The unit is one multiplication of a record's value by a weight in a forward pass. All other work is
expressed in it, by constants that ``benchmarks/diagnostics_cost.py`` compares with measured times.
"""

from dataclasses import dataclass
from itertools import pairwise

from fairaudit.config.model_names import BY_TABLE, BY_VMAP, LINEAR, ModelFacts
from fairaudit.config.options import AuditConfig
from fairaudit.methods.catalog import find
from fairaudit.planning.arms import Arm
from fairaudit.report.facts import Schedule

STEP = 1.2e6  # of a step, whatever its size: calls, noise, the update
RECORD = 2_500.0  # of a record in a step, weights aside
# Of a weight, where the layer table lacks the model and torch.func.vmap gives its gradients.
VMAP_FACTOR = 30.0
INPUTS = 100  # a table's usual width once encoded; the plan does not encode
CHECKPOINT = 2e8  # of a checkpoint, whatever the model and the batch
PASSES = 1.4  # passes over all training records that their gradients at a checkpoint amount to
CURVATURE_RECORDS = 20_000.0  # gradients of a record that a checkpoint's curvature amounts to
BATCHES = 72  # drawn at a checkpoint at most: those of a pilot and what it can ask for
BATCH_RECORDS = 1_500.0  # gradients of a record that the curvature along a batch's step amounts to


@dataclass(frozen=True, slots=True)
class Effort:
    """The work of one seed of an audit, in multiplications (see the module).

    Args:
        training: Of all steps of the arms, searches included.
        twins: Of all twins that could be trained: two for each arm that has them, the arm without
            noise and its steps alone.
        full: Of the readings of checkpoints that ``--diagnostics full`` takes.
    """

    training: float
    twins: float
    full: float

    @property
    def beside_readings(self) -> float:
        """The work that readings are compared with: the arms', and one noiseless twin of each.

        It does not depend on whether ``--twins`` trains them: the level of diagnostics is part of
        a job's id, and ``--twins`` must not change an arm's training.
        """
        return self.training + self.twins / 2


def effort(
    config: AuditConfig, arms: tuple[Arm, ...], schedule: Schedule, facts: ModelFacts, model: str
) -> Effort:
    """Count the work of one seed of a plan; each repeat of an arm counts.

    Args:
        config: The options.
        arms, schedule: What is trained.
        facts: What is known of the model's size and of how its gradients are computed.
        model: Its resolved name.
    """
    # Multiplications in a record's forward pass. A linear model on a table stays at 0: RECORD
    # holds its few.
    products = 0.0
    if facts.gradients == BY_VMAP:
        products = VMAP_FACTOR * (facts.parameters or 0)
    elif facts.products is not None:
        products = facts.products
    elif model == "mlp":
        products = sum(a * b for a, b in pairwise((INPUTS, *config.hidden)))
    record = RECORD + products  # of one record in a step
    step = STEP + schedule.expected_batch_size * record  # of one step
    passes = PASSES * schedule.n_public * record  # of all records' gradients at a checkpoint
    # The curvature of a linear model is known in closed form.
    is_closed = model in LINEAR and facts.gradients == BY_TABLE
    if is_closed:
        curvature = 0.0
    else:
        curvature = record
    # Of one checkpoint; a private arm's reading also looks at all gradients and at drawn batches.
    reference_reading = CHECKPOINT + CURVATURE_RECORDS * curvature
    private_reading = reference_reading + passes + BATCHES * (step + BATCH_RECORDS * curvature)
    checkpoints = len(schedule.kept(config.diagnostics_every))
    training = twins = full = 0.0
    for arm in arms:
        if not find(arm.method).trains_by_steps:
            continue
        work = arm.repeats * schedule.steps * step
        if arm.search is not None:
            work *= arm.search.trials * arm.search.mean_length
        training += work
        if arm.has_twins:
            twins += 2 * work
        if arm.reference:
            full += arm.repeats * checkpoints * private_reading
        else:
            full += arm.repeats * checkpoints * reference_reading
    return Effort(training, twins, full)
