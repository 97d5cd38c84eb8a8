"""The folder of a released model: it appears whole or not at all, and is read with suspicion."""

import contextlib
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path

from fairaudit.errors import DataError, OutputError
from fairaudit.io.atomic import output_error, refuse_unusable
from fairaudit.io.reading import read_file

MODEL, RECIPE, PRIVACY = "model.safetensors", "recipe.json", "privacy.json"
CARD, EVIDENCE = "MODEL_CARD.md", "evidence.json"
# The files of a model's folder, and the most bytes of each: a larger one is refused unread.
MOST_BYTES = {
    MODEL: 4 * 2**30,
    RECIPE: 64 * 2**20,
    EVIDENCE: 2**20,
    PRIVACY: 64 * 2**20,
    CARD: 2**20,
}
# The hint of every error about a folder that is damaged or was changed.
CHANGED = "restore the folder that `fairaudit train` wrote, or train again"


def refuse_taken(out: Path) -> None:
    """Refuse a path where something is already: a model is written once, into a new folder.

    Raises:
        OutputError: Something exists there, or a folder cannot be made there.
    """
    if os.path.lexists(out):
        raise OutputError(f"{out} exists", hint="name a folder that does not, with --out")
    refuse_unusable(out)


def write_folder(out: Path, files: Mapping[str, bytes]) -> None:
    """Write the files into a new folder ``out``, which appears whole or not at all.

    Until all of them are written it has another name in the same parent folder.

    Args:
        out: The folder; it must not be there.
        files: Name -> content.

    Raises:
        OutputError: The folder exists, is not writable, or the disk is full.
    """
    refuse_taken(out)
    parent = out.absolute().parent
    made = parent / f".fairaudit-{secrets.token_hex(8)}.tmp"
    try:
        try:
            parent.mkdir(parents=True, exist_ok=True)
            made.mkdir(mode=0o700)
            for name, content in files.items():
                with open(made / name, "xb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
            os.rename(made, out)  # fails where a folder with files has appeared meanwhile
        except BaseException:
            with contextlib.suppress(OSError):
                shutil.rmtree(made)
            raise
    except OSError as error:
        raise output_error(out, error) from error


def as_json(content: Mapping[str, object]) -> bytes:
    """The bytes of a JSON file; keys are sorted, so that equal contents are equal files."""
    text = json.dumps(content, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False)
    return (text + "\n").encode()


def read_folder(folder: Path) -> dict[str, bytes]:
    """Read all files of a model's folder, name -> content, checked by the digests in the evidence.

    The evidence is not signed: whoever can write it can change all files together.

    Raises:
        DataError: No model's folder, a file that is too large, or one that was changed.
    """
    if not folder.is_dir():
        raise DataError(
            f"there is no folder {str(folder)!r}", "give the folder of `fairaudit train`"
        )
    files = {}
    for name, most in MOST_BYTES.items():
        try:
            files[name] = read_file(folder / name, most, follow=False)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise DataError(f"{folder.name} holds no model: {name}: {reason}", CHANGED) from None
    try:
        subject = json.loads(files[EVIDENCE])["subject"]
        digests = {str(file["name"]): str(file["digest"]["sha256"]) for file in subject}
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DataError(f"{EVIDENCE} is no statement about files", CHANGED) from None
    for name, content in files.items():
        if name != EVIDENCE and digests.get(name) != hashlib.sha256(content).hexdigest():
            raise DataError(f"{name} is not what {EVIDENCE} says", CHANGED)
    return files
