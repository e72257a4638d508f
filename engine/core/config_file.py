"""Reading and writing run configs: one JSON object with its format number.

A file of a newer format is refused, one of an older format is migrated and the old one kept as
`NAME.bak`. Keys that this version does not know are kept and warned about. A bad value is one
sentence with the key, the value and what is allowed. Knows nothing of flags (`config_flags.py`).
"""

from __future__ import annotations

import contextlib
import difflib
import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from pydantic import BaseModel, ValidationError

from engine.core.config import CONFIG_FORMAT, RunConfig
from engine.core.config_mcp import MCP_SERVERS, unwrap_servers
from engine.core.config_words import allowed_values, field_at
from engine.core.errors import ConfigError
from engine.core.files import keep_backup, read_json, write_json

logger = logging.getLogger(__name__)

# A config is a few lines; a larger file is something else (somebody passed the model file).
MAX_CONFIG_BYTES = 1 << 20

# Values of these keys never appear in a message or a log.
SECRET_KEYS = frozenset({"api_keys", "mcp_servers", "upstream", "upstream_key"})

# From format number to the function that makes the data of the next format; none is needed yet.
MIGRATIONS: dict[int, Callable[[dict[str, object]], dict[str, object]]] = {}


def load_config(path: Path) -> RunConfig:
    """The run config in a file, migrated to the current format.

    Relative paths of model files are taken from the folder of the config file.

    Raises:
        ConfigError: not a JSON object, of a newer format, or with a bad value.
        InputError: the file cannot be read.
    """
    data = _migrate(path, _read(path))
    config = parse_config(data, source=str(path))
    files = {"model": config.model, "mtp_file": config.mtp_file}
    relative = {key: file for key, file in files.items() if file and not file.is_absolute()}
    if relative:
        folder = path.resolve().parent
        config = config.model_copy(update={k: folder / file for k, file in relative.items()})
    return config


def parse_config(data: Mapping[str, object], *, source: str) -> RunConfig:
    """Check JSON-ready data strictly (a quoted number is no number) and warn of unknown keys."""
    try:
        checked = {key: value for key, value in data.items() if key != "format"}
        if MCP_SERVERS in checked:
            checked[MCP_SERVERS] = unwrap_servers(checked[MCP_SERVERS])
        config = RunConfig.model_validate_json(json.dumps(checked), strict=True)
    except ValidationError as error:
        raise config_error(error, source) from error
    warn_of_unknown_keys(config, source)
    return config


def warn_of_unknown_keys(config: RunConfig, source: str) -> None:
    """Log one warning for each key that this version does not know."""
    tables: list[tuple[str, BaseModel]] = [
        ("", config),
        ("sampling.", config.sampling),
        ("mcp.", config.mcp),
        *((f"mcp_servers.{name}.", entry) for name, entry in config.mcp_servers.items()),
    ]
    for prefix, table in tables:
        known = sorted(type(table).model_fields)
        for key in table.model_extra or {}:
            near = difflib.get_close_matches(key.replace("-", "_").lower(), known, 1, 0.75)
            hint = f" (is {prefix}{near[0]} meant?)" if near else ""
            logger.warning(
                "%s: the setting %s%s is not known%s; it is ignored", source, prefix, key, hint
            )


def config_error(error: ValidationError, source: str) -> ConfigError:
    """The first problem that pydantic found, as our sentence.

    Args:
        error: what validation raised.
        source: the file's path, or `command line`.
    """
    problem = error.errors(include_url=False)[0]
    location = problem["loc"]
    if not location:  # it could not even be read; the input would be all of it, with its secrets
        return ConfigError(
            f"{source} holds half a surrogate pair (\\ud800 or so), which is no text."
        )
    key = ".".join(part for part in location if isinstance(part, str))
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
    write_json(path, {**data, "format": CONFIG_FORMAT})


def _read(path: Path) -> dict[str, object]:
    with contextlib.suppress(OSError):
        if path.stat().st_size > MAX_CONFIG_BYTES:
            raise ConfigError(
                f"The config file {path} is larger than 1 MiB, so it is not a run config. "
                "A model file goes after --model.",
                params={"path": str(path)},
            )
    data = read_json(path, CONFIG_FORMAT)
    data.setdefault("format", CONFIG_FORMAT)  # a file written by hand may leave it out
    return data


def _migrate(path: Path, data: dict[str, object]) -> dict[str, object]:
    found = data["format"]
    if not isinstance(found, int) or found == CONFIG_FORMAT:
        return data
    keep_backup(path)
    for number in range(found, CONFIG_FORMAT):
        data = {**MIGRATIONS[number](data), "format": number + 1}
    write_json(path, data)
    logger.info("%s was migrated from format %d; the old file is kept as .bak", path, found)
    return data


def _shorten(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
