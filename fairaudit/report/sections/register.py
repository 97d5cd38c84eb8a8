"""The fields of a public register of deployments, as far as an audit knows them."""

from fairaudit.privacy.events import shown_up
from fairaudit.report.document import Bullets, Cell, Rank, Section, Text, table
from fairaudit.report.facts import NOT_SAMPLED, PrivacyFacts, TrainingFacts
from fairaudit.report.model import Report
from fairaudit.report.safe_names import plain
from fairaudit.report.written import UNKNOWN


def section(report: Report) -> Section | None:
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
