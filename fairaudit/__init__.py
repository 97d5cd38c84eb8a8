"""fairaudit: what differential privacy costs each group of people, and why."""

from fairaudit.io.lazy import LazyNames

__version__ = "0.1.0"
__all__ = [
    "AuditConfig",
    "AuditReport",
    "Choice",
    "FairauditError",
    "Predictor",
    "Privacy",
    "Range",
    "Report",
    "TrainingData",
    "__version__",
    "check_gates",
    "choose_epsilon",
    "load_model",
    "load_report",
    "plan_audit",
    "run_audit",
    "score_predictions",
    "show_progress",
]

# Loaded on first use: pandas and pyarrow take longer to import than `--help` takes to print.
_HOMES = {
    **dict.fromkeys(
        ("check_gates", "load_report", "plan_audit", "run_audit", "score_predictions"),
        "fairaudit.api",
    ),
    "AuditConfig": "fairaudit.config.options",
    "Choice": "fairaudit.choosing.choice",
    "choose_epsilon": "fairaudit.choosing.python",
    "FairauditError": "fairaudit.errors",
    **dict.fromkeys(
        ("Predictor", "Privacy", "Range", "TrainingData"), "fairaudit.trainers.contract"
    ),
    "AuditReport": "fairaudit.report.frames",
    "Report": "fairaudit.report.model",
    "load_model": "fairaudit.release.loaded",
    "show_progress": "fairaudit.execution.progress",
}
__getattr__ = LazyNames(__name__, _HOMES)


def __dir__() -> list[str]:
    """The public names."""
    return __all__
