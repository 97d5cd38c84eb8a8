"""What might lower a cost: options against parts that are told from zero and that models bear out."""

from collections.abc import Collection, Iterator

from fairaudit.methods.catalog import find
from fairaudit.report.decomposition import Sentence, say
from fairaudit.report.explain_parts import LARGE, PART_NAMES, detected_shares
from fairaudit.report.explained_method import ExplainedMethod
from fairaudit.report.written import PERCENT, written

SMALL = 0.1
LITTLE_CLIPPED = 0.05


def suggestions(method: ExplainedMethod, doubted: Collection[str]) -> Iterator[Sentence]:
    """Expectations, none where no share is told.

    Args:
        method: The arm and its worst-off group.
        doubted: Parts that trained models do not bear out.
    """
    shares = {part: share for part, share in detected_shares(method.worst_off).items() if part not in doubted}
    size = {part: shares[part].value or 0.0 if part in shares else 0.0 for part in PART_NAMES}
    clipped = method.worst_off.statistics["clipped_share"]
    who, arm = method.who, method.arm.key
    place = f"{method.place}.groups[{method.worst_off.group}]"
    is_clipped = (clipped.low or 0.0) > LITTLE_CLIPPED
    if size["direction"] >= LARGE or (size["direction"] > SMALL and is_clipped):
        larger = (
            "a larger --threshold or a slower fall of it"
            if find(method.arm.method).scales_by_threshold
            else "a larger --max-grad-norm, or a method that scales all gradients by one threshold,"
        )
        noise = (
            f"; noise, now {written(shares['noise'], PERCENT)}, grows with it" if "noise" in shares else ""
        )
        yield say(
            "suggestion",
            f"{arm}: {larger} should lower the part of gradient direction for {who}; "
            f"{written(clipped, PERCENT)} of its records are clipped{noise}.",
            f"{place}.shares",
        )
    if size["magnitude_effective"] >= LARGE:
        yield say(
            "suggestion",
            f"{arm}: clipped steps are short for {who}; more --epochs or a larger --learning-rate should "
            "lower the part of gradient shrinkage (more epochs cost epsilon or noise).",
            f"{place}.shares",
        )
    if size["noise"] >= LARGE:
        yield say(
            "suggestion",
            f"{arm}: a larger --epsilon, a larger --batch-size, a smaller --learning-rate or a smaller "
            f"--max-grad-norm should lower the part of noise for {who}, now "
            f"{written(shares['noise'], PERCENT)}.",
            f"{place}.shares",
        )
    if clipped.high is not None and clipped.high < LITTLE_CLIPPED and size["noise"] < LARGE:
        yield say(
            "suggestion",
            f"{arm}: hardly any record of {who} is clipped, so another clipping bound should change little.",
            f"{place}.statistics.clipped_share",
        )
