"""``fairaudit doctor``."""

import typer

from fairaudit.cli.run_options import AsJson
from fairaudit.errors import EXIT_INPUT


def doctor(as_json: AsJson = False) -> None:
    """Check Python, libraries and processors."""
    # Imported here: the check imports torch, `--help` must not.
    from fairaudit.cli.checkup import examine
    from fairaudit.cli.printing import print_json, print_stdout
    from fairaudit.report.render.terminal import aligned

    checks = examine()
    if as_json:
        print_json([check._asdict() for check in checks])
    else:
        rows = [("ok" if c.ok else "MISSING", c.name, c.result) for c in checks]
        print_stdout(aligned(rows, left={0, 1, 2}))
    if not all(check.ok for check in checks):
        raise typer.Exit(EXIT_INPUT)
