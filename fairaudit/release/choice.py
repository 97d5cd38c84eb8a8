"""A stored report -> what is trained for release, or why it is not."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from fairaudit.config.model_names import is_factory
from fairaudit.config.options import PANELS, AuditConfig
from fairaudit.data.dataset import Dataset
from fairaudit.data.naming import quoted
from fairaudit.data.public import share_inputs
from fairaudit.data.split import with_validation
from fairaudit.data.tabular import load_dataset
from fairaudit.errors import (
    ConfigError,
    DataError,
    GateFailed,
    PrivacyError,
    Undecided,
)
from fairaudit.execution.model_check import examine
from fairaudit.methods.catalog import find
from fairaudit.methods.spec import Need
from fairaudit.planning.plan import Arm, Plan, make_plan
from fairaudit.report.facts import ArmFacts
from fairaudit.report.load import parsed, report_bytes
from fairaudit.report.model import Report
from fairaudit.results.estimates import rounded

_CLOSE = 1e-5  # of a number: a report holds six digits


@dataclass(frozen=True, slots=True)
class Wish:
    """What was asked for.

    Args:
        report: Path of a stored report.
        method: Its name.
        variant: A form of it, or None.
        epsilon: Of a sweep's arms, the one with this target; None where there is one.
        data: Where the data lie now; None: where they lay for the audit.
        model: ``module:factory`` of the user's own model: its code is run, so the user names it and
            the report does not.
        despite_change: Other data than the audited ones.
        despite_gates: Rules that do not pass.
        fitted: Preprocessing that is an exact function of training rows.
        figures: The audit's figures in the card.
        out: Where the model shall be: columns too large for memory take space on that disk
            meanwhile.
        device: Where to compute, ``auto``, ``cpu`` or ``cuda``; noise is drawn on the CPU all the
            same.
    """

    report: Path
    method: str
    variant: str | None = None
    epsilon: float | None = None
    data: Path | None = None
    model: str | None = None
    despite_change: bool = False
    despite_gates: bool = False
    fitted: bool = False
    figures: bool = False
    out: Path | None = None
    device: str = "auto"


@dataclass(frozen=True, slots=True)
class ReleaseChoice:
    """What is trained, on what, and on which audit's word.

    Args:
        wish: As asked.
        report: The audit.
        report_sha256: Of its file.
        audited: The arm in the report.
        plan: With this arm and its reference.
        arm: Of the plan.
        dataset: The data.
        changed: Whether they are not those of the audit.
    """

    wish: Wish
    report: Report
    report_sha256: str
    audited: ArmFacts
    plan: Plan
    arm: Arm
    dataset: Dataset
    changed: bool

    @property
    def by_pool(self) -> bool:
        """Whether inputs are scaled by a public pool."""
        return Need.PUBLIC_POOL in find(self.arm.method).needs

    @property
    def overrides(self) -> tuple[str, ...]:
        """Options without which this would have been refused."""
        given = []
        if self.changed:
            given.append("--despite-change")
        if not gates_pass(self.report):
            given.append("--despite-gates")
        if undeclared(self.dataset, self.plan.config, self.by_pool):
            given.append("--accept-fitted-preprocessing")
        return tuple(given)


def choose(wish: Wish) -> ReleaseChoice:
    """Read report and data and plan the one training, or refuse.

    Raises:
        DataError, ConfigError: The report or the data cannot be used; the data changed; this
            version plans other numbers.
        PrivacyError: No guarantee is established, or something would be fitted without privacy.
        GateFailed, Undecided: A rule of the report does not pass.
    """
    content = report_bytes(wish.report)
    report = parsed(content, name=wish.report.name)
    if report.training is None:
        raise ConfigError(
            f"{wish.report.name} is of given predictions: nothing was trained", hint="audit first"
        )
    audited = _audited(report, wish)
    _refuse_unproven(report, audited)
    _refuse_gates(report, wish)
    config = _config(report, audited, wish)
    refuse_other_factory(config.model, wish.model)
    if wish.data is None and not config.data.exists() and not set("*?[") & set(str(config.data)):
        raise DataError(
            f"the audited data {str(config.data)!r} are not to be found from here",
            hint="--data PATH says where they lie now",
        )
    dataset = load_dataset(config)
    changed = dataset.digest != report.data.sha256
    if changed and not wish.despite_change:
        raise ConfigError(
            f"{dataset.name} is not what was audited: sha256 {dataset.digest[:8]}…, "
            f"in the report {report.data.sha256[:8]}…",
            hint="audit it, or train on it all the same with --despite-change, which the evidence "
            "says",
        )
    _refuse_other_people(report, dataset)
    open_columns = undeclared(dataset, config, Need.PUBLIC_POOL in find(audited.method).needs)
    if open_columns and not wish.fitted:
        raise PrivacyError(
            f"{len(open_columns)} of {dataset.features.num_columns} columns are not declared: "
            "their scales and levels would be exact functions of training rows, outside of epsilon",
            hint="audit with --columns (`fairaudit init --columns` writes a file to start from), "
            "or "
            "--accept-fitted-preprocessing, which the card says",
        )
    own = examine(config, share_inputs(dataset, config)) if is_factory(config.model) else None
    plan = make_plan(config, dataset, own)
    form = audited.method, audited.variant
    arm = next(arm for arm in plan.arms if (arm.method, arm.variant) == form)
    _refuse_other_numbers(report, audited, plan, arm)
    digest = hashlib.sha256(content).hexdigest()
    return ReleaseChoice(wish, report, digest, audited, plan, arm, dataset, changed)


def refuse_other_factory(model: str, named: str | None) -> None:
    """Refuse to run code that a file names unless the user names the same.

    Args:
        model: What the file names.
        named: ``--model`` of the command line.

    Raises:
        ConfigError: They differ.
    """
    if not is_factory(model):
        if named is not None:
            raise ConfigError("the model is of no factory", hint="leave --model out")
        return
    if named is None:
        raise ConfigError(
            f"the model is of {quoted(model)}, code that a file alone may not run",
            hint=f"if you trust it: --model {model}, in Python model={model!r}",
        )
    if named != model:
        raise ConfigError(f"the model is of {quoted(model)}, not of {quoted(named)}")


def gates_pass(report: Report) -> bool:
    """Whether no rule of a finished audit stands against it; an audit without rules has none."""
    return report.status == "complete" and report.verdict in (None, "pass")


def undeclared(dataset: Dataset, config: AuditConfig, by_pool: bool) -> tuple[str, ...]:
    """Columns of which something is learned of rows that epsilon is about."""
    if dataset.image_shape is not None or (by_pool and config.public_data is not None):
        return ()
    return tuple(name for name in dataset.features.column_names if name not in dataset.declared)


def _audited(report: Report, wish: Wish) -> ArmFacts:
    own = next((arm for arm in report.arms if arm.is_own_code and arm.method == wish.method), None)
    if own is not None:
        raise PrivacyError(
            f"{own.method} is trained by {own.trainer}: that model is yours to release, and its "
            "epsilon is your own claim",
            hint="call your own code, with noise from the operating system, or train a method of "
            "fairaudit",
        )
    method = find(wish.method).name
    arms = [arm for arm in report.arms if arm.method == method and "#" not in arm.key]
    found = [arm for arm in arms if arm.variant == wish.variant]
    if wish.epsilon is not None:
        found = [arm for arm in found if report.privacy[arm.key].target_epsilon == wish.epsilon]
    if len(found) == 1:
        return found[0]
    known = ", ".join(arm.key for arm in arms or report.arms if arm.reference is not None)
    if found:
        raise ConfigError(f"several epsilons of {method} were audited", hint=f"audited: {known}")
    raise ConfigError(
        f"{method} was not audited, or not in this form and at this epsilon",
        hint=f"audited: {known}",
    )


def _refuse_unproven(report: Report, arm: ArmFacts) -> None:
    privacy = report.privacy[arm.key]
    if not privacy.guarantee.is_proved or privacy.epsilon is None:
        why = f": {privacy.reason}" if privacy.reason else ""
        charge = report.config.get("tune_privacy")  # older versions had none
        uncharged = arm.variant is None and charge is not None and charge.value == "uncharged"
        hint = "audit with --tune-privacy charged" if uncharged else "train a method that has one"
        raise PrivacyError(f"{arm.key} has no established guarantee{why}", hint=hint)
    if arm.source is not None:
        raise PrivacyError(
            f"{arm.key} reads what {arm.source} released: it is a control, and epsilon covers it "
            "alone",
            hint=f"train {arm.source} itself",
        )


def _refuse_gates(report: Report, wish: Wish) -> None:
    if wish.despite_gates or gates_pass(report):
        return
    hint = "--despite-gates trains all the same, which the evidence says"
    if report.status != "complete":
        raise Undecided("the audit is not complete: a seed failed", hint=hint)
    rules = "; ".join(gate.rule for gate in report.gates if gate.outcome == report.verdict)
    if report.verdict == "fail":
        raise GateFailed(f"the report's gates fail: {rules}", hint=hint)
    raise Undecided(f"the report's gates are inconclusive: {rules}", hint=hint)


def _config(report: Report, arm: ArmFacts, wish: Wish) -> AuditConfig:
    """The audit's options, for this arm alone, with its public sizes as they were."""
    assert report.training is not None
    privacy = report.privacy[arm.key]
    values: dict[str, object] = {name: setting.value for name, setting in report.config.items()}
    values |= {"method": (arm.method,), "variant": (arm.variant,) if arm.variant else ()}
    fit_rows = report.training.n_public
    n_public = with_validation(fit_rows) if values.get("tune") else fit_rows
    values |= {"n_public": n_public, "delta": privacy.delta}
    values |= {"seeds": 1, "repeats": 1, "self_check": False, "preset": None, "fail_on": ()}
    values |= {"baseline": None, "diagnostics": "off", "twins": False}
    # Options that train other models than this one.
    of_others = ["leakage", "leakage_seeds", *(row.field for row in PANELS["Your own trainer"])]
    values |= {name: AuditConfig.model_fields[name].get_default() for name in of_others}
    if privacy.target_epsilon is not None:
        values["epsilon"] = (privacy.target_epsilon,)
    values |= {"device": wish.device, "out": wish.out} if wish.out else {"device": wish.device}
    if wish.data is not None:
        values["data"] = wish.data
    elif values["data"] is None:
        raise ConfigError(
            "a DataFrame was audited", hint="--data PATH names a file with the same rows"
        )
    try:
        config = AuditConfig.model_validate(values)
    except ValidationError as error:
        where = ".".join(map(str, error.errors(include_url=False)[0]["loc"]))
        raise ConfigError(
            f"the report's option {where} is none of this version", hint="run the audit again"
        ) from None
    return config.model_copy(update={"label": report.data.label.column})


def _refuse_other_people(report: Report, dataset: Dataset) -> None:
    """Classes and groups are public names; data of others are no data for this model."""
    names: list[tuple[str, Sequence[str], Sequence[str]]] = [
        ("classes", [c.name for c in report.data.label.classes], dataset.classes),
        ("columns", report.data.features, dataset.features.column_names),
    ]
    for facts, grouping in zip(report.data.groupings, dataset.groupings, strict=True):
        audited = [group.name for group in facts.groups]
        names.append((f"groups of {facts.name}", audited, grouping.names))
    for what, before, now in names:
        if list(before) != list(now):
            raise ConfigError(f"the {what} are not those of the audit", hint="audit these data")


def _refuse_other_numbers(report: Report, audited: ArmFacts, plan: Plan, arm: Arm) -> None:
    """What is trained must be what was audited, number by number."""
    if arm.privacy.guarantee is not report.privacy[audited.key].guarantee:
        raise ConfigError(
            f"this version calls the guarantee of {arm.key} {arm.privacy.guarantee.value}",
            hint="audit again with this version and these data",
        )
    before, now = audited.privacy.epsilon, arm.privacy.epsilon
    training, planned = report.training, plan.training
    assert training is not None
    assert before is not None
    assert now is not None
    numbers: dict[str, tuple[float | None, float | None]] = {
        "training records": (training.n_public, planned.n_public),
        "steps per epoch": (training.steps_per_epoch, planned.steps_per_epoch),
        "epochs": (training.epochs, planned.epochs),
        "delta": (training.delta, planned.delta),
        "epsilon": (before.pld, now.pld),
        "epsilon by RDP": (before.rdp, now.rdp),
    }
    for name in {**audited.settings, **arm.settings}:
        numbers[name] = audited.settings.get(name), arm.settings.get(name)
    for name, (old, new) in numbers.items():
        if old == new:
            continue
        if old is None or new is None or abs(old - new) > _CLOSE * max(abs(old), abs(new)):
            raise ConfigError(
                f"this version would train {arm.key} with {name} {_said(new)}, and "
                f"{_said(old)} was audited",
                hint="audit again with this version and these data",
            )


def _said(value: float | None) -> str:
    if value is None:
        return "none"
    return f"{rounded(value):g}"
