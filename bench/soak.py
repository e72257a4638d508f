"""Soaks a server: thousands of random requests, or a worker that is killed again and again.

    python -m bench.soak                        # 10,000 requests to the bundled model, then 50 kills
    python -m bench.soak --requests 500 --kills 0

Ends with status 1 when something leaked, failed or stayed behind. A short run of both is among the slow
tests (tests/soak).
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.server_process import ServerError, ServerProcess
from bench.soak_client import Protocol, ask, get_status, post_bytes
from bench.soak_kills import kill_again_and_again
from bench.soak_traffic import Seen, Traffic
from engine.core.process_memory import private_bytes

MIB = 1 << 20
NUM_PARTS = 20
CONCURRENCY = 22  # more than run and wait together, so that some are turned away
IDLE_S = 120.0


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a server holds while it does nothing."""

    memory_mib: float
    files: int
    threads: int
    connections: int

    @classmethod
    def of(cls, processes: Sequence[psutil.Process]) -> Footprint:
        """Of all processes together."""
        return cls(
            sum(private_bytes(process.pid) for process in processes) / MIB,
            sum(_num_files(process) for process in processes),
            sum(process.num_threads() for process in processes),
            sum(len(process.net_connections("tcp")) for process in processes),
        )


@dataclass(frozen=True, slots=True)
class SoakResult:
    """A run's outcome; `footprints` are taken idle, after each part of it."""

    seen: Seen
    footprints: tuple[Footprint, ...]
    seconds: float

    @property
    def memory_growth(self) -> float:
        """The last quarter's memory over the second quarter's; 1 is flat.

        The first quarter does not count: caches fill up to their limits there.
        """
        memory = [footprint.memory_mib for footprint in self.footprints]
        quarter = max(len(memory) // 4, 1)
        early = memory[quarter : 2 * quarter] or memory[:1]
        return statistics.median(memory[-quarter:]) / statistics.median(early)

    def faults(self, max_growth: float) -> list[str]:
        """Sentences about everything that is not as it must be."""
        found = list(self.seen.faults)
        if self.memory_growth > max_growth:
            found.append(f"memory grew to {self.memory_growth:.3f} times what it was")
        first, last = self.footprints[len(self.footprints) // 4], self.footprints[-1]
        for name in ("files", "threads", "connections"):
            before, after = getattr(first, name), getattr(last, name)
            if after > before + 2:
                found.append(f"{name} grew from {before} to {after}")
        return found


def soak(server: ServerProcess, num_requests: int, seed: int, num_parts: int) -> SoakResult:
    """Make requests in parts, and look at the server while it rests between them."""
    began_at = time.perf_counter()
    traffic = Traffic(server.port, seed)
    footprints = []
    for part in range(num_parts):
        share = num_requests * (part + 1) // num_parts - num_requests * part // num_parts
        try:
            asyncio.run(traffic.run(share, CONCURRENCY))
            asyncio.run(check_rest(server.port, traffic.seen))
        except ConnectionRefusedError as error:
            raise ServerError(
                f"Nobody listens on port {server.port} after {part} of {num_parts} parts; the server "
                f"{'runs' if server.status is None else f'ended with status {server.status}'}."
            ) from error
        footprints.append(Footprint.of(server.processes()))
    return SoakResult(traffic.seen, tuple(footprints), time.perf_counter() - began_at)


async def check_rest(port: int, seen: Seen) -> None:
    """Nothing runs or waits after a while, and each protocol is answered."""
    until = time.monotonic() + IDLE_S
    while not (status := await get_status(port)).is_idle:
        if time.monotonic() > until:
            seen.blame(f"requests stayed behind: {status}")
            break
        await asyncio.sleep(0.05)
    if status.restarts:
        seen.blame(f"the worker was started again {status.restarts} times")
    for protocol in Protocol:
        reply = await ask(port, post_bytes(protocol.path, protocol.body("hello", 4, stream=False)))
        if reply.status != 200:
            seen.blame(f"afterwards {protocol.name} was answered {reply.status}: {reply.text}")


def _num_files(process: psutil.Process) -> int:
    return int(process.num_handles() if sys.platform == "win32" else process.num_fds())


def serve_command(*flags: str) -> list[str]:
    """The words that start a server of this checkout."""
    return [sys.executable, "-m", "engine", "serve", "--port", "{port}", *flags]


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--max-growth", type=float, default=1.05)
    parser.add_argument("--log", type=Path, default=None, help="folder for the servers' logs")
    words = parser.parse_args()
    folder = words.log or Path(tempfile.mkdtemp(prefix="stratum-soak-"))
    faults: list[str] = []
    if words.requests:
        command = serve_command("--session-cache-mib", "64")
        with ServerProcess("Stratum", command, folder / "soak.log") as server:
            result = soak(server, words.requests, words.seed, NUM_PARTS)
        faults += result.faults(words.max_growth)
        print(f"{words.requests} requests in {result.seconds:.0f} s: {dict(result.seen.kinds)}")
        print(f"answers by status: {dict(result.seen.statuses)}")
        print(f"memory grew to {result.memory_growth:.3f} times; the last: {result.footprints[-1]}")
        print("memory after each part:", *(f"{one.memory_mib:.1f}" for one in result.footprints))
    if words.kills:
        result_of_kills = kill_again_and_again(words.kills, folder)
        faults += result_of_kills.faults
        print(f"{words.kills} kills: {result_of_kills}")
    for fault in faults:
        print("FAULT:", fault)
    print(f"logs: {folder}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
