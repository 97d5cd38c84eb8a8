"""``fairaudit gate``."""

from pathlib import Path
from typing import Annotated

import typer

from fairaudit.cli.run_options import counted
from fairaudit.gate.grammar import parse_rules


def gate(
    report: Annotated[
        Path, typer.Argument(help="Report JSON written by `fairaudit run`; - reads stdin.", metavar="REPORT")
    ],
    fail_on: Annotated[
        list[str],
        typer.Option(help="Failing condition, as 'privacy_cost_gap > 0.02'; repeat.", metavar="RULE"),
    ],
    baseline: Annotated[
        Path | None, typer.Option(help="Earlier report, for rules with .delta.", metavar="REPORT")
    ] = None,
    inconclusive: Annotated[
        str | None,
        typer.Option(help="What an inconclusive rule counts as; else exit 3.", metavar="fail|pass"),
    ] = None,
    trust_claimed_epsilon: Annotated[
        bool,
        typer.Option(
            "--trust-claimed-epsilon",
            help="Judge the epsilon that a trainer claims, unchecked.",
            show_default=False,
        ),
    ] = False,
    junit: Annotated[
        Path | None, typer.Option(help="Also write the gates as JUnit XML.", metavar="FILE")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the gates as JSON on stdout.", show_default=False)
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Say nothing but errors.", show_default=False)
    ] = False,
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

    rules, counts_as = parse_rules(fail_on), counted(inconclusive)
    given = load_report(report)
    earlier = load_report(baseline) if baseline else None
    verdict = check(given, rules, earlier, trust_claims=trust_claimed_epsilon)
    found = with_verdict(given, verdict)
    Screen(quiet=quiet).lines(verdict_lines(found, counts_as))
    if as_json:
        print_stdout([gates_json(found).rstrip("\n")])
    if junit is not None:
        write_atomically(junit, gates_to_junit(found, counts_as).encode())
    tell_github(found, counts_as)
    raise typer.Exit(verdict.exit_code(counts_as))
