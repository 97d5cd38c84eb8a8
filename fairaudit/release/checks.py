"""What speaks against training an arm for release, as its report alone tells.

A check is given the arm and its report, and refuses by raising. ``fairaudit train`` runs all of
``CHECKS``; an audit offers the command only where none refuses. What concerns privacy raises
``PrivacyError``, what concerns data or options ``ConfigError``.
"""

from collections.abc import Callable
from typing import Final

from fairaudit.errors import ConfigError, FairauditError, PrivacyError
from fairaudit.messages.names import listed, quoted, typed
from fairaudit.report.model import Report
from fairaudit.report.types.facts import ArmFacts


def refuse_unfit(audited: ArmFacts, report: Report) -> None:
    """Run every check.

    Args:
        audited: The arm.
        report: Holds it.

    Raises:
        PrivacyError, ConfigError: A check refuses.
    """
    for check in CHECKS:
        check(audited, report)


def is_fit(audited: ArmFacts, report: Report) -> bool:
    """Whether no check refuses the arm."""
    try:
        refuse_unfit(audited, report)
    except FairauditError:
        return False
    return True


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


CHECKS: Final[tuple[Callable[[ArmFacts, Report], None], ...]] = (
    no_epsilon_of_its_own,
    contrasted_features,
    groups_of_quantiles,
)
