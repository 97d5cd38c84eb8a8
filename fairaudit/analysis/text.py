"""The sentences that every report carries: what its figures do not say. Source: docs/methods.md 10."""

from collections.abc import Iterator, Sequence

from fairaudit.analysis.trainers import own_limitations
from fairaudit.config.options import AuditConfig
from fairaudit.data.dataset import Dataset
from fairaudit.errors import numbered
from fairaudit.methods.catalog import Guarantee, find
from fairaudit.methods.spec import Need
from fairaudit.planning.plan import Plan
from fairaudit.report.facts import Limitation
from fairaudit.report.written import listed
from fairaudit.results.estimates import Comparison

UNIT = "one training record (features, group and label), with the split and any undersampling held fixed"
NEIGHBOURING = "add or remove one record"
SAMPLING = "Poisson: each record joins each step's batch independently with probability q"
NOT_PRIVATE = "no noise is added and nothing is claimed"

REPORT_NOT_DP = (
    "This report is not differentially private: group sizes, test metrics and diagnostics are "
    "exact functions of raw rows. Handle it like the data. The number of training records and the "
    "list of groups are treated as public."
)
_PREPROCESSING = (
    "Preprocessing is outside the guarantee: means, scales, imputed values, categories and merged "
    "levels are read from the training rows without noise ({count} fitted quantities, listed in "
    "report.json)."
)
_UNDERSAMPLING = (
    "Undersampling is outside the guarantee: with groups cut to a size, whether one record takes "
    "part depends on how many others there are."
)
_SPLIT = (
    "The split is outside the guarantee: it is drawn at random from the whole file and stratified "
    "by group and class, so one more row in the file moves others. Epsilon protects a record of "
    "the training set of a run, not a row of the file."
)
_HYPERPARAMETERS = (
    "Choices are not charged: clipping bound, threshold, noise, learning rate, epochs and method "
    "came from options, from rules that read the data's size, or from papers that tuned them on "
    "public tables. Picking the best of several runs costs more privacy than one run."
)
CHOICES = "choice of hyper-parameters and method"
BEYOND_THE_SEARCH = "choice of the method, of what is searched and of what is not"
_SEARCH_CHARGED = (
    "The search is charged, and nothing beyond it: the method, which settings are searched, how far around "
    "their defaults, how many tries, and the settings that are not searched were chosen outside the "
    "guarantee. Epsilon is of a search that draws settings, the number of tries and all noise afresh; this "
    "audit trains a fixed number of candidates at each seed and gives the expectation over which are tried."
)
_SEARCH_UNCHARGED = (
    "The search is not charged: each private arm keeps the best of {tune} trainings by an exact score, and "
    "the epsilon that is named is of one of them. Picking the best of several runs costs more privacy than "
    "one run."
)
_SEARCHED = (
    "Costs are those of this search: what is varied, how far, how many tries, and one validation split per "
    "seed. They are expectations over the settings that it may keep, in both arms alike; a wider search may "
    "find better ones. Costs at default and reused settings are of trainings with all of epsilon and all "
    "training rows, so they differ from the tuned ones by the search and by its price."
)
_CONFIGURATION = (
    "Costs are those of these settings: clipping bound, step, schedule and size of the model. Other settings "
    "of the same method at the same epsilon may cost a group more or less; nobody searched for the best."
)
_PER_RUN = (
    "Epsilon is for one model of one run. This audit trains {models} on the same "
    "rows; releasing several of them composes, and the report gives the epsilon of releasing all."
)
_PER_SEARCH = (
    "Epsilon is for {one}. This audit searches for {models} on the same rows, "
    "evaluates every candidate and trains at default and reused settings beside; what all of that reveals "
    "together is not accounted for."
)
_SEEDS = (
    "Seeds are fixed so that the audit can be repeated, so its noise and its batches can be "
    "recomputed. No model of an audit may be released, and none is saved: `fairaudit train` trains one "
    "with noise, batches and split from the operating system, which nobody can repeat."
)
_ARITHMETIC = (
    "The guarantee is for real numbers and ideal noise. Training runs in float32 with generators "
    "that are not cryptographic; attacks on floating-point noise are known."
)
_REPEATABLE = (
    "The figures repeat exactly with the same versions of the libraries (in report.json) on processors "
    "of one kind, whatever the number of workers and wherever they run. Another processor or another "
    "version of torch may round differently."
)
_GROUP_USE = (
    "{who} the group label: people are treated differently by group during training or by the "
    "model, which may need a legal basis of its own."
)
_REFERENCE = (
    "The non-private reference has no guarantee, and test rows are protected by none of the methods. "
    "Never ship the reference beside a private model."
)
_NO_ATTACK = (
    "No attack was run: the report says nothing about leakage beyond epsilon. Where an attack "
    "fails, that would be no evidence of privacy either."
)
_ONE_ATTACK = (
    "One attack was run, on models of half of the rows. What it does not find is no evidence of privacy: "
    "epsilon alone bounds all attacks."
)
_STATISTICS = (
    "Statistical limits: {seeds} with {repeats} each; the smallest group has "
    "{smallest}; {gaps} computed, of which some stand out by chance."
)
LABELS_TAKEN_AS_TRUE = (
    "Group labels and outcomes are taken as true. Errors in group labels pull gaps towards zero; a "
    "model can match labels that are themselves skewed."
)
_DUPLICATES = (
    "Epsilon protects one row. {rows} an earlier one; a person with several rows is "
    "protected less, and a row on both sides of a split flatters every method."
)
_POOL = (
    "The student pool is not protected: features and groups of {records} are taken as public, and epsilon "
    "covers the teachers' records only. The pool's records are not tested on, and these methods' inputs are "
    "scaled by what the pool shows. {who}."
)
_COPIES = (
    "{who} thresholds that another method's training released. Their privacy cost adds up; such "
    "a method is a control for this audit, not a model to release."
)
_SUPPRESSION = (
    "Groups with fewer than {least} are suppressed. That hides small cells from a casual "
    "reader; totals may still allow a subtraction."
)


PIXEL_SCALING = {
    "symmetric": "(x / 255 - 0.5) / 0.5 of each byte x: constants, nothing is learned from the images",
    "unit": "x / 255 of each byte x: constants, nothing is learned from the images",
}


def limitations(
    plan: Plan, dataset: Dataset, comparisons: Sequence[Comparison], *, fitted: int
) -> tuple[Limitation, ...]:
    """Every limitation that applies to this audit.

    Args:
        plan: What was trained.
        dataset: On what.
        comparisons: What was measured.
        fitted: How many quantities preprocessing learned from training rows.
    """
    sizes = [g.n_test for c in comparisons for g in c.by_group if g.n_test]
    statistics = _STATISTICS.format(
        seeds=numbered(plan.config.seeds, "seed"),
        repeats=numbered(plan.config.repeats, "private run"),
        smallest=numbered(min(sizes), "distinct test row") if sizes else "no test rows",
        gaps=numbered(sum(len(c.gaps) for c in comparisons), "gap was", "gaps were"),
    )
    texts = [
        *_of_privacy(plan, fitted),
        *own_limitations(plan),
        *_of_data(plan.config, dataset, plan),
        ("configuration", _SEARCHED if plan.config.tune else _CONFIGURATION),
        ("one_attack", _ONE_ATTACK) if plan.leakage else ("no_attack", _NO_ATTACK),
        ("statistics", statistics),
        ("labels_taken_as_true", LABELS_TAKEN_AS_TRUE),
        ("repeatable", _REPEATABLE),
    ]
    return tuple(Limitation(code=code, text=text) for code, text in texts)


def not_covered(config: AuditConfig, *, fitted: bool, source: str | None) -> tuple[str, ...]:
    """What an established epsilon leaves out, in short; ``source`` is the arm whose releases are read."""
    items = []
    if source is not None:
        items.append(f"the release of {source} that this method reads: its epsilon comes on top")
    if fitted:
        items.append("preprocessing fitted on training rows")
    if config.balance or config.keep:
        items.append("undersampling of groups")
    if config.split_column is None:
        items.append("stratified random split")
    items += [CHOICES, "metrics and diagnostics of this report"]
    return tuple(items)


def _of_privacy(plan: Plan, fitted: int) -> Iterator[tuple[str, str]]:
    yield "report_not_private", REPORT_NOT_DP
    if fitted:
        yield "preprocessing", _PREPROCESSING.format(count=fitted)
    if plan.config.tune is None:
        yield "hyperparameters", _HYPERPARAMETERS
    elif plan.config.tune_privacy == "charged":
        yield "hyperparameters", _SEARCH_CHARGED
    else:
        yield "hyperparameters", _SEARCH_UNCHARGED.format(tune=plan.config.tune)
    private = {arm.key for arm in plan.arms if arm.privacy.guarantee is not Guarantee.NONE}
    models = sum(job.repeats for job in plan.jobs if job.arm in private and not plan.arm(job.arm).is_own_code)
    if models:
        told = _PER_SEARCH if plan.config.tune else _PER_RUN
        is_charged = plan.config.tune_privacy == "charged"
        one = "the one model that a search releases" if is_charged else "one training, not for a search"
        yield "per_run", told.format(models=numbered(models, "private model"), one=one)
    yield "fixed_seeds", _SEEDS
    yield "arithmetic", _ARITHMETIC
    yield "reference_unprotected", _REFERENCE
    copies = [arm.key for arm in plan.arms if arm.source is not None and arm.key in private]
    if copies:
        yield "reads_other_arm", _COPIES.format(who=_reading(copies))


def _of_data(config: AuditConfig, dataset: Dataset, plan: Plan) -> Iterator[tuple[str, str]]:
    if config.balance or config.keep:
        yield "undersampling", _UNDERSAMPLING
    if config.split_column is None:
        yield "split", _SPLIT
    by_name = [arm.key for arm in plan.arms if arm.reads_groups]
    readers = [_reading(by_name)] if by_name else []
    if config.group_as_feature:
        readers.append("Every model is given")
    if readers:
        yield "group_label_used", _GROUP_USE.format(who="; ".join(readers))
    students: dict[str, list[str]] = {}
    for arm in plan.arms:
        if arm.reference and Need.PUBLIC_POOL in find(arm.method).needs:
            teachers, queries = arm.settings["teachers"], arm.settings["queries"]
            how = f"{numbered(int(teachers), 'teacher')}, {numbered(int(queries), 'query', 'queries')}"
            students.setdefault(how, []).append(arm.key)
    if students:
        who = "; ".join(f"{listed(keys)}: {how}" for how, keys in students.items())
        own = "half of the test rows of the audited file"
        records = own if config.public_data is None else "the public table that was given"
        yield "student_pool", _POOL.format(who=who, records=records)
    if dataset.duplicate_rows:
        yield (
            "duplicates",
            _DUPLICATES.format(rows=numbered(dataset.duplicate_rows, "row repeats", "rows repeat")),
        )
    if config.suppress_below:
        yield "suppression", _SUPPRESSION.format(least=numbered(config.suppress_below, "test row"))


def _reading(keys: Sequence[str]) -> str:
    return f"{listed(keys)} {'reads' if len(keys) == 1 else 'read'}"
