"""fairaudit: what differential privacy costs each group of people, and why."""

from importlib import import_module

__version__ = "0.1.0"
__all__ = ["AuditConfig", "Report", "__version__", "run_audit"]

# Loaded on first use: pandas and pyarrow take longer to import than `--help` takes to print.
_HOMES = {
    "AuditConfig": "fairaudit.config",
    "Report": "fairaudit.report.model",
    "run_audit": "fairaudit.audit",
}


def __getattr__(name: str) -> object:
    """The public name, imported now."""
    if name not in _HOMES:
        raise AttributeError(f"module 'fairaudit' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """The public names."""
    return __all__
