"""`settings.json` while the app runs: which data folder, which run config is the active one.

The installer and the command line write the same file, so it is read anew before each change.
"""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject, Signal

from engine.core.settings import Settings, load_settings, save_settings


class PersonSettings(QObject):
    """Reads, writes, and says when something is different.

    Signals:
        changed: with the new `Settings`.
    """

    changed = Signal(object)

    def __init__(self, path: Path, parent: QObject | None = None) -> None:
        """Read the file.

        Raises:
            ConfigError: it cannot be used.
        """
        super().__init__(parent)
        self._path = path
        self._value = load_settings(path)

    @property
    def value(self) -> Settings:
        """What holds now."""
        return self._value

    def reread(self) -> Settings:
        """What the file says now; another program may have changed it.

        Raises:
            ConfigError: it cannot be used.
        """
        self._hold(load_settings(self._path))
        return self._value

    def put(self, settings: Settings) -> None:
        """Keep other settings.

        Raises:
            ResourceError: the file cannot be written; then nothing changes.
        """
        save_settings(settings, self._path)
        self._hold(settings)

    def _hold(self, settings: Settings) -> None:
        if settings != self._value:
            self._value = settings
            self.changed.emit(settings)
