"""How much work a plan is: counted from public sizes, never by a clock, so that equal plans count alike.

The unit is a multiplication of a record by a weight on its way forward; everything else is what it amounts
to, as ``benchmarks/diagnostics_cost.py`` measures it beside counts.
"""

from dataclasses import dataclass
from itertools import pairwise

from fairaudit.config.model_names import BY_LOOP, BY_TABLE, BY_VMAP, LINEAR, ModelFacts
from fairaudit.config.options import AuditConfig
from fairaudit.methods.catalog import find
from fairaudit.planning.arms import Arm, Schedule

STEP = 1.2e6  # what a step costs whatever its size: calls, noise, the update
RECORD = 2_500.0  # a record in a step, weights aside
VMAP_FACTOR = 30.0  # one weight of a model outside the layer table takes as many
CALL = 1e7  # a record of a model that only a loop runs
INPUTS = 100  # a table's usual width once encoded; the plan does not encode
CHECKPOINT = 2e8  # of a checkpoint, whatever its size: correlations and their intervals
PASSES = 1.4  # gradients of all training records at a checkpoint
CURVATURE_RECORDS = 20_000.0  # gradients of one record that a checkpoint's traces and eigenvalues amount to
BATCHES = 72  # at a checkpoint: those of a pilot and the most that it can ask for
BATCH_RECORDS = 1_500.0  # gradients of one record that the curvature along a batch's amounts to
ANGLE_BATCHES = 16  # at a checkpoint where angles alone are read
MOST = 0.5  # of the training's work, which readings may take unasked


@dataclass(frozen=True, slots=True)
class Effort:
    """The work of one audit.

    Args:
        training: Of all steps, twins included.
        full, angles: Of the readings of checkpoints that ``--diagnostics full`` takes, and of those that find
            angles alone.
    """

    training: float
    full: float
    angles: float

    @property
    def reads_all(self) -> bool:
        """Whether everything can be read unasked."""
        return self.full < MOST * self.training

    @property
    def reads_angles(self) -> bool:
        """Whether angles can be."""
        return self.angles < MOST * self.training


def effort(
    config: AuditConfig, arms: tuple[Arm, ...], schedule: Schedule, facts: ModelFacts, model: str
) -> Effort:
    """Count the work of a plan; an arm counts once for every repeat, seeds are alike.

    Args:
        config: The options.
        arms, schedule: What is trained.
        facts, model: Of the model.
    """
    weights = products(config, facts, model)
    record, batch = RECORD + weights, schedule.expected_batch_size
    curvature = (
        0.0 if model in LINEAR and facts.gradients == BY_TABLE else 1.0
    )  # of a linear model it is known in closed form
    kept, passes = len(schedule.kept(config.diagnostics_every)), PASSES * schedule.n_public * record
    common = CHECKPOINT + curvature * CURVATURE_RECORDS * record
    sums = STEP + batch * record
    private = common + passes + BATCHES * (sums + curvature * BATCH_RECORDS * record)
    trained = [arm for arm in arms if find(arm.method).trains_by_steps]
    return Effort(
        training=sum(a.repeats * (1 + a.has_twin) for a in trained) * schedule.steps * sums,
        full=kept * sum(a.repeats * (private if a.reference else common) for a in trained),
        angles=len(schedule.kept(None))
        * sum(a.repeats for a in trained if a.reference)
        * (passes + ANGLE_BATCHES * sums),
    )


def products(config: AuditConfig, facts: ModelFacts, model: str) -> float:
    """Multiplications of one record on its way, those of a linear model of a table aside."""
    if facts.gradients == BY_LOOP:
        return CALL
    if facts.gradients == BY_VMAP:
        return VMAP_FACTOR * (facts.parameters or 0)
    if facts.products is not None:
        return facts.products
    return 0.0 if model != "mlp" else sum(a * b for a, b in pairwise((INPUTS, *config.hidden)))


def choose_level(effort: Effort, *, searches: bool = False) -> tuple[str, str]:
    """The level of ``--diagnostics auto``, and the rule that it follows from in words.

    Args:
        effort: Of the plan.
        searches: Every arm tries several settings, of which no readings are taken.
    """
    if searches:
        return "basic", "basic by rule: readings are of one setting, and --tune tries several"
    if not effort.training:
        return "basic", "basic by rule: nothing trains by steps"
    share = f"{effort.full / effort.training:.2g} times the training's operations"
    if effort.reads_all:
        return "full", f"full by rule: its readings take {share}, below {MOST:g}"
    return "basic", f"basic by rule: the readings of full would take {share}, not below {MOST:g}"
