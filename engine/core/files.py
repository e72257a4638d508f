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
from pathlib import Path

from engine.core.errors import ConfigError, InputError, ResourceError

JsonObject = dict[str, object]


def write_atomically(path: Path, data: bytes) -> None:
    """Replace the file by `data`: readers see the old content or the new, never a part.

    Raises:
        ResourceError: the folder cannot be written or the disk is full; the old file is untouched.
    """
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise ResourceError(
            f"{path} cannot be written ({error.strerror or error}). "
            "Free some space or choose a folder that belongs to you.",
            code="file_not_writable",
            params={"path": str(path)},
        ) from error


def write_json(path: Path, content: JsonObject) -> None:
    """Write a JSON object atomically, readable for people (UTF-8, indented)."""
    write_atomically(path, (json.dumps(content, ensure_ascii=False, indent=2) + "\n").encode())


def read_json(path: Path, newest_format: int) -> JsonObject:
    """The JSON object of one of our files, whose `format` is at most `newest_format`.

    Raises:
        InputError: the file is missing or cannot be read.
        ConfigError: it is not a JSON object, or of a newer format.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path} is not UTF-8 text. Restore it from a copy, or delete it to start afresh."
        ) from error
    except OSError as error:
        raise InputError(
            f"{path} cannot be read ({error.strerror or error}). Check the path.",
            code="file_not_readable",
            params={"path": str(path)},
        ) from error
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"{path} is not valid JSON ({error}). Correct it, or delete it to start afresh."
        ) from error
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
