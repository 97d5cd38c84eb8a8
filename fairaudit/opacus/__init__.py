"""The clipping rules of this program in an Opacus training loop of one's own: docs/opacus.md."""

from importlib import import_module

__all__ = ["Accountant", "GhostOptimizer", "RuleOptimizer", "make_private"]

# Loaded on first use: Opacus takes seconds to import.
_HOMES = {
    "Accountant": "fairaudit.opacus.accountant",
    "GhostOptimizer": "fairaudit.opacus.optimizer",
    "RuleOptimizer": "fairaudit.opacus.optimizer",
    "make_private": "fairaudit.opacus.private",
}


def __getattr__(name: str) -> object:
    """The public name, imported now."""
    if name not in _HOMES:
        raise AttributeError(f"module 'fairaudit.opacus' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
