"""The program from Python: audit, plan, choose, score and judge. Variables and config files are not read."""

import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pandas as pd

from fairaudit.audit import audit, prepare
from fairaudit.choosing.choose import candidates, choose
from fairaudit.choosing.result import Choice, Tested
from fairaudit.choosing.sequence import SEEDS_MAX
from fairaudit.config.options import AuditConfig
from fairaudit.config.value_sources import ResolvedConfig, resolve_config
from fairaudit.errors import ConfigError
from fairaudit.execution.progress import Listener, silent
from fairaudit.gate.check import Verdict, as_stored, check
from fairaudit.gate.grammar import parse_rules
from fairaudit.io.scratch import scratch
from fairaudit.methods.catalog import catalog, home_of
from fairaudit.methods.spec import MethodSpec
from fairaudit.planning.plan import Plan
from fairaudit.report.model import Report
from fairaudit.report.reproduce import FRAME
from fairaudit.score import ScoreConfig, score

Trainers = str | Callable[..., object] | Sequence[str | Callable[..., object]]
Model = str | Callable[[tuple[int, ...], int], object]
Methods = str | MethodSpec | Sequence[str | MethodSpec]
Data = pd.DataFrame | str | Path
Names = str | Sequence[str]


def run_audit(
    data: Data | AuditConfig,
    *,
    group: Names = (),
    label: str | None = None,
    method: Methods | None = None,
    trainer: Trainers | None = None,
    model: Model = "auto",
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
        method: One method or several: names, or MethodSpecs of your own that modules hold. None:
            global-adapt, or none beside a trainer.
        trainer: A function that trains a model by your own code (``docs/trainers.md``), or several:
            functions that modules hold, or their names as ``package.module:function``.
        model: A name, or a factory called with the shape of a record and the number of classes that
            returns a ``torch.nn.Module``. Workers import it, so a module must hold it.
        listener: Called with every event of ``fairaudit.execution.progress`` as the audit goes on;
            ``fairaudit.show_progress`` writes a line for every training.
        options: Any other field of AuditConfig.

    Raises:
        FairauditError: An input that cannot be audited; a target that cannot be met.
    """
    options |= {} if model == "auto" else {"model": model}
    given = {**options, "group": group, "label": label, "method": method, "trainer": trainer}
    with _resolved(data, given) as resolved:
        return audit(resolved, listener)


def plan_audit(
    data: Data | AuditConfig,
    *,
    group: Names = (),
    label: str | None = None,
    method: Methods | None = None,
    trainer: Trainers | None = None,
    model: Model = "auto",
    **options: object,
) -> Plan:
    """Decide what :func:`run_audit` would train, at which epsilon; trains and writes nothing.

    Args:
        data, group, label, method, trainer, model, options: As there.

    Raises:
        FairauditError: As there.
    """
    options |= {} if model == "auto" else {"model": model}
    given = {**options, "group": group, "label": label, "method": method, "trainer": trainer}
    with _resolved(data, given) as resolved:
        return prepare(resolved).plan


def choose_epsilon(
    data: Data | AuditConfig,
    *,
    fail_on: Names = (),
    group: Names = (),
    label: str | None = None,
    method: Methods = "global-adapt",
    model: Model = "auto",
    seeds_max: int = SEEDS_MAX,
    listener: Listener = silent,
    on_look: Callable[[Tested], None] = lambda test: None,
    **options: object,
) -> Choice:
    """Find the smallest epsilon at which a method keeps every rule, as ``fairaudit choose`` does.

    Finished trainings, the choice and the report of what it recommends are kept in ``out``, so a second call
    goes on where the first one stopped.

    Args:
        data: As of :func:`run_audit`.
        fail_on: The rules, as failing conditions: ``privacy_cost_gap > 2pt``, or several.
        group, label, method, model: As there.
        seeds_max: Seeds of the last look; ``seeds`` are those of the first, 10 unless given.
        listener: As there.
        on_look: Called with every test as it is made.
        options: As there, ``epsilon`` with all that are to be tested.

    Raises:
        FairauditError: As there; a rule or a method that nothing can be chosen by.
    """
    options |= {} if model == "auto" else {"model": model}
    options |= {"fail_on": fail_on} if fail_on else {}
    given = {**options, "group": group, "label": label, "method": method}
    with _resolved(data, given) as resolved:
        found = candidates(resolved, seeds_max=seeds_max, listener=listener)
        return choose(found, listener, on_look=on_look)


def score_predictions(
    data: Data,
    *,
    group: Names,
    label: str,
    predictions: Names,
    baseline: Names = (),
    seed_column: str | None = None,
    row_column: str | None = None,
    **options: object,
) -> Report:
    """Measure predictions of your own by group; trains nothing.

    Args:
        data: A DataFrame or the path of a table.
        group: As of :func:`run_audit`.
        label: Column of what was true.
        predictions: Column of a model's predictions, or several: seeds of one recipe.
        baseline: Columns of the models to compare with, as many, or one for all, or none.
        seed_column: Column of seeds, where rows of several trainings follow each other; None: ``seed``.
        row_column: Column that identifies a row in all of them; None: its place in its seed does.
        options: Other fields of AuditConfig that a scoring reads, as ``favourable`` or ``fail_on``.

    Raises:
        FairauditError: The table, a rule or the output cannot be used.
    """
    with _resolved(data, {**options, "group": group, "label": label}) as resolved:
        columns = _names(predictions), _names(baseline)
        return score(ScoreConfig(resolved.config, *columns, seed_column, row_column))


def check_gates(
    report: Report, rules: Names, baseline: Report | None = None, *, trust_claimed_epsilon: bool = False
) -> Verdict:
    """Hold a report against rules, as ``fairaudit gate`` does with its file.

    Args:
        report: Of an audit or a scoring.
        rules: The failing conditions, as ``privacy_cost_gap > 2pt``.
        baseline: An earlier report, for rules about a change.
        trust_claimed_epsilon: Whether an epsilon that a trainer claims, unchecked, is judged.

    Raises:
        ConfigError: No rule, or one that names what the report does not hold.
    """
    parsed = parse_rules(_names(rules))
    if not parsed:
        raise ConfigError("no rule is given", hint="for example 'privacy_cost_gap > 2pt'")
    earlier = None if baseline is None else as_stored(baseline)
    return check(as_stored(report), parsed, earlier, trust_claims=trust_claimed_epsilon)


@contextmanager
def _resolved(data: Data | AuditConfig, given: dict[str, object]) -> Iterator[ResolvedConfig]:
    """The options; a DataFrame is a table in the folder for temporary files as long as the block lasts."""
    if isinstance(data, AuditConfig):
        extra = sorted(name for name, value in given.items() if value not in (None, ()))
        if extra:
            raise ConfigError(f"{extra[0]} is given beside an AuditConfig", hint="set it in the config")
        yield resolve_config({name: getattr(data, name) for name in data.model_fields_set})
        return
    given = {**given, **_importable(given)}
    if isinstance(data, pd.DataFrame):
        with tempfile.TemporaryDirectory(dir=scratch()) as folder:
            path = Path(folder) / "frame.parquet"
            data.to_parquet(path, index=False)
            resolved = resolve_config({**given, "data": path})
            yield replace(resolved, origins={**resolved.origins, "data": FRAME})
    else:
        yield resolve_config({**given, "data": data})


def _importable(given: dict[str, object]) -> dict[str, object]:
    """A model and methods that are given as objects, by the names under which workers import them."""
    found: dict[str, object] = {}
    model, method = given.get("model"), given.get("method")
    if callable(model):
        found["model"] = _name_of(model, "model", getattr(model, "__module__", ""))
    if isinstance(method, MethodSpec) or (
        isinstance(method, Sequence) and any(isinstance(each, MethodSpec) for each in method)
    ):
        several = [method] if isinstance(method, MethodSpec) else method
        found["method"] = tuple(
            (_method_name(each) if isinstance(each, MethodSpec) else each) for each in several
        )
    trainer = given.get("trainer")
    if trainer is not None:
        found["trainer"] = tuple(
            (_name_of(each, "trainer", getattr(each, "__module__", "")) if callable(each) else each)
            for each in (trainer if isinstance(trainer, list | tuple) else (trainer,))
        )
    return found


def _method_name(spec: MethodSpec) -> str:
    """Its own name where it is in the catalog, else that of the module which holds it."""
    if catalog().get(spec.name) is spec:
        return home_of(spec) or spec.name
    return _name_of(spec, "method", spec.trainer.partition(":")[0])


def _name_of(value: object, option: str, first: str) -> str:
    """``module:attribute``, looked for in the module ``first`` and then in all that are imported."""
    modules = {first: sys.modules.get(first), **sys.modules}
    for path, module in modules.items():
        if path not in ("__main__", "__mp_main__") and module is not None:
            for name, held in vars(module).items():
                if held is value:
                    return f"{path}:{name}"
    what = getattr(value, "__qualname__", None) or getattr(value, "name", None) or type(value).__name__
    raise ConfigError(
        f"{option} {what!r} is held by no module that training processes can import",
        hint=f"write it into a file beside yours, as my_{option}.py, import it from there and pass it on",
    )


def _names(value: Names) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)
