"""The diagnostics bundle: versions, what works here, the machine, the config without secrets, the logs' ends.

    bundle = collect(context_parts, task)
    bundle.members            # shown to the person before anything is written
    bundle.save(path)

Never in it: keys, tokens, chats, prompts, names of the person or the PC. Everything goes through one
`Redactor` as a text at the very end, so that nothing can slip past it. Blocks: off the main thread.
"""

from __future__ import annotations

import io
import json
import os
import platform
import re
import sys
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path

import PySide6

from app.background import Task
from app.model_report import run_engine
from app.settings.config_draft import read_config_object
from app.settings.redact import Redactor, mask_config, secrets_of_config
from engine import __version__
from engine.core.errors import EngineError
from engine.core.files import write_atomically
from engine.core.note import as_plain
from engine.core.survey import survey

_LOG_LINES = 400
_LOG_BYTES = 400_000
_LINE_CHARS = 400
_DOCTOR_S = 900.0  # a card whose kernels are compiled for the first time takes minutes on few cores
# Packages whose version matters when something does not work.
_PACKAGES = frozenset(
    {
        *("numpy", "pyside6-essentials", "shiboken6", "pydantic", "fastapi", "uvicorn", "psutil"),
        *("requests", "tokenizers", "llguidance", "mcp", "pyqtgraph", "segno", "pypdf"),
        *("cupy-cuda12x", "nvidia-ml-py", "huggingface-hub", "jinja2", "httpx2", "platformdirs"),
    }
)
# Our own lines, with or without a time; of tracebacks only where they were, not what was there.
_LOG_LINE = re.compile(
    r"^(?:\[?[\d:., TZ+-]{8,}\]?\s+)?(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)[:\s]\s*(?:engine|app|installer|uvicorn|asyncio|mcp)\b"
)
_TRACE_LINE = re.compile(r'^(?:Traceback \(most recent call last\):|\s+File "[^"]+", line \d+)')
# Names of variables that change how Stratum works; those that hold keys say only that they are set.
_VARIABLES = re.compile(r"^(?:STRATUM_|HF_ENDPOINT|HF_HOME|HF_HUB_|CUDA_VISIBLE|QT_)")


@dataclass(frozen=True, slots=True)
class Member:
    """One file of the bundle."""

    name: str
    text: str

    @property
    def num_bytes(self) -> int:
        """Its size."""
        return len(self.text.encode())


@dataclass(frozen=True, slots=True)
class Bundle:
    """All of it."""

    members: tuple[Member, ...]

    def save(self, path: Path) -> None:
        """Write the zip.

        Raises:
            ResourceError: it cannot be written.
        """
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for member in self.members:
                # A fixed time: the zip says nothing that its files do not say.
                info = zipfile.ZipInfo(member.name, (1980, 1, 1, 0, 0, 0))
                info.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(info, member.text)
        write_atomically(path, buffer.getvalue())


@dataclass(frozen=True, slots=True)
class Sources:
    """Where to look.

    Attributes:
        config_path: the active run config, if there is one.
        logs: log files.
        facts: name and value pairs of "About".
    """

    data_dir: Path
    config_path: Path | None
    logs: tuple[Path, ...]
    facts: tuple[tuple[str, str], ...] = ()


def collect(sources: Sources, task: Task[str], redactor: Redactor | None = None) -> Bundle:
    """Look at everything.

    Args:
        sources: where to look.
        task: reports the name of what is being looked at.
        redactor: in place of this PC's.

    Raises:
        OperationCancelled: that was asked for.
    """
    config = _config(sources.config_path)
    secrets = secrets_of_config(config)
    secrets |= _secrets_of_environment()
    redactor = redactor or Redactor.of_this_pc(secrets)
    members: list[Member] = []

    def add(name: str, content: object) -> None:
        text = content if isinstance(content, str) else _json(content)
        members.append(Member(name, redactor.clean(text)))

    for name, make in (
        ("versions.json", lambda: versions(sources.facts)),
        ("doctor.json", doctor),
        ("machine.json", lambda: machine(sources.data_dir)),
        ("config.json", lambda: mask_config(config)),
        ("environment.json", environment),
    ):
        task.check()
        task.report(name)
        add(name, make())
    for path in sources.logs:
        task.check()
        task.report(path.name)
        lines = last_lines(path)
        if lines:
            add(f"logs/{path.name}", "\n".join(lines) + "\n")
    return Bundle(tuple(members))


def versions(facts: Iterable[tuple[str, str]]) -> dict[str, object]:
    """Versions of everything that matters."""
    packages = {
        distribution.metadata["Name"].lower(): distribution.version
        for distribution in distributions()
        if distribution.metadata["Name"] and distribution.metadata["Name"].lower() in _PACKAGES
    }
    return {
        **dict(facts),
        "stratum": __version__,
        "python": sys.version,
        "qt": PySide6.__version__,
        "system": f"{platform.system()} {platform.release()} {platform.version()}",
        "packages": dict(sorted(packages.items())),
    }


def doctor() -> object:
    """What `engine doctor --json` says."""
    try:
        _status, output, errors = run_engine(["doctor", "--json"], _DOCTOR_S)
        return json.loads(output) if output.strip() else {"failed": errors[-2000:]}
    except (EngineError, ValueError) as error:
        return {"failed": str(error)}


def machine(data_dir: Path) -> object:
    """What the wizard sees of this PC, without asking the network."""
    return as_plain(survey(data_dir, endpoints=()))


def environment() -> dict[str, str]:
    """Variables that change how Stratum works."""
    return {
        name: "(set)" if _is_secret(name) else value
        for name, value in sorted(os.environ.items())
        if _VARIABLES.match(name)
    }


def last_lines(path: Path) -> list[str]:
    """The last lines of a log that are messages of programs; anything else is left out."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _LOG_BYTES))
            text = file.read(_LOG_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return []
    kept = [
        line[:_LINE_CHARS]
        for line in text.splitlines()
        if _LOG_LINE.match(line) or _TRACE_LINE.match(line)
    ]
    return kept[-_LOG_LINES:]


def _config(path: Path | None) -> Mapping[str, object]:
    try:
        return read_config_object(path) if path is not None else {}
    except EngineError as error:
        return {"unreadable": error.message}


def _secrets_of_environment() -> set[str]:
    found: set[str] = set()
    for name, value in os.environ.items():
        if _is_secret(name):
            found |= {value, *value.split(",")}
    return found


def _is_secret(name: str) -> bool:
    return any(word in name.upper() for word in ("KEY", "TOKEN", "SECRET", "PASSW"))


def _json(content: object) -> str:
    return json.dumps(content, ensure_ascii=False, indent=2, default=str) + "\n"
