"""The person's switches of the app itself: `app.json` beside `settings.json`.

    store = AppSettingsStore(app_settings_path())
    store.put(store.value.model_copy(update={"closes_to_tray": True}))   # written, then `changed`

What the engine does is in run configs. Whether Stratum starts at login is asked of the system
(`app/autostart.py`), because the person can also change it there.
"""

from __future__ import annotations

import enum
import logging
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from PySide6.QtCore import QObject, Signal

from engine.core.errors import ConfigError, EngineError
from engine.core.files import keep_backup, read_json, write_json
from engine.core.language import Language
from engine.core.settings import settings_path

logger = logging.getLogger(__name__)

APP_SETTINGS_FORMAT: Literal[1] = 1


class Theme(enum.StrEnum):
    """Colours of the windows."""

    SYSTEM = "system"
    LIGHT = "light"
    DARK = "dark"


class AppSettings(BaseModel):
    """What `app.json` holds. Unknown keys are kept.

    Attributes:
        closes_to_tray: closing the window leaves the sign beside the clock.
        shows_tray: there is a sign at all; without one closing the window quits.
        starts_model: the model starts with the app.
        language: None for what the installer or the system says.
        notifies_ready: say when the model is ready.
        notifies_answer: say when a long answer has ended and nobody looks at the window.
        notifies_error: say when something fails.
        has_seen_tray_note: the note at the first closing to the tray has been shown.
        window: the main window's geometry, base64 of what Qt saves; empty at first.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    format: Literal[1] = APP_SETTINGS_FORMAT
    closes_to_tray: bool = False
    shows_tray: bool = True
    starts_model: bool = True
    language: Language | None = None
    theme: Theme = Theme.SYSTEM
    notifies_ready: bool = True
    notifies_answer: bool = True
    notifies_error: bool = True
    has_seen_tray_note: bool = False
    window: str = Field(default="", max_length=4096)


def app_settings_path() -> Path:
    """The file."""
    return settings_path().with_name("app.json")


class AppSettingsStore(QObject):
    """Reads once, writes at every change.

    Signals:
        changed: with the new `AppSettings`; only when something is different.
    """

    changed = Signal(object)

    def __init__(self, path: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._path = path
        self._value = _read(path)

    @property
    def value(self) -> AppSettings:
        """What holds now."""
        return self._value

    def put(self, settings: AppSettings) -> None:
        """Keep other settings.

        They hold from now on also when they cannot be written: a full disk must not make a switch
        stand still. The log says that they are lost at the next start.
        """
        settings = AppSettings.model_validate(dict(settings))  # a copy with changes is not checked
        if settings == self._value:
            return
        self._value = settings
        try:
            write_json(self._path, settings.model_dump(mode="json"))
        except EngineError as error:
            logger.warning("the app's settings are not kept: %s", error)
        self.changed.emit(settings)


def _read(path: Path) -> AppSettings:
    """The settings in a file; a broken file is kept as `.bak` and never keeps the app from starting."""
    if not path.exists():
        return AppSettings()
    try:
        return AppSettings.model_validate(read_json(path, APP_SETTINGS_FORMAT))
    except (EngineError, ValidationError) as error:
        logger.warning("%s is not used: %s", path, error)
        if not isinstance(error, ConfigError) or error.code != "format_too_new":
            try:
                keep_backup(path)
            except OSError as reason:
                logger.warning("no copy of %s could be kept: %s", path, reason)
    return AppSettings()
