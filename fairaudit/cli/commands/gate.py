"""``fairaudit gate``."""

from pathlib import Path
from typing import Annotated

import typer

from fairaudit.cli.run_options import AsJson, Baseline, CountsAs, Quiet, Rules, StoredReport
from fairaudit.gate.grammar import parse_rules


def gate(
    report: StoredReport,
    fail_on: Annotated[list[str], Rules],
    baseline: Annotated[Path | None, Baseline] = None,
    inconclusive: CountsAs = None,
    trust_claimed_epsilon: Annotated[
        bool,
        typer.Option(
            "--trust-claimed-epsilon", help="Judge the epsilon that a trainer claims, unchecked."
        ),
    ] = False,
    trust_module: Annotated[
        bool,
        typer.Option(
            "--trust-module", help="Judge the epsilon of a module of your own as established."
        ),
    ] = False,
    junit: Annotated[
        Path | None, typer.Option(help="Also write the gates as JUnit XML.", metavar="FILE")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Check a report against rules. Exits 0 pass, 1 fail, 3 inconclusive."""
    # Imported here: `--help` must not wait for the report's models.
    from fairaudit.cli.console import Screen
    from fairaudit.cli.lines_gate import tell_github, verdict_lines
    from fairaudit.cli.printing import print_stdout
    from fairaudit.gate.check import check, with_verdict
    from fairaudit.io.atomic import write_atomically
    from fairaudit.report.load import load_report
    from fairaudit.report.render.junit import gates_to_junit
    from fairaudit.report.to_json import gates_json

    rules = parse_rules(fail_on)
    stored = load_report(report)
    earlier = load_report(baseline) if baseline else None
    verdict = check(
        stored, rules, earlier, trust_claims=trust_claimed_epsilon, trust_module=trust_module
    )
    judged_report = with_verdict(stored, verdict)
    Screen(quiet=quiet).lines(verdict_lines(judged_report, inconclusive))
    if as_json:
        print_stdout([gates_json(judged_report).rstrip("\n")])
    if junit is not None:
        write_atomically(junit, gates_to_junit(judged_report, inconclusive).encode())
    tell_github(judged_report, inconclusive)
    raise typer.Exit(verdict.exit_code(inconclusive))
