"""Where Stratum keeps what belongs to a person, and which server is ours.

`settings.json` (in the system's folder for settings) names the data folder and the active config.
`engine.json` in the data folder (pid, port, start time, nonce) tells whether the server that answers
on a port is ours: its `/status` echoes the nonce.
"""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path
from typing import Literal

import platformdirs
import psutil
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from engine.core.errors import ConfigError, InputError
from engine.core.files import read_json, write_json
from engine.core.setting_paths import UsablePath

SETTINGS_FORMAT = 1
ENGINE_RECORD_FORMAT = 1


def settings_path() -> Path:
    """Path of `settings.json`; `STRATUM_HOME` puts everything below one folder."""
    home = os.environ.get("STRATUM_HOME")
    if home:
        return Path(home) / "settings.json"
    return Path(platformdirs.user_config_dir("stratum", appauthor=False)) / "settings.json"


def default_data_dir() -> Path:
    """Data folder of a person who has chosen none."""
    home = os.environ.get("STRATUM_HOME")
    if home:
        return Path(home) / "data"
    return Path(platformdirs.user_data_dir("stratum", appauthor=False))


class Settings(BaseModel):
    """What `settings.json` holds. Unknown keys are kept."""

    model_config = ConfigDict(extra="allow", frozen=True)

    format: Literal[1] = 1
    data_dir: UsablePath = Field(default_factory=default_data_dir)
    active_config: UsablePath | None = None


def load_settings(path: Path | None = None) -> Settings:
    """The person's settings, or defaults when there is no file yet.

    Raises:
        ConfigError: the file is there and cannot be used; it is left as it is.
    """
    path = path or settings_path()
    if not path.exists():
        return Settings()
    content = read_json(path, SETTINGS_FORMAT)
    try:
        return Settings.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise ConfigError(
            f"{path}: the key {key} has an unusable value ({first['msg']})."
        ) from error


def save_settings(settings: Settings, path: Path | None = None) -> None:
    """Write the settings atomically."""
    write_json(path or settings_path(), settings.model_dump(mode="json"))


class EngineRecord(BaseModel):
    """What `engine.json` says about the running server.

    Attributes:
        host: the address that it listens on.
        nonce: echoed by its `/status`.
        settings: equal for two servers that were started with the same settings.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    format: Literal[1] = 1
    pid: int
    port: int
    host: str = "127.0.0.1"
    settings: str = ""
    started_at: float = Field(default_factory=time.time)
    nonce: str = Field(default_factory=lambda: secrets.token_hex(16))


def engine_record_path(data_dir: Path) -> Path:
    """Path of the record of the server that runs on this data folder."""
    return data_dir / "engine.json"


def write_engine_record(data_dir: Path, record: EngineRecord) -> None:
    """Say that this server is ours."""
    write_json(engine_record_path(data_dir), record.model_dump(mode="json"))


def read_engine_record(data_dir: Path) -> EngineRecord | None:
    """The record of the server that runs, or ran, on this data folder; None when unreadable."""
    try:
        return EngineRecord.model_validate(
            read_json(engine_record_path(data_dir), ENGINE_RECORD_FORMAT)
        )
    except (InputError, ValidationError):
        return None


def live_engine_record(data_dir: Path) -> EngineRecord | None:
    """The record of a server that still runs; None for the one that a killed server left."""
    record = read_engine_record(data_dir)
    if record is None:
        return None
    try:
        process_started_at = psutil.Process(record.pid).create_time()
    except (psutil.Error, ValueError, OverflowError):
        return None
    # A later process got the number again.
    return record if process_started_at <= record.started_at else None


def remove_engine_record(data_dir: Path, nonce: str) -> None:
    """Remove the record if it is still the one with this nonce."""
    record = read_engine_record(data_dir)
    if record is not None and record.nonce == nonce:
        engine_record_path(data_dir).unlink(missing_ok=True)
