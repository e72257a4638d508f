"""`engine serve`: the HTTP server.

The order matters: settings, then the port, then the model file's header, and only then a worker is
started. So whatever is wrong is said before a minute of loading, with exit status 2.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import json
import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from engine.commands import Subparsers
from engine.core.config import RunConfig
from engine.core.config_flags import add_config_flags, config_from_arguments
from engine.core.errors import ConfigError, EngineError, InputError
from engine.core.processor import warn_of_processor
from engine.core.settings import (
    EngineRecord,
    live_engine_record,
    load_settings,
    remove_engine_record,
    write_engine_record,
)
from engine.server.app import make_app
from engine.server.before_load import before_load
from engine.server.front import Front
from engine.server.http_server import HttpServer
from engine.server.listen import PORT_IN_USE, bound_port, open_sockets, outward_address
from engine.server.loading import unload_when_idle
from engine.server.mcp.configured import open_mcp
from engine.server.model_side import ModelSide, open_model_side
from engine.server.queue import RequestQueue
from engine.server.security import MIN_KEY_CHARS, SecurityPolicy
from engine.server.upstream.address import upstream_address
from engine.server.upstream.configured import (
    UPSTREAM_PARALLEL,
    open_upstream,
    upstream_model_side,
)
from engine.worker.card_choice import require_wanted_cards
from engine.worker.client import scripted_command
from engine.worker.messages import Load
from engine.worker.scripted import load_script
from engine.worker.supervisor import WorkerState, WorkerSupervisor

logger = logging.getLogger(__name__)

# Comma-separated keys; out of the command line, which other users of the machine can read.
KEYS_VARIABLE = "STRATUM_API_KEYS"

# "Every address of this machine", and the one of them that the machine itself uses; browsers and Windows
# refuse to open the former.
ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "serve",
        help="run the HTTP server",
        description="Serve a model on http://127.0.0.1:8080/v1 until Ctrl-C.",
        epilog=f"API keys may also be given, comma-separated, in {KEYS_VARIABLE}.",
    )
    parser.add_argument(
        "--script",
        type=Path,
        metavar="FILE",
        help="play a script instead of running a model (docs/how-it-works/scripted-worker.md)",
    )
    add_config_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal comes; then exit status 0. So it is when this server runs already."""
    if not getattr(arguments, "debug", False):
        logging.getLogger("engine").setLevel(logging.INFO)
    config = _with_environment_keys(config_from_arguments(arguments))
    if arguments.script is None and config.upstream is None:
        warn_of_processor(config)
        require_wanted_cards(config)
    if arguments.script is not None and config.upstream is not None:
        raise ConfigError(
            "A script stands for a model on this machine, and the setting upstream for one "
            "elsewhere. Use one of them.",
            params={"key": "upstream"},
        )
    security = SecurityPolicy.from_config(config)
    upstream_address(config)  # a bad one is said before anything is started
    settings = _settings_digest(config, arguments.script)
    ours = _running_server(config.port)
    try:
        sockets = open_sockets(config.host, config.port, owner=_in_words(ours))
    except InputError as error:
        if error.code != PORT_IN_USE or ours is None or ours.settings != settings:
            raise
        url = _url(ours.host, ours.port)
        print(f"Stratum is already running at {url} (process {ours.pid}).")
        return 0
    try:
        model, command = _open_model(config, arguments.script)
        return asyncio.run(_serve(config, security, model, command, sockets, settings))
    finally:
        for listener in sockets:
            listener.close()


async def _serve(
    config: RunConfig,
    security: SecurityPolicy,
    model: ModelSide,
    command: list[str] | None,
    sockets: list[socket.socket],
    settings: str,
) -> int:
    worker = WorkerSupervisor(
        Load(config.model_dump(mode="json")),
        command,
        on_change=lambda state: _note_state(front, state),
        before_load=lambda: before_load(config),
    )
    front = Front(
        config=config,
        model=model,
        worker=worker,
        security=security,
        queue=RequestQueue(
            config.parallel if config.upstream is None else UPSTREAM_PARALLEL,
            config.queue_max,
            config.queue_timeout_s,
        ),
        mcp=open_mcp(config),
        upstream=open_upstream(config),
    )
    port = bound_port(sockets[0])
    server = HttpServer(make_app(front), front, on_started=lambda: _announce(config, port, model))
    record = EngineRecord(
        pid=os.getpid(), port=port, host=config.host, nonce=front.instance, settings=settings
    )
    with _recorded(record):
        if not config.lazy_load and front.upstream is None:
            worker.start_loading()
        idle: asyncio.Task[None] | None = None
        if config.idle_unload_s:
            idle = asyncio.create_task(unload_when_idle(front, config.idle_unload_s))
        if front.mcp is not None:
            front.mcp.start()
        try:
            await server.run_on(sockets)
        finally:
            if idle is not None:
                idle.cancel()
            if front.mcp is not None:
                await front.mcp.close()
            if front.upstream is not None:
                await front.upstream.close()
            await worker.close()
    return 0


def _open_model(config: RunConfig, script_path: Path | None) -> tuple[ModelSide, list[str] | None]:
    """The model's text side and the worker's command (None: the real worker)."""
    if config.upstream is not None:
        return upstream_model_side(config), None
    if script_path is None:
        return open_model_side(config, config.model_path, None), None
    script = load_script(script_path)
    path = config.model if config.model is not None else script.model_path
    return open_model_side(config, path, script.context), scripted_command(script_path)


def _with_environment_keys(config: RunConfig) -> RunConfig:
    """Add the API keys that the environment holds."""
    keys = tuple(
        key for part in os.environ.get(KEYS_VARIABLE, "").split(",") if (key := part.strip())
    )
    if any(len(key) < MIN_KEY_CHARS for key in keys):
        raise ConfigError(
            f"A key in {KEYS_VARIABLE} is shorter than {MIN_KEY_CHARS} characters. Use a longer one.",
            params={"key": KEYS_VARIABLE},
        )
    return config.model_copy(update={"api_keys": (*config.api_keys, *keys)}) if keys else config


def _settings_digest(config: RunConfig, script_path: Path | None) -> str:
    """Equal for two starts that would serve the same in the same way.

    It stands in `engine.json`, so keys go into it through a slow hash: without them a start with a key
    would be told that "it" runs already, while what runs is a server that asks for none.
    """
    values = config.model_dump(mode="json", exclude={"api_keys", "upstream_key"})
    values["model"] = str(config.model_path.resolve())
    values["script"] = str(script_path.resolve()) if script_path is not None else None
    content = json.dumps(values, sort_keys=True).encode()
    upstream = upstream_address(config)
    keys = [sorted(set(config.api_keys)), upstream.key if upstream is not None else None]
    if any(keys):
        content = hashlib.scrypt(json.dumps(keys).encode(), salt=content, n=1 << 14, r=8, p=1)
    return hashlib.sha256(content).hexdigest()


def _running_server(port: int) -> EngineRecord | None:
    """The server of ours that has the port, if there is one."""
    with contextlib.suppress(EngineError):
        record = live_engine_record(load_settings().data_dir)
        if record is not None and record.port == port:
            return record
    return None


def _in_words(record: EngineRecord | None) -> str | None:
    """Who has the port, when it is a server of ours."""
    if record is None:
        return None
    return f"Stratum, which is already running with other settings (process {record.pid})"


@contextlib.contextmanager
def _recorded(record: EngineRecord) -> Iterator[None]:
    """Say in `engine.json` that the server on this port is ours, while it runs.

    Of two servers on one data folder the first is recorded: the app may have started it.
    """
    data_dir: Path | None = None
    try:
        folder = load_settings().data_dir
        other = live_engine_record(folder)
        if other is None:
            write_engine_record(folder, record)
            data_dir = folder
        else:
            logger.info(
                "engine.json keeps naming the server on port %d (process %d)", other.port, other.pid
            )
    except EngineError as error:  # the server itself works without it
        logger.warning("this server is not recorded in engine.json: %s", error)
    try:
        yield
    finally:
        if data_dir is not None:
            remove_engine_record(data_dir, record.nonce)


def _announce(config: RunConfig, port: int, model: ModelSide) -> None:
    address = upstream_address(config)
    if address is not None:
        what = f"passes requests on to {address.shown}"
    elif config.lazy_load:
        what = f"loads {model.name} with the first request"
    else:
        what = f"loads {model.name}"
    print(f"Stratum is ready at {_url(config.host, port)} and {what}. Ctrl-C stops it.", flush=True)
    if config.host.strip("[]") in ANY_ADDRESS:
        family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
        own = outward_address(family)
        where = f": {_url(own, port)}" if own is not None else ""
        print(f"Other machines reach it by this one's name or address{where}", flush=True)


def _url(host: str, port: int) -> str:
    host = host.strip("[]")
    host = ANY_ADDRESS.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _note_state(front: Front, state: WorkerState) -> None:
    logger.info("model: %s", state.value)
    front.note_state(state)
