"""The folder of a released model: it appears whole or not at all, and is read with suspicion."""

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from fairaudit.errors import DataError, OutputError
from fairaudit.io.atomic import TEMPORARY, is_plain_file, output_error, refuse_unusable

MODEL, RECIPE, PRIVACY, CARD, EVIDENCE = (
    *("model.safetensors", "recipe.json", "privacy.json", "MODEL_CARD.md", "evidence.json"),
)
# No file of a model is larger; read before anything else is believed.
MOST_BYTES = {MODEL: 4 * 2**30, RECIPE: 64 * 2**20, EVIDENCE: 2**20, PRIVACY: 64 * 2**20, CARD: 2**20}
_JUST_MADE = 60.0  # seconds; a younger folder may be about to be locked by its writer
_CHANGED = "restore the folder that `fairaudit train` wrote, or train again"


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

    What a writer left that was killed goes with the next folder that is written there.

    Raises:
        OutputError: The folder exists, is not writable, or the disk is full.
    """
    refuse_taken(out)
    parent = out.absolute().parent
    made = parent / f".fairaudit-{secrets.token_hex(8)}.tmp"
    try:
        try:
            parent.mkdir(parents=True, exist_ok=True)
            _remove_left(parent)
            made.mkdir(mode=0o700)
            with _locked(made):
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


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Holds a lock on a folder, which the system lets go of whatever its process dies of.

    Raises:
        OSError: Another process holds it, or the folder is gone.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _remove_left(parent: Path) -> None:
    """Delete the unfinished folders of writers that were killed."""
    for path in parent.iterdir():
        if not TEMPORARY.fullmatch(path.name):
            continue
        with contextlib.suppress(OSError):  # a file, another's, or one that is being written
            is_new = time.time() - path.lstat().st_mtime < _JUST_MADE
            with _locked(path):
                if not is_new and {each.name for each in path.iterdir()} <= MOST_BYTES.keys():
                    shutil.rmtree(path)


def as_json(content: Mapping[str, object]) -> bytes:
    """A file's content; sorted, so that equal contents are equal files."""
    text = json.dumps(content, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False)
    return (text + "\n").encode()


def read_folder(folder: Path) -> dict[str, bytes]:
    """Model and recipe, as their digests in the evidence say.

    The evidence is not signed: whoever can write it can change all of them together.

    Raises:
        DataError: No model's folder, a file that is too large, or one that was changed.
    """
    if not folder.is_dir():
        raise DataError(f"there is no folder {str(folder)!r}", "give the folder of `fairaudit train`")
    files = {name: _read(folder, name) for name in (EVIDENCE, RECIPE, MODEL, PRIVACY, CARD)}
    told = _digests(files[EVIDENCE])
    for name, content in files.items():
        if name != EVIDENCE and told.get(name) != hashlib.sha256(content).hexdigest():
            raise DataError(f"{name} is not what {EVIDENCE} says", _CHANGED)
    return files


def _read(folder: Path, name: str) -> bytes:
    if os.path.lexists(folder / name) and not is_plain_file(folder / name):
        raise DataError(f"{name} is no plain file", _CHANGED)
    try:
        # A link that was put there since is not followed, and a pipe is not waited for.
        with open(os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > MOST_BYTES[name]:
                raise DataError(f"{name} is larger than {MOST_BYTES[name]:,} bytes", _CHANGED)
            return file.read(size)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise DataError(f"{folder.name} holds no model: {name}: {reason}", _CHANGED) from None


def _digests(content: bytes) -> dict[str, str]:
    """File -> SHA-256, as the evidence has it."""
    try:
        subject = json.loads(content)["subject"]
        return {str(each["name"]): str(each["digest"]["sha256"]) for each in subject}
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DataError(f"{EVIDENCE} is no statement about files", _CHANGED) from None
