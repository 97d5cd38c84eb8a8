"""What a choice says, in sentences no stronger than its tests; docs/choosing.md has the rest."""

from collections.abc import Iterator, Sequence

from fairaudit.choosing.sequence import ALPHA
from fairaudit.choosing.tested import Status, Tested, number_text
from fairaudit.errors import numbered

PROMISE = (
    "The chance that this procedure recommends a method at an epsilon that breaks a rule is at "
    f"most {100 * ALPHA:g} %. It is about means over trainings on rows of this file, and epsilon "
    "covers one of them, not the choice."
)


def answer(status: Status, test: Tested) -> str:
    """The answer in one sentence.

    Args:
        status: Of the choice.
        test: The last look at the recommended arm, else at the nearest.
    """
    arm = f"{test.method} at epsilon {test.target_epsilon:g}"
    if status == "recommended":
        return f"{arm} keeps every rule"
    none = "No method passes"
    if status == "undecided":
        none = "Undecided: no method is shown to pass"
    # Never empty: the arm does not pass, so some number of it does not.
    open_ones = [number for number in test.numbers if number.outcome != "passes"]
    return f"{none}; nearest: {arm}: {number_text(open_ones[0])}"


def ended(stopped: Tested | None) -> str:
    """Why a method was tested at no smaller epsilon.

    ``stopped``: the last look at the arm that ended the method; None: all of its epsilons passed.
    """
    if stopped is None:
        return "passes at every epsilon that was asked for"
    # Never empty: the outcome of a test is that of its worst number.
    open_ones = [number for number in stopped.numbers if number.outcome == stopped.outcome]
    reason = f"cannot be told with {stopped.seeds} seeds"
    if stopped.outcome == "breaks":
        reason = "breaks a rule"
    return f"epsilon {stopped.target_epsilon:g} {reason}: {number_text(open_ones[0])}"


def conditions(
    level: float, methods: int, looks: Sequence[int], tests: Sequence[Tested]
) -> Iterator[str]:
    """Sentences on how the error is shared among tests, and on groups that the promise leaves out.

    Args:
        level: One-sided level of each test.
        methods: How many.
        looks: Seeds at each look.
        tests: All that were made.
    """
    sizes = ", ".join(map(str, looks))
    yield (
        f"The {100 * ALPHA:g} % are shared by {numbered(methods, 'method')} and "
        f"{numbered(len(looks), 'look')} ({sizes} seeds), so each test is one-sided at "
        f"{100 * level:.3g} %."
    )
    small: dict[str, None] = {}
    for test in tests:
        small |= dict.fromkeys(test.left_out)
    if small:
        yield f"Groups too small to be judged are not promised anything: {'; '.join(small)}."
