"""What is known of the installed program: which folder it runs from, its version, what it has made.

`program.json` beside the settings outlives every folder of the program, so a newer copy elsewhere finds
what the one before it did. Models, chats and settings are no part of the program.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from engine.core.errors import ConfigError
from engine.core.files import keep_backup, read_json, write_json
from engine.core.settings import settings_path
from installer.entries import MadeEntry

logger = logging.getLogger(__name__)

PROGRAM_FORMAT: Literal[1] = 1
RELEASE_NAME = "release.json"  # made by tools/make_release.py: the files and their hashes

# What the program consists of, in a checkout and in a release.
PARTS = (
    "app",
    "assets",
    "bin",
    "docs",
    "engine",
    "installer",
    "requirements",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "README.md",
    "START-HERE.bat",
    "models.json",
    "pyproject.toml",
    RELEASE_NAME,
    "setup.sh",
)
_LEFT_OUT = frozenset({"__pycache__", "build", ".mypy_cache", ".ruff_cache"})


class FormerProgram(BaseModel):
    """The version before the one that runs now.

    Attributes:
        root: its folder.
        archive: its files, when the new version was put into the same folder.
    """

    model_config = ConfigDict(frozen=True)

    root: Path
    version: str
    archive: Path | None = None


class ProgramRecord(BaseModel):
    """What `program.json` says. Unknown keys are kept.

    Attributes:
        root: the folder that entries and autostart lead to.
        version: of the program there.
        stamp: changes with its files; see `program_stamp`.
        archive: a copy of its files; None where there is none (a checkout keeps its own history).
        entries: what was made outside the folder.
        former: what to go back to.
        refused: stamp of a version that is not taken: it failed its self-test, or the person went back
            from it.
        is_left_by_person: the latter.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    format: Literal[1] = PROGRAM_FORMAT
    root: Path
    version: str
    stamp: str
    archive: Path | None = None
    entries: tuple[MadeEntry, ...] = ()
    former: FormerProgram | None = None
    refused: str = ""
    is_left_by_person: bool = False


def record_path() -> Path:
    """The file."""
    return settings_path().with_name("program.json")


def read_record(path: Path | None = None) -> ProgramRecord | None:
    """What is known; None when nothing is, or the file is broken (it is then kept as .bak).

    Raises:
        ConfigError: the file is of a newer version.
    """
    path = path or record_path()
    if not path.exists():
        return None
    try:
        return ProgramRecord.model_validate(read_json(path, PROGRAM_FORMAT))
    except ConfigError as error:
        if error.code == "format_too_new":
            raise
        logger.warning("%s is written anew: %s", path, error)
    except ValidationError as error:
        logger.warning("%s is written anew: %s", path, error)
    keep_backup(path)
    return None


def write_record(record: ProgramRecord, path: Path | None = None) -> None:
    """Keep what is known.

    Raises:
        ResourceError: the folder cannot be written.
    """
    write_json(path or record_path(), record.model_dump(mode="json"))


def program_files(root: Path) -> list[Path]:
    """The program's files, relative to its folder, in order; without what is made from them."""
    found: list[Path] = []
    for part in PARTS:
        path = root / part
        if path.is_file():
            found.append(Path(part))
        elif path.is_dir():
            found += (file.relative_to(root) for file in _files_below(path))
    return sorted(found)


def program_stamp(root: Path) -> str:
    """Changes whenever a file of the program does; by sizes and times, since every start asks."""
    digest = hashlib.sha256()
    for file in program_files(root):
        stat = (root / file).stat()
        digest.update(f"{file.as_posix()}\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def program_version(root: Path) -> str:
    """The version of the program in a folder; empty when it says none."""
    try:
        text = (root / "engine" / "__init__.py").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
    for line in text.splitlines():
        if line.startswith("__version__"):
            return line.partition("=")[2].strip().strip("\"'")
    return ""


def program_bytes(root: Path) -> int:
    """What the program takes, with its packages; models not counted."""
    return (
        folder_bytes(root / ".venv")
        + folder_bytes(root / ".state")
        + sum((root / file).stat().st_size for file in program_files(root))
    )


def folder_bytes(folder: Path) -> int:
    """Bytes of all files below a folder; links are not followed, what cannot be read is left out."""
    total = 0
    for current, _folders, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(current) / name).lstat().st_size
            except OSError:
                continue
    return total


def is_checkout(root: Path) -> bool:
    """Whether the folder belongs to git, which then keeps former versions, and not we."""
    return (root / ".git").exists()


def _files_below(folder: Path) -> Iterator[Path]:
    for current, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _LEFT_OUT)
        yield from (Path(current) / name for name in names if not name.endswith(".pyc"))
