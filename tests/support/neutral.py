"""Which sentences of a report assert that groups differ.

Strict: whatever speaks of groups and has none of the shapes below, asserts. A new sentence is either added
here, after asking what it would say of groups drawn by coin flips, or counts.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from fairaudit.cli.lines import result_lines
from fairaudit.report.model import Report
from fairaudit.report.render.markdown import to_text
from fairaudit.report.sections.order import document

_NUMBER = r"[-+−]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?(?: ?%)?"
_WORDS = ("G", "(?:sub)?groups?", "gaps?", "disparit(?:y|ies)", "pays?", "pay(?:er|ing)", "worse", "worst")
_SPEAKS = re.compile(rf"\b(?:{'|'.join(_WORDS)})\b", re.IGNORECASE)


def shape(sentence: str, groups: Sequence[str], arms: Sequence[str]) -> str:
    """The sentence with G for a group, ARM for a method and N for a number with its interval."""
    text = sentence.replace("*", "").replace("\\", "").replace("`", "").strip()
    for names, mark in ((groups, "G"), (arms, "ARM")):
        for name in sorted(names, key=len, reverse=True):
            text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", mark, text)
    text = re.sub(rf"(?<![\w.]){_NUMBER}(?![\w])", "N", text)
    text = re.sub(r"N (?:\[N, N\]|\(no interval\))", "N", text)
    return re.sub(r"\bG(?:(?:, | and )G)+\b", "G, G", text)


def sentences(report: Report) -> Iterator[str]:
    """All that a reader is told in words: the whole Markdown, the terminal, what JSON says in sentences."""
    for line in (*to_text(document(report)).splitlines(), *result_lines(report)):
        if line.startswith("|"):
            yield from (cell.strip() for cell in line.strip("|").split("|"))
        else:
            yield from re.split(r"(?<=[.!?])\s+(?=[A-Z*])", line.lstrip("-# "))
    told = [sentence.text for sentence in (report.why.sentences if report.why else ())]
    told += [report.why.headline] if report.why else []
    told += [part for warning in report.warnings for part in (warning.message, warning.fix)]
    if report.diagnostics.decomposition is not None:
        told += [f"{c.statement}: {c.verdict}" for c in report.diagnostics.decomposition.claims]
    for text in told:
        yield from re.split(r"(?<=[.!?])\s+(?=[A-Z])", text)


def assertions(said: Iterable[str], groups: Sequence[str], arms: Sequence[str]) -> dict[str, str]:
    """Shape -> first sentence of what asserts a difference between groups.

    Args:
        said: Sentences. groups, arms: Names that may stand in them.
    """
    known = re.compile("|".join(f"(?:{one})" for one in NEUTRAL))
    found: dict[str, str] = {}
    for sentence in said:
        masked = shape(sentence, groups, arms)
        if _SPEAKS.search(masked) and not known.fullmatch(masked):
            found.setdefault(masked, sentence)
    return found


_GROUPS = r"G(?:, G)*"
_WHY = r"(?: \(group 'G' has N test records; a gate on a loss needs N\))?"
_OPEN = rf"(?:cannot tell{_WHY}|none detected(?: among all that is compared)?, at most N (?:points?|nats))"
# A shape says no more than figures, names or what is not known, or is the same whatever the audit finds.
NEUTRAL: tuple[str, ...] = (
    # Names, and tables of figures.
    r"(?:[Gg]roup|Grouping|GROUP)s?",
    rf"\w+ = G|\w+: {_GROUPS}|gap: {_GROUPS}|{_GROUPS}",
    r"G +(?:(?:N|–|not measured|undefined) *)+",
    r"group +n +(?:non-private|ARM) +(?:ARM) +cost \(points\)",
    rf"gap +N +{_OPEN}",
    rf"{_OPEN}(?:; a gap of this size needs N test rows per group(?: or N seeds)?|"
    r"; a gap of this size needs N seeds)?",
    r"Groups: \w+ \(G N(?:, G N)*\)",
    r"Cost of private training by group: [\w.]+",
    r"Cost by group|Gaps between groups|gap in cost \(points\)|change of the gap",
    r"largest gap|gap in loss \(nats\)|of the gap, without noise",
    r"method +(?:epsilon +)?paid by +largest cost +largest gap.*",
    r"cosine\(group gradient, (?:clipped )?batch gradient\)|‖group gradient‖",
    r"Cost by group \(accuracy; N interval over seeds and test rows\)",
    r"Intervals: N; the expected gap after retraining on a new sample of the same population",
    r"The minimum detectable gap is what this audit would find four times out of five; a smaller gap may "
    r"exist unseen\.",
    # The summary, where no difference is detected.
    r"ARM, epsilon N: No group is shown to pay more than another(?:, and no cost is detected over all rows "
    r"\(N points\)|; all rows together (?:lose|gain) N points of accuracy)\.",
    r"Gap N points\.",
    rf"Gap: Accuracy N points: {_OPEN}; excess risk N nats: {_OPEN}\.",
    r"Misalignment: Clipping turns the step away from a group's gradient, in degrees: G N(?:, G N)*; for "
    r"whom most beyond this file, cannot tell\.",
    r"Next: This audit finds gaps from N points on; smaller ones need more test rows or seeds\.",
    r"Next: To detect a gap of the size seen, (?:N test rows per group(?: or N seeds)?|N seeds) would be "
    r"needed\.",
    r"Costs and gaps in points of accuracy, with N intervals; the largest cost of a group first\.",
    r"Where a group's cosine falls from the batch gradient to the clipped one, clipping turns training away "
    r"from the group\.",
    r"The other columns are means over the checkpoints; the gradient angle is that by which clipping turns "
    r"the batch's gradient away from the group's\.",
    # What is not known.
    r"A dash under \"paid by\": no difference between groups is detected\.",
    r"No gap is detected that could be taken apart\.",
    r"No gap within a model is detected to change with privacy\.",
    r"No difference in added loss between groups is detected \(at most, in nats: ARM N(?:, ARM N)*\), so "
    r"none is explained\.",
    r"Cannot tell whether groups differ in added loss \(ARM(?:, ARM)*\), so no difference is explained\.",
    r"(?:warning many_groups: )?N groups with N seeds: intervals over all pairs are wide"
    r"(?: \(--seeds N; finished seeds are kept\))?",
    r"Above what was wanted, for batches are limited: ARM \w+ of G N for N(?:, ARM \w+ of G N for N)*\.",
    # The same whatever is found.
    r"The impact ratio is a group's selection rate divided by that of the most selected group with enough "
    r"test rows, by the same model; shown is the mean over seeds of the per-seed ratio\.",
    r"(?:Privacy unit|Unit): one training record \(features, group and label\), with the split and any "
    r"undersampling held fixed\.",
    r"Split drawn per seed, stratified by group and class: N training and N test rows at the first seed\.",
    r"This report is not differentially private: group sizes, test metrics and diagnostics are exact "
    r"functions of raw rows\.",
    r"The number of training records and the list of groups are treated as public\.",
    r"The split is outside the guarantee: it is drawn at random from the whole file and stratified by group "
    r"and class, so one more row in the file moves others\.",
    r"Other settings of the same method at the same epsilon may cost a group more or less; nobody searched "
    r"for the best\.",
    r"Statistical limits: N seeds with N private run each; the smallest group has N distinct test rows; N "
    r"gaps were computed, of which some stand out by chance\.",
    r"Group labels and outcomes are taken as true\.",
    r"Errors in group labels pull gaps towards zero; a model can match labels that are themselves skewed\.",
    r"(?:New York City|EU AI Act|NIST|ISO/IEC) [^.]*",
    r"fairaudit\.run_audit\([^)]*\)",
)
