"""Config and data to a frozen plan: which trainings, with which numbers, at which epsilon."""

from collections.abc import Mapping
from dataclasses import dataclass

from fairaudit.config import AuditConfig
from fairaudit.data.dataset import Notice
from fairaudit.methods.catalog import Guarantee
from fairaudit.privacy.events import PrivacyEvent


@dataclass(frozen=True, slots=True)
class Schedule:
    """How long every arm trains; one for the whole audit, so that arms can share their samples.

    Args:
        n_public: N, the number of training records: a public constant.
        steps_per_epoch: The sampling rate is 1 / steps_per_epoch.
        epochs: Passes; steps = epochs * steps_per_epoch.
    """

    n_public: int
    steps_per_epoch: int
    epochs: int

    @property
    def steps(self) -> int:
        """T, steps of one training, empty batches included."""
        return self.steps_per_epoch * self.epochs

    @property
    def sample_rate(self) -> float:
        """q, the Poisson inclusion probability of each record."""
        return 1.0 / self.steps_per_epoch

    @property
    def expected_batch_size(self) -> float:
        """qN, the only divisor of a private release."""
        return self.n_public / self.steps_per_epoch


@dataclass(frozen=True, slots=True)
class ArmPrivacy:
    """What an arm guarantees, known before any training.

    Args:
        guarantee: Status; reason: why not established, or "".
        event: What one run releases, or None where nothing is claimed.
        epsilon_pld: Headline epsilon of one run at the plan's delta. epsilon_rdp: For comparison
            with papers. None where nothing is claimed.
        target_epsilon: What it was calibrated to, or None (noise multiplier given).
    """

    guarantee: Guarantee
    reason: str
    event: PrivacyEvent | None
    epsilon_pld: float | None
    epsilon_rdp: float | None
    target_epsilon: float | None


@dataclass(frozen=True, slots=True)
class Arm:
    """One column of the report: a method in one form at one epsilon, over all seeds.

    Args:
        key: ``method``, ``method:variant``, ``method@epsilon`` (sweeps), ``method#self-check``.
        method: Canonical method name. variant: Variant name or None.
        settings: Resolved numbers (learning_rate, max_grad_norm, noise_multiplier, ...).
        reference: Key of the arm that its cost is measured against, None for the reference.
        source: Key of the arm whose released thresholds it reads, or None.
        reads_groups: Group labels enter training.
        trainer: ``module:Class``.
    """

    key: str
    method: str
    variant: str | None
    settings: Mapping[str, float]
    privacy: ArmPrivacy
    reference: str | None
    source: str | None
    reads_groups: bool
    trainer: str
    repeats: int


@dataclass(frozen=True, slots=True)
class Job:
    """One arm at one seed: the unit that is trained, stored and resumed.

    Args:
        id: Hash of everything that its result depends on, and of nothing else.
        arm: Key. seed: Audit seed. repeats: Private runs trained as stacked replicates.
        source_id: Id of the job whose released state it reads, or None.
    """

    id: str
    arm: str
    seed: int
    repeats: int
    source_id: str | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that is decided before training.

    Args:
        config: The options. digest: sha256 of the data file.
        model: Resolved model name. schedule, delta: Resolved.
        arms: The reference first. jobs: Seed-major, so that a seed's encoding is reused.
        origins: Resolved setting -> the rule that set it, for the report.
        epsilon_if_all_released: PLD epsilon of releasing every private model of established
            arms, or None.
        notices: Warnings of the plan itself.
    """

    config: AuditConfig
    digest: str
    model: str
    schedule: Schedule
    delta: float
    arms: tuple[Arm, ...]
    jobs: tuple[Job, ...]
    origins: Mapping[str, str]
    epsilon_if_all_released: float | None
    notices: tuple[Notice, ...] = ()

    def arm(self, key: str) -> Arm:
        """The arm of that key."""
        return next(a for a in self.arms if a.key == key)
