"""What a search adds to a plan: options that it refuses, and every arm at its default setting."""

import math
from dataclasses import replace

from fairaudit.config.model_names import ModelFacts
from fairaudit.config.options import AuditConfig
from fairaudit.data.dataset import Dataset
from fairaudit.errors import ConfigError, numbered
from fairaudit.methods.spec import MethodSpec
from fairaudit.planning.chosen import Lacking, method_sets
from fairaudit.planning.plan import Plan, plan_trainings
from fairaudit.results.estimates import DEFAULT
from fairaudit.tuning.score import LEAST_ROWS
from fairaudit.tuning.search import Tuning
from fairaudit.tuning.validation import validation_groups, validation_size

ONE_SETTING = "leave it out, or leave out --tune"  # the remedy for what is about one setting
# With these options an audit that searches becomes one at default settings, whose trainings equal,
# to the bit, those of `run` without a search.
_FIXED = {
    "tune": None,
    "tune_for": "accuracy",
    "tune_privacy": "charged",
    "twins": "off",
    "self_check": False,
}


def refuse(config: AuditConfig) -> None:
    """Refuse options that do not go together with a search; without one nothing is refused.

    Raises:
        ConfigError: Repeats, full diagnostics, or a set of methods (an ablation) are asked for,
            which are about one setting.
    """
    if config.tune is None:
        return
    if config.repeats > 1:
        raise ConfigError(
            "--repeats trains one setting again, --tune trains several", hint="leave out one"
        )
    if config.diagnostics == "full":
        raise ConfigError(
            "--diagnostics full reads one setting, --tune trains several", hint="leave out one"
        )
    for name in config.method:
        if name in method_sets():
            raise ConfigError(
                f"--method {name} is about one setting, --tune tries several", hint=ONE_SETTING
            )


def unsuited(spec: MethodSpec, config: AuditConfig) -> Lacking | None:
    """Why a method takes no part in a search, and the remedy; None where nothing is against it.

    The reason is the end of a sentence that begins with the method's name.
    """
    if config.tune and (spec.control_of or spec.method_set):
        return Lacking("is about one setting, and --tune tries several", ONE_SETTING)
    return None


def validation_rows(config: AuditConfig, rows: int) -> int:
    """How many of so many training rows a search keeps apart for validation; 0 without a search."""
    if config.tune is None:
        return 0
    return validation_size(rows)


def side_plans_of(
    plan: Plan, dataset: Dataset, own_model: ModelFacts | None = None
) -> dict[str, Plan]:
    """Plan what a search is compared with: an ordinary audit of every arm at its default setting.

    Each of its trainings has all training rows and all of epsilon. The plan stands under
    ``default``, the name of that way; without a search there is none.

    Args:
        plan: Of the audit that searches.
        dataset, own_model: What that plan was made from: the data, and facts of a model of the
            user's own, or None.

    Raises:
        ConfigError: The score of a group would be noise.
    """
    if plan.config.tune is None:
        return {}
    _refuse_small_groups(plan, dataset)
    fixed = plan.config.model_copy(update=_FIXED)
    whole = plan_trainings(fixed, dataset, own_model)
    keys = {arm.key for arm in plan.arms}  # the side plan has no other arms
    # `config` stays that of the search: workers find a seed's data by its options, and so use the
    # same data for the jobs of both.
    default = replace(
        whole,
        config=plan.config,
        arms=tuple(arm for arm in whole.arms if arm.key in keys),
        jobs=tuple(job for job in whole.jobs if job.arm in keys),
        notices=(),  # the audit joins those of side plans to its own, and would tell them twice
        training=whole.training.model_copy(update={"epsilon_if_all_released": None}),
    )
    return {DEFAULT: default}


def _refuse_small_groups(plan: Plan, dataset: Dataset) -> None:
    """Refuse ``--tune-for worst-group`` where a group's noised accuracy would be noise alone.

    That is where the group has fewer validation rows than ``LEAST_ROWS`` standard deviations of the
    noise on its counts.

    Raises:
        ConfigError: Some group is so small.
    """
    if plan.config.tune_for != "worst-group":
        return
    noise = 0.0  # the largest standard deviation in any arm's scores
    for arm in plan.arms:
        if isinstance(arm.search, Tuning):
            noise = max(noise, arm.search.score_noise)
    # At least 1 even without noise: a group without rows has no accuracy.
    grouping, least = dataset.groupings[0], max(1, math.ceil(LEAST_ROWS * noise))
    for k, rows in enumerate(validation_groups(dataset, plan.config.split).tolist()):
        if k != grouping.missing and rows < least:
            raise ConfigError(
                f"--tune-for worst-group: {grouping.names[k]} has "
                f"{numbered(rows, 'validation row')}; "
                f"with noise of {noise:.3g} on its counts, {least} are needed",
                hint="use --tune-for accuracy, a larger --epsilon, or a larger table",
            )
