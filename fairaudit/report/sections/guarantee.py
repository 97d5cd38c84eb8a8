"""What each epsilon covers, and what it does not; and the entry of it for a public register."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fairaudit.errors import numbered
from fairaudit.methods.catalog import Guarantee
from fairaudit.privacy.events import shown_up
from fairaudit.report.document import Block, Bullets, Cell, Rank, Section, Strong, Text, Words, table
from fairaudit.report.facts import NOT_SAMPLED, ClaimFacts, PrivacyFacts, TrainingFacts
from fairaudit.report.model import Report
from fairaudit.report.safe_names import plain
from fairaudit.report.written import UNKNOWN, attack_sentence, listed, method_of

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
    alike: dict[tuple[str, str, str], list[str]] = {}  # arms of a method that differ in their epsilon alone
    for key, statement in said.items():
        alike.setdefault((method_of(key), statement.kind, statement.how), []).append(key)
    for (_, kind, how), keys in alike.items():
        levels = " · ".join(said[key].level for key in keys)
        together.setdefault("; ".join(filter(None, (kind, levels, how))), []).extend(keys)
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


def register(report: Report) -> Section | None:
    """None where no guarantee is established."""
    established = {
        arm.key: report.privacy[arm.key]
        for arm in report.arms
        if report.privacy[arm.key].guarantee.has_epsilon
    }
    if not established or report.training is None:
        return None
    first = next(iter(established.values()))
    product = f"a {plain(report.training.model)} classifier of {plain(report.data.label.column)}"
    head = ("model", "#ε", "#δ", "mechanism", "sampling", "#steps", "#noise multiplier")
    blocks = (
        Text(
            "What a public registry of differential privacy deployments records (Dwork, Kohli and Mulligan "
            "2019; Nanayakkara, Ghazi and Vadhan 2025), as far as an audit knows it. Who deploys the model, "
            "for what, and about whom, is for its owner to state."
        ),
        Bullets(
            (
                f"Data product: {product}",
                "Flavour: (ε, δ) differential privacy; central model, one release per trained model",
                f"Privacy unit: {plain(first.unit, 300)}. Neighbours: {plain(first.neighbouring, 300)}",
                f"Records, taken as public: {_records(report, report.training)}",
                f"Accounting: {plain(first.accountant, 300)}",
            )
        ),
        table(head, [_row(key, facts) for key, facts in established.items()], most=8),
    )
    return Section("register", "Appendix: entry for a DP deployment registry", Rank.APPENDIX, blocks)


def _records(report: Report, training: TrainingFacts) -> str:
    """How many are protected; of a search those that a training reads and those that scores do."""
    searches = () if report.tuning is None else report.tuning.searches
    first = next((seed for search in searches for seed in search.seeds), None)
    if first is None:
        return f"{training.n_public:,}"
    both = f"{first.fit_rows:,} that a training reads and {first.validation_rows:,} that scores read"
    declared = (
        "" if training.n_public == first.fit_rows else f"; declared: {training.n_public:,} of a training"
    )
    return f"{first.fit_rows + first.validation_rows:,} ({both}{declared})"


def _row(key: str, facts: PrivacyFacts) -> tuple[Cell, ...]:
    epsilon = facts.epsilon.headline if facts.epsilon is not None else None
    noise = facts.effective_noise_multiplier
    if noise is None and facts.releases:
        noise = facts.releases[0].noise_multiplier
    sampled = facts.sampling != NOT_SAMPLED and facts.sample_rate is not None
    return (
        plain(key),
        UNKNOWN if epsilon is None else shown_up(epsilon),
        UNKNOWN if facts.delta is None else f"{facts.delta:g}",
        _mechanism(facts),
        f"Poisson, q = {facts.sample_rate:.4g}" if sampled else "none",
        facts.steps,
        UNKNOWN if noise is None else f"{noise:.4g}",
    )


def _mechanism(facts: PrivacyFacts) -> str:
    noised = "Gaussian noise on " + " and ".join(plain(release.name) for release in facts.releases)
    if facts.epsilon is None or facts.epsilon.pld is not None:
        return noised
    return (
        f"best of a random number of trainings by a noised score; each: {noised} (figures: default setting)"
    )
