"""``fairaudit choose``."""

import sys
from functools import partial

import typer

from fairaudit import __version__
from fairaudit.cli.run_options import Given, parameter, settled, takes_audit_options
from fairaudit.config.options import OF_OTHER_CODE

_SEEDS_MAX = typer.Option(
    help="Seeds of the last look, where it still cannot be told.", metavar="N"
)
# Of `run`'s options: those that no choice can be made with, which `--help` leaves out; and the help
# of those that have another default here.
_UNLISTED = {
    "noise_multiplier",
    "tune_privacy",
    "leakage",
    "leakage_seeds",
    "again",
    "baseline",
    "inconclusive",
    "trust_claimed_epsilon",
    *(option.field for option in OF_OTHER_CODE),
}
_HELPS = {
    "method": "Method, or `all`; repeat (default: global-adapt).",
    "seeds": "Seeds of the first look; each has its own split, undersampling and start (default: "
    "10).",
}


@partial(
    takes_audit_options,
    of_command=[parameter("seeds_max", int, 20, _SEEDS_MAX)],
    unlisted=_UNLISTED,
    helps=_HELPS,
)
def choose(given: Given) -> None:
    """Find the smallest epsilon at which a method keeps every rule.

    Epsilons are tested from the largest down, with 10 seeds (or --seeds) and, where that cannot
    tell, with more. Exits 0 with a recommendation, 3 where no method passes or it cannot be told.
    """
    resolved = settled(given)
    # Imported here: `--help` must not wait for pandas and pyarrow.
    from fairaudit.choosing.choice import Choice
    from fairaudit.choosing.choose import candidates, exit_code
    from fairaudit.choosing.choose import choose as look
    from fairaudit.choosing.lines import answer_lines, choice_command, course_lines, look_line
    from fairaudit.cli.console import Screen
    from fairaudit.cli.lines import header_lines, next_lines, report_line
    from fairaudit.cli.lines_gate import rule_lines, tell_job
    from fairaudit.cli.printing import print_stdout
    from fairaudit.execution.local import available_cores
    from fairaudit.report.render.markdown import to_markdown
    from fairaudit.report.to_json import to_json

    screen = Screen(quiet=given.quiet, verbose=given.verbose)
    pool = candidates(resolved, seeds_max=given.of_command["seeds_max"], listener=screen.listen)
    screen.lines(header_lines(pool.prepared, __version__))
    screen.lines(course_lines(pool, resolved.config.workers or available_cores()))
    screen.lines(rule_lines(pool.prepared.rules))
    try:
        report = look(
            pool,
            screen.listen,
            on_look=lambda test: screen.lines([look_line(test)]),
            command=["fairaudit", *sys.argv[1:]],
        )
    finally:
        screen.stop()
    choice = Choice.of(report)
    assert choice is not None
    screen.lines(answer_lines(report))
    formats = ("json", *resolved.config.format)
    screen.lines([report_line(resolved.config.out, formats)])
    if choice.arm is not None:
        screen.lines(next_lines(report, resolved.config.out, formats, choice.arm))
    if given.json:
        print_stdout([to_json(report).rstrip("\n")])
    tell_job(lambda: [choice_command(choice)], lambda: to_markdown(report))
    raise typer.Exit(exit_code(choice))


COMMANDS = (choose,)
