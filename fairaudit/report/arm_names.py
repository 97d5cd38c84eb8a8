"""Arms by name, in few words."""

from collections.abc import Iterable

from fairaudit.methods.catalog import REFERENCE
from fairaudit.report.safe_names import plain
from fairaudit.results.estimates import Comparison


def method_of(key: str) -> str:
    """The method, with its variant, of an arm of a sweep: ``dpsgd`` of ``dpsgd@3``."""
    return key.partition("@")[0]


def listed(keys: Iterable[str]) -> str:
    """Arms in their order, those of one method together: ``sgd, dpsgd@1 @3 @8``."""
    epsilons: dict[str, list[str]] = {}
    for key in keys:
        method = method_of(key)
        epsilons.setdefault(method, []).append(key.removeprefix(method))
    return ", ".join(method + " ".join(ends) for method, ends in epsilons.items())


def versus(comparison: Comparison) -> str:
    """The arm, and its reference where that is not the usual one."""
    arm = plain(comparison.arm)
    return arm if comparison.reference == REFERENCE else f"{arm} against {plain(comparison.reference)}"


def before_and_after(*, is_trained: bool) -> tuple[str, str]:
    """What the two models of a comparison are called: of models that were given, no more is known."""
    return ("non-private", "private") if is_trained else ("baseline", "predictions")
