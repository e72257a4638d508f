"""Lets the paths in our files follow a data folder that was moved.

Only whole texts that are paths of ours in the old folder are changed; everything else stays as it was.
Doing it twice changes nothing more.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from engine.core.errors import EngineError
from engine.core.files import JsonObject, read_json, write_json
from engine.core.settings import Settings, load_settings, save_settings, settings_path
from installer.data_folder import owner_of

logger = logging.getLogger(__name__)

_ANY_FORMAT = 1 << 30  # of a later version too: only paths are changed
_RECORDS = ("installation.json", "program.json", "app.json")


def rewrite_data_folder(source: Path, target: Path) -> None:
    """Change what the files in the new folder say of the old one.

    Raises:
        ResourceError: one cannot be written.
    """
    for path in _files_with_paths(target):
        _rewrite(path, source, target)


def let_settings_follow(source: Path, target: Path) -> None:
    """Let the settings, and what lies beside them, lead to the new folder.

    Raises:
        ConfigError: the settings cannot be read.
        ResourceError: they cannot be written.
    """
    settings = load_settings()
    content = cast("JsonObject", _moved(settings.model_dump(mode="json"), source, target))
    content["data_dir"] = str(target)
    save_settings(Settings.model_validate(content))
    for name in _RECORDS:
        _rewrite(settings_path().with_name(name), source, target)


def _files_with_paths(folder: Path) -> Iterator[Path]:
    yield from sorted((folder / "configs").glob("*.json"))
    yield from sorted((folder / "models").glob("*/model.json"))
    yield folder / "models" / "verified.json"


def _rewrite(path: Path, source: Path, target: Path) -> None:
    if not path.exists():
        return
    try:
        content = read_json(path, _ANY_FORMAT)
    except EngineError as error:  # broken before
        logger.warning("%s is left as it is: %s", path, error)
        return
    moved = cast("JsonObject", _moved(content, source, target))
    if moved != content:
        write_json(path, moved)


def _moved(value: object, source: Path, target: Path) -> object:
    if isinstance(value, str):
        return _moved_text(value, source, target)
    if isinstance(value, list):
        return [_moved(item, source, target) for item in value]
    if isinstance(value, dict):
        return {
            _moved_text(key, source, target): _moved(item, source, target)
            for key, item in value.items()
        }
    return value


def _moved_text(text: str, source: Path, target: Path) -> str:
    if "\0" in text or len(text) < len(str(source)):
        return text
    path = Path(text)
    if not path.is_absolute() or not path.is_relative_to(source):
        return text
    inner = path.relative_to(source)
    if inner.parts and owner_of(inner.parts[0]) is None:
        return text  # the person's own file, which has stayed
    return str(target / inner)
