"""``fairaudit inspect``."""

from dataclasses import asdict, replace
from functools import partial
from inspect import Parameter

import typer

from fairaudit.cli.run_options import Given, parameter, settled, takes_audit_options
from fairaudit.config.options import PANELS

_DATA = typer.Argument(help="Table or images to look at; a file or a folder.", metavar="DATA")
# What options say of data; what is trained on them is for `plan`.
_OPTIONS = [
    option
    for panel in ("Data", "Groups")
    for option in PANELS[panel]
    if option.field not in ("data", "compare", "suppress_below")
]


@partial(
    takes_audit_options,
    of_command=[parameter("data", str, Parameter.empty, _DATA)],  # no default: it has to be given
    options=_OPTIONS,
)
def inspect(given: Given) -> None:
    """Show what is in a table or images, what looks wrong, and the command that would run."""
    values = {**given.values, "data": given.of_command["data"]}
    resolved = settled(replace(given, values=values))
    # Imported here: `--help` must not wait for pandas and pyarrow.
    from fairaudit.cli.console import Screen
    from fairaudit.cli.lines import inspection_lines, notice_lines
    from fairaudit.cli.printing import print_json, print_stdout
    from fairaudit.data.inspection import describe
    from fairaudit.planning.plan import make_plan

    inspection = describe(resolved.config, make_plan)
    if given.json:
        print_json(asdict(inspection))
        return
    print_stdout(inspection_lines(inspection))
    Screen(quiet=given.quiet).lines(notice_lines(inspection.notices))
