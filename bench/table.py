"""One command for the table of results: every preset made, measured against a peer, deleted.

    python -m bench.table --folder /tmp/models --out bench/results/2026-11-30.md
    python -m bench.table --folder /tmp/models --out x.md --presets q4_k gsq-like --rounds 5

For each preset: a synthetic file, `compare_peers` on it, and `engine bench` for the floor. The rows
are written as they come, so an interrupted run keeps what it has. Needs 12 GB of disk and memory.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import compare_peers, make_synthetic
from bench.compare_peers import Measured
from bench.server_process import ServerError
from engine.core.errors import EngineError
from engine.core.machine import probe_machine

_HEAD = (
    "| preset | bytes a token, MB | floor, tokens/s | decode: ours | peer | ratio | of the floor | "
    "peer | prompt: ours | peer | ratio | private MB: ours | peer |\n"
    "| --- |" + " ---: |" * 12 + "\n"
)


@dataclass(frozen=True, slots=True)
class Floor:
    """What `engine bench` said of a file."""

    bytes_per_token: float
    floor_per_s: float


def main(words: Sequence[str] | None = None) -> int:
    """Measure the presets; 0, or 1 when one of them failed."""
    parser = argparse.ArgumentParser(description="measure every preset against a peer")
    parser.add_argument("--folder", type=Path, required=True, help="where files are made")
    parser.add_argument("--out", type=Path, required=True, help="the results, markdown")
    presets = sorted(make_synthetic.PRESETS)
    parser.add_argument("--presets", nargs="+", choices=presets, default=presets)
    parser.add_argument("--peer", default=compare_peers.LLAMA_CPP, metavar="COMMAND")
    for flag, default in (
        ("--prompt-tokens", 512),
        ("--gen-tokens", 48),
        ("--rounds", 3),
        ("--threads", probe_machine().physical_cores),
        ("--layers", 8),
        ("--experts", 256),
    ):
        parser.add_argument(flag, type=int, default=default, metavar="N")
    arguments = parser.parse_args(words)
    command = words if words is not None else sys.argv[1:]
    with arguments.out.open("w", encoding="utf-8") as out:
        out.write(_introduction(command))
        out.write(_HEAD)
        failed = 0
        for preset in arguments.presets:
            try:
                row = _measure(arguments, preset)
            except (ServerError, EngineError) as error:
                row, failed = f"| {preset} | {str(error).splitlines()[0]} |" + " |" * 11, 1
            out.write(row + "\n")
            out.flush()
            print(row, flush=True)
    return failed


def _introduction(command: Sequence[str]) -> str:
    machine = probe_machine()
    today = datetime.datetime.now(datetime.UTC).date()
    load = f", load average {os.getloadavg()[0]:.1f} before" if hasattr(os, "getloadavg") else ""
    return (
        f"# {today}: synthetic models against a peer\n\n"
        f"{machine.cpu_name}, {machine.physical_cores} cores, "
        f"{machine.ram_total_bytes / 1e9:.1f} GB of memory, {platform.platform()}, "
        f"Python {platform.python_version()}{load}.\n\n"
        f"    python -m bench.table {shlex.join(command)}\n\n"
    )


def _measure(arguments: argparse.Namespace, preset: str) -> str:
    """A row."""
    path = arguments.folder / f"{preset}.gguf"
    make_synthetic.main(
        [
            *("--preset", preset, "--out", str(path)),
            *("--layers", str(arguments.layers), "--experts", str(arguments.experts)),
        ]
    )
    try:
        arguments.model, arguments.ours, arguments.peer_name = path, compare_peers.OURS, "peer"
        ours, peer = compare_peers.compare(arguments)
        floor = _floor(path, arguments.threads)
    finally:
        path.unlink()
    return _row(preset, floor, ours, peer)


def _floor(path: Path, threads: int) -> Floor:
    """In a process of its own, like the servers."""
    report = subprocess.run(
        [
            *(sys.executable, "-m", "engine", "bench", "--json", "--model", str(path)),
            *("--threads", str(threads), "--prompt-tokens", "8", "--gen-tokens", "2"),
            *("--repeat", "1"),
        ],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    if report.returncode:
        raise ServerError(f"engine bench failed: {report.stderr.strip()[-300:]}")
    figures = json.loads(report.stdout)
    return Floor(float(figures["bytes_per_token"]), float(figures["floor_tokens_per_s"]))


def _row(preset: str, floor: Floor, ours: Measured, peer: Measured) -> str:
    decode = [side.median(lambda answer: answer.decode_per_s) for side in (ours, peer)]
    prompt = [side.median(lambda answer: answer.prompt_per_s) for side in (ours, peer)]
    cells = (
        preset,
        f"{floor.bytes_per_token / 1e6:.0f}",
        f"{floor.floor_per_s:.1f}",
        f"{decode[0]:.2f}",
        f"{decode[1]:.2f}",
        f"**{decode[0] / decode[1]:.2f}**",
        f"{decode[0] / floor.floor_per_s:.0%}",
        f"{decode[1] / floor.floor_per_s:.0%}",
        f"{prompt[0]:.1f}",
        f"{prompt[1]:.1f}",
        f"**{prompt[0] / prompt[1]:.2f}**",
        f"{ours.memory.private / 1e6:.0f}",
        f"{peer.memory.private / 1e6:.0f}",
    )
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    raise SystemExit(main())
