"""How long until the wizard's window is visible? `python -m bench.wizard_start [--runs N]`.

Starts the real program in a screen of its own (Xvfb; xdotool waits for the window), each time as a
first start: with no settings. Prints each time and the median; exit status 1 when that is above 2 s.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GOAL_S = 2.0
PATIENCE_S = 60


def main() -> int:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7, help="starts to measure (default: 7)")
    runs = parser.parse_args().runs
    missing = [name for name in ("Xvfb", "xdotool") if shutil.which(name) is None]
    if missing:
        print(f"not installed: {', '.join(missing)}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder, _Screen(Path(folder)) as display:
        times = [start_once(display, Path(folder) / f"home {run}") for run in range(runs)]
    for took in times:
        print(f"{took:6.2f} s")
    median = statistics.median(times)
    print(f"The window is visible after {median:.2f} s (median; the goal is {GOAL_S:.0f} s).")
    return 0 if median <= GOAL_S else 1


def start_once(display: str, home: Path) -> float:
    """Seconds from the start of the process to its visible window."""
    environment = {
        **os.environ,
        "DISPLAY": display,
        "QT_QPA_PLATFORM": "xcb",
        "STRATUM_HOME": str(home),
        "HF_ENDPOINT": "http://127.0.0.1:9",  # nobody is asked
    }
    find = ["xdotool", "search", "--onlyvisible", "--name", "Stratum"]
    began = time.monotonic()
    program = subprocess.Popen([sys.executable, "-m", "installer"], cwd=ROOT, env=environment)
    try:
        while subprocess.run(find, env=environment, check=False, capture_output=True).returncode:
            if time.monotonic() - began > PATIENCE_S:
                raise TimeoutError("the window does not come")
            time.sleep(0.01)
        return time.monotonic() - began
    finally:
        program.terminate()
        program.wait(timeout=30)


class _Screen:
    """A screen that nobody sees; its name is what DISPLAY is set to."""

    def __init__(self, folder: Path) -> None:
        self._number = folder / "display"

    def __enter__(self) -> str:
        with self._number.open("wb") as file:
            command = ["Xvfb", "-displayfd", "1", "-screen", "0", "1600x1200x24"]
            self._xvfb = subprocess.Popen(command, stdout=file, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + PATIENCE_S
        while not (name := self._number.read_text().strip()):
            if time.monotonic() > deadline:
                raise TimeoutError("Xvfb does not start")
            time.sleep(0.05)
        return f":{name}"

    def __exit__(self, *_exception: object) -> None:
        self._xvfb.terminate()
        self._xvfb.wait(timeout=20)


if __name__ == "__main__":
    sys.exit(main())
