"""Which models can be chosen: the run configs in the data folder, by name."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from engine.core.config import CONFIG_FORMAT
from engine.core.errors import EngineError
from engine.core.files import read_json

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class InstalledModel:
    """One that can be chosen.

    Attributes:
        config_path: its run config.
        name: what to call it.
    """

    config_path: Path
    name: str


def installed_models(configs_dir: Path) -> list[InstalledModel]:
    """All of them, by name; a config that cannot be read is there too, under its file's name."""
    found = []
    for path in configs_dir.glob("*.json"):
        name = path.stem
        try:
            model_id = read_json(path, CONFIG_FORMAT).get("model_id")
        except EngineError as error:  # chosen, it says what is wrong with it
            logger.warning("%s", error)
        else:
            name = model_id if isinstance(model_id, str) and model_id else name
        found.append(InstalledModel(path, name))
    return sorted(found, key=lambda model: model.name.casefold())
