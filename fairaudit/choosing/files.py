"""Choice -> files, each whole or not there; the JSON last."""

from collections.abc import Sequence
from pathlib import Path

from fairaudit.choosing.page import chart, document
from fairaudit.choosing.result import Choice
from fairaudit.io.atomic import output_error, write_atomically
from fairaudit.report.render.markdown import to_text
from fairaudit.report.to_json import part_json
from fairaudit.report.write import FIGURES, PICTURES, write_figure

FILES = {"json": "choice.json", "md": "choice.md", "html": "choice.html"}


def put_choice_aside(out: Path) -> None:
    """Rename an earlier choice to ``choice.previous.*``, so that nobody takes it for the one to come.

    Raises:
        OutputError: The directory is not writable.
    """
    for kind, name in FILES.items():
        old = out / name
        try:
            if old.is_file():
                old.replace(out / f"choice.previous.{kind}")
        except OSError as error:
            raise output_error(old, error) from error


def choice_paths(out: Path, formats: Sequence[str]) -> list[Path]:
    """Where :func:`write_choice` puts its files; the JSON is always written."""
    return [out / name for kind, name in FILES.items() if kind == "json" or kind in formats]


def write_choice(choice: Choice, out: Path, formats: Sequence[str]) -> None:
    """Write ``choice.*`` into ``out``.

    Raises:
        OutputError: The directory is not writable, or the disk is full; old files stay whole.
    """
    stored = Choice.model_validate_json(part_json(choice))  # all files show the numbers of the JSON
    kinds = [kind for kind in PICTURES if kind in formats]
    if kinds:
        from fairaudit.report.render.pictures import picture  # charts' runtime takes a second

        for kind in kinds:
            drawn = chart(stored)
            write_figure(out, f"{drawn.name}.{kind}", picture(drawn, kind))
    if "md" in formats:
        pictures = (FIGURES, kinds[0]) if kinds else None
        write_atomically(out / FILES["md"], to_text(document(stored), pictures=pictures).encode())
    if "html" in formats:
        write_atomically(out / FILES["html"], _html(stored).encode())
    write_atomically(out / FILES["json"], part_json(choice).encode())


def _html(choice: Choice) -> str:
    from fairaudit.report.render.html import page  # as above

    return page(document(choice))
