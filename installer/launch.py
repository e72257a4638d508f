"""Starts what is installed: the app for a person with a screen, else the server itself.

The started program lives on when the installer ends; its output goes to a log in the data folder.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from engine.core.catalog_file import PROGRAM_DIR
from engine.core.config_file import load_config
from engine.core.errors import ResourceError
from engine.core.login_start import AT_LOGIN
from engine.core.settings import load_settings
from installer.child import child_environment, detached_flags

_APP_FILE = PROGRAM_DIR / "app" / "__main__.py"
_POLL_S = 0.3


@dataclass(frozen=True, slots=True)
class Started:
    """What was started.

    Attributes:
        url: the chat page's address.
        log: where its output goes.
        process: its process.
    """

    url: str
    log: Path
    process: subprocess.Popen[bytes]


def chat_url(config_path: Path) -> str:
    """Address of the chat page of a run config.

    Raises:
        EngineError: the config cannot be read.
    """
    config = load_config(config_path)
    host = "127.0.0.1" if config.host in ("0.0.0.0", "::", "") else config.host  # noqa: S104  # compared
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{config.port}"


def has_app() -> bool:
    """Whether the app is part of this version."""
    return _APP_FILE.is_file()


def server_command(config_path: Path) -> list[str]:
    """The command that runs the server alone, which a terminal can do too."""
    return [sys.executable, "-m", "engine", "serve", "--config", str(config_path)]


def start_command(config_path: Path, *, is_at_login: bool = False) -> list[str]:
    """The command that runs what is installed; at login without a window."""
    if has_app():
        return [sys.executable, "-m", "app", *([AT_LOGIN] if is_at_login else [])]
    return server_command(config_path)


def start(config_path: Path, *, is_at_login: bool = False) -> Started:
    """Start it and return at once.

    Args:
        config_path: of the model, for its address.
        is_at_login: the person has just logged in and asked for nothing yet.

    Raises:
        ResourceError: it cannot be started.
        EngineError: the config cannot be read.
    """
    url = chat_url(config_path)
    log = load_settings().data_dir / "logs" / "start.log"
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            process = subprocess.Popen(
                start_command(config_path, is_at_login=is_at_login),
                cwd=PROGRAM_DIR,
                env=child_environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                creationflags=detached_flags(),
                start_new_session=sys.platform != "win32",
            )
    except OSError as error:
        raise ResourceError(
            f"Stratum cannot be started ({error.strerror or error}). Run setup again.",
            code="child_not_started",
            params={"reason": error.strerror or str(error)},
        ) from error
    return Started(url, log, process)


def wait_until_ready(started: Started, timeout_s: float) -> bool:
    """Wait until the server answers; False when it ended or the time is over."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if is_answering(started.url):
            return True
        # Another copy that runs already ends a second one with 0: then the page answers.
        if started.process.poll() not in (None, 0):
            return False
        time.sleep(_POLL_S)
    return False


def stays(started: Started, seconds: float = 3.0) -> bool:
    """Whether the app has not ended with an error in its first seconds; it says itself what comes then."""
    try:
        return started.process.wait(seconds) == 0  # another one runs, and was told to show itself
    except subprocess.TimeoutExpired:
        return True


def is_answering(url: str) -> bool:
    """Whether a server of ours answers there."""
    try:
        # No proxy: this PC is asked.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{url}/health", timeout=2) as answer:
            content = json.loads(answer.read(65536))
    except urllib.error.HTTPError as error:
        with error:
            return error.code == 503  # it is there, and loads the model
    except (OSError, ValueError):
        return False
    return isinstance(content, dict)


def last_words(log: Path, most_bytes: int = 4096) -> str:
    """The last line of a log; empty when there is none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - most_bytes))
            lines = file.read().decode("utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
