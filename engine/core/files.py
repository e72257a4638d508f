"""Files of ours: written whole or not at all, and marked with their format.

Every file that Stratum keeps for a person (configs, settings, history, calibration ...) goes to a
temporary name first and is then renamed, so a crash or a full disk leaves the old one. Its JSON
object carries `format`: a newer format is refused with a sentence, an older one is migrated by the
caller after a copy with the suffix `.bak` was made.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from engine.core.errors import ConfigError, InputError, ResourceError
from engine.core.strict_json import BadJsonError, parse_json

JsonObject = dict[str, object]


# A prompt of a million token ids is 8 MB; a larger file is something else, or a device without end.
MAX_JSON_BYTES = 64 << 20

# On Windows a virus scanner may hold a fresh file, or somebody the old one, for some seconds.
RENAME_PATIENCE_S = 10.0 if sys.platform == "win32" else 0.0
RENAME_PAUSE_S = 0.1


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write to that takes the place of `path` when the block ends without an error.

    Raises:
        ResourceError: the folder cannot be written or the disk is full; the old file is untouched.
    """
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        rename_patiently(temporary, path)
    except OSError as error:
        raise ResourceError(
            f"{path} cannot be written ({error.strerror or error}). "
            "Free some space or choose a folder that belongs to you.",
            code="file_not_writable",
            params={"path": str(path)},
        ) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def rename_patiently(source: Path, target: Path) -> None:
    """Give a file its final name, over another one if need be; what holds it up for a moment is waited for.

    Raises:
        OSError: it stays impossible.
    """
    deadline = time.monotonic() + RENAME_PATIENCE_S
    while True:
        try:
            source.replace(target)
        except PermissionError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(RENAME_PAUSE_S)
        else:
            return


def write_atomically(path: Path, data: bytes) -> None:
    """Replace the file by `data`: readers see the old content or the new, never a part.

    Raises:
        ResourceError: the folder cannot be written or the disk is full; the old file is untouched.
    """
    with contextlib.suppress(OSError):  # opening the file says why there is no folder
        path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(data)


def write_json(path: Path, content: JsonObject) -> None:
    """Write a JSON object atomically, readable for people (UTF-8, indented)."""
    write_atomically(path, (json.dumps(content, ensure_ascii=False, indent=2) + "\n").encode())


def read_json_value(path: Path, way_out: str, error_type: type[InputError] = InputError) -> object:
    """What a JSON file of a person says, whatever it is.

    Args:
        path: a file, or a pipe.
        way_out: the end of the sentence for a file that is none, such as `write a list of ids`.
        error_type: of that sentence.

    Raises:
        InputError: the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_JSON_BYTES + 1)
    except OSError as error:
        raise InputError(
            f"{path} cannot be read ({error.strerror or error}). Check the path.",
            code="file_not_readable",
            params={"path": str(path)},
        ) from error
    if len(raw) > MAX_JSON_BYTES:
        raise error_type(f"{path} has more than {MAX_JSON_BYTES >> 20} MiB; {way_out}.")
    try:
        return parse_json(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise error_type(f"{path} is not UTF-8 text; {way_out}.") from error
    except BadJsonError as error:
        raise error_type(f"{path} is not valid JSON ({error}); {way_out}.") from error


def read_json(path: Path, newest_format: int) -> JsonObject:
    """The JSON object of one of our files, whose `format` is at most `newest_format`.

    Raises:
        InputError: the file is missing or cannot be read.
        ConfigError: it is not a JSON object, or of a newer format.
    """
    content = read_json_value(path, "correct it, or delete it to start afresh", ConfigError)
    if not isinstance(content, dict):
        raise ConfigError(f"{path} must hold one JSON object. Correct it, or delete it.")
    found = content.get("format", 1)
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise ConfigError(f"{path}: the key format must be a whole number from 1 on.")
    if found > newest_format:
        raise ConfigError(
            f"{path} was written by a newer version of Stratum (format {found}; "
            f"this one reads up to {newest_format}). Update Stratum.",
            code="format_too_new",
            params={"path": str(path), "found": found, "newest": newest_format},
        )
    return content


def keep_backup(path: Path) -> Path:
    """Copy a file beside itself with the suffix `.bak` before it is migrated."""
    backup = path.with_name(path.name + ".bak")
    shutil.copy2(path, backup)
    return backup
