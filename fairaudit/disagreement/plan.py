"""Which trainings on the same rows an audit has: its own seeds on a given split, or further ones.

Pairs are of independent trainings: each has its own start, batches, noise, teachers and draws. With
a given split the audit's seeds are such trainings. With a split for each seed they differ in their
rows, too, so ``--again N`` trains every method N times more on the first seed's split.
"""

from dataclasses import replace

from fairaudit.config.model_names import ModelFacts
from fairaudit.config.options import AuditConfig, SplitOptions
from fairaudit.data.dataset import Dataset, Split
from fairaudit.data.inputs.split import draw_split
from fairaudit.errors import ConfigError
from fairaudit.planning.plan import Plan, plan_trainings

NAME = "disagreement"  # of the capability
AGAIN = "again"  # of its plan beside the audit's
# No stream of these trainings is one of the audit's. The first seed of an audit can be read off a
# seed of theirs, for each audit has MOST of them.
FIRST_SEED, MOST = 1_000_000_000, 1_000

SEVERAL_SETTINGS = "several settings were tried, so its trainings are whole searches"
ONE_TABLE = "the synthetic rows were drawn once"
OWN_ROWS = "each seed has training rows of its own, which hides what chance does on the same rows"
TO_MEASURE = (
    "--again 5 trains every method five more times on the first seed's rows; with --split-column "
    "the seeds themselves are such trainings"
)


def side_plans_of(
    plan: Plan, dataset: Dataset, own_model: ModelFacts | None = None
) -> dict[str, Plan]:
    """The plan of the further trainings, beside the audit's own.

    Args:
        plan: Of the audit.
        dataset, own_model: From which it was made.

    Returns:
        The plan, under the name ``again``; empty where ``--again`` was not given.

    Raises:
        ConfigError: Other options, or a given split, do not go together with ``--again``.
    """
    config = plan.config
    if config.again is None:
        return {}
    _refuse(config, dataset)
    # Sizes and delta are the audit's, as the arms are; only seeds and what is read differ.
    further = config.model_copy(
        update={
            "n_public": plan.training.n_public,
            "delta": plan.training.delta,
            "seed": FIRST_SEED + MOST * config.seed,
            "seeds": config.again,
            "repeats": 1,
            "twins": "off",
            "self_check": False,
            "diagnostics": "off",
            "diagnostics_every": None,
        }
    )
    again = plan_trainings(further, dataset, own_model, study=NAME)
    # Without notices: the audit's own plan gave them already.
    return {AGAIN: replace(again, notices=())}


def _refuse(config: AuditConfig, dataset: Dataset) -> None:
    """Refuse what does not go together with ``--again``.

    Raises:
        ConfigError: A given split by which all seeds train on the same rows already, a search, or
            one synthetic table.
    """
    if is_same_rows(config, dataset):
        raise ConfigError(
            "--again: with a given split all seeds train on the same rows already",
            hint="leave it out; more --seeds are more trainings",
        )
    if config.tune is not None:
        raise ConfigError(
            "--again trains one setting again, --tune tries several",
            hint="run --tune, then --again with the settings that it chose, given by --settings",
        )
    if config.has_given_synthetic:
        raise ConfigError(
            "--again would train on the same synthetic rows, which were drawn once",
            hint="leave it out, or audit the code that makes them: --synthesizer",
        )


def is_same_rows(config: AuditConfig, dataset: Dataset) -> bool:
    """Whether all seeds of the audit train on the same rows and test the same people."""
    return dataset.split is not None and not config.balance and not config.keep


def why_not(plan: Plan, dataset: Dataset) -> str:
    """Why an audit's trainings do not tell the disagreement; "" where some do."""
    config = plan.config
    if AGAIN in plan.side_plans:
        return ""
    if config.tune is not None:
        return SEVERAL_SETTINGS
    if config.has_given_synthetic:
        return ONE_TABLE
    if not is_same_rows(config, dataset):
        return OWN_ROWS
    return ""


def what_to_do(plan: Plan, dataset: Dataset) -> str:
    """What to do so that an audit tells the disagreement; "" where it does.

    Where nothing can be done, why the audit does not tell it.
    """
    why = why_not(plan, dataset)
    if why == OWN_ROWS:
        return TO_MEASURE
    return why


def rows_again(dataset: Dataset, options: SplitOptions, seed: int) -> Split:
    """Rows of one seed of the further trainings: those of the first seed of their audit.

    The split carries the training's own seed, by which PATE draws its student's rows.

    Args:
        dataset, options: Of the audit.
        seed: Of the training, from ``FIRST_SEED`` on.
    """
    first = (seed - FIRST_SEED) // MOST
    return replace(draw_split(dataset, options, first), seed=seed)
