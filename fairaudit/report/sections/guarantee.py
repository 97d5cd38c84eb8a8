"""What each epsilon covers, and what it does not."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fairaudit.errors import numbered
from fairaudit.methods.catalog import Guarantee
from fairaudit.privacy.events import shown_up
from fairaudit.report.arm_names import listed, method_of
from fairaudit.report.attack import attack_sentence
from fairaudit.report.document import Block, Bullets, Rank, Section, Strong, Text, Words
from fairaudit.report.facts import NOT_SAMPLED, ClaimFacts, PrivacyFacts
from fairaudit.report.model import Report
from fairaudit.report.safe_names import plain

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
    established = [p for p in by_arm.values() if p.guarantee.has_epsilon]
    of_first = established[0].not_covered if established else ()
    common = [item for item in of_first if all(item in p.not_covered for p in established)]
    said = {key: _statement(key, facts, common) for key, facts in by_arm.items()}
    together: dict[str, list[str]] = {}
    for keys in _of_one_method(said):
        together.setdefault(_joined([said[key] for key in keys]), []).extend(keys)
    told: list[Words] = [
        (Strong(plain(listed(keys), _LONGEST_LIST)), f": {text}") for text, keys in together.items()
    ]
    blocks: list[Block] = [Bullets(tuple(told))]
    if established:
        blocks += _scope(established[0], common)
    if words := attack_sentence(by_arm):
        blocks.append(Text(f"{plain(words, _LONGEST)}."))
    return Section("guarantee", "What the guarantee covers", Rank.DETAIL, tuple(blocks))


def _scope(first: PrivacyFacts, common: Sequence[str]) -> Iterator[Block]:
    told = (first.unit, first.neighbouring, first.sampling, first.accountant, ", ".join(common))
    unit, neighbouring, sampling, accountant, open_ends = (plain(text, _LONGEST) for text in told)
    yield Text(f"Unit: {unit}. Neighbours: {neighbouring}.")
    yield Text(f"Sampling: {sampling}. Accountants: {accountant}.")
    yield Text(f"Not covered: {open_ends}.")
    if first.epsilon_if_all_released is not None:
        epsilon = f"ε ≤ {shown_up(first.epsilon_if_all_released)}, δ = {first.delta:g}"
        yield Text(f"If all private models of this audit were released: {epsilon}.")


def _of_one_method(said: dict[str, _Statement]) -> Iterator[list[str]]:
    """Arms of a method that differ in nothing but their epsilon."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for key, statement in said.items():
        found.setdefault((method_of(key), statement.kind, statement.how), []).append(key)
    yield from found.values()


def _joined(statements: Sequence[_Statement]) -> str:
    first = statements[0]
    levels = " · ".join(statement.level for statement in statements)
    return "; ".join(filter(None, (first.kind, levels, first.how)))


def _claimed(facts: PrivacyFacts, claim: ClaimFacts) -> _Statement:
    """What a trainer of the user's own says; nothing of it is this program's."""
    if claim.epsilon is None:
        return _Statement("guarantee: none known", "no epsilon is claimed", plain(facts.reason, 300))
    level = f"ε ≤ {shown_up(claim.epsilon)}, δ = {claim.delta:g} by its own account"
    told = (("unit", claim.unit), ("neighbours", claim.neighbouring), ("accountant", claim.accountant))
    how = [f"{what}: {plain(text, 200)}" for what, text in told if text]
    return _Statement(
        f"guarantee: {facts.guarantee.value}", level, "; ".join([plain(facts.reason, 300), *how])
    )


def _statement(key: str, facts: PrivacyFacts, common: Sequence[str]) -> _Statement:
    if facts.guarantee is Guarantee.NONE:
        return _Statement("no privacy", "", plain(facts.reason, 200))
    if facts.claim is not None:
        return _claimed(facts, facts.claim)
    if not facts.guarantee.has_epsilon or facts.epsilon is None or facts.epsilon.headline is None:
        return _Statement("guarantee: not established", "", plain(facts.reason, 300))
    is_exact = facts.sampling == NOT_SAMPLED
    is_charged = facts.epsilon.pld is None  # for a search, which goes by RDP alone
    by = "by RDP" if is_charged else "exactly" if is_exact else "by PLD"
    rdp = "" if is_charged or facts.epsilon.rdp is None else f", by RDP {shown_up(facts.epsilon.rdp)}"
    level = f"ε ≤ {shown_up(facts.epsilon.headline)} {by}{rdp}, δ = {facts.delta:g}"
    how = [plain(facts.reason, 400)] if facts.reason else []
    if is_exact and facts.releases:
        release = facts.releases[0]
        level += f", noise {release.noise_multiplier:.4g} times the sensitivity"
        times = f"{facts.steps:,} times " if facts.steps != 1 else ""
        how.append(f"released {times}about all records: {plain(release.name)}")
    elif facts.sample_rate is not None and facts.effective_noise_multiplier is not None:
        level += f", σ_eff = {facts.effective_noise_multiplier:.4g}"
        how.append(f"T = {numbered(facts.steps or 0, 'step')}, q = {facts.sample_rate:.6g}")
    if len(facts.releases) > 1:
        how.append("each step releases " + " and ".join(plain(r.name) for r in facts.releases))
    # Within a sweep an arm reads one of its own epsilon.
    extra = [
        item.replace(key.removeprefix(method_of(key)), "") for item in facts.not_covered if item not in common
    ]
    if extra:
        how.append(f"not covered: {plain('; '.join(extra), 200)}")
    return _Statement(f"guarantee: {facts.guarantee.value}", level, "; ".join(how))
