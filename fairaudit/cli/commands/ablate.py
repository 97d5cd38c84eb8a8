"""``fairaudit ablate``."""

from dataclasses import replace

from fairaudit.cli.commands.run import audit
from fairaudit.cli.run_options import Given, takes_audit_options
from fairaudit.methods.ablation import NAME

HOME = "fairaudit-ablation"  # a report on the same data beside that of `run`, not over it


@takes_audit_options
def ablate(given: Given) -> None:
    """Take clipping apart: its direction and its magnitude alone, without noise.

    Reports go to fairaudit-ablation/NAME, unless --out is given.
    """
    asked = given.values.get("method", [])
    assert isinstance(asked, list)
    audit(replace(given, values={**given.values, "method": [*asked, NAME]}), home=HOME)
