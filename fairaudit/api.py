"""The program from Python: audit, plan, score and judge. Variables and config files are not read."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pandas as pd

from fairaudit.audit import audit, prepare
from fairaudit.config.options import AuditConfig
from fairaudit.config.sources import ResolvedConfig, resolve_config
from fairaudit.errors import ConfigError
from fairaudit.execution.progress import Listener, silent
from fairaudit.gate.check import Verdict, as_stored, check
from fairaudit.gate.grammar import parse_rules
from fairaudit.io.scratch import scratch
from fairaudit.planning.plan import Plan
from fairaudit.report.model import Report
from fairaudit.report.reproduce import FRAME
from fairaudit.score import ScoreConfig, score

Data = pd.DataFrame | str | Path
Names = str | Sequence[str]


def run_audit(
    data: Data | AuditConfig,
    *,
    group: Names = (),
    label: str | None = None,
    method: Names = "global-adapt",
    listener: Listener = silent,
    **options: object,
) -> Report:
    """Audit what private training costs each group.

    Finished trainings and the report are kept in ``out`` (``fairaudit-report/NAME``, after the file;
    ``frame`` for a DataFrame), so a second call goes on where the first one stopped.

    Args:
        data: A DataFrame, the path of a table or of images, or all options as one AuditConfig.
        group: Column whose groups are compared, or several; the first steers the splits.
        label: Column to predict; inferred when None and unambiguous.
        method: One method or several.
        listener: Called with every event of ``fairaudit.execution.progress`` as the audit goes on.
        options: Any other field of AuditConfig.

    Raises:
        FairauditError: An input that cannot be audited; a target that cannot be met.
    """
    with _resolved(data, {**options, "group": group, "label": label, "method": method}) as resolved:
        return audit(resolved, listener)


def plan_audit(
    data: Data | AuditConfig,
    *,
    group: Names = (),
    label: str | None = None,
    method: Names = "global-adapt",
    **options: object,
) -> Plan:
    """Decide what :func:`run_audit` would train, at which epsilon; trains and writes nothing.

    Args:
        data, group, label, method, options: As there.

    Raises:
        FairauditError: As there.
    """
    with _resolved(data, {**options, "group": group, "label": label, "method": method}) as resolved:
        return prepare(resolved).plan


def score_predictions(
    data: Data,
    *,
    group: Names,
    label: str,
    predictions: Names,
    baseline: Names = (),
    **options: object,
) -> Report:
    """Measure predictions of your own by group; trains nothing.

    Args:
        data: A DataFrame or the path of a table. group: As of :func:`run_audit`.
        label: Column of what was true.
        predictions: Column of a model's predictions, or several: seeds of one recipe.
        baseline: Columns of the models to compare with, as many, or one for all, or none.
        options: Other fields of AuditConfig that a scoring reads, as ``favourable`` or ``fail_on``.

    Raises:
        FairauditError: The table, a rule or the output cannot be used.
    """
    with _resolved(data, {**options, "group": group, "label": label}) as resolved:
        return score(ScoreConfig(resolved.config, _names(predictions), _names(baseline)))


def check_gates(report: Report, rules: Names, baseline: Report | None = None) -> Verdict:
    """Hold a report against rules, as ``fairaudit gate`` does with its file.

    Args:
        report: Of an audit or a scoring. rules: The failing conditions, as ``privacy_cost_gap > 2pt``.
        baseline: An earlier report, for rules about a change.

    Raises:
        ConfigError: No rule, or one that names what the report does not hold.
    """
    parsed = parse_rules(_names(rules))
    if not parsed:
        raise ConfigError("no rule is given", hint="for example 'privacy_cost_gap > 2pt'")
    return check(as_stored(report), parsed, None if baseline is None else as_stored(baseline))


@contextmanager
def _resolved(data: Data | AuditConfig, given: dict[str, object]) -> Iterator[ResolvedConfig]:
    """The options; a DataFrame is a table in the folder for temporary files as long as the block lasts."""
    if isinstance(data, AuditConfig):
        extra = sorted(name for name, value in given.items() if value not in (None, (), "global-adapt"))
        if extra:
            raise ConfigError(f"{extra[0]} is given beside an AuditConfig", hint="set it in the config")
        yield resolve_config({name: getattr(data, name) for name in data.model_fields_set})
    elif isinstance(data, pd.DataFrame):
        with tempfile.TemporaryDirectory(dir=scratch()) as folder:
            path = Path(folder) / "frame.parquet"
            data.to_parquet(path, index=False)
            resolved = resolve_config({**given, "data": path})
            yield replace(resolved, origins={**resolved.origins, "data": FRAME})
    else:
        yield resolve_config({**given, "data": data})


def _names(value: Names) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)
