"""What each epsilon covers, and what it does not."""

from collections.abc import Sequence
from typing import NamedTuple

from fairaudit.errors import numbered
from fairaudit.methods.catalog import Guarantee
from fairaudit.privacy.events import Gaussian, shown_up
from fairaudit.report.document import (
    Block,
    Bullets,
    Section,
    Strong,
    Text,
    Words,
)
from fairaudit.report.facts import ArmPrivacy, ClaimFacts, Epsilon
from fairaudit.report.model import Report
from fairaudit.report.safe_names import plain
from fairaudit.report.written import attack_sentence, listed, method_of

_NOT_SAMPLED = "none: what is released is about all training records at once"
_LONGEST_LIST = 600
_LONGEST = 2000


class _Statement(NamedTuple):
    """What is said of an arm: its kind of guarantee, its epsilon, and how it comes by it."""

    kind: str
    level: str
    how: str


def section(report: Report) -> Section | None:
    """A statement for every arm, those of which the same is true together."""
    by_arm = {arm.key: report.privacy[arm.key] for arm in report.arms}  # in the plan's order
    established = [facts for facts in by_arm.values() if facts.guarantee.has_epsilon]
    common: list[str] = []
    if established:
        common = list(established[0].not_covered)
    for facts in established:
        common = [item for item in common if item in facts.not_covered]
    # Arms of a method that differ in their epsilon alone, then arms of one statement.
    levels: dict[tuple[str, str, str], dict[str, str]] = {}
    for key, facts in by_arm.items():
        statement = _statement(key, facts, common)
        place = method_of(key), statement.kind, statement.how
        levels.setdefault(place, {})[key] = statement.level
    together: dict[str, list[str]] = {}
    for (_, kind, how), by_key in levels.items():
        text = "; ".join(filter(None, (kind, " · ".join(by_key.values()), how)))
        together.setdefault(text, []).extend(by_key)
    told: list[Words] = []
    for text, keys in together.items():
        told.append((Strong(plain(listed(keys), _LONGEST_LIST)), f": {text}"))
    blocks: list[Block] = [Bullets(tuple(told))]
    if established:
        first = established[0]
        training = report.training
        assert training is not None
        unit, neighbours = plain(training.unit, _LONGEST), plain(training.neighbouring, _LONGEST)
        sampling, accountants = "Poisson with probability q", "PLD (headline) and RDP"
        if isinstance(first.event, Gaussian):
            sampling, accountants = _NOT_SAMPLED, "the exact Gaussian curve (headline) and RDP"
        if first.base_epsilon is not None:
            accountants = "RDP"
        accountant = f"{plain(training.accountant, 100)}, {accountants}"
        blocks += [
            Text(f"Unit: {unit}. Neighbours: {neighbours}."),
            Text(f"Sampling: {sampling}. Accountants: {accountant}."),
            Text(f"Not covered: {plain(', '.join(common), _LONGEST)}."),
        ]
        if training.epsilon_if_all_released is not None:
            epsilon = f"ε ≤ {shown_up(training.epsilon_if_all_released)}, δ = {first.delta:g}"
            blocks.append(Text(f"If all private models of this audit were released: {epsilon}."))
    if words := attack_sentence(by_arm):
        blocks.append(Text(f"{plain(words, _LONGEST)}."))
    return Section("guarantee", "What the guarantee covers", tuple(blocks))


def _claimed(facts: ArmPrivacy, claim: ClaimFacts) -> _Statement:
    """What a trainer of the user's own says; nothing of it is this program's."""
    if claim.epsilon is None:
        return _Statement(
            "guarantee: none known", "no epsilon is claimed", plain(facts.reason, 300)
        )
    level = f"ε ≤ {shown_up(claim.epsilon)}, δ = {claim.delta:g} by its own account"
    told = (
        ("unit", claim.unit),
        ("neighbours", claim.neighbouring),
        ("accountant", claim.accountant),
    )
    how = [f"{what}: {plain(text, 200)}" for what, text in told if text]
    return _Statement(
        f"guarantee: {facts.guarantee.value}", level, "; ".join([plain(facts.reason, 300), *how])
    )


def _epsilon(epsilon: Epsilon, facts: ArmPrivacy) -> str:
    """By the accountant of the headline, and by RDP where that is another one."""
    shown = f"ε ≤ {shown_up(epsilon.headline or 0.0)}"
    if epsilon.pld is None:  # for a search, which goes by RDP alone
        return f"{shown} by RDP"
    by = "exactly" if isinstance(facts.event, Gaussian) else "by PLD"
    if epsilon.rdp is None:
        return f"{shown} {by}"
    return f"{shown} {by}, by RDP {shown_up(epsilon.rdp)}"


def _statement(key: str, facts: ArmPrivacy, common: Sequence[str]) -> _Statement:
    if facts.guarantee is Guarantee.NONE:
        return _Statement("", "", plain(facts.reason, 200))
    if facts.claim is not None:
        return _claimed(facts, facts.claim)
    if not facts.guarantee.has_epsilon or facts.epsilon is None or facts.epsilon.headline is None:
        return _Statement("guarantee: not established", "", plain(facts.reason, 300))
    level = f"{_epsilon(facts.epsilon, facts)}, δ = {facts.delta:g}"
    how = []
    if facts.reason:
        how = [plain(facts.reason, 400)]
    event = facts.event
    if isinstance(event, Gaussian):
        level += f", noise {event.noise_multiplier:.4g} times the sensitivity"
        times = "" if event.steps == 1 else f"{event.steps:,} times "
        how.append(f"released {times}about all records: {plain(event.name)}")
    elif event is not None:
        level += f", σ_eff = {event.effective_noise_multiplier:.4g}"
        how.append(f"T = {numbered(event.steps, 'step')}, q = {event.sample_rate:.6g}")
        if len(event.releases) > 1:
            how.append("each step releases " + " and ".join(plain(r.name) for r in event.releases))
    # Within a sweep an arm reads one of its own epsilon.
    own = key.removeprefix(method_of(key))
    extra = [item.replace(own, "") for item in facts.not_covered if item not in common]
    if extra:
        how.append(f"not covered: {plain('; '.join(extra), 200)}")
    return _Statement(f"guarantee: {facts.guarantee.value}", level, "; ".join(how))
