"""A choice from Python."""

from collections.abc import Callable

from fairaudit.api import Data, Methods, Model, Names, settled_options
from fairaudit.choosing.choose import candidates, choose
from fairaudit.choosing.sequence import SEEDS_MAX
from fairaudit.choosing.tested import Tested
from fairaudit.config.options import AuditConfig
from fairaudit.execution.progress import Listener, usual
from fairaudit.report.model import Report


def choose_epsilon(
    data: Data | AuditConfig,
    *,
    fail_on: Names = (),
    group: Names = (),
    label: str | None = None,
    method: Methods = "global-adapt",
    model: Model = "auto",
    seeds_max: int = SEEDS_MAX,
    listener: Listener | None = None,
    on_look: Callable[[Tested], None] = lambda test: None,
    **options: object,
) -> Report:
    """Find the smallest epsilon at which a method keeps every rule, as ``fairaudit choose`` does.

    Finished trainings and the report are kept in ``out``, so a second call goes on where the first
    one stopped. The report is of every arm that was trained; the answer and every test are
    ``fairaudit.Choice.of(report)``.

    Args:
        data: As of :func:`fairaudit.run_audit`.
        fail_on: The rules, as failing conditions: ``privacy_cost_gap > 2pt``, or several.
        group, label, method, model, listener: As of :func:`fairaudit.run_audit`.
        seeds_max: Seeds of the last look; ``seeds`` are those of the first, 10 unless given.
        on_look: Called with every test as it is made.
        options: As of :func:`fairaudit.run_audit`; ``epsilon`` is all that are to be tested.

    Raises:
        FairauditError: As of :func:`fairaudit.run_audit`; a rule or a method that nothing can be
            chosen by.

    Example:
        >>> import fairaudit, pandas as pd
        >>> people = pd.read_parquet("sample_data/loans.parquet").head(1000)
        >>> report = fairaudit.choose_epsilon(
        ...     people,
        ...     group="sex",
        ...     label="approved",
        ...     method="dpsgd",
        ...     epsilon=[8, 1],
        ...     fail_on="privacy_cost_gap > 60 points",
        ...     seeds=5,
        ...     seeds_max=5,
        ...     epochs=1,
        ...     twins="off",
        ... )
        >>> fairaudit.Choice.of(report).status
        'recommended'
    """
    if fail_on:
        options["fail_on"] = fail_on
    named = {"group": group, "label": label, "method": method}
    with settled_options(data, model, {**options, **named}) as resolved:
        watching = listener or usual()
        pool = candidates(resolved, seeds_max=seeds_max, listener=watching)
        return choose(pool, watching, on_look=on_look)
