"""The views of the main window, by name; what shows them is `app/main_window.py`."""

from __future__ import annotations

import enum


class View(enum.StrEnum):
    """What the side bar leads to, in its order."""

    CHAT = "chat"
    MONITOR = "monitor"
    SETTINGS = "settings"
