"""A stored report -> what is trained for release, or why it is not."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from fairaudit.config.model_names import is_factory
from fairaudit.config.options import OF_TRAINERS, AuditConfig
from fairaudit.data.dataset import Dataset
from fairaudit.data.public import share_inputs
from fairaudit.data.split import with_validation
from fairaudit.data.tabular import load_dataset
from fairaudit.errors import ConfigError, DataError, GateFailed, PrivacyError, Undecided, did_you_mean
from fairaudit.execution.model_check import examine
from fairaudit.methods.catalog import Guarantee, find
from fairaudit.methods.spec import Need
from fairaudit.planning.plan import Arm, Plan, make_plan
from fairaudit.report.facts import ArmFacts
from fairaudit.report.load import load_report, vetted
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
        despite_change: Other data than the audited ones.
        despite_gates: Rules that do not pass.
        fitted: Preprocessing that is an exact function of training rows.
        figures: The audit's figures in the card.
        out: Where the model shall be: columns too large for memory take space on that disk meanwhile.
        device: Where to compute, ``auto``, ``cpu`` or ``cuda``; noise is drawn on the CPU all the same.
    """

    report: Path
    method: str
    variant: str | None = None
    epsilon: float | None = None
    data: Path | None = None
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
        given = {
            "--despite-change": self.changed,
            "--despite-gates": not gates_pass(self.report),
            "--accept-fitted-preprocessing": bool(undeclared(self.dataset, self.plan.config, self.by_pool)),
        }
        return tuple(option for option, needed in given.items() if needed)


def choose(wish: Wish) -> ReleaseChoice:
    """Read report and data and plan the one training, or refuse.

    Raises:
        DataError, ConfigError: The report or the data cannot be used; the data changed; this version
            plans other numbers.
        PrivacyError: No guarantee is established, or something would be fitted without privacy.
        GateFailed, Undecided: A rule of the report does not pass.
    """
    report, digest = _read(wish.report)
    audited = _audited(report, wish)
    _refuse_unproven(report, audited)
    _refuse_gates(report, wish)
    config = _config(report, audited, wish)
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
            hint="audit it, or train on it all the same with --despite-change, which the evidence says",
        )
    _refuse_other_people(report, dataset)
    open_columns = undeclared(dataset, config, Need.PUBLIC_POOL in find(audited.method).needs)
    if open_columns and not wish.fitted:
        raise PrivacyError(
            f"{len(open_columns)} of {dataset.features.num_columns} columns are not declared: their scales "
            "and levels would be exact functions of training rows, outside of epsilon",
            hint="audit with --columns (`fairaudit init --columns` writes a file to start from), or "
            "--accept-fitted-preprocessing, which the card says",
        )
    own = examine(config, share_inputs(dataset, config)) if is_factory(config.model) else None
    plan = make_plan(config, dataset, own)
    arm = next(a for a in plan.arms if a.reference is not None)
    _refuse_other_numbers(report, audited, plan, arm)
    return ReleaseChoice(wish, report, digest, audited, plan, arm, dataset, changed)


def gates_pass(report: Report) -> bool:
    """Whether no rule of a finished audit stands against it; an audit without rules has none."""
    return report.status == "complete" and report.verdict in (None, "pass")


def undeclared(dataset: Dataset, config: AuditConfig, by_pool: bool) -> tuple[str, ...]:
    """Columns of which something is learned of rows that epsilon is about."""
    if dataset.image_shape is not None or (by_pool and config.public_data is not None):
        return ()
    return tuple(name for name in dataset.features.column_names if name not in dataset.declared)


def _read(path: Path) -> tuple[Report, str]:
    report = load_report(path)
    content = path.read_bytes()
    vetted(content.decode(), name=path.name)  # what was hashed is what was judged
    if report.training is None:
        raise ConfigError(f"{path.name} is of given predictions: nothing was trained", hint="audit first")
    if not report.content_sha256:
        raise DataError(f"{path.name} is of an earlier version and has no digest", "run the audit again")
    return report, hashlib.sha256(content).hexdigest()


def _audited(report: Report, wish: Wish) -> ArmFacts:
    own = next((arm for arm in report.arms if arm.trainer and arm.method == wish.method), None)
    if own is not None:
        raise PrivacyError(
            f"{own.method} is trained by {own.trainer}: that model is yours to release, and its epsilon is "
            "your own claim",
            hint="call your own code, with noise from the operating system, or train a method of fairaudit",
        )
    method = find(wish.method).name
    arms = [arm for arm in report.arms if arm.method == method and "#" not in arm.key]
    if not arms:
        known = [arm.method for arm in report.arms if arm.reference is not None]
        raise ConfigError(f"{method} was not audited", hint=did_you_mean(method, dict.fromkeys(known)))
    found = [arm for arm in arms if arm.variant == wish.variant]
    if not found:
        forms = ", ".join(arm.variant or "the default form" for arm in arms)
        raise ConfigError(f"{method} was not audited in this form", hint=f"audited: {forms}")
    if wish.epsilon is not None:
        found = [arm for arm in found if report.privacy[arm.key].target_epsilon == wish.epsilon]
    if len(found) != 1:
        targets = sorted({str(report.privacy[arm.key].target_epsilon) for arm in arms})
        asked = "several epsilons" if wish.epsilon is None else f"not epsilon {wish.epsilon:g}"
        raise ConfigError(f"{asked} of {method} were audited", hint=f"--epsilon, one of {', '.join(targets)}")
    return found[0]


def _refuse_unproven(report: Report, arm: ArmFacts) -> None:
    privacy = report.privacy[arm.key]
    if privacy.guarantee is not Guarantee.ESTABLISHED or privacy.epsilon is None:
        why = f": {privacy.reason}" if privacy.reason else ""
        charge = report.config.get("tune_privacy")  # older versions had none
        uncharged = arm.variant is None and charge is not None and charge.value == "uncharged"
        hint = "audit with --tune-privacy charged" if uncharged else "train a method that has one"
        raise PrivacyError(f"{arm.key} has no established guarantee{why}", hint=hint)
    if arm.source is not None:
        raise PrivacyError(
            f"{arm.key} reads what {arm.source} released: it is a control, and epsilon covers it alone",
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
    of_others = ("leakage", "leakage_seeds", *OF_TRAINERS)  # which train other models than this one
    values |= {name: AuditConfig.model_fields[name].get_default() for name in of_others}
    if privacy.target_epsilon is not None:
        values["epsilon"] = (privacy.target_epsilon,)
    values |= {"device": wish.device, "out": wish.out} if wish.out else {"device": wish.device}
    if wish.data is not None:
        values["data"] = wish.data
    elif values["data"] is None:
        raise ConfigError("a DataFrame was audited", hint="--data PATH names a file with the same rows")
    try:
        config = AuditConfig.model_validate(values)
    except ValidationError as error:
        where = ".".join(map(str, error.errors(include_url=False)[0]["loc"]))
        raise ConfigError(
            f"the report's option {where} is none of this version", hint="run the audit again"
        ) from None
    return config.model_copy(update={"label": report.data.label.column, "infer": config.infer})


def _refuse_other_people(report: Report, dataset: Dataset) -> None:
    """Classes and groups are public names; data of others are no data for this model."""
    pairs: list[tuple[str, Sequence[str], Sequence[str]]] = [
        ("classes", [c.name for c in report.data.label.classes], dataset.classes)
    ]
    pairs += [
        (f"groups of {facts.name}", [group.name for group in facts.groups], grouping.names)
        for facts, grouping in zip(report.data.groupings, dataset.groupings, strict=True)
    ]
    pairs += [("columns", report.data.features, dataset.features.column_names)]
    for what, before, now in pairs:
        if list(before) != list(now):
            raise ConfigError(f"the {what} are not those of the audit", hint="audit these data")


def _refuse_other_numbers(report: Report, audited: ArmFacts, plan: Plan, arm: Arm) -> None:
    """What is trained must be what was audited, number by number."""
    before: dict[str, float] = dict(audited.settings)
    now: dict[str, float] = dict(arm.settings)
    training, privacy = report.training, report.privacy[audited.key]
    assert training is not None
    assert privacy.epsilon is not None
    before |= _schedule(training.n_public, training.steps_per_epoch, training.epochs, privacy.delta)
    schedule = plan.schedule
    now |= _schedule(schedule.n_public, schedule.steps_per_epoch, schedule.epochs, plan.delta)
    for name, epsilon, planned in (
        ("epsilon", privacy.epsilon.pld, arm.privacy.epsilon_pld),
        ("epsilon by RDP", privacy.epsilon.rdp, arm.privacy.epsilon_rdp),
    ):
        before[name], now[name] = epsilon or 0.0, planned or 0.0
    for name in {**before, **now}:
        a, b = before.get(name), now.get(name)
        if a is None or b is None or abs(a - b) > _CLOSE * max(abs(a), abs(b)):
            raise ConfigError(
                f"this version would train {arm.key} with {name} {_said(b)}, and {_said(a)} was audited",
                hint="audit again with this version and these data",
            )


def _schedule(n_public: int, steps: int, epochs: int, delta: float | None) -> Mapping[str, float]:
    sizes = {"training records": n_public, "steps per epoch": steps, "epochs": epochs}
    return {**sizes, "delta": delta or 0.0}


def _said(value: float | None) -> str:
    return "none" if value is None else f"{rounded(value):g}"
