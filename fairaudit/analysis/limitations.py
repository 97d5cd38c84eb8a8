"""Which limitations apply to an audit. Source: docs/methods.md 10."""

from collections.abc import Iterator, Sequence

from fairaudit.capabilities.installed import CAPABILITIES
from fairaudit.config.options import AuditConfig
from fairaudit.data.dataset import Dataset
from fairaudit.messages import limits
from fairaudit.messages.base import Message
from fairaudit.methods.catalog import Guarantee, find
from fairaudit.methods.spec import Need
from fairaudit.planning.plan import Plan
from fairaudit.results.estimates import Comparison


def limitations(
    plan: Plan, dataset: Dataset, comparisons: Sequence[Comparison]
) -> Iterator[Message]:
    """Every limitation that applies to this audit.

    Args:
        plan: What was trained.
        dataset: On what.
        comparisons: What was measured.
    """
    yield from _privacy_limits(plan)
    for capability in CAPABILITIES:
        yield from capability.limitations(plan)
    yield from _data_limits(plan.config, dataset, plan)
    sizes = [g.n_test for c in comparisons for g in c.by_group if g.n_test]
    yield limits.Statistics(min(sizes, default=None), sum(len(c.gaps) for c in comparisons))
    yield limits.ThisFile()


def _privacy_limits(plan: Plan) -> Iterator[Message]:
    """What the arms' privacy guarantees do not cover."""
    yield limits.ReportNotPrivate()
    not_accounted = (Guarantee.NONE, Guarantee.CLAIMED)  # by this program
    private = {arm.key for arm in plan.arms if arm.privacy.guarantee not in not_accounted}
    models = 0
    for job in plan.jobs:
        if job.arm in private:
            models += job.repeats
    # Of a search the capability that makes it says what epsilon covers.
    is_search = any(arm.search for arm in plan.arms)
    if models and not is_search:
        yield limits.PerRun(models)
    yield limits.FixedSeeds()
    own = [arm for arm in plan.arms if not arm.variant]
    for name in dict.fromkeys(arm.method for arm in own):
        if find(name).remark:
            yield limits.MethodRemark(name, find(name).remark)
        # Arms of one method differ in noise alone, or in what a search chooses.
        arm = next(arm for arm in own if arm.method == name)
        if find(name).remark_at(arm.settings):
            yield limits.MethodRemark(name, find(name).remark_at(arm.settings))
    # Private arms that take a number from another arm's run.
    copies = [arm.key for arm in plan.arms if arm.source is not None and arm.key in private]
    if copies:
        yield limits.ReadsOtherArm(tuple(copies))


def _data_limits(config: AuditConfig, dataset: Dataset, plan: Plan) -> Iterator[Message]:
    """Limits by the data: who reads the group label, PATE's pool, duplicates, suppressed groups."""
    readers = tuple(arm.key for arm in plan.arms if arm.reads_groups)
    if readers or config.group_as_feature:
        yield limits.GroupLabelUsed(readers, is_feature=config.group_as_feature)
    students = tuple(_students(plan))
    if students:
        yield limits.StudentPool(students, is_given=config.public_data is not None)
    if dataset.duplicate_rows:
        yield limits.RepeatedRows(dataset.duplicate_rows)
    if config.suppress_below:
        yield limits.Suppression(config.suppress_below)


def _students(plan: Plan) -> Iterator[limits.Students]:
    """PATE's private arms, whose students learn from public rows; those of one size together."""
    by_size: dict[tuple[int, int], list[str]] = {}  # teachers and queries -> keys
    for arm in plan.arms:
        # PATE's own references learn from the pool, too, but have no epsilon and no reference.
        if arm.reference and Need.PUBLIC_POOL in find(arm.method).needs:
            size = int(arm.settings["teachers"]), int(arm.settings["queries"])
            by_size.setdefault(size, []).append(arm.key)
    for (teachers, queries), keys in by_size.items():
        yield limits.Students(tuple(keys), teachers, queries)
