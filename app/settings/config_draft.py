"""A run config file with changes that are not saved yet.

    draft = ConfigDraft(path)
    draft.set("port", 8081)
    if not draft.problems():
        draft.save()                # other keys stay, also those that somebody wrote meanwhile
    draft.undo_save()

The file is read as it is, so keys that this version does not know stay, and a default that stands
nowhere goes on following the program's. What a value may be is `RunConfig`'s business.
"""

from __future__ import annotations

import copy
import ipaddress
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from app.settings.config_fields import ConfigRow, JsonValue, config_rows
from engine.core.config import CONFIG_FORMAT, RunConfig
from engine.core.config_mcp import MCP_SERVERS, unwrap_servers
from engine.core.errors import EngineError, ParameterValue
from engine.core.files import JsonObject, keep_backup, read_json, write_json

# The value of a key that is taken out of the file, so that the default holds.
DEFAULT = object()
_MISSING = object()


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a value cannot be used.

    Attributes:
        key: the setting.
        code: `not_allowed`, `key_needed`, `context_too_long`, ...
        params: the values in its sentence.
    """

    key: str
    code: str
    params: Mapping[str, ParameterValue] = field(default_factory=dict)


class ConfigDraft:
    """One file, and what the person has changed since it was read or saved."""

    def __init__(self, path: Path) -> None:
        """Read the file; one that is not there yet is empty.

        Raises:
            EngineError: it cannot be read, or is of a newer version.
        """
        self.path = path
        self._rows: dict[str, ConfigRow] = {row.key: row for row in config_rows()}
        self._content: JsonObject = {}
        self._changes: dict[str, object] = {}
        self.read_again()

    def read_again(self) -> None:
        """Take over what the file says now; changes stay.

        Raises:
            EngineError: it cannot be read.
        """
        self._content = read_config_object(self.path)

    # -- values ------------------------------------------------------------------------------------

    def value(self, key: str) -> JsonValue:
        """The value that would be saved; the default where the file would say nothing."""
        found = self._changes.get(key, _MISSING)
        if found is _MISSING:
            found = _look_up(self._content, key)
        if found is _MISSING or found is DEFAULT or found is None:
            row = self._rows.get(key)
            return row.default if row is not None else None
        return copy.deepcopy(found)  # type: ignore[return-value]  # it came from JSON

    def is_set(self, key: str) -> bool:
        """Whether the file would name the key."""
        found = self._changes.get(key, _MISSING)
        if found is _MISSING:
            found = _look_up(self._content, key)
        return found is not _MISSING and found is not DEFAULT and found is not None

    def set(self, key: str, value: JsonValue) -> None:
        """Change a setting; None leaves it to the program."""
        saved = _look_up(self._content, key)
        wanted: object = DEFAULT if value is None else value
        is_same = saved is _MISSING if wanted is DEFAULT else saved == wanted
        # True == 1 in Python; in JSON they are two things.
        if is_same and (saved is _MISSING or type(saved) is type(wanted)):
            self._changes.pop(key, None)
        else:
            self._changes[key] = wanted

    def reset(self, key: str) -> None:
        """Leave a setting to the program."""
        self.set(key, None)

    @property
    def changed_keys(self) -> tuple[str, ...]:
        """Keys whose new value is not saved."""
        return tuple(self._changes)

    def discard(self) -> None:
        """Forget the changes."""
        self._changes.clear()

    # -- checking ----------------------------------------------------------------------------------

    def problems(self) -> dict[str, Problem]:
        """What is wrong with the draft, by key; empty when it can be saved."""
        return problems_of(lay_over(self._content, self._changes))

    def config(self) -> RunConfig | None:
        """The draft as a run config; None while something is wrong with it."""
        return config_of(lay_over(self._content, self._changes))

    # -- saving ------------------------------------------------------------------------------------

    def save(self) -> tuple[str, ...]:
        """Write the changes over what the file says now; the keys that were changed.

        Raises:
            ConfigProblemError: the result would be no run config.
            EngineError: the file cannot be written.
        """
        changed = self.changed_keys
        self._content = change_config(self.path, self._changes)
        self._changes.clear()
        return changed

    @property
    def can_undo(self) -> bool:
        """Whether there is a former version of the file."""
        return can_undo(self.path)

    def undo_save(self) -> None:
        """Put the former version of the file back; the present one becomes the former.

        Raises:
            EngineError: there is none, or it cannot be used.
        """
        undo_save(self.path)
        self._changes.clear()
        self.read_again()


class ConfigProblemError(EngineError):
    """Changes that would make a config unusable; nothing was written."""

    code = "config"
    exit_status = 2

    def __init__(self, problem: Problem) -> None:
        super().__init__(
            f"The setting {problem.key} cannot have this value.",
            params={"key": problem.key, **problem.params},
        )
        self.problem = problem


def read_config_object(path: Path) -> JsonObject:
    """What a run config file says, as it stands there; empty when there is no file.

    Raises:
        EngineError: it cannot be read, or is of a newer version.
    """
    return read_json(path, CONFIG_FORMAT) if path.exists() else {"format": CONFIG_FORMAT}


def change_config(path: Path, changes: Mapping[str, object]) -> JsonObject:
    """Set keys of a run config file (`DEFAULT` takes one out); what it says then.

    The former version stays beside it as `.bak`.

    Raises:
        ConfigProblemError: the result would be no run config; the file is untouched.
        EngineError: the file cannot be read or written.
    """
    content = read_config_object(path)
    changed = lay_over(content, changes)
    problems = problems_of(changed)
    if problems:
        raise ConfigProblemError(next(iter(problems.values())))
    if changed == content and path.exists():
        return content
    if path.exists():
        keep_backup(path)
    write_json(path, changed)
    return changed


def can_undo(path: Path) -> bool:
    """Whether a former version lies beside a config, and says something else."""
    backup = _backup(path)
    try:
        return backup.is_file() and backup.read_bytes() != path.read_bytes()
    except OSError:
        return False


def undo_save(path: Path) -> None:
    """Exchange a config and its former version.

    Raises:
        EngineError: the former version cannot be used; nothing is changed then.
    """
    former = read_json(_backup(path), CONFIG_FORMAT)
    problems = problems_of(former)
    if problems:
        raise ConfigProblemError(next(iter(problems.values())))
    present = read_json(path, CONFIG_FORMAT)
    write_json(path, former)
    write_json(_backup(path), present)


def _backup(path: Path) -> Path:
    return path.with_name(path.name + ".bak")


def lay_over(content: Mapping[str, object], changes: Mapping[str, object]) -> JsonObject:
    """The content with changes; a table that has become empty goes too."""
    result: JsonObject = copy.deepcopy(dict(content))
    for key, value in changes.items():
        table, _, name = key.rpartition(".")
        target = result
        if table:
            inner = result.get(table)
            target = dict(inner) if isinstance(inner, dict) else {}
        if value is DEFAULT:
            target.pop(name, None)
        else:
            target[name] = value
        if table:
            result[table] = target
            if not target:
                del result[table]
    return result


def config_of(content: Mapping[str, object]) -> RunConfig | None:
    """The run config that a file's content is; None when it is none."""
    try:
        return _parse(content)
    except ValidationError:
        return None


def problems_of(content: Mapping[str, object]) -> dict[str, Problem]:
    """What is wrong with a config's content, by key, the first problem of each."""
    try:
        config = _parse(content)
    except ValidationError as error:
        found: dict[str, Problem] = {}
        for entry in error.errors(include_url=False, include_input=False):
            parts = [part for part in entry["loc"] if isinstance(part, str)]
            key = ".".join(parts[:2]) if parts else ""
            found.setdefault(key, Problem(key, "not_allowed"))
        return found
    return {problem.key: problem for problem in _unsafe(config)}


def _unsafe(config: RunConfig) -> list[Problem]:
    """What the server would refuse to start with."""
    if config.api_keys:
        return []
    problems = []
    if not is_loopback(config.host):
        problems.append(Problem("host", "key_needed", {"host": config.host}))
    if "*" in config.cors_origins:
        problems.append(Problem("cors_origins", "key_needed"))
    return problems


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address that is listened on."""
    name = host.strip("[]").lower()
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _parse(content: Mapping[str, object]) -> RunConfig:
    checked = {key: value for key, value in content.items() if key != "format"}
    if MCP_SERVERS in checked:
        checked[MCP_SERVERS] = unwrap_servers(checked[MCP_SERVERS])
    return RunConfig.model_validate_json(json.dumps(checked), strict=True)


def _look_up(content: Mapping[str, object], key: str) -> object:
    table, _, name = key.rpartition(".")
    if not table:
        return content.get(name, _MISSING)
    inner = content.get(table)
    return inner.get(name, _MISSING) if isinstance(inner, dict) else _MISSING
