"""What ``fairaudit score`` does, and prints while it does it."""

import sys

from fairaudit.audit import audit
from fairaudit.cli.console import Screen
from fairaudit.cli.lines import report_line, result_lines, score_lines, warning_lines
from fairaudit.cli.lines_gate import tell_github, verdict_lines
from fairaudit.cli.printing import print_stdout
from fairaudit.config.options import AuditConfig
from fairaudit.config.value_sources import ResolvedConfig
from fairaudit.gate.check import exit_code
from fairaudit.report.model import Report
from fairaudit.report.to_json import to_json
from fairaudit.score import ScoreConfig, score


def trained_on_synthetic(resolved: ResolvedConfig, screen: Screen) -> Report:
    """Train on the synthetic table and test on real rows; print what was found."""
    report = audit(resolved)
    screen.lines(result_lines(report, screen.width), is_result=True)
    screen.lines(warning_lines(report, verbose=False))
    screen.lines([report_line(resolved.config.out, resolved.config.format)])
    return report


def measured(scored: ScoreConfig, screen: Screen) -> Report:
    """Measure given predictions; print what was found."""
    report = score(scored, command=["fairaudit", *sys.argv[1:]])
    screen.lines(score_lines(report, scored.shared, screen.width), is_result=True)
    return report


def show_verdict(report: Report, config: AuditConfig, screen: Screen, *, as_json: bool) -> int:
    """Print the verdict, with ``as_json`` first the report on stdout; return the exit code."""
    if as_json:
        print_stdout([to_json(report).rstrip("\n")])
    screen.lines(verdict_lines(report, config.inconclusive))
    tell_github(report, config.inconclusive)
    return exit_code(report, config.inconclusive)
