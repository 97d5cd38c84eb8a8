"""The terms that a report uses, each with what it means: for pages, texts and ``explain``."""

from collections.abc import Mapping

from fairaudit.metrics.registry import DISAGREEMENT, METRICS, MISALIGNMENT, within_model

# A term as it is written in sentences -> what it means. A page explains each where it first stands.
TERMS: Mapping[str, str] = {
    "privacy cost": METRICS["privacy_cost"].meaning,
    "excess risk": METRICS["excess_risk"].meaning,
    "nats": "The unit of loss (cross-entropy with the natural logarithm): a coin flip between two "
    "classes scores 0.69.",
    "misalignment": METRICS[MISALIGNMENT].meaning,
    "true positive rate": METRICS["tpr"].meaning,
    "selection rate": METRICS["selection_rate"].meaning,
    "impact ratio": METRICS["impact_ratio"].meaning,
    "tpr": "The true positive rate.",
    "fpr": METRICS["fpr"].meaning,
    "precision": METRICS["precision"].meaning,
    "auc": METRICS["auc"].meaning,
    "calibration error": METRICS["calibration_error"].meaning,
    "decided by chance": METRICS[DISAGREEMENT].meaning,
    "epsilon": "How much one training record can change what training puts out: the chance of any "
    "outcome changes at most by a factor of e to the epsilon, but for delta. Smaller is more "
    "private.",
    "delta": "The chance that is left out of epsilon's promise.",
    "PLD": "Privacy loss distributions: the way of computing epsilon that gives the smallest value "
    "that is true. RDP (Rényi) is the older one.",
    "σ_eff": "The noise of a step in units of what one record can change in all that the step "
    "releases.",
    "established": "Said of a guarantee whose mechanism and accounting are proved, given the table "
    "as it was encoded.",
    "detected": "Said of a difference that a test finds. A method without any difference gets a "
    "false one in at most 5 of 100 audits, all its measures and groups together; a report on k "
    "methods has up to k times as many.",
    "smallest gap this audit would detect": "A true gap of that size would be detected in 4 of 5 "
    "such audits (80 % power). A smaller one may be detected, too, by luck.",
    "not certain": "Said of a difference whose own 95 % interval excludes zero, while its test, "
    "which allows for all comparisons of the method, does not find it.",
    "UNHEALTHY": "Something says that the training went wrong, or that the model does not work for "
    "a group. Its costs are those of this configuration.",
    "clipping": "Before noise is added, each record's gradient that is longer than a bound is "
    "scaled down to it, so that no record counts for more.",
}


def terms() -> Mapping[str, str]:
    """The terms, and the titles of metrics that are no term yet, with what the registry says."""
    meanings = dict(TERMS)
    known = {term.casefold() for term in TERMS}
    for spec in within_model():
        # A page does not explain accuracy and loss, whose words are their titles.
        if spec.title.casefold() not in known and spec.words.partition(" (")[0] != spec.title:
            meanings[spec.title] = spec.meaning or f"{sentence_case(spec.words)}."
    return meanings


def sentence_case(words: str) -> str:
    """Words with a capital letter at the start."""
    return words[:1].upper() + words[1:]


def explanation(term: str) -> str | None:
    """What a term means, in whatever case it is written; None where it is no term of a report."""
    known = {name.casefold(): text for name, text in terms().items()}
    return known.get(term.casefold())
