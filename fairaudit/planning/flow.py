"""An audit on its way from options to a report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fairaudit.config.value_sources import ResolvedConfig
from fairaudit.data.dataset import Dataset
from fairaudit.data.inputs.shared import Inputs
from fairaudit.data.inputs.spool import Shared
from fairaudit.gate.grammar import GateRule
from fairaudit.planning.plan import Plan
from fairaudit.report.model import Report, Study
from fairaudit.results.estimates import Measured
from fairaudit.results.jobs import JobResult


@dataclass(frozen=True, slots=True)
class Audit:
    """What is known of an audit at one stage; every stage returns a copy with more fields filled.

    Args:
        resolved: The options.
        plan: What is trained.
        dataset: The table.
        results: Job id -> result of every finished job, those beside the plan's included.
        failures: Job id -> one line, for jobs that ended without a result.
        comparisons: What was measured, by arm and grouping.
        studies: What capabilities measured, by name.
        inputs: What workers read of the table, encoded when the first of them needs it; None where
            nothing is to be trained.
        rules: Gates, already checked to name arms and groups of the plan.
        baseline: The earlier report that rules with ``.delta`` compare with; None without
            ``--baseline``.
        seconds: Stage -> wall time in s.
    """

    resolved: ResolvedConfig
    plan: Plan
    dataset: Dataset
    results: Mapping[str, JobResult] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)
    comparisons: Sequence[Measured] = ()
    studies: Mapping[str, Study] = field(default_factory=dict)
    inputs: Shared[Inputs] | None = None
    rules: tuple[GateRule, ...] = ()
    baseline: Report | None = None
    seconds: dict[str, float] = field(default_factory=dict)
