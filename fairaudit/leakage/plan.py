"""What is trained for membership inference: the audit's methods on random halves of its rows."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fairaudit.config.model_names import ModelFacts
from fairaudit.config.options import AuditConfig
from fairaudit.data.dataset import Dataset
from fairaudit.data.inputs.split import leakage_rows
from fairaudit.errors import ConfigError
from fairaudit.leakage.messages import NotAttacked
from fairaudit.messages.base import Message
from fairaudit.methods.catalog import admit_own, find
from fairaudit.methods.spec import Need
from fairaudit.planning.arms import Arm
from fairaudit.planning.plan import Plan, plan_trainings

NAME = "leakage"
LEAST_ROWS = 200  # of the table: half of them are trained on
# No stream of these trainings is one of the audit's: a noise that two models shared could be taken
# away.
FIRST_SEED = 1_000_000


def side_plans_of(
    plan: Plan, dataset: Dataset, own_model: ModelFacts | None = None
) -> dict[str, Plan]:
    """The plan of the trainings whose models are attacked, beside the audit's own.

    Args:
        plan: Of the audit.
        dataset, own_model: From which it was made.

    Returns:
        The plan, under the name ``leakage``; empty where ``--leakage`` was not given.

    Raises:
        ConfigError: Other options, or too few rows, do not go together with ``--leakage``.
    """
    config = plan.config
    refuse_leakage(config)
    if not config.leakage:
        return {}
    half = plan_trainings(
        leakage_config(config, dataset, plan.training.delta),
        dataset,
        own_model,
        study=NAME,
        takes_part=lambda arm: is_attacked(arm, config),
    )
    return {NAME: replace(half, notices=tuple(not_attacked(plan.arms, half.arms)))}


def refuse_leakage(config: AuditConfig) -> None:
    """Refuse options that do not go together with ``--leakage``; without it nothing is refused.

    Raises:
        ConfigError: Code or tables of the user's own, or ``--tune``.
    """
    if not config.leakage:
        return
    # The call also registers such methods; the audit's plan did so before, so nothing changes.
    if admit_own(config):
        raise ConfigError(
            "--leakage attacks methods of this program, not code or tables of your own",
            hint="leave them out, or --leakage",
        )
    if config.tune is not None:
        raise ConfigError(
            "--leakage attacks models of one setting, --tune tries several",
            hint="run --tune, then --leakage with the settings that it chose, given by --settings",
        )


def leakage_config(config: AuditConfig, dataset: Dataset, delta: float) -> AuditConfig:
    """The options of the attacked trainings: the audit's, with sizes and noise for half the rows.

    One model of each seed and nothing beside it: an attack reads no twins and no diagnostics.

    Args:
        config, dataset: Of the audit.
        delta: The audit's, so that its epsilon and this one are at the same delta.

    Raises:
        ConfigError: Too few rows.
    """
    rows = len(leakage_rows(dataset, config.split))
    if rows < LEAST_ROWS:
        raise ConfigError(
            f"--leakage: {rows} rows leave {rows // 2} to train on; {LEAST_ROWS} are needed",
            hint="leave out --leakage, or use a larger table",
        )
    return config.model_copy(
        update={
            "n_public": rows // 2,
            "delta": delta,
            "seed": FIRST_SEED + config.seed,
            "seeds": config.leakage_seeds,
            "repeats": 1,
            "twins": "off",
            "self_check": False,
            "diagnostics": "off",
            "diagnostics_every": None,
        }
    )


def is_attacked(arm: Arm, config: AuditConfig) -> bool:
    """Whether an arm's models are attacked.

    They are if somebody may ship them and they learn from members alone.
    """
    spec = find(arm.method)
    # A pool for a student (PATE) is taken from rows that the attack would count as outsiders.
    from_rows = Need.PUBLIC_POOL in spec.needs and config.public_data is None
    # With a source it is a control that reads another arm's thresholds; with a set, an ablation.
    return arm.source is None and not spec.method_set and not from_rows


def not_attacked(planned: Sequence[Arm], attacked: Sequence[Arm]) -> Iterator[Message]:
    """One notice that names the arms which could be shipped and yet are not attacked, if any.

    Args:
        planned: Arms of the audit.
        attacked: Arms that are trained to be attacked.
    """
    keys = {arm.key for arm in attacked}
    pools = []
    for arm in planned:
        is_of_pool = Need.PUBLIC_POOL in find(arm.method).needs
        # Nobody ships a control, which has a source, or a self-check, whose key has a "#".
        if is_of_pool and arm.key not in keys and arm.source is None and "#" not in arm.key:
            pools.append(arm.key)
    if pools:
        yield NotAttacked(tuple(pools))
