"""A stored report -> a folder with one model for release."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from safetensors.numpy import save

from fairaudit.io.atomic import write_atomically
from fairaudit.release.choice import ReleaseChoice
from fairaudit.release.held_out import HeldOut, held_out
from fairaudit.release.model_folder import (
    CARD,
    EVIDENCE,
    MODEL,
    PRIVACY,
    RECIPE,
    as_json,
    write_folder,
)
from fairaudit.release.statements import card, evidence, privacy_statement
from fairaudit.release.train import Trained, train_for_release


def release(choice: ReleaseChoice, out: Path) -> list[HeldOut]:
    """Train, write the folder, then look at the rows that were held out.

    Args:
        choice: What is trained.
        out: The folder; it must not be there.

    Returns:
        Accuracy by group on the held-out rows; it stays beside the report and is no part of the folder.

    Raises:
        TrainingError: Diverged, or out of memory. OutputError: The folder cannot be written.
    """
    trained = train_for_release(choice)
    write_model(choice, trained, out)
    return held_out(choice.report, choice.audited.key, choice.dataset, trained.test, trained.probabilities)


def write_model(choice: ReleaseChoice, trained: Trained, out: Path) -> None:
    """Write the folder of a trained model. Raises: OutputError, as :func:`release`."""
    recipe = trained.recipe
    files = {
        MODEL: save(trained.tensors),
        RECIPE: as_json(recipe.model_dump(mode="json")),
        PRIVACY: as_json(privacy_statement(choice, recipe, trained.candidate)),
        CARD: card(choice, recipe).encode(),
    }
    files[EVIDENCE] = as_json(evidence(choice, files))
    write_folder(out, files)


def keep_beside(report: Path, out: Path, found: Sequence[HeldOut]) -> Path:
    """Write what was seen on the held-out rows beside the audit's report: exact functions of rows.

    Raises:
        OutputError: The folder of the report is not writable.
    """
    path = report.parent / f"held-out-{out.absolute().name}.json"
    groups = [{**asdict(each), "expected": each.expected and list(each.expected)} for each in found]
    content = {"report_is_dp": False, "model": str(out), "groups": groups}
    write_atomically(path, as_json(content), mode=0o600)
    return path
