"""The program from Python: audit, plan, score and judge.

Variables and config files are not read.
"""

import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import cast

import pandas as pd

from fairaudit.audit import audit, prepare
from fairaudit.config.options import AuditConfig
from fairaudit.config.value_sources import ResolvedConfig, resolve_config
from fairaudit.data.reading.frames import (
    ArrowStream,
    Frame,
    holds_values,
    sorted_classes,
    table_of,
    with_columns,
    with_predictions,
    write_frame,
)
from fairaudit.errors import ConfigError
from fairaudit.execution.progress import Listener, usual
from fairaudit.gate.check import Verdict, as_stored, check
from fairaudit.gate.grammar import parse_rules
from fairaudit.io.scratch import scratch
from fairaudit.methods.catalog import catalog, home_of
from fairaudit.methods.spec import MethodSpec
from fairaudit.planning.plan import Plan
from fairaudit.report.frames import AuditReport
from fairaudit.report.load import load_report as loaded
from fairaudit.report.model import Report
from fairaudit.report.reproduce import FRAME
from fairaudit.score import ScoreConfig, score

Trainers = str | Callable[..., object] | Sequence[str | Callable[..., object]]
Model = str | Callable[[tuple[int, ...], int], object]
Methods = str | MethodSpec | Sequence[str | MethodSpec]
Data = Frame | str | Path
Names = str | Sequence[str]
Values = object  # one for each row: a Series, an array, a list


def run_audit(
    data: Data | AuditConfig,
    *,
    group: Names | Values = (),
    label: str | Values | None = None,
    method: Methods | None = None,
    trainer: Trainers | None = None,
    model: Model = "auto",
    listener: Listener | None = None,
    **options: object,
) -> AuditReport:
    """Audit what private training costs each group.

    Finished trainings and the report are kept in ``out`` (``fairaudit-report/NAME``, after the
    file; ``frame`` for a frame), so a second call goes on where the first one stopped.

    Args:
        data: A frame (of pandas, or whatever has ``__arrow_c_stream__``, as tables of polars and
            relations of DuckDB), the path of a table or of images, or all options as one
            AuditConfig.
        group: Column whose groups are compared, or several; the first steers the splits. Beside a
            frame also the groups themselves, as scikit-learn takes them: one value for each row.
        label: Column to predict, or its values likewise; inferred when None and unambiguous.
        method: One method or several: names, or MethodSpecs of your own that modules hold. None:
            global-adapt, or none beside a trainer.
        trainer: A function that trains a model by your own code (``docs/trainers.md``), or several:
            functions that modules hold, or their names as ``package.module:function``.
        model: A name, or a factory called with the shape of a record and the number of classes that
            returns a ``torch.nn.Module``. Workers import it, so a module must hold it.
        listener: Called with every event of ``fairaudit.execution.progress`` as the audit goes on;
            None: in a notebook ``fairaudit.show_progress``, a line for every training, else nobody.
        options: Any other field of AuditConfig.

    Raises:
        FairauditError: An input that cannot be audited; a target that cannot be met.

    Example:
        >>> import fairaudit
        >>> loans = "sample_data/loans.parquet"
        >>> report = fairaudit.run_audit(loans, group="sex", method="dpsgd", seeds=2, epochs=1)
        >>> costs = report.by_group()
        >>> list(costs[costs.arm == "dpsgd"].group)
        ['F', 'M']
        >>> report.privacy["dpsgd"].epsilon.pld <= 3
        True
    """
    data, group, label = _by_columns(data, group, label)
    named = {"group": group, "label": label, "method": method, "trainer": trainer}
    with settled_options(data, model, {**options, **named}) as resolved:
        return AuditReport.of(audit(resolved, listener or usual()))


def plan_audit(data: Data | AuditConfig, *, model: Model = "auto", **options: object) -> Plan:
    """Decide what :func:`run_audit` would train, at which epsilon; trains and writes nothing.

    Args:
        data, model, options: As of :func:`run_audit`; options hold ``group`` and ``label``, too.

    Raises:
        FairauditError: As of :func:`run_audit`.

    Example:
        >>> import fairaudit
        >>> loans = "sample_data/loans.parquet"
        >>> plan = fairaudit.plan_audit(loans, group="sex", method="dpsgd", seeds=3)
        >>> [arm.key for arm in plan.arms], len(plan.jobs)
        (['sgd', 'dpsgd'], 6)
    """
    data, group, label = _by_columns(data, options.get("group", ()), options.get("label"))
    named = {"group": group, "label": label}
    with settled_options(data, model, {**options, **named}) as resolved:
        return prepare(resolved).plan


def score_predictions(
    data: Data,
    *,
    group: Names | Values,
    label: str | Values,
    predictions: object,
    baseline: object = None,
    seed_column: str | None = None,
    row_column: str | None = None,
    classes: Sequence[str] = (),
    **options: object,
) -> AuditReport:
    """Measure predictions of your own by group; trains nothing.

    Args:
        data: A frame, as of :func:`run_audit`, or the path of a table.
        group: As of :func:`run_audit`.
        label: Column of what was true; beside a frame also its values, one for each row.
        predictions: Column of a model's predictions, or one per class, separated by commas. Beside
            a frame also the predictions themselves, in the order of its rows, as scikit-learn's
            metrics take them: classes or probabilities ``[n]``, or probabilities ``[n, Y]`` of the
            sorted classes (of a DataFrame, the classes that its columns are named after).
        baseline: The same of the predictions that they are compared with; None: with nothing.
        seed_column: Column of seeds, where rows of several trainings follow each other; None:
            ``seed``.
        row_column: Column that identifies a row in all of them; None: its place in its seed does.
        classes: The classes in the order of several columns of probabilities; empty: the columns'
            names say which is whose.
        options: Other fields of AuditConfig that a scoring reads, as ``favourable`` or ``fail_on``.

    Raises:
        FairauditError: The table, a rule or the output cannot be used.

    Example:
        >>> import fairaudit, pandas as pd
        >>> people = pd.DataFrame({"sex": ["F", "M"] * 100, "paid": [0, 0, 1, 1] * 50})
        >>> right_of_men = people["paid"].where(people["sex"] == "M", 0)
        >>> report = fairaudit.score_predictions(
        ...     people, group="sex", label="paid", predictions=right_of_men
        ... )
        >>> [(group.group, group.value("accuracy")) for group in report.comparisons[0].by_group]
        [('F', 0.5), ('M', 1.0)]
    """
    if not isinstance(data, pd.DataFrame | ArrowStream | str | Path):
        raise _no_data(data)
    models = {
        "predictions": predictions,
        "baseline": baseline,
    }  # given values are replaced below by the names of the columns that hold them
    index = data.index if isinstance(data, pd.DataFrame) else None
    table_or_path, group, label_column = _by_columns(data, group, label)
    assert not isinstance(table_or_path, AuditConfig)  # refused above
    data = table_or_path
    if label_column is None:
        raise ConfigError("label is not given", hint="name the column of what was true")
    for argument, values in models.items():
        if values is None or isinstance(values, str):  # a column of the data, or several
            continue
        if not isinstance(data, pd.DataFrame | ArrowStream):
            raise ConfigError(
                f"{argument} is of type {type(values).__name__} beside a file",
                "name a column of the file, or give a frame in its place",
            )
        table, models[argument] = with_predictions(table_of(data), values, argument, index)
        # Columns of an array [n, Y] have no names that say their classes; those of a frame do.
        has_several_columns = "," in str(models[argument])
        if has_several_columns and not classes and not isinstance(values, pd.DataFrame):
            classes = sorted_classes(table, label_column)
        data = table
    named = {"group": group, "label": label_column}
    with settled_options(data, "auto", {**options, **named}) as resolved:
        config = ScoreConfig(
            resolved.config,
            str(models["predictions"] or ""),  # "": none given, which `score` refuses
            None if models["baseline"] is None else str(models["baseline"]),
            seed_column,
            row_column,
            tuple(classes),
        )
        return AuditReport.of(score(config))


def load_report(path: str | Path) -> AuditReport:
    """The report in a file, or in the folder that a run wrote; ``-`` reads stdin.

    Raises:
        DataError: There is no such file, it cannot be read, it is no report of this version, or not
            as it was written.

    Example:
        >>> import fairaudit, pandas as pd
        >>> people = pd.DataFrame({"sex": ["F", "M"] * 100, "paid": [0, 0, 1, 1] * 50})
        >>> said = fairaudit.score_predictions(
        ...     people, group="sex", label="paid", predictions=people["paid"], out="scored"
        ... )
        >>> fairaudit.load_report("scored/report.json").comparisons[0].overall.value("accuracy")
        1.0
    """
    return AuditReport.of(loaded(path))


def check_gates(
    report: Report,
    rules: Names,
    baseline: Report | None = None,
    *,
    trust_claimed_epsilon: bool = False,
    trust_module: bool = False,
) -> Verdict:
    """Hold a report against rules, as ``fairaudit gate`` does with its file.

    Args:
        report: Of an audit or a scoring.
        rules: The failing conditions, as ``privacy_cost_gap > 2pt``.
        baseline: An earlier report, for rules about a change.
        trust_claimed_epsilon: Whether an epsilon that a trainer claims, unchecked, is judged.
        trust_module: Whether an epsilon is judged that holds only if a module of your own keeps
            nothing of what it reads.

    Raises:
        ConfigError: No rule, or one that names what the report does not hold.

    Example:
        >>> import fairaudit, pandas as pd
        >>> people = pd.DataFrame({"sex": ["F", "M"] * 500, "paid": [0, 0, 1, 1] * 250})
        >>> right_of_men = people["paid"].where(people["sex"] == "M", 0)
        >>> report = fairaudit.score_predictions(
        ...     people, group="sex", label="paid", predictions=right_of_men
        ... )
        >>> verdict = fairaudit.check_gates(report, "accuracy_gap > 10 points")
        >>> verdict.outcome, verdict.exit_code()
        ('fail', 1)
    """
    parsed = parse_rules((rules,) if isinstance(rules, str) else rules)
    if not parsed:
        raise ConfigError("no rule is given", hint="for example 'privacy_cost_gap > 2pt'")
    # As their files hold them, so that this verdict is that of `fairaudit gate`.
    earlier = None if baseline is None else as_stored(baseline)
    return check(
        as_stored(report),
        parsed,
        earlier,
        trust_claims=trust_claimed_epsilon,
        trust_module=trust_module,
    )


@contextmanager
def settled_options(
    data: Data | AuditConfig, model: Model, options: dict[str, object]
) -> Iterator[ResolvedConfig]:
    """The options with their origins; a frame is a file of its own while the block lasts.

    Code among the options (methods, trainers, models) becomes the text by which workers import it.

    Args:
        data: What to audit, or all options as one config, beside which no other may be given.
        model: A name or a factory; "auto" leaves the option unset.
        options: The other options by name; changed in place.

    Raises:
        ConfigError: An option is unknown, wrong, or given beside a config.
        DataError: Parquet cannot hold the frame.
    """
    if model != "auto":
        options["model"] = model
    if isinstance(data, AuditConfig):
        # None and () are the defaults of arguments: nothing was given.
        extra = sorted(name for name, value in options.items() if value not in (None, ()))
        if extra:
            raise ConfigError(
                f"{extra[0]} is given beside an AuditConfig", hint="set it in the config"
            )
        yield resolve_config({name: getattr(data, name) for name in data.model_fields_set})
        return
    for option in ("model", "method", "trainer", "synthesizer"):
        value = options.get(option)
        if isinstance(value, list | tuple):
            options[option] = tuple(_import_name(part, option) for part in value)
        elif value is not None:
            options[option] = _import_name(value, option)
    if isinstance(data, pd.DataFrame | ArrowStream):
        with tempfile.TemporaryDirectory(dir=scratch()) as folder:
            path = Path(folder) / "frame.parquet"
            write_frame(table_of(data), path)
            resolved = resolve_config({**options, "data": path})
            yield replace(resolved, origins={**resolved.origins, "data": FRAME})
    elif isinstance(data, str | Path):
        yield resolve_config({**options, "data": data})
    else:
        raise _no_data(data)


def _no_data(data: object) -> ConfigError:
    """The error that an argument holds no data, for the caller to raise."""
    return ConfigError(
        f"data is of type {type(data).__name__}",
        hint="give a frame, as one of pandas or polars (collected), or the path of a file",
    )


def _by_columns(
    data: Data | AuditConfig, group: object, label: object
) -> tuple[Data | AuditConfig, Names, str | None]:
    """The data with groups and label as columns, and the names of these columns.

    Beside a frame they may be given as values in the order of its rows, as scikit-learn's metrics
    take them: a Series, an array or a list; several groups as a DataFrame. Such values are added to
    the frame as columns.

    Returns:
        The data, the name or names of the group columns, and the name of the label's column.

    Raises:
        ConfigError: Groups or label are neither names nor values of the rows.
    """
    arguments = {"label": label, "group": group}
    if not isinstance(data, pd.DataFrame | ArrowStream):
        for argument, values in arguments.items():
            if not isinstance(values, str | list | tuple | None):
                raise ConfigError(
                    f"{argument} is of type {type(values).__name__} beside a file",
                    hint="name a column of the file, or give a frame in its place",
                )
        return data, cast(Names, group), cast(str | None, label)
    if all(values is None or isinstance(values, str) for values in arguments.values()):
        return data, cast(Names, group), cast(str | None, label)  # names, and no copy is made
    index = data.index if isinstance(data, pd.DataFrame) else None
    table = table_of(data)
    for argument, values in arguments.items():
        if holds_values(values, table):
            table, names = with_columns(table, values, argument, index)
            arguments[argument] = names if argument == "group" else names[0]
    return table, cast(Names, arguments["group"]), cast(str | None, arguments["label"])


def _import_name(value: object, option: str) -> object:
    """Code of the user's own as ``module:attribute``, by which workers import it.

    It is looked for in the module that defines it, then in all imported ones. A value that is no
    code, as a name, is returned as it is. A built-in method becomes its name, and a plugin's the
    place where its package names it.

    Args:
        value: A function, a class, a MethodSpec or anything else.
        option: The option that it is of, for the error.

    Raises:
        ConfigError: No module that workers can import holds it, as for code of a notebook.
    """
    if isinstance(value, MethodSpec):
        name, home = value.name, value.trainer.partition(":")[0]
        if catalog().get(name) is value:
            return home_of(value) or name
    elif callable(value):
        name, home = getattr(value, "__qualname__", type(value).__name__), value.__module__
    else:
        return value
    modules = {home: sys.modules.get(home), **sys.modules}  # `home` comes first
    for path, module in modules.items():
        # Workers do not run the user's script, so they have no such `__main__`.
        if path not in ("__main__", "__mp_main__") and module is not None:
            for attribute, held in vars(module).items():
                if held is value:
                    return f"{path}:{attribute}"
    raise ConfigError(
        f"{option} {name!r} is held by no module that training processes can import",
        hint=f"write it into a file beside yours, as my_{option}.py, import it from there and pass "
        "it on",
    )
