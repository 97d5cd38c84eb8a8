"""``fairaudit plan``."""

import math
from functools import partial

from fairaudit import __version__
from fairaudit.cli.run_options import Given, settled, takes_audit_options
from fairaudit.messages.base import Message

_SEVERAL = " Typed several times, each value is planned."


@partial(
    takes_audit_options,
    sweeps=True,
    helps={
        "max_grad_norm": "Clipping bound C (default: by rule)." + _SEVERAL,
        "epochs": "Passes over the training rows (default: by rule)." + _SEVERAL,
    },
)
def plan(given: Given) -> None:
    """Show what `run` would train, at which epsilon."""
    if given.swept:
        _plan_sweep(given)
        return
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


def _plan_sweep(given: Given) -> None:
    """Show what `run` would train for each value of one option, and for all of them.

    Raises:
        ConfigError: Two options have several values, or a value stands twice.
    """
    from fairaudit.analysis.forecast import forecasts
    from fairaudit.audit import prepare
    from fairaudit.cli.console import Screen
    from fairaudit.cli.estimate import estimated_seconds, plan_record, reading_seconds, twin_seconds
    from fairaudit.cli.lines import arm_lines, header_lines, notice_lines, out_line, plan_lines
    from fairaudit.cli.lines_forecast import forecast_lines
    from fairaudit.cli.lines_gate import rule_lines
    from fairaudit.cli.printing import print_json, print_stdout
    from fairaudit.cli.swept import swept_audits, total_lines
    from fairaudit.execution.local import available_cores
    from fairaudit.sweep import in_order

    setting, audits = swept_audits(given)
    screen = Screen(quiet=given.quiet, verbose=given.verbose)
    lines: list[str] = []
    records = []
    notices: dict[str, Message] = {}
    done: set[str] = set()  # ids of jobs of the values before
    trainings, shared, total = 0, 0, 0.0
    for value, resolved in in_order(setting, audits):
        prepared = prepare(resolved, screen.listen)
        plan_of_value, dataset, config = prepared.plan, prepared.dataset, resolved.config
        cores = config.workers or available_cores()
        seconds = estimated_seconds(plan_of_value, cores, done)
        reading = reading_seconds(plan_of_value, cores, done)
        splitting = twin_seconds(plan_of_value, cores, done)
        foreseen = list(
            forecasts(plan_of_value, dataset, prepared.rules, changed=config.changed_answers)
        )
        record = plan_record(prepared, seconds=seconds, foreseen=foreseen)
        records.append({"value": value, "plan": record})
        if not lines:  # once: data and rules are the same at all values
            lines += [*header_lines(prepared, __version__), *rule_lines(prepared.rules)]
            lines += forecast_lines(foreseen)
        lines.append(f"{setting} {value:g}")
        lines += plan_lines(
            plan_of_value, seconds=seconds, cores=cores, reading=reading, splitting=splitting
        )
        lines += [out_line(config.out), *arm_lines(plan_of_value)]
        notices |= {notice.text: notice for notice in (*plan_of_value.notices, *dataset.notices)}
        # Trainings that an earlier value has, too.
        taken_over = plan_of_value.trials * sum(job.id in done for job in plan_of_value.jobs)
        trainings += plan_of_value.trainings - taken_over
        shared += taken_over
        total += seconds
        done |= {job.id for job in plan_of_value.every_job}
    if given.json:
        print_json(
            {
                "setting": setting,
                "values": records,
                "trainings": trainings,
                "estimated_seconds": math.ceil(total),
            }
        )
        return
    print_stdout([*lines, *total_lines(len(audits), trainings, shared, total)])
    screen.lines(notice_lines(notices.values()))
