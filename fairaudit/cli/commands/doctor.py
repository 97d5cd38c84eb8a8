"""``fairaudit doctor``."""

from typing import Annotated

import typer

from fairaudit.errors import EXIT_INPUT


def doctor(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the answer as JSON.", show_default=False)
    ] = False,
    licenses: Annotated[
        bool,
        typer.Option("--licenses", help="List the licences of all libraries instead.", show_default=False),
    ] = False,
) -> None:
    """Check Python, libraries and processors."""
    # Imported here: the check imports torch, `--help` must not.
    import json

    from fairaudit.cli.checkup import examine, installed_licences
    from fairaudit.cli.printing import print_stdout
    from fairaudit.report.render.terminal import Row, aligned

    if licenses:
        found = installed_licences()
        if as_json:
            print_stdout([json.dumps([entry._asdict() for entry in found], indent=1, ensure_ascii=False)])
        else:
            print_stdout(aligned([Row(entry) for entry in found], left=frozenset({0, 1, 2})))
        return
    checks = examine()
    if as_json:
        print_stdout([json.dumps([c._asdict() for c in checks], indent=1, ensure_ascii=False)])
    else:
        rows = [Row(("ok" if c.ok else "MISSING", c.name, c.found)) for c in checks]
        print_stdout(aligned(rows, left=frozenset({0, 1, 2})))
    if not all(check.ok for check in checks):
        raise typer.Exit(EXIT_INPUT)
