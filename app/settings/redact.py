"""Takes out of a text what must not leave this PC: keys, tokens, the person's name in paths, the PC's name.

    redactor = Redactor.of_this_pc(secrets)
    redactor.clean("/home/anna/models: Bearer sk-...")      # "~/models: Bearer (hidden)"

Known secrets are replaced wherever they stand; what looks like one is replaced too.
"""

from __future__ import annotations

import getpass
import os
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

HIDDEN = "(hidden)"
_USER = "(user)"
_PC = "(pc)"
_LEAST_SECRET = 6  # shorter values are words such as "true"
_LEAST_NAME = 3

# What looks like a key, whoever made it.
_LIKE_A_KEY = re.compile(
    r"""(?x)
    \b(?:sk|hf|ghp|gho|github_pat|xox[bap]|pk|rk|glpat)[-_][A-Za-z0-9_\-]{8,}
    | (?i:\bbearer\s+)[^\s"',;]+
    | (?i:\b(?:api[-_]?key|x-api-key|token|secret|password|passwd|authorization)\b["']?\s*[:=]\s*["']?)(?i:bearer\s+|basic\s+)?[^\s"',;&}]+
    """
)
_SECRET_NAME = re.compile(r"key|token|secret|passw|credential|auth", re.IGNORECASE)
_URL_LOGIN = re.compile(r"(?<=://)[^/\s@]+@")
# Home folders of anybody: the person may have several accounts, or have moved.
_HOMES = re.compile(r"(?i)((?:[a-z]:)?[\\/]+(?:users|home)[\\/]+)([^\\/\s\"':,;]+)")
_PUBLIC = frozenset({"public", "default", "all users"})


@dataclass(frozen=True, slots=True)
class Redactor:
    """What is known to be private.

    Attributes:
        secrets: values, longest first.
        homes: the person's home folder in its spellings.
        names: the person's name on this PC, and the PC's own, with what stands for them.
    """

    secrets: tuple[str, ...]
    homes: tuple[str, ...]
    names: tuple[tuple[str, str], ...]

    @classmethod
    def of_this_pc(cls, secrets: Iterable[str]) -> Redactor:
        """With this person's names."""
        home = str(Path.home())
        names = [(_user_name(), _USER), (Path.home().name, _USER), (socket.gethostname(), _PC)]
        return cls.of(secrets, (home,), names)

    @classmethod
    def of(
        cls, secrets: Iterable[str], homes: Iterable[str], names: Iterable[tuple[str, str]]
    ) -> Redactor:
        """With the names that are given."""
        found = {secret for secret in secrets if len(secret) >= _LEAST_SECRET}
        spelled: set[str] = set()
        for home in homes:
            if len(home) > 1:
                spelled |= {home, home.replace("\\", "/"), home.replace("\\", "\\\\")}
        return cls(
            tuple(sorted(found, key=len, reverse=True)),
            tuple(sorted(spelled, key=len, reverse=True)),
            tuple((name, word) for name, word in names if len(name) >= _LEAST_NAME),
        )

    def clean(self, text: str) -> str:
        """The text without them."""
        for secret in self.secrets:
            text = text.replace(secret, HIDDEN)
        for home in self.homes:
            text = text.replace(home, "~")
        text = _HOMES.sub(_without_user, text)
        text = _URL_LOGIN.sub(f"{HIDDEN}@", text)
        text = _LIKE_A_KEY.sub(_without_key, text)
        for name, word in self.names:
            # As a whole word only: a user "art" must not change "start".
            text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", word, text)
        return text


def _without_user(match: re.Match[str]) -> str:
    return match[0] if match[2].lower() in _PUBLIC else f"{match[1]}{_USER}"


def _without_key(match: re.Match[str]) -> str:
    text = match[0]
    for mark in ("earer ", "EARER ", "=", ":"):
        head, sign, _rest = text.partition(mark)
        if sign:
            return f"{head}{sign}{HIDDEN}"
    return HIDDEN


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return os.environ.get("USERNAME", "")


def secrets_of_config(content: Mapping[str, object]) -> set[str]:
    """Every value of a run config that may be a secret."""
    found: set[str] = set()
    for key, value in content.items():
        if key == "mcp_servers":
            for entry in _entries(value):
                for name in ("env", "headers", "args"):
                    found |= set(_words(entry.get(name)))
        elif key == "upstream" and isinstance(value, str):
            address = urlsplit(value)
            found |= {address.password or "", address.query}
        elif _SECRET_NAME.search(key):
            found |= set(_words(value))
    return found


def _words(value: object) -> Iterator[str]:
    """All texts in a value, also without the word before them (`Bearer KEY`)."""
    if isinstance(value, str):
        yield value
        yield from value.split()[1:]
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _words(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _words(inner)


def mask_config(content: Mapping[str, object]) -> dict[str, object]:
    """A run config whose secrets are masked; that they are there can still be seen."""
    masked: dict[str, object] = {}
    for key, value in content.items():
        if key == "mcp_servers":
            masked[key] = [_masked_server(entry) for entry in _entries(value)]
        elif key == "before_load" and isinstance(value, list):
            masked[key] = [
                Path(str(part)).name if n == 0 else HIDDEN for n, part in enumerate(value)
            ]
        elif key in ("upstream", "model_id", "aliases") or _SECRET_NAME.search(key):
            masked[key] = _hide(value) if key not in ("model_id", "aliases") else value
        else:
            masked[key] = value
    return masked


def _masked_server(entry: Mapping[str, object]) -> dict[str, object]:
    command = entry.get("command")
    return {
        "command": Path(str(command).replace("\\", "/")).name if command else None,
        "url": HIDDEN if entry.get("url") else None,
        "args": len(list_of(entry.get("args"))),
        "env": len(list_of(entry.get("env"))),
        "headers": len(list_of(entry.get("headers"))),
        "disabled": entry.get("disabled") is True,
    }


def list_of(value: object) -> list[object]:
    """A list or the keys of a table; empty for anything else."""
    return list(value) if isinstance(value, list | tuple | Mapping) else []


def _entries(value: object) -> list[Mapping[str, object]]:
    if not isinstance(value, Mapping):
        return []
    inner = value.get("mcpServers")
    table = inner if isinstance(inner, Mapping) else value
    return [entry for entry in table.values() if isinstance(entry, Mapping)]


def _hide(value: object) -> object:
    if isinstance(value, list | tuple):
        return [HIDDEN for _ in value]
    return HIDDEN if value else value
