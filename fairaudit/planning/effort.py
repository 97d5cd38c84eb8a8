"""How much work a plan is.

Counted from public sizes, never by a clock, so that equal plans count alike.

The unit is a multiplication of a record by a weight on its way forward; everything else is what it
amounts to, as ``benchmarks/diagnostics_cost.py`` measures it beside counts.
"""

from dataclasses import dataclass
from itertools import pairwise

from fairaudit.config.model_names import BY_TABLE, BY_VMAP, LINEAR, ModelFacts
from fairaudit.config.options import AuditConfig
from fairaudit.methods.catalog import find
from fairaudit.planning.arms import Arm
from fairaudit.report.facts import Schedule

STEP = 1.2e6  # what a step costs whatever its size: calls, noise, the update
RECORD = 2_500.0  # a record in a step, weights aside
VMAP_FACTOR = 30.0  # one weight of a model outside the layer table takes as many
INPUTS = 100  # a table's usual width once encoded; the plan does not encode
CHECKPOINT = 2e8  # of a checkpoint, whatever its size
PASSES = 1.4  # gradients of all training records at a checkpoint
CURVATURE_RECORDS = 20_000.0  # gradients of a record that a checkpoint's curvature amounts to
BATCHES = 72  # at a checkpoint: those of a pilot and the most that it can ask for
BATCH_RECORDS = 1_500.0  # gradients of one record that the curvature along a batch's amounts to
MOST = 0.5  # of the training's work, which readings may take unasked


@dataclass(frozen=True, slots=True)
class Effort:
    """The work of one seed of an audit.

    Args:
        training: Of all steps of the arms, searches included.
        twins: Of all twins that could be trained: the arms without noise, and their steps alone.
        full: Of the readings of checkpoints that ``--diagnostics full`` takes.
    """

    training: float
    twins: float
    full: float

    @property
    def beside_readings(self) -> float:
        """What readings are held against: the arms, with and without noise.

        Whether twins are trained does not move it, so that an arm is the same with and without.
        """
        return self.training + self.twins / 2

    @property
    def reads_all(self) -> bool:
        """Whether everything can be read unasked."""
        return self.full < MOST * self.beside_readings


def effort(
    config: AuditConfig,
    arms: tuple[Arm, ...],
    schedule: Schedule,
    facts: ModelFacts,
    model: str,
) -> Effort:
    """Count the work of a plan; an arm counts once for every repeat, seeds are alike.

    Args:
        config: The options.
        arms, schedule: What is trained.
        facts, model: Of the model.
    """
    products = 0.0  # multiplications of a record on its way, those of a linear model aside
    if facts.gradients == BY_VMAP:
        products = VMAP_FACTOR * (facts.parameters or 0)
    elif facts.products is not None:
        products = facts.products
    elif model == "mlp":
        products = sum(a * b for a, b in pairwise((INPUTS, *config.hidden)))
    record = RECORD + products
    step = STEP + schedule.expected_batch_size * record
    passes = PASSES * schedule.n_public * record
    # The curvature of a linear model is known in closed form.
    is_closed = model in LINEAR and facts.gradients == BY_TABLE
    if is_closed:
        curvature = 0.0
    else:
        curvature = record
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


def choose_level(effort: Effort, *, searches: bool = False) -> tuple[str, str]:
    """The level of ``--diagnostics auto``, and the rule that it follows from in words.

    Args:
        effort: Of the plan.
        searches: Every arm tries several settings, of which no readings are taken.
    """
    if searches:
        return "basic", "basic (readings are of one setting, and a search tries several)"
    if not effort.training:
        return "basic", "basic (nothing trains by steps)"
    added = f"about {round(100 * effort.full / effort.beside_readings, -1):,.0f} % of the time"
    if effort.reads_all:
        return "full", f"full (adds {added})"
    return "basic", f"basic (full adds {added}: --diagnostics full)"
