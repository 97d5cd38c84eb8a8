"""``fairaudit run``."""

import shlex
import sys
from functools import partial

import typer

from fairaudit import __version__
from fairaudit.cli.run_options import Given, settled, takes_audit_options
from fairaudit.errors import EXIT_GATE_FAILED, EXIT_INCONCLUSIVE, EXIT_OK, EXIT_TRAINING

# Exit codes of audits, the worst last, by which a sweep ends: trainings that failed leave rules
# unjudged, a rule that failed is worse than an open one.
_WORST_LAST = (EXIT_OK, EXIT_INCONCLUSIVE, EXIT_GATE_FAILED, EXIT_TRAINING)
_SEVERAL = " Typed several times, each value is audited and a chart made."


@partial(
    takes_audit_options,
    sweeps=True,
    helps={
        "max_grad_norm": "Clipping bound C (default: by rule)." + _SEVERAL,
        "epochs": "Passes over the training rows (default: by rule)." + _SEVERAL,
    },
)
def run(given: Given) -> None:
    """Train with and without privacy: each group's privacy cost, excess risk, misalignment."""
    if given.swept:
        _sweep(given)
        return
    resolved = settled(given)
    # Imported here: `--help` must not wait for pandas and pyarrow.
    from fairaudit.audit import carry_out, get_ready, prepare
    from fairaudit.cli.console import Screen
    from fairaudit.cli.estimate import estimated_seconds, reading_seconds, twin_seconds
    from fairaudit.cli.lines import (
        header_lines,
        next_lines,
        plan_lines,
        put_aside_line,
        report_line,
        result_lines,
        trainings_text,
        warning_lines,
    )
    from fairaudit.cli.lines_gate import rule_lines, tell_github, verdict_lines
    from fairaudit.cli.printing import print_stdout
    from fairaudit.execution.local import available_cores
    from fairaudit.execution.run_directory import kept_trainings
    from fairaudit.gate.check import exit_code
    from fairaudit.report.safe_names import plain
    from fairaudit.report.to_json import to_json
    from fairaudit.report.write import earlier_audit

    screen = Screen(quiet=given.quiet, verbose=given.verbose)
    out = resolved.config.out
    get_ready(resolved.config)
    earlier = earlier_audit(out)
    with screen.busy(f"reading {plain(str(resolved.config.data), 200)}"):
        prepared = prepare(resolved, screen.listen)
    cores = resolved.config.workers or available_cores()
    screen.lines(header_lines(prepared, __version__))
    seconds = estimated_seconds(prepared.plan, cores)
    reading = reading_seconds(prepared.plan, cores)
    splitting = twin_seconds(prepared.plan, cores)
    screen.lines(
        plan_lines(
            prepared.plan, seconds=seconds, cores=cores, reading=reading, splitting=splitting
        )
    )
    screen.lines(rule_lines(prepared.rules))
    try:
        report = carry_out(prepared, screen.listen, command=["fairaudit", *sys.argv[1:]])
    finally:
        screen.stop()
    screen.lines(result_lines(report, screen.width), is_result=True)
    screen.lines(warning_lines(report, verbose=given.verbose))
    screen.lines([report_line(out, resolved.config.format)])
    if earlier not in ("", report.reproduce):  # there was a report, and of another audit
        screen.lines([put_aside_line(out, earlier)])
    note = trainings_text(*kept_trainings(out))
    command = shlex.join(["fairaudit", "clean", str(out)])
    screen.lines(
        [f"Kept {note} in {plain(str(out / 'jobs'), 1000)}; `{plain(command, 1000)}` removes them"]
    )
    screen.lines(next_lines(report, out, resolved.config.format))
    if given.json:
        print_stdout([to_json(report).rstrip("\n")])
    counts_as = resolved.config.inconclusive
    screen.lines(verdict_lines(report, counts_as))
    tell_github(report, counts_as)
    raise typer.Exit(EXIT_TRAINING if report.status == "partial" else exit_code(report, counts_as))


def _sweep(given: Given) -> None:
    """Audit at each value of one option, and print what it does to costs and gaps.

    Rules are held to every value's report, and the worst of them decides the exit code.

    Raises:
        ConfigError: Two options have several values.
    """
    from fairaudit.cli.console import Screen
    from fairaudit.cli.lines import header_lines
    from fairaudit.cli.lines_gate import rule_lines, tell_github, verdict_lines
    from fairaudit.cli.printing import print_stdout
    from fairaudit.cli.swept import swept_audits
    from fairaudit.gate.check import exit_code
    from fairaudit.planning.flow import Audit
    from fairaudit.report.model import Report
    from fairaudit.report.render.terminal import lines_of
    from fairaudit.report.safe_names import plain
    from fairaudit.report.to_json import part_json
    from fairaudit.sweep import document, sweep

    setting, audits = swept_audits(given)
    whole = settled(given)
    out, counts_as = whole.config.out, whole.config.inconclusive
    screen = Screen(quiet=given.quiet, verbose=given.verbose)

    def print_value(value: float, audit: Audit) -> None:
        """Say which value is audited now; of the first also what the data are."""
        smallest = min(each for each, _ in audits)  # the first: `sweep` audits in rising order
        if value == smallest:
            screen.lines(header_lines(audit, __version__))
            screen.lines(rule_lines(audit.rules))
        screen.lines([f"{setting} {value:g}"])

    codes: list[int] = []  # the exit code of an audit of each value alone

    def print_verdict(value: float, report: Report) -> None:
        """Print what the rules say of this value, and keep its exit code."""
        screen.lines(verdict_lines(report, counts_as))
        tell_github(report, counts_as)
        codes.append(EXIT_TRAINING if report.status == "partial" else exit_code(report, counts_as))

    command = ["fairaudit", *sys.argv[1:]]
    try:
        swept = sweep(
            setting,
            audits,
            out,
            screen.listen,
            command=command,
            before_each=print_value,
            after_each=print_verdict,
        )
    finally:
        screen.stop()
    (section,) = document(swept).sections  # a sweep has one section
    screen.lines(lines_of(section.blocks, screen.width), is_result=True)
    screen.lines([f"Sweep {plain(str(out / 'sweep.html'), 1000)} · sweep.md · sweep.json"])
    if given.json:
        print_stdout([part_json(swept).rstrip("\n")])
    raise typer.Exit(max(codes, key=_WORST_LAST.index))
