"""Kills the worker of a server in mid-answer, again and again.

Each time every running stream must end with its protocol's error event, those who wait must be answered
by the next worker, and the port must never be closed. The worker is a scripted one: what is tried here
is the front, and a script's answers last as long as they are meant to.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bench.server_process import ServerProcess
from bench.soak_client import (
    HOST,
    Protocol,
    ServerStatus,
    ask,
    connection,
    get_status,
    post_bytes,
    read_head,
    read_rest,
)

SCRIPT = {
    "format": 1,
    "context": 32768,
    "answers": [
        {"when": "SLOW", "times": 0, "text": "to and fro " * 3000, "delay_ms": 5},
        {"times": 0, "text": "Hm.</think>\n\nFine."},
    ],
}
ANSWER_TIMEOUT_S = 300.0  # a worker may take a minute to start where all cores are busy


@dataclass(slots=True)
class KillResult:
    """What happened over all kills."""

    kills: int = 0
    streams_ended: int = 0
    waiters_answered: int = 0
    connects: int = 0
    longest_restart_s: float = 0.0
    faults: list[str] = field(default_factory=list)


def kill_again_and_again(num_kills: int, folder: Path) -> KillResult:
    """Start a server, and kill its worker so many times."""
    script = folder / "kills.json"
    script.write_text(json.dumps(SCRIPT), encoding="utf-8")
    words = [sys.executable, "-m", "engine", "serve", "--port", "{port}", "--script", str(script)]
    with ServerProcess("Stratum", words, folder / "kills.log") as server:
        return asyncio.run(_rounds(server, num_kills))


async def _rounds(server: ServerProcess, num_kills: int) -> KillResult:
    result = KillResult()
    knocker = asyncio.create_task(_knock(server.port, result))
    try:
        for _ in range(num_kills):
            await _one_round(server, result)
    finally:
        knocker.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await knocker
    return result


async def _knock(port: int, result: KillResult) -> None:
    """Connect all the time; the port must be open whatever happens to the worker."""
    while True:
        try:
            _reader, writer = await asyncio.open_connection(HOST, port)
            writer.close()
            result.connects += 1
        except OSError as error:
            result.faults.append(f"the port was closed: {error}")
        await asyncio.sleep(0.02)


async def _one_round(server: ServerProcess, result: KillResult) -> None:
    port = server.port
    streams = [asyncio.create_task(_read_stream(port, protocol)) for protocol in Protocol]
    await _until(port, lambda status: sum(n > 3 for n in status.generated) == len(streams))
    waiters = [asyncio.create_task(_wait_for_answer(port, protocol)) for protocol in Protocol]
    await asyncio.sleep(0.1)  # they are in the queue now
    before = time.monotonic()
    for process in server.processes()[1:]:
        process.kill()
    result.kills += 1
    for protocol, stream in zip(Protocol, await asyncio.gather(*streams), strict=True):
        if protocol.has_failed(stream) and protocol.has_ended(stream):
            result.streams_ended += 1
        else:
            result.faults.append(f"a stream of {protocol.name} ended so: ...{stream[-200:]!r}")
    for protocol, problem in zip(Protocol, await asyncio.gather(*waiters), strict=True):
        if problem is None:
            result.waiters_answered += 1
        else:
            result.faults.append(f"a waiting request of {protocol.name}: {problem}")
    result.longest_restart_s = max(result.longest_restart_s, time.monotonic() - before)


async def _read_stream(port: int, protocol: Protocol) -> bytes:
    """A long stream, read until the server ends it."""
    raw = post_bytes(protocol.path, protocol.body("SLOW", 20_000, stream=True))
    async with connection(port, raw) as (reader, _writer):
        _status, headers = await read_head(reader)
        return await asyncio.wait_for(read_rest(reader, headers), ANSWER_TIMEOUT_S)


async def _wait_for_answer(port: int, protocol: Protocol) -> str | None:
    """What is wrong with the answer to a request that had to wait; None when nothing is."""
    raw = post_bytes(protocol.path, protocol.body("hello", 50, stream=False))
    try:
        reply = await asyncio.wait_for(ask(port, raw), ANSWER_TIMEOUT_S)
    except TimeoutError:
        return "no answer came"
    return None if reply.status == 200 else f"{reply.status}: {reply.text}"


async def _until(port: int, condition: Callable[[ServerStatus], bool]) -> None:
    """Wait until the running requests are as wanted."""
    deadline = time.monotonic() + ANSWER_TIMEOUT_S
    while not condition(status := await get_status(port)):
        if time.monotonic() > deadline:
            raise TimeoutError(f"the streams did not begin: {status}")
        await asyncio.sleep(0.05)
