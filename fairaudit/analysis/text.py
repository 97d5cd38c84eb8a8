"""What the figures of a report do not say: the limitations that apply to this audit.

What holds for every audit stands in docs/epsilon.md. Source: docs/methods.md 10.
"""

from collections.abc import Iterator, Sequence

from fairaudit.capabilities.installed import CAPABILITIES
from fairaudit.config.options import AuditConfig
from fairaudit.data.dataset import Dataset
from fairaudit.errors import numbered
from fairaudit.messages.names import arms_text
from fairaudit.methods.catalog import Guarantee, find
from fairaudit.methods.spec import Need
from fairaudit.planning.plan import Plan
from fairaudit.report.types.facts import Limitation
from fairaudit.results.estimates import Comparison

REPORT_NOT_DP = "This report is computed from raw rows and is not private: handle it like the data."
_PER_RUN = "Epsilon is for one model of one run; this audit trains {models} on the same rows."
_SEEDS = "Release no model of an audit: its seeds are fixed, so its noise can be recomputed."
_GROUP_USE = (
    "{who} the group label: people are treated differently by group, which may need a legal basis "
    "of its own."
)
_STATISTICS = (
    "The smallest group has {smallest}; {gaps} computed, of which some stand out by chance."
)
_THIS_FILE = (
    "Intervals are about models trained on rows of this file. For newly collected data they can be "
    "too narrow: in simulations they held a new file's gap in loss in 82 to 99 %, in selection "
    "rates in 69 to 100 %, not 95 %."
)
_DUPLICATES = (
    "Epsilon protects one row, and {rows} an earlier one: a person with several rows is protected "
    "less."
)
_POOL = (
    "The student pool is not protected: features and groups of {records} are taken as public, and "
    "epsilon covers the teachers' records only. {who}."
)
_COPIES = (
    "{who} thresholds that another method's training released. Their privacy cost adds up: a "
    "control for this audit, not a model to release."
)
_SUPPRESSION = (
    "Groups with fewer than {least} are suppressed; totals may still allow a subtraction."
)


PIXEL_SCALING = {
    "symmetric": "(x / 255 - 0.5) / 0.5 of each byte x: constants, nothing is learned from the "
    "images",
    "unit": "x / 255 of each byte x: constants, nothing is learned from the images",
}


def limitations(
    plan: Plan, dataset: Dataset, comparisons: Sequence[Comparison]
) -> tuple[Limitation, ...]:
    """Every limitation that applies to this audit.

    Args:
        plan: What was trained.
        dataset: On what.
        comparisons: What was measured.
    """
    sizes = [g.n_test for c in comparisons for g in c.by_group if g.n_test]
    smallest = "no test rows"
    if sizes:
        smallest = numbered(min(sizes), "distinct test row")
    statistics = _STATISTICS.format(
        smallest=smallest,
        gaps=numbered(sum(len(c.gaps) for c in comparisons), "gap was", "gaps were"),
    )
    texts = [*_privacy_limits(plan)]
    for capability in CAPABILITIES:
        texts += capability.limitations(plan)
    texts += [
        *_data_limits(plan.config, dataset, plan),
        ("statistics", statistics),
        ("this_file", _THIS_FILE),
    ]
    return tuple(Limitation(code=code, text=text) for code, text in texts)


def _privacy_limits(plan: Plan) -> Iterator[tuple[str, str]]:
    """(code, sentence) of what the arms' privacy guarantees do not cover."""
    yield "report_not_private", REPORT_NOT_DP
    of_others = (Guarantee.NONE, Guarantee.CLAIMED)
    private = {arm.key for arm in plan.arms if arm.privacy.guarantee not in of_others}
    models = 0
    for job in plan.jobs:
        if job.arm in private:
            models += job.repeats
    is_search = any(arm.search for arm in plan.arms)  # of which its capability says this itself
    if models and not is_search:
        yield "per_run", _PER_RUN.format(models=numbered(models, "private model"))
    yield "fixed_seeds", _SEEDS
    for name in dict.fromkeys(arm.method for arm in plan.arms if not arm.variant):
        if find(name).remark:
            yield "method", f"{name}: {find(name).remark}"
    copies = [arm.key for arm in plan.arms if arm.source is not None and arm.key in private]
    if copies:
        yield "reads_other_arm", _COPIES.format(who=_readers(copies))


def _data_limits(config: AuditConfig, dataset: Dataset, plan: Plan) -> Iterator[tuple[str, str]]:
    """(code, sentence) on who reads the group label, PATE's pool, duplicates, suppressed groups."""
    readers = []
    by_name = [arm.key for arm in plan.arms if arm.reads_groups]
    if by_name:
        readers.append(_readers(by_name))
    if config.group_as_feature:
        readers.append("Every model is given")
    if readers:
        yield "group_label_used", _GROUP_USE.format(who="; ".join(readers))
    yield from _pool_limits(plan)
    if dataset.duplicate_rows:
        yield (
            "duplicates",
            _DUPLICATES.format(rows=numbered(dataset.duplicate_rows, "row repeats", "rows repeat")),
        )
    if config.suppress_below:
        yield "suppression", _SUPPRESSION.format(least=numbered(config.suppress_below, "test row"))


def _pool_limits(plan: Plan) -> Iterator[tuple[str, str]]:
    """(code, sentence) on the public rows that PATE's students learn from; nothing without PATE."""
    students: dict[str, list[str]] = {}
    for arm in plan.arms:
        if arm.reference and Need.PUBLIC_POOL in find(arm.method).needs:
            teachers = numbered(int(arm.settings["teachers"]), "teacher")
            queries = numbered(int(arm.settings["queries"]), "query", "queries")
            students.setdefault(f"{teachers}, {queries}", []).append(arm.key)
    if students:
        records = "the public table that was given"
        if plan.config.public_data is None:
            records = "half of the test rows of the audited file"
        students_text = "; ".join(f"{arms_text(keys)}: {sizes}" for sizes, keys in students.items())
        yield "student_pool", _POOL.format(who=students_text, records=records)


def _readers(keys: Sequence[str]) -> str:
    """The arms as the subject of a sentence with its verb: ``dpsgd and global read``."""
    verb = "reads" if len(keys) == 1 else "read"
    return f"{arms_text(keys)} {verb}"
