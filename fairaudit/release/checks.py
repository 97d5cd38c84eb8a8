"""What speaks against training an arm for release, as its report alone tells.

A check is given the arm and its report, and refuses by raising. ``fairaudit train`` runs all of
``CHECKS``, and one that refuses may have an option that sets it aside; an audit offers the command,
which has no such option, only where none refuses. What concerns privacy raises ``PrivacyError``,
what concerns data or options ``ConfigError``.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from fairaudit.errors import ConfigError, FairauditError, GateFailed, PrivacyError, Undecided
from fairaudit.messages.names import listed, quoted, typed
from fairaudit.report.model import Report
from fairaudit.report.types.facts import ArmFacts
from fairaudit.report.types.verdicts import Outcome, worst


@dataclass(frozen=True, slots=True)
class ReleaseCheck:
    """Something that may speak against a release.

    Args:
        refuse: Raises where it does.
        option: Of ``fairaudit train``, by which one trains all the same; "" where nothing does.
    """

    refuse: Callable[[ArmFacts, Report], None]
    option: str = ""


def refuse_unfit(audited: ArmFacts, report: Report, set_aside: Collection[str] = ()) -> list[str]:
    """Run every check, and return the options without which one would have refused.

    Args:
        audited: The arm.
        report: Holds it.
        set_aside: Options that were given.

    Raises:
        FairauditError: A check refuses, and its option was not given.
    """
    needed = []
    for check in CHECKS:
        try:
            check.refuse(audited, report)
        except FairauditError:
            if not check.option or check.option not in set_aside:
                raise
            needed.append(check.option)
    return needed


def is_fit(audited: ArmFacts, report: Report, set_aside: Collection[str] = ()) -> bool:
    """Whether no check refuses the arm, but for those that these options set aside."""
    try:
        refuse_unfit(audited, report, set_aside)
    except FairauditError:
        return False
    return True


def options() -> frozenset[str]:
    """The options that set a check aside."""
    return frozenset(check.option for check in CHECKS if check.option)


def no_epsilon_of_its_own(audited: ArmFacts, report: Report) -> None:
    """Refuse an arm without an epsilon that is proved of it alone.

    Raises:
        PrivacyError: Nothing is proved, or it reads what another arm released.
    """
    privacy = audited.privacy
    if not privacy.guarantee.is_proved or privacy.epsilon is None:
        why = f": {privacy.reason}" if privacy.reason else ""
        hint = "train a method that has one"
        if audited.variant is None and report.config["tune_privacy"].value == "uncharged":
            hint = "audit with --tune-privacy charged"
        raise PrivacyError(f"{audited.key} has no established guarantee{why}", hint=hint)
    if audited.source is not None:
        raise PrivacyError(
            f"{audited.key} reads what {audited.source} released: it is a control, and epsilon "
            "covers it alone",
            hint=f"train {audited.source} itself",
        )


def contrasted_features(audited: ArmFacts, report: Report) -> None:
    """Refuse a feature that ``--contrast`` changed: predictions would read it as it was before.

    Raises:
        ConfigError: There is one.
    """
    contrast = report.config["contrast"].value
    changed = contrast if isinstance(contrast, dict) else {}
    contrasted = [name for name in report.data.features if name in changed]
    if contrasted:
        raise ConfigError(
            f"--contrast changed {listed(contrasted)}, a feature: predictions would read it as it "
            "was before",
            hint="write the two values into a column of the data, and audit without --contrast",
        )


def groups_of_quantiles(audited: ArmFacts, report: Report) -> None:
    """Refuse groups whose edges are quantiles of the rows: names and groups would tell of them.

    Raises:
        PrivacyError: A grouping is cut so.
    """
    for grouping in report.data.groupings:
        if grouping.fitted:
            raise PrivacyError(
                f"the groups of {quoted(grouping.name)} are cut at quantiles of the rows, which "
                "no epsilon covers",
                hint=f"audit with edges of your own, as --bin {typed(grouping.name)}=18,30,60",
            )


def rules_that_do_not_pass(audited: ArmFacts, report: Report) -> None:
    """Refuse an arm of which a rule of the report does not pass.

    Raises:
        GateFailed, Undecided: A rule does not pass, or the audit is not complete.
    """
    if gates_pass(report, audited.key):
        return
    hint = "--despite-gates trains all the same, which the evidence says"
    outcomes = outcomes_of(report, audited.key)
    failing = [rule for rule, outcome in outcomes.items() if outcome == "fail"]
    rules = "; ".join(rule for rule, outcome in outcomes.items() if outcome != "pass")
    if report.status != "complete":
        raise Undecided("the audit is not complete: a seed failed", hint=hint)
    if failing:
        raise GateFailed(f"the report's gates fail: {'; '.join(failing)}", hint=hint)
    raise Undecided(f"the report's gates are inconclusive: {rules}", hint=hint)


def outcomes_of(report: Report, arm: str) -> dict[str, Outcome]:
    """Text of each rule -> its outcome for one arm: the worst of the numbers that it judges there.

    Of a rule that judges no number of the arm it is the outcome for the whole report.
    """
    outcomes = {}
    for gate in report.gates:
        own = [target.outcome for target in gate.targets if target.arm == arm]
        outcomes[gate.rule] = worst(own) if own else gate.outcome
    return outcomes


def gates_pass(report: Report, arm: str) -> bool:
    """Whether the audit is complete and every rule, if there is one, passes for the arm."""
    passing = {"pass"}.issuperset(outcomes_of(report, arm).values())
    return report.status == "complete" and passing


CHECKS: Final = (
    ReleaseCheck(no_epsilon_of_its_own),
    ReleaseCheck(contrasted_features),
    ReleaseCheck(groups_of_quantiles),
    ReleaseCheck(rules_that_do_not_pass, "--despite-gates"),
)
