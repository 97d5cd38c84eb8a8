"""``fairaudit methods``."""

from typing import Annotated

import typer

from fairaudit.cli.run_options import AsJson


def methods(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="A method: all about it.")
    ] = None,
    as_json: AsJson = False,
    check: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Run the laws of private training on one method by steps, a plugin or "
            "module:SPEC.",
        ),
    ] = None,
) -> None:
    """List methods with guarantee status and source; say all about one, or check it."""
    # Imported here: `--help` reads no entry points.
    from fairaudit.cli.lines_catalog import (
        method_lines,
        method_record,
        one_method_lines,
        setting_lines,
    )
    from fairaudit.cli.printing import print_json, print_stdout
    from fairaudit.config.presets import presets
    from fairaudit.methods.catalog import catalog, find

    if check:
        _check(check)
        return
    specs = catalog() if name is None else {find(name).name: find(name)}
    if as_json:
        print_json({key: method_record(spec) for key, spec in specs.items()})
        return
    if name is not None:
        print_stdout(one_method_lines(find(name), presets().values()))
        return
    print_stdout(method_lines(specs.values()))
    print_stdout(setting_lines(specs.values()))


def _check(name: str) -> None:
    """Run the laws of private training on one method, and print of each whether it is kept.

    That a third-party method keeps them all is recorded on this machine: reports made here then say
    that the method passed.

    Raises:
        ConfigError: There is no such method, or it does not train by noised steps.
        PrivacyError: A law is broken.
    """
    import torch

    from fairaudit.cli.printing import print_stdout
    from fairaudit.errors import ConfigError, PrivacyError
    from fairaudit.methods.catalog import admit, find, home_of
    from fairaudit.methods.checks import remember
    from fairaudit.report.safe_names import plain
    from fairaudit.testing import LAWS, LawBroken, broken_laws, private_by_steps

    admit([name])
    spec = find(name)
    torch.set_num_threads(1)  # a few records: more threads only wait for each other
    try:
        private_by_steps(spec)
    except LawBroken as error:
        raise ConfigError(
            str(error), hint="only what trains by noised steps can be checked"
        ) from error
    broken = broken_laws(spec)
    print_stdout(
        f"{'broken' if law in broken else 'kept':8}{law:14}{plain(broken.get(law, ''), 500)}"
        for law in LAWS
    )
    if broken:
        raise PrivacyError(
            f"{spec.name} breaks {len(broken)} of {len(LAWS)} laws: {', '.join(broken)}",
            hint="its epsilon is not to be relied on; docs/extending.md says what each law asks",
        )
    if home_of(spec):  # "": a method of this program, of which reports need no such word
        remember(spec)
        print_stdout(
            [f"reports on this machine say so of this code: {spec.name} passed fairaudit's checks"]
        )
