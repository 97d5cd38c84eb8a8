"""What each epsilon covers, and what it does not."""

from collections.abc import Mapping, Sequence

from fairaudit.messages.names import arms_text
from fairaudit.methods.catalog import Guarantee
from fairaudit.privacy.events import Gaussian, shown_up
from fairaudit.report.document import Block, Cell, Section, Text, table
from fairaudit.report.model import Report
from fairaudit.report.numbers import UNKNOWN, attack_sentence
from fairaudit.report.safe_names import plain
from fairaudit.report.types.facts import ArmFacts, ArmPrivacy, TrainingFacts

_NOT_SAMPLED = "none: what is released is about all training records at once"
_LONGEST = 2000


def section(report: Report) -> Section | None:
    """The section on guarantees: a row for every arm, then what holds of all that have one.

    Of the section a terminal shows only the sentence on what the guarantees allow an attacker.
    """
    rows: list[tuple[Cell, ...]] = []
    for arm in report.arms:
        rows.append((plain(arm.key), *_cells(arm.privacy)))
    head = ("method", "guarantee", "#ε (PLD)", "#ε (RDP)", "#δ", "#noise", "how")
    blocks: list[Block] = [table(head, rows)]
    established = [arm for arm in report.arms if arm.privacy.guarantee.has_epsilon]
    if established and report.training is not None:
        blocks.append(Text(_terms(established, report.training)))
        items = [item for arm in established for item in arm.privacy.not_covered]
        blocks.append(Text(f"Not covered: {plain('; '.join(dict.fromkeys(items)), _LONGEST)}."))
    brief: tuple[Block, ...] = ()
    if words := attack_sentence(report.privacy):
        brief = (Text(f"{plain(words, _LONGEST)}."),)
    return Section("guarantee", "What the guarantee covers", (*blocks, *brief), brief)


def _cells(facts: ArmPrivacy) -> tuple[str, ...]:
    """An arm's six cells: guarantee, epsilon by PLD and by RDP, delta, noise, and remarks.

    A dash stands for what is not known or not guaranteed. A claim of a user's trainer stands where
    epsilon by PLD does, marked as claimed.
    """
    remarks = [facts.reason]
    if facts.claim is not None:
        claim = facts.claim
        epsilon, delta = UNKNOWN, UNKNOWN
        if claim.epsilon is not None:  # then delta is known, too
            epsilon, delta = f"ε ≤ {shown_up(claim.epsilon)} claimed", f"{claim.delta:g}"
        remarks += [claim.unit, claim.neighbouring, claim.accountant]
        return facts.guarantee.value, epsilon, UNKNOWN, delta, UNKNOWN, _joined(remarks)
    if facts.guarantee is Guarantee.NONE:
        return "none", UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, _joined(remarks)
    if not facts.guarantee.has_epsilon or facts.epsilon is None:
        return "not established", UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, _joined(remarks)
    # One training releases sums with noise: over all records (Gaussian), else over Poisson samples.
    noise, event = UNKNOWN, facts.event
    if isinstance(event, Gaussian):
        noise = f"{event.noise_multiplier:.4g} times the sensitivity"
        remarks.append(f"released {event.steps:,} times of all records: {event.name}")
    elif event is not None:
        noise = f"σ_eff = {event.effective_noise_multiplier:.4g}"
        releases = " and ".join(release.name for release in event.releases)
        remarks.append(f"T = {event.steps:,}, q = {event.sample_rate:.6g}, releases {releases}")
    bounds = []
    for bound in (facts.epsilon.pld, facts.epsilon.rdp):
        bounds.append(UNKNOWN if bound is None else f"ε ≤ {shown_up(bound)}")
    return facts.guarantee.value, *bounds, f"{facts.delta:g}", noise, _joined(remarks)


def _joined(items: list[str]) -> str:
    """The remarks that are not empty, as the text of one cell."""
    return "; ".join(plain(item, 400) for item in items if item)


def _terms(arms: Sequence[ArmFacts], training: TrainingFacts) -> str:
    """What the guarantees of these arms are about: unit, neighbours, sampling and accountants."""
    unit, neighbours = plain(training.unit, _LONGEST), plain(training.neighbouring, _LONGEST)
    sampling = _by_arms({arm.key: _sampling(arm.privacy) for arm in arms})
    accountants = _by_arms({arm.key: _accountants(arm.privacy) for arm in arms})
    return (
        f"Unit: {unit}. Neighbours: {neighbours}. Sampling: {sampling}. "
        f"Accountants: {plain(training.accountant, 100)}, {accountants}."
    )


def _sampling(facts: ArmPrivacy) -> str:
    """Which records a release of the arm is about."""
    return _NOT_SAMPLED if isinstance(facts.event, Gaussian) else "Poisson with probability q"


def _accountants(facts: ArmPrivacy) -> str:
    """By what the arm's epsilons are accounted for."""
    if facts.base_epsilon is not None:  # of a charged search, which RDP alone can account for
        return "RDP"
    if isinstance(facts.event, Gaussian):
        return "the exact Gaussian curve (headline) and RDP"
    return "PLD (headline) and RDP"


def _by_arms(terms: Mapping[str, str]) -> str:
    """The term that all arms share; of arms with different ones each with the arms that have it.

    ``terms``: arm -> its term.
    """
    arms_of: dict[str, list[str]] = {}
    for arm, term in terms.items():
        arms_of.setdefault(term, []).append(arm)
    if len(arms_of) == 1:
        return next(iter(arms_of))
    return "; ".join(f"{term} ({plain(arms_text(arms), 600)})" for term, arms in arms_of.items())
