"""What to do next, of one method: one sentence, from what is shown and from nothing else."""

from fairaudit.errors import numbered
from fairaudit.report.facts import ArmFacts
from fairaudit.report.gates import Outcome
from fairaudit.report.main_gap import with_unit
from fairaudit.report.model import UNHEALTHY, Report
from fairaudit.report.safe_names import plain
from fairaudit.report.summary import GapSummary, PartsSummary

LITTLE_NOISE = 0.25  # of a cost or gap: a noise part surely below it is small
# What may lower the part that stays without noise, where that part is shown to be there.
_REMEDIES = {
    "clipping": "a larger clipping bound",
    "regularisation": "a smaller penalty",
    "partition": "fewer teachers",
}


def next_step(
    report: Report,
    arm: ArmFacts,
    accuracy: GapSummary,
    risk: GapSummary | None,
    parts: PartsSummary | None,
    verdict: Outcome | None,
) -> str:
    """One sentence on what to do, from what is shown and from nothing else."""
    ill = [w for w in report.warnings if w.code == "reference_undertrained"] + [
        w for w in report.warnings if w.arm == arm.key and w.code in UNHEALTHY and w.code != "mostly_clipping"
    ]
    if ill:
        why = UNHEALTHY.get(ill[0].code, "the non-private model is undertrained")
        return f"Repair the training first ({why}): {plain(ill[0].fix, 300)}." if ill[0].fix else ""
    detected = [found for found in (accuracy, risk) if found is not None and found.is_detected]
    if verdict == "pass" and accuracy.limit_met is not False:
        return "Nothing that the limits ask for; keep them as a gate in CI."
    if parts is not None and (parts.of == "gap" or not detected):
        advice = _of_parts(parts)
        if advice:
            return advice
    if detected and accuracy.limit is None and verdict is None:
        return "Say how large a gap is tolerable: --fail-on 'privacy_cost_gap > 2 points'."
    return _to_settle(accuracy, verdict)


def _of_parts(parts: PartsSummary) -> str:
    """What the parts that are shown to be there say of epsilon and of the method's own settings."""
    it = "the gap" if parts.of == "gap" else "the cost"
    small = parts.noise_at_most is not None and parts.noise_at_most <= LITTLE_NOISE
    if parts.is_still:
        remedy = f"try {_REMEDIES[parts.name]}, which may lower {it}"
        if parts.step_follows_epsilon:
            remedy += " (so may a larger epsilon, whose default step is longer)"
        elif parts.is_noise:
            remedy += "; a larger epsilon lowers what noise adds to it"
        elif small:
            remedy += "; a larger epsilon would not help, for noise adds little to it"
        else:
            remedy += "; whether a larger epsilon helps, cannot tell"
        return remedy[0].upper() + remedy[1:] + "."
    if parts.is_noise:
        return f"A larger epsilon, or more rows, lowers what noise adds to {it}."
    return ""


def _to_settle(found: GapSummary, verdict: Outcome | None) -> str:
    """What would tell a gap of the size that was seen."""
    if found.is_detected:
        return "More seeds or test rows would narrow the interval." if verdict == "inconclusive" else ""
    if found.limit is not None and found.limit_met is None and found.size.ends is not None:
        limit = with_unit(found.limit, "fraction")
        return (
            f"For a verdict the interval must leave {limit} on one side: more test rows or --seeds narrow it."
        )
    needs = []
    if found.rows_needed is not None:
        needs.append(f"{numbered(found.rows_needed, 'test row')} per group")
    if found.seeds_needed is not None:
        needs.append(numbered(found.seeds_needed, "seed"))
    if found.size.value is not None and found.size.ends is None:
        return f"Nothing can be told without an interval: {plain(found.reason, 200)}."
    if needs:
        return f"To detect a gap of the size seen, {' or '.join(needs)} would be needed."
    if found.minimum_detectable is not None:
        least = with_unit(found.minimum_detectable, "fraction")
        return f"This audit finds gaps from {least} on; smaller ones need more test rows or seeds."
    return ""
