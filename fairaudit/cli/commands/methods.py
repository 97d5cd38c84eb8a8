"""``fairaudit methods``."""

import json
from dataclasses import asdict, replace
from typing import Annotated

import typer


def methods(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the answer as JSON.", show_default=False)
    ] = False,
) -> None:
    """List methods with guarantee status and source."""
    # Imported here: `--help` reads no entry points.
    from fairaudit.cli.lines_catalog import described, method_lines, setting_lines
    from fairaudit.cli.streams import answer
    from fairaudit.methods.catalog import catalog

    specs = catalog()
    if as_json:
        content = {
            name: {
                **asdict(replace(spec, settings={}, variants=(), conversions={})),
                "conversions": {key: [c.into, c.text] for key, c in spec.conversions.items()},
                "settings": list(spec.settings),
                "variants": [
                    {**asdict(replace(each, settings={})), "settings": list(each.settings)}
                    for each in spec.variants
                ],
                "numbers": described(spec),
            }
            for name, spec in specs.items()
        }
        answer([json.dumps(content, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False)])
        return
    answer(method_lines(specs.values()))
    answer(setting_lines(specs.values()))
