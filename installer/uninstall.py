"""Removes Stratum: lists what is there with sizes, asks about models and chats, leaves nothing else.

    inventory = take_inventory(root, data_dir)
    leftovers = remove(inventory, Keep(models=True, chats=True))

Only what is ours by name is removed. A file of the person's in the data folder stays, and is named. The
program's own environment cannot remove itself on Windows: `START-HERE.bat` and `setup.sh` do that last
part when they find `.state/uninstalled`.
"""

from __future__ import annotations

import contextlib
import enum
import json
import logging
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from engine.core.ascii_folders import cache_folders_of_this_person
from engine.core.errors import ResourceError
from engine.core.login_start import is_portable, set_login_start
from engine.core.settings import settings_path
from installer.data_folder import Owner, owner_of
from installer.download.installed import InstalledModel, installed_models, remove_model
from installer.entries import EntrySystem, MadeEntry, remove_entries
from installer.errors import InstallError
from installer.program import RELEASE_NAME, folder_bytes, read_record, record_path
from installer.running import end_all

logger = logging.getLogger(__name__)

UNINSTALLED_MARK = "uninstalled"

_RETRY_S = 10.0


class Part(enum.StrEnum):
    """What an item of the inventory belongs to."""

    PROGRAM = "program"
    MODELS = "models"
    CHATS = "chats"
    SETTINGS = "settings"
    OTHER = "other"  # caches, logs, former versions
    ENTRIES = "entries"


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that is installed.

    Attributes:
        name: for the person: a model's title, a path, a registry key.
        path: what would be removed; None for an entry that is no file.
    """

    part: Part
    name: str
    path: Path | None
    num_bytes: int
    model: InstalledModel | None = None
    entry: MadeEntry | None = None


@dataclass(frozen=True, slots=True)
class Inventory:
    """All that is installed.

    Attributes:
        strangers: what lies in the data folder and is not ours.
    """

    root: Path
    data_dir: Path
    items: tuple[Item, ...]
    strangers: tuple[Path, ...] = ()

    def num_bytes(self, *parts: Part) -> int:
        """Bytes of some parts."""
        return sum(item.num_bytes for item in self.items if item.part in parts)

    def has(self, part: Part) -> bool:
        """Whether there is anything of a part."""
        return any(item.part is part for item in self.items)

    def as_plain(self) -> list[dict[str, object]]:
        """For `--json`."""
        return [
            {
                "part": item.part.value,
                "name": item.name,
                "path": None if item.path is None else str(item.path),
                "bytes": item.num_bytes,
            }
            for item in self.items
        ]


@dataclass(frozen=True, slots=True)
class Keep:
    """What the person wants to keep."""

    models: bool = True
    chats: bool = True


def take_inventory(root: Path, data_dir: Path) -> Inventory:
    """Look at everything that is installed; nothing is changed."""
    items = [
        Item(Part.PROGRAM, str(path), path, folder_bytes(path))
        for path in (root / ".venv", root / ".state")
        if path.exists()
    ]
    items += [
        Item(Part.PROGRAM, str(path), path, path.stat().st_size) for path in _release_files(root)
    ]
    models = installed_models(data_dir / "models")
    for model in models:
        size = folder_bytes(model.folder)
        size += sum(path.stat().st_size for path in model.own_files_elsewhere if path.is_file())
        items.append(Item(Part.MODELS, model.title, model.folder, size, model=model))
    known = {model.folder for model in models}
    strangers = []
    for path in sorted(data_dir.iterdir()) if data_dir.is_dir() else ():
        owner = owner_of(path.name)
        if owner is None:
            strangers.append(path)
        elif path.name == "models":
            # What is not finished, and the record of what was verified.
            items += [_item(Part.MODELS, p) for p in sorted(path.iterdir()) if p not in known]
        else:
            items.append(_item(_PARTS[owner], path))
    items += [_item(Part.SETTINGS, path) for path in _settings_files()]
    items += [_item(Part.OTHER, path) for path in _folders_elsewhere(data_dir)]
    record = read_record()
    for entry in record.entries if record is not None else ():
        items.append(Item(Part.ENTRIES, entry.place, None, 0, entry=entry))
    return Inventory(root, data_dir, tuple(items), tuple(strangers))


def remove(inventory: Inventory, keep: Keep, entries: EntrySystem | None = None) -> tuple[str, ...]:
    """Remove what is not to be kept; what could not be removed comes back, with its reason.

    Settings stay when models or chats do: a later installation finds them by their data folder.

    Raises:
        InstallError: a program of ours still runs and cannot be ended.
    """
    end_all(inventory.data_dir)
    kept = {part for part, is_kept in _KEPT.items() if getattr(keep, is_kept)}
    stays = {part for part in kept if inventory.has(part)}
    problems: list[str] = []
    if not is_portable():
        try:
            set_login_start(inventory.root, is_on=False)
        except ResourceError as error:
            problems.append(error.message)
    for item in inventory.items:
        if item.part in kept or item.part is Part.PROGRAM:
            continue
        if item.part is Part.SETTINGS and stays and item.path == settings_path():
            continue
        if item.entry is not None:
            if entries is not None:
                left = remove_entries(entries, [item.entry])
                problems += [f"{entry.place} could not be removed" for entry in left]
            continue
        problems += _remove_item(item)
    for folder in (inventory.data_dir / "models", inventory.data_dir, settings_path().parent):
        with contextlib.suppress(OSError):  # not empty: something is kept there
            folder.rmdir()
    problems += _remove_program(inventory)
    return tuple(problems)


_PARTS = {Owner.MODELS: Part.MODELS, Owner.CHATS: Part.CHATS, Owner.OTHER: Part.OTHER}
_KEPT = {Part.MODELS: "models", Part.CHATS: "chats"}


def _item(part: Part, path: Path) -> Item:
    size = folder_bytes(path) if path.is_dir() else path.lstat().st_size
    return Item(part, str(path), path, size)


def _settings_files() -> Iterator[Path]:
    folder = settings_path().parent
    names = ("settings.json", "installation.json", "app.json", "moving.json", record_path().name)
    for name in names:
        for path in (folder / name, folder / f"{name}.bak"):
            if path.exists():
                yield path
    if (folder / "logs").is_dir():
        yield folder / "logs"


def _folders_elsewhere(data_dir: Path) -> Iterator[Path]:
    """Caches of ours outside the data folder; a portable copy has none."""
    if is_portable():
        return
    cache = Path(platformdirs.user_cache_dir("stratum", appauthor=False))
    for path in (cache, *cache_folders_of_this_person()):
        if path.is_dir() and not data_dir.is_relative_to(path):
            yield path


def _remove_item(item: Item) -> Sequence[str]:
    if item.path is None:
        return ()
    deadline = time.monotonic() + (_RETRY_S if os.name == "nt" else 0)
    while True:  # a virus scanner may hold a file for some seconds
        try:
            if item.model is not None:
                remove_model(item.model)
            elif item.path.is_dir() and not item.path.is_symlink():
                shutil.rmtree(item.path)
            else:
                item.path.unlink(missing_ok=True)
        except (OSError, InstallError) as error:
            if time.monotonic() < deadline:
                time.sleep(0.5)
                continue
            logger.warning("%s could not be removed: %s", item.path, error)
            return (f"{item.path} could not be removed ({error})",)
        return ()


def _release_files(root: Path) -> list[Path]:
    """The files that a release brought; none in a checkout, which is the person's own."""
    try:
        listed = json.loads((root / RELEASE_NAME).read_text(encoding="utf-8"))["files"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    found = []
    for name in listed if isinstance(listed, dict) else ():
        path = root / name
        if not Path(name).is_absolute() and ".." not in Path(name).parts and path.is_file():
            found.append(path)
    return found


def _remove_program(inventory: Inventory) -> Sequence[str]:
    """A release's files, and the mark by which the script that started us does the rest."""
    root = inventory.root
    last = {"START-HERE.bat", "setup.sh"}  # the one that runs
    problems: list[str] = []
    folders: set[Path] = set()
    for path in _release_files(root):
        if path.relative_to(root).as_posix() in last:
            continue
        problems += _remove_item(Item(Part.PROGRAM, str(path), path, 0))
        folders.update(parent for parent in path.parents if root in parent.parents)
    for cache in {folder / "__pycache__" for folder in folders}:
        shutil.rmtree(cache, ignore_errors=True)
    for folder in sorted(folders, key=lambda folder: len(folder.parts), reverse=True):
        with contextlib.suppress(OSError):  # something of the person's is in it
            folder.rmdir()
    state = root / ".state"
    with contextlib.suppress(OSError):
        state.mkdir(exist_ok=True)
        (state / UNINSTALLED_MARK).write_text("", encoding="utf-8")
    return problems
