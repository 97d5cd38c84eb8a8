"""Arms by name, in few words."""

from collections.abc import Iterable


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
