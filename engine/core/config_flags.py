"""Run config keys as command-line flags: `kv_type` is `--kv-type f16`.

Booleans are `--fit-max-tokens` / `--no-fit-max-tokens`, lists are comma-separated, tables are JSON.
A flag wins over the config file, which wins over the default.
"""

from __future__ import annotations

import argparse
import typing
from pathlib import Path

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from engine.core.config import OpsName, RunConfig
from engine.core.config_file import config_error, load_config, warn_of_unknown_keys
from engine.core.config_mcp import MCP_SERVERS, unwrap_servers
from engine.core.config_words import allowed_values, is_optional
from engine.core.errors import ConfigError
from engine.core.strict_json import BadJsonError, parse_json

SOURCE = "command line"
NOT_FLAGS = frozenset({"format"})
TABLES = frozenset({"sampling", "mcp", "mcp_servers"})


def flag_name(key: str) -> str:
    """The flag of a key: `max_body_mib` is `--max-body-mib`."""
    return "--" + key.replace("_", "-")


def add_config_flags(parser: argparse.ArgumentParser) -> None:
    """Add `--config FILE` and one flag for each run config key; none has a default of its own."""
    group = parser.add_argument_group("settings", "each is also a key of the config file")
    group.add_argument("--config", type=Path, metavar="FILE", help="run config to start from")
    for key, field in RunConfig.model_fields.items():
        if key in NOT_FLAGS:
            continue
        text = (field.description or "").replace("%", "%%")
        if field.annotation is bool:
            group.add_argument(
                flag_name(key), action=argparse.BooleanOptionalAction, default=None, help=text
            )
        else:
            group.add_argument(flag_name(key), default=None, metavar=_metavar(field), help=text)


def config_from_arguments(arguments: argparse.Namespace) -> RunConfig:
    """The config file named by `--config`, if any, with the flags laid over it.

    Raises:
        ConfigError: an unreadable file or a bad value, with the key or flag in the sentence, or two
            that exclude each other.
    """
    return _without_card_if_reproducible(_merged(arguments))


def _without_card_if_reproducible(config: RunConfig) -> RunConfig:
    """With `reproducible` the processor computes, whose results depend on nothing else."""
    if not config.reproducible or config.ops in {OpsName.HOST, OpsName.REFERENCE}:
        return config
    if config.ops is OpsName.CUDA:
        raise ConfigError(
            "The settings reproducible and ops cuda exclude each other: what a graphics card computes depends "
            "on its cache. Set ops to auto, or reproducible to false.",
            params={"key": "reproducible"},
        )
    return config.model_copy(update={"ops": OpsName.HOST})


def _merged(arguments: argparse.Namespace) -> RunConfig:
    path = getattr(arguments, "config", None)
    base = load_config(Path(path)) if path is not None else RunConfig()
    given: dict[str, object] = {}
    for key, field in RunConfig.model_fields.items():
        value = getattr(arguments, key, None)
        if value is not None and key not in NOT_FLAGS:
            given[key] = _flag_value(key, field, value)
    if not given:
        return base
    merged = {**{key: getattr(base, key) for key in base.model_fields_set}, **given}
    merged |= base.model_extra or {}
    try:
        config = RunConfig.model_validate(merged)
    except ValidationError as error:
        raise config_error(error, SOURCE) from error
    if given.keys() & TABLES:  # the file's keys were looked at when it was read
        warn_of_unknown_keys(config, SOURCE)
    return config


def _flag_value(key: str, field: FieldInfo, value: object) -> object:
    if not isinstance(value, str):
        return value
    if is_optional(field) and value == "":
        return None  # `--context ""` puts the default back over the file's value
    if typing.get_origin(field.annotation) is tuple:
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if _is_table(field):
        try:
            table = parse_json(value)
            return unwrap_servers(table) if key == MCP_SERVERS else table
        except BadJsonError as error:
            raise ConfigError(
                f"{SOURCE}: {flag_name(key)} takes JSON, and this is none ({error}).",
                params={"key": key, "source": SOURCE},
            ) from error
    return value


def _is_table(field: FieldInfo) -> bool:
    annotation = field.annotation
    if typing.get_origin(annotation) is dict:
        return True
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _metavar(field: FieldInfo) -> str:
    words = allowed_values(field)
    if words.startswith("one of "):
        return "{" + words.removeprefix("one of ").replace(", ", ",") + "}"
    if words.startswith("a list"):
        return "A,B,..."
    if words.startswith("a table"):
        return "JSON"
    return {"text": "TEXT", "a path": "FILE"}.get(words, "N")
