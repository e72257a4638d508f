"""Presets: named settings of a conversation, some built in, others the person's own.

Own presets, and which one new conversations begin with, are in `chat_presets.json` in the data folder.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from app.history.records import ConversationSettings, Sampling, new_id
from engine.core.config import Effort
from engine.core.errors import EngineError
from engine.core.files import keep_backup, read_json, write_json

logger = logging.getLogger(__name__)

FILE_NAME = "chat_presets.json"
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Preset:
    """A preset.

    Attributes:
        id: stable; `balanced` is the default.
        title: English for built-in ones (translate by id), the person's words for own ones.
        description: one sentence; empty for own ones.
        settings: applied as a whole by `applied`.
        is_built_in: it cannot be changed or removed.
    """

    id: str
    title: str
    description: str
    settings: ConversationSettings
    is_built_in: bool = False


def _built_in(
    preset_id: str, title: str, description: str, sampling: Sampling, effort: Effort | None = None
) -> Preset:
    settings = ConversationSettings(preset=preset_id, sampling=sampling, effort=effort)
    return Preset(preset_id, title, description, settings, is_built_in=True)


BUILT_IN = (
    _built_in("balanced", "Balanced", "What the model's authors recommend.", Sampling()),
    _built_in(
        "precise",
        "Precise",
        "For facts, code and calculations: the likeliest words, and time to think.",
        # Colder still, and a thinking model goes round in circles.
        Sampling(temperature=0.6, top_p=0.9, top_k=20),
        Effort.HIGH,
    ),
    _built_in(
        "creative",
        "Creative",
        "For stories and ideas: less likely words too.",
        Sampling(temperature=1.2, top_p=0.98, top_k=60, min_p=0.03),
    ),
    _built_in("quick", "Quick", "Answers at once, without thinking.", Sampling(), Effort.NONE),
)


def applied(preset: Preset, settings: ConversationSettings) -> ConversationSettings:
    """A conversation's settings after choosing a preset.

    A built-in preset leaves the system prompt and the tools as they are; an own one brings its own.
    """
    if not preset.is_built_in:
        return replace(preset.settings, preset=preset.id)
    return replace(
        preset.settings,
        preset=preset.id,
        system_prompt=settings.system_prompt,
        uses_tools=settings.uses_tools,
    )


@dataclass(frozen=True, slots=True)
class _Own:
    id: str
    title: str
    settings: ConversationSettings = field(default_factory=ConversationSettings)


_PRESETS = TypeAdapter(tuple[_Own, ...])


class PresetStore:
    """The presets of a data folder. Used on one thread."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / FILE_NAME
        self._own: tuple[_Own, ...] = ()
        self._default = BUILT_IN[0].id
        self._rest: dict[str, object] = {}  # keys of other versions, kept
        self._read()

    def all(self) -> Sequence[Preset]:
        """Built-in ones first."""
        own = tuple(Preset(o.id, o.title, "", replace(o.settings, preset=o.id)) for o in self._own)
        return (*BUILT_IN, *own)

    def get(self, preset_id: str) -> Preset:
        """One of them; `balanced` for one that is not there any more."""
        return next((p for p in self.all() if p.id == preset_id), BUILT_IN[0])

    @property
    def default_id(self) -> str:
        """The preset of new conversations."""
        return self.get(self._default).id

    def default_settings(self) -> ConversationSettings:
        """The settings of new conversations."""
        return applied(self.get(self._default), ConversationSettings())

    def set_default(self, preset_id: str) -> None:
        """Choose the preset of new conversations.

        Raises:
            ResourceError: the file cannot be written.
        """
        self._default = preset_id
        self._write()

    def save(self, title: str, settings: ConversationSettings, preset_id: str = "") -> Preset:
        """Keep settings as an own preset, a new one or instead of the one of this id.

        Raises:
            ResourceError: the file cannot be written.
        """
        new = _Own(preset_id or new_id(), title.strip() or "?", settings)
        kept = [own for own in self._own if own.id != new.id]
        self._own = (*kept, new)
        self._write()
        return self.get(new.id)

    def remove(self, preset_id: str) -> None:
        """Remove an own preset; conversations that used it keep their settings.

        Raises:
            ResourceError: the file cannot be written.
        """
        self._own = tuple(own for own in self._own if own.id != preset_id)
        self._write()

    def _read(self) -> None:
        if not self._path.exists():
            return
        try:
            content = read_json(self._path, FORMAT)
            self._own = _PRESETS.validate_python(content.get("presets", []))
        except (EngineError, ValidationError) as error:
            # Kept for the person to look at; the next change writes a new file.
            logger.warning("%s cannot be used: %s", FILE_NAME, type(error).__name__)
            try:
                keep_backup(self._path)
            except OSError:
                logger.warning("%s cannot be copied either", FILE_NAME)
            return
        default = content.get("default")
        self._default = default if isinstance(default, str) else self._default
        known = ("format", "presets", "default")
        self._rest = {key: value for key, value in content.items() if key not in known}

    def _write(self) -> None:
        content: dict[str, object] = {
            **self._rest,
            "format": FORMAT,
            "default": self._default,
            "presets": _PRESETS.dump_python(self._own, mode="json"),
        }
        write_json(self._path, content)
