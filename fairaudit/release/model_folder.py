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
# No file of a model is larger; read before anything else is believed.
MOST_BYTES = {
    MODEL: 4 * 2**30,
    RECIPE: 64 * 2**20,
    EVIDENCE: 2**20,
    PRIVACY: 64 * 2**20,
    CARD: 2**20,
}
CHANGED = "restore the folder that `fairaudit train` wrote, or train again"


def refuse_taken(out: Path) -> None:
    """Refuse a folder that is there: a model is written once, into a folder of its own.

    Raises:
        OutputError: It exists, or could not be made.
    """
    if os.path.lexists(out):
        raise OutputError(f"{out} exists", hint="name a folder that does not, with --out")
    refuse_unusable(out)


def write_folder(out: Path, files: Mapping[str, bytes]) -> None:
    """Write all files, then give the folder its name; until then it has another one beside.

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
    """A file's content; sorted, so that equal contents are equal files."""
    text = json.dumps(
        content,
        sort_keys=True,
        indent=1,
        ensure_ascii=False,
        allow_nan=False,
    )
    return (text + "\n").encode()


def read_folder(folder: Path) -> dict[str, bytes]:
    """Model and recipe, as their digests in the evidence say.

    The evidence is not signed: whoever can write it can change all of them together.

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
