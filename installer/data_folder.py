"""What the data folder holds, by name: what is ours there, and whose it is.

Names that are not listed are the person's own: nothing here moves or removes them.
"""

from __future__ import annotations

import enum
import re

_COPY = re.compile(r"(\.bak|\.[0-9a-f]{8}\.tmp)$")  # made by engine/core/files.py

_MODELS = frozenset({"models", "configs"})
_CHATS = frozenset({"chats", "history", "sessions", "chat_presets.json"})
# The chat window's file, its journals, its second copy, and those that were set aside as damaged.
_HISTORY_PREFIX = "history."
_OTHER = frozenset({"cache", "logs", "program", "calibration.json", "engine.json"})


class Owner(enum.StrEnum):
    """What an entry of the data folder belongs to."""

    MODELS = "models"
    CHATS = "chats"
    OTHER = "other"  # caches, logs, former versions


def owner_of(name: str) -> Owner | None:
    """Whose an entry of the data folder is; None: the person's own.

    >>> owner_of("history.db-wal"), owner_of("calibration.json.bak"), owner_of("holiday.jpg")
    (<Owner.CHATS: 'chats'>, <Owner.OTHER: 'other'>, None)
    """
    base = _COPY.sub("", name)
    if base in _MODELS:
        return Owner.MODELS
    if base in _CHATS or base.startswith(_HISTORY_PREFIX):
        return Owner.CHATS
    return Owner.OTHER if base in _OTHER else None
