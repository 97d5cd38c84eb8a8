"""What to try: one phrase for each advice."""

from collections.abc import Mapping

from fairaudit.report.safe_names import plain
from fairaudit.report.types.facts import ArmFacts
from fairaudit.report.types.findings import Advice, Knob

# What to try. {method} and {trainer} are the arm's, {now} its value and {to} the one to try.
ADVICE: Mapping[Knob, str] = {
    "seeds up": "--seeds {to} would decide the rule",
    "rows up": "about {to} test rows would decide the rule",
    "own settings": "other settings inside {trainer}, or more of the rows that it is handed",
    "own noise": "--epsilon {to} ({now} now), or more training rows (does {trainer} use all of "
    "them?)",
    "search wider": "a wider search, around {reason}",
    "bound by rule": "--max-grad-norm {to} (the default here; {now} now)",
    "bound up": "--max-grad-norm {to} ({reason}{now} now)",
    "step by rule": "--learning-rate {to} (the default here; {now} now)",
    "step down": "--learning-rate {to} ({now} now)",
    "epochs up": "--epochs {to} ({now} now)",
    "teachers down": "fewer teachers, as --settings {method}.teachers={to}",
    "penalty down": "a smaller penalty, as --settings {method}.penalty={to}",
    "epsilon up": "--epsilon {to} ({now} now), or more training rows",
}

BY_DEFAULT = "the default here; "  # whose value a bound is


def advice(
    knob: Knob, arm: ArmFacts, reason: str = "", *, now: float = 0.0, to: float | str = ""
) -> Advice:
    """The advice to turn this knob, in words that name the arm's method, trainer and numbers.

    Args:
        knob: What to change, and in which direction.
        arm: The arm that it is given for.
        reason: For ``search wider``: the setting and value around which to search; for ``bound
            up``: whose value it is.
        now: The value of the option that it is about.
        to: The value to try, or what would be needed, in words.
    """
    shown = to if isinstance(to, str) else f"{to:.3g}"
    text = ADVICE[knob].format(
        method=arm.method,
        trainer=plain(arm.trainer, 80),
        now=f"{now:.3g}",
        to=shown,
        reason=plain(reason),
    )
    return Advice(knob=knob, text=text)
