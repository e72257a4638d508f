"""How fast the app's window is there, and what the app takes while nobody uses it.

    python -m bench.app_start [--runs 5] [--idle-s 20]

Each run starts `python -m app` on a desktop that nobody sees (Xvfb, openbox, tint2), with settings of
its own and without an engine, and takes the time until X11 shows the window. Then the app is left alone:
its memory (what belongs to it alone, and what is resident with shared libraries) and its processor time.
Engine and graphics are not counted. The first run after a start of the machine also reads from the disk.
What it does and found is printed as it goes, before it how long all will take: two minutes at these defaults.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.support.desktop import Desktop, end, missing

ROOT = Path(__file__).resolve().parents[1]
_PATIENCE_S = 60.0
_SETTLING_S = 5.0  # the chat's view is built after the window is there
_START_S = 2.0  # about, with the end: for saying how long it will take
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Run:
    """One start.

    Attributes:
        visible_s: from the start of Python to the window on the screen.
        resident_bytes, own_bytes: when it has been idle for a while.
        processor_share: of one core, while idle.
    """

    visible_s: float
    resident_bytes: int
    own_bytes: int
    processor_share: float


def measure(desktop: Desktop, home: Path, idle_s: float) -> Run:
    """Start the app once, look at it, end it.

    Raises:
        RuntimeError: no window came.
    """
    home.mkdir(parents=True, exist_ok=True)
    switches = {"format": 1, "starts_model": False}
    (home / "app.json").write_text(json.dumps(switches), "utf-8")
    watcher = subprocess.Popen(
        ["xdotool", "search", "--sync", "--onlyvisible", "--name", "^Stratum$"],
        env=desktop.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    began = time.perf_counter()
    program = desktop.start(
        [sys.executable, "-m", "app"], cwd=ROOT, environment={"STRATUM_HOME": str(home)}
    )
    try:
        if watcher.wait(timeout=_PATIENCE_S) != 0:
            raise RuntimeError("the window did not come")
        visible_s = time.perf_counter() - began
        process = psutil.Process(program.pid)
        print(
            f"window visible after {visible_s:.2f} s; left alone for {_SETTLING_S + idle_s:.0f} s ...",
            flush=True,
        )
        time.sleep(_SETTLING_S)
        before = process.cpu_times()
        time.sleep(idle_s)
        after = process.cpu_times()
        memory = process.memory_full_info()
        used_s = after.user + after.system - before.user - before.system
        return Run(visible_s, memory.rss, memory.uss, used_s / idle_s)
    finally:
        end(program)
        if watcher.poll() is None:
            end(watcher)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--idle-s", type=float, default=20.0)
    options = parser.parse_args(arguments)
    if missing():
        print(f"app_start: {', '.join(missing())} not installed", file=sys.stderr)
        return 2
    about_s = options.runs * (_START_S + _SETTLING_S + options.idle_s)
    print(
        f"{options.runs} starts on a desktop that nobody sees; takes about {about_s:.0f} s",
        flush=True,
    )
    runs = []
    with tempfile.TemporaryDirectory() as folder, Desktop.open(Path(folder) / "desktop") as desktop:
        for number in range(1, options.runs + 1):
            print(f"start {number} of {options.runs}: ", end="", flush=True)
            run = measure(desktop, Path(folder) / f"home {number}", options.idle_s)
            print(f"    idle: {run.own_bytes / _MIB:.0f} MiB, {_share(run)}", flush=True)
            runs.append(run)
    times = [run.visible_s for run in runs]
    print(f"Python {platform.python_version()}, {psutil.cpu_count()} cores, {len(runs)} starts")
    print(
        f"window visible: median {statistics.median(times):.2f} s, first {times[0]:.2f} s, "
        f"slowest {max(times):.2f} s"
    )
    last, busiest = runs[-1], max(runs, key=lambda run: run.processor_share)
    print(
        f"idle: {last.own_bytes / _MIB:.0f} MiB of its own, {last.resident_bytes / _MIB:.0f} MiB "
        f"resident, {_share(busiest)}"
    )
    return 0


def _share(run: Run) -> str:
    return f"{run.processor_share:.2%} of a core"


if __name__ == "__main__":
    sys.exit(main())
