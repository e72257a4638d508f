"""Presets: named settings of a conversation, some built in, others the person's own.

Own presets are in `chat_presets.json` in the data folder.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.history.records import ConversationSettings


@dataclass(frozen=True, slots=True)
class Preset:
    """A preset.

    Attributes:
        id: stable; `balanced` is the default.
        title: English for built-in ones (translate by id), the person's words for own ones.
        description: one sentence; empty for own ones.
        settings: applied as a whole by `apply`.
        is_built_in: it cannot be changed or removed.
    """

    id: str
    title: str
    description: str
    settings: ConversationSettings
    is_built_in: bool = False
