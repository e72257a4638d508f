"""Reading and writing run configs: one JSON object with its format number.

A file of a newer format is refused, one of an older format is migrated and the old one kept as
`NAME.bak`. Keys that this version does not know are kept and warned about. A bad value is one
sentence with the key, the value and what is allowed. Knows nothing of flags (`config_flags.py`).
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from pydantic import BaseModel, ValidationError

from engine.core.config import CONFIG_FORMAT, RunConfig
from engine.core.config_words import allowed_values, field_at
from engine.core.errors import ConfigError

logger = logging.getLogger(__name__)

# A config is a few lines; a larger file is something else (somebody passed the model file).
MAX_CONFIG_BYTES = 1 << 20

# Values of these keys never appear in a message or a log.
SECRET_KEYS = frozenset({"api_keys"})

# From format number to the function that makes the data of the next format.
MIGRATIONS: dict[int, Callable[[dict[str, object]], dict[str, object]]] = {}


def load_config(path: Path) -> RunConfig:
    """The run config in a file, migrated to the current format.

    A relative model path is taken from the folder of the config file.

    Raises:
        ConfigError: unreadable, not a JSON object, of a newer format, or with a bad value.
    """
    data = _migrate(path, _read_object(path))
    config = parse_config(data, source=str(path))
    if config.model is not None and not config.model.is_absolute():
        config = config.model_copy(update={"model": path.resolve().parent / config.model})
    return config


def parse_config(data: Mapping[str, object], *, source: str) -> RunConfig:
    """Check JSON-ready data strictly (a quoted number is no number) and warn of unknown keys."""
    try:
        config = RunConfig.model_validate_json(json.dumps(data), strict=True)
    except ValidationError as error:
        raise config_error(error, source) from error
    warn_of_unknown_keys(config, source)
    return config


def warn_of_unknown_keys(config: RunConfig, source: str) -> None:
    """Log one warning for each key that this version does not know."""
    tables: tuple[tuple[str, BaseModel], ...] = (("", config), ("sampling.", config.sampling))
    for prefix, table in tables:
        for key in table.model_extra or {}:
            logger.warning("%s: the setting %s%s is not known; it is ignored", source, prefix, key)


def config_error(error: ValidationError, source: str) -> ConfigError:
    """The first problem that pydantic found, as our sentence.

    Args:
        error: what validation raised.
        source: the file's path, or `command line`.
    """
    problem = error.errors(include_url=False)[0]
    location = problem["loc"]
    key = ".".join(part for part in location if isinstance(part, str)) or "config"
    field = field_at(RunConfig, location)
    allowed = allowed_values(field) if field is not None else "another value"
    secret = bool(location) and location[0] in SECRET_KEYS
    shown = "(hidden)" if secret else _shorten(problem["input"])
    return ConfigError(
        f"{source}: the setting {key} is {shown}; it must be {allowed}.",
        params={"key": key, "value": shown, "allowed": allowed, "source": source},
    )


def save_config(config: RunConfig, path: Path) -> None:
    """Write the config, unknown keys included, so that a reader sees the old or the new file."""
    data = config.model_dump(mode="json", exclude_none=True)
    _write(path, {"format": CONFIG_FORMAT, **data})


def _read_object(path: Path) -> dict[str, object]:
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_CONFIG_BYTES + 1)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ConfigError(
            f"The config file {path} cannot be read: {reason}. Check the path after --config.",
            params={"path": str(path), "reason": reason},
        ) from error
    if len(raw) > MAX_CONFIG_BYTES:
        raise ConfigError(
            f"The config file {path} is larger than 1 MiB, so it is not a run config. "
            "A model file goes after --model.",
            params={"path": str(path)},
        )
    try:
        data = json.loads(raw.decode("utf-8-sig"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        where = f" at line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise ConfigError(
            f"The config file {path} is not valid JSON{where}. Correct it, or delete it and run "
            "the setup again.",
            params={"path": str(path)},
        ) from error
    if not isinstance(data, dict):
        raise ConfigError(
            f"The config file {path} does not hold a JSON object of settings.",
            params={"path": str(path)},
        )
    return data


def _migrate(path: Path, data: dict[str, object]) -> dict[str, object]:
    found = data.get("format", CONFIG_FORMAT)  # a file written by hand may leave it out
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        raise ConfigError(
            f"{path}: the setting format is {_shorten(found)}; it must be {CONFIG_FORMAT}.",
            params={"key": "format", "value": _shorten(found), "source": str(path)},
        )
    if found > CONFIG_FORMAT:
        raise ConfigError(
            f"The config file {path} has format {found}, which a newer version of this program "
            f"wrote; this one reads up to {CONFIG_FORMAT}. Update the program, or run the setup "
            "again.",
            code="format_newer",
            params={"path": str(path), "found": found, "supported": CONFIG_FORMAT},
        )
    if found == CONFIG_FORMAT:
        return data
    _write(path.with_name(path.name + ".bak"), data)
    while found < CONFIG_FORMAT:
        step = MIGRATIONS.get(found)
        if step is None:
            raise ConfigError(
                f"The config file {path} has format {found}, which is too old to be read. "
                "Run the setup again.",
                code="format_older",
                params={"path": str(path), "found": found, "supported": CONFIG_FORMAT},
            )
        found += 1
        data = {**step(data), "format": found}
    _write(path, data)
    logger.info("%s was migrated to format %d; the old file is kept as .bak", path, found)
    return data


def _write(path: Path, data: Mapping[str, object]) -> None:
    """Write to a temporary name in the same folder, then rename over the target."""
    text = json.dumps(data, ensure_ascii=False, indent=2) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=path.name + ".", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _shorten(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
