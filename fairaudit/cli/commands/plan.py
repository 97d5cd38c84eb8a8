"""``fairaudit plan``."""

from fairaudit import __version__
from fairaudit.cli.run_options import Given, settled, takes_audit_options


@takes_audit_options
def plan(given: Given) -> None:
    """Show what `run` would train, at which epsilon."""
    resolved = settled(given)
    # Imported here: `--help` must not wait for pandas and pyarrow.
    from fairaudit.analysis.forecast import forecasts
    from fairaudit.audit import prepare
    from fairaudit.cli.console import Screen
    from fairaudit.cli.estimate import (
        estimated_seconds,
        plan_record,
        reading_seconds,
        seconds_of_side_plans,
        twin_seconds,
    )
    from fairaudit.cli.lines import (
        arm_lines,
        header_lines,
        notice_lines,
        option_lines,
        out_line,
        plan_lines,
    )
    from fairaudit.cli.lines_forecast import forecast_lines
    from fairaudit.cli.lines_gate import rule_lines
    from fairaudit.cli.printing import print_json, print_stdout
    from fairaudit.execution.local import available_cores

    screen = Screen(quiet=given.quiet, verbose=given.verbose)
    prepared = prepare(resolved, screen.listen)
    cores = resolved.config.workers or available_cores()
    seconds = estimated_seconds(prepared.plan, cores)
    foreseen = list(
        forecasts(
            prepared.plan, prepared.dataset, prepared.rules, changed=resolved.config.changed_answers
        )
    )
    if given.json:
        record = plan_record(prepared, seconds=seconds, foreseen=foreseen)
        print_json(record)
        return
    print_stdout(header_lines(prepared, __version__))
    reading = reading_seconds(prepared.plan, cores)
    splitting = twin_seconds(prepared.plan, cores)
    print_stdout(
        plan_lines(
            prepared.plan,
            seconds=seconds,
            cores=cores,
            reading=reading,
            splitting=splitting,
            studies=seconds_of_side_plans(prepared.plan, cores),
        )
    )
    print_stdout([out_line(resolved.config.out)])
    print_stdout(rule_lines(prepared.rules))
    print_stdout(forecast_lines(foreseen))
    print_stdout(arm_lines(prepared.plan))
    print_stdout(option_lines(resolved, prepared.plan))
    screen.lines(notice_lines([*prepared.plan.notices, *prepared.dataset.notices]))
