"""The clipping rules of this program in an Opacus training loop of one's own: docs/opacus.md."""

from fairaudit.io.lazy import LazyNames

__all__ = ["Accountant", "GhostOptimizer", "RuleOptimizer", "make_private"]

# Loaded on first use: Opacus takes seconds to import.
_HOMES = {
    "Accountant": "fairaudit.opacus.accountant",
    "GhostOptimizer": "fairaudit.opacus.optimizer",
    "RuleOptimizer": "fairaudit.opacus.optimizer",
    "make_private": "fairaudit.opacus.private",
}
__getattr__ = LazyNames(__name__, _HOMES)
