"""Before a start: the run config, an engine of ours that runs already, and who has the port.

Blocks (files, requests), so it runs off the main thread. Knows nothing of states.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from app.engine_http import EngineAddress, EngineHttp, EngineHttpError
from app.engine_status import parse_status
from app.supervisor.events import Running
from app.supervisor.reasons import reason_of_error
from app.supervisor.state import Reason, ReasonCode
from engine.core.config import RunConfig
from engine.core.config_file import load_config
from engine.core.errors import EngineError, ParameterValue
from engine.core.settings import live_engine_record

# An engine that has just taken its port needs some time until it answers there.
ADOPTION_PATIENCE_S = 60.0
ADOPTION_PAUSE_S = 0.2
ANSWER_S = 3.0
PORTS_TO_TRY = 50
_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104  # compared


@dataclass(frozen=True, slots=True)
class Plan:
    """What a start will be: the config, and the address where the engine will answer.

    Attributes:
        api_key: the first key of the config; None when it asks for none.
    """

    config_path: Path
    config: RunConfig
    api_key: str | None


class CannotStartError(Exception):
    """There is a reason not to start."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.code.value)
        self.reason = reason


def read_plan(config_path: Path | None, api_keys: str = "") -> Plan:
    """The plan for a run config.

    Args:
        config_path: None when no model was chosen yet.
        api_keys: comma-separated, as the engine takes them from its environment.

    Raises:
        CannotStartError: there is none, or it cannot be used.
    """
    if config_path is None:
        raise CannotStartError(Reason(ReasonCode.NO_MODEL))
    if not config_path.is_file():
        raise CannotStartError(Reason(ReasonCode.CONFIG_MISSING, {"path": str(config_path)}))
    try:
        config = load_config(config_path)
    except EngineError as error:
        found = reason_of_error(error)
        params = {"path": str(config_path), **found.params}
        raise CannotStartError(
            Reason(ReasonCode.CONFIG_BROKEN, params, found.detail, found.engine_code)
        ) from error
    keys = [*config.api_keys, *(key.strip() for key in api_keys.split(",") if key.strip())]
    return Plan(config_path, config, keys[0] if keys else None)


def base_url(host: str, port: int) -> str:
    """The address by which this machine reaches an engine that listens on a host.

    >>> base_url("0.0.0.0", 8080), base_url("::1", 80)
    ('http://127.0.0.1:8080', 'http://[::1]:80')
    """
    name = host.strip("[]")
    name = _ANY_ADDRESS.get(name, name)
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


def find_running(data_dir: Path, api_key: str | None) -> Running | None:
    """The engine of ours that runs on a data folder, proved by the nonce that it echoes."""
    record = live_engine_record(data_dir)
    if record is None:
        return None
    url = base_url(record.host, record.port)
    http = EngineHttp(EngineAddress(url, api_key))
    try:
        status = parse_status(http.get("/status", read_timeout_s=ANSWER_S))
    except EngineHttpError:
        return None
    finally:
        http.close()
    if status is None or status.instance != record.nonce:
        return None
    return Running(record.pid, url, record.nonce)


def wait_for_running(
    plan: Plan, data_dir: Path, is_wanted: Callable[[], bool], patience_s: float
) -> Running | None:
    """The engine of ours that has the port, or will soon answer there; None when a stranger has it."""
    deadline = time.monotonic() + patience_s
    while is_wanted():
        running = find_running(data_dir, plan.api_key)
        if running is not None:
            return running
        owner = port_owner(plan.config.port)
        if owner is None or not _is_engine(owner) or time.monotonic() > deadline:
            return None
        if _answers(plan):  # it has written its record before: what it is now it stays
            return find_running(data_dir, plan.api_key)
        time.sleep(ADOPTION_PAUSE_S)
    return None


def port_in_use(plan: Plan) -> Reason:
    """The reason, with who has the port and another one to offer."""
    port = plan.config.port
    params: dict[str, ParameterValue] = {"port": port}
    owner = port_owner(port)
    if owner is not None:
        params["pid"] = owner.pid
        with contextlib.suppress(psutil.Error):
            params["owner"] = owner.name()
    offered = free_port(plan.config.host, port)
    if offered is not None:
        params["offered"] = offered
    return Reason(ReasonCode.PORT_IN_USE, params, engine_code="port_in_use")


def port_is_free(host: str, port: int) -> bool:
    """Whether a server could listen there now (and on ::1, as the engine does for 127.0.0.1)."""
    name = host.strip("[]")
    if name.lower() == "localhost":
        name = "127.0.0.1"
    family = socket.AF_INET6 if ":" in name else socket.AF_INET
    if not _can_bind(family, name, port):
        return False
    return name != "127.0.0.1" or not socket.has_ipv6 or _can_bind(socket.AF_INET6, "::1", port)


def free_port(host: str, port: int) -> int | None:
    """The next port that is free; None when none of the next ones is."""
    for candidate in range(port + 1, min(port + 1 + PORTS_TO_TRY, 65536)):
        if port_is_free(host, candidate):
            return candidate
    return None


def port_owner(port: int) -> psutil.Process | None:
    """Who listens on a port, as far as the system tells us."""
    try:
        connections = psutil.net_connections(kind="tcp")
    except (psutil.Error, OSError):
        return None
    for connection in connections:
        is_listener = connection.status == psutil.CONN_LISTEN and connection.pid is not None
        if is_listener and connection.laddr and connection.laddr.port == port:
            with contextlib.suppress(psutil.Error):
                return psutil.Process(connection.pid)
    return None


def _answers(plan: Plan) -> bool:
    """Whether a server answers on the plan's port, whatever it says."""
    http = EngineHttp(EngineAddress(base_url(plan.config.host, plan.config.port)))
    try:
        http.get("/health", read_timeout_s=ANSWER_S)
    except EngineHttpError as error:
        return error.status > 0
    finally:
        http.close()
    return True


def _is_engine(process: psutil.Process) -> bool:
    try:
        words = process.cmdline()
    except psutil.Error:
        return False
    return "engine" in words and "serve" in words


def _can_bind(family: socket.AddressFamily, name: str, port: int) -> bool:
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            if sys.platform == "win32":
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
            else:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            probe.bind((name, port))
            probe.listen(1)
    except OSError as error:
        # Without IPv6 nobody else can have the address either.
        return family == socket.AF_INET6 and name == "::1" and not _is_taken(error)
    return True


def _is_taken(error: OSError) -> bool:
    return error.errno in {errno.EADDRINUSE, errno.EACCES, getattr(errno, "WSAEADDRINUSE", 0)}
