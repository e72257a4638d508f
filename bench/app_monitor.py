"""What the monitor costs: processor time of the whole app process while it is visible, and hidden.

    python -m bench.app_monitor --seconds 60

The engine with the bundled model runs beside it and answers now and then. Prints the share of one core
in three states: an empty window, the monitor visible, the monitor hidden again. The goals: under 2 % when
visible, and when hidden no more than the empty window.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[1]
READY = re.compile(r"ready at (http://[^ ]*:\d+)")


def main() -> int:
    """Measure; 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=30.0, help="of each state")
    options = parser.parse_args()
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["STRATUM_HOME"] = folder
        return _measure(Path(folder), options.seconds)


def _measure(folder: Path, seconds: float) -> int:
    with (folder / "engine.log").open("wb") as log:
        engine = subprocess.Popen(
            [sys.executable, "-m", "engine", "serve", "--port", "0"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=log,
        )
        try:
            line = engine.stdout.readline().decode() if engine.stdout is not None else ""
            found = READY.search(line)
            if found is None:
                print(f"the engine did not start: {line}")
                return 1
            return _watch(found[1], engine.pid, seconds)
        finally:
            engine.terminate()
            engine.wait()
            if engine.stdout is not None:
                engine.stdout.close()


def _watch(url: str, pid: int, seconds: float) -> int:
    from PySide6.QtCore import QTimer  # noqa: PLC0415  # after the environment is set
    from PySide6.QtTest import QTest  # noqa: PLC0415
    from PySide6.QtWidgets import QApplication, QWidget  # noqa: PLC0415

    from app.monitor.monitor_view import MonitorView  # noqa: PLC0415
    from tests.app.monitor.live import LiveSupervisor, make_context  # noqa: PLC0415

    app = QApplication([])
    supervisor = LiveSupervisor()
    supervisor.watch(url, pid)
    context = make_context(app, supervisor)
    asker = QTimer()
    asker.setInterval(500)  # as the supervisor does while a window is visible
    asker.timeout.connect(supervisor.look)

    def share() -> float:
        process = psutil.Process()
        before, began = process.cpu_times(), time.monotonic()
        QTest.qWait(round(seconds * 1000))
        after, passed = process.cpu_times(), time.monotonic() - began
        return (after.user + after.system - before.user - before.system) / passed

    empty = QWidget()
    empty.resize(1100, 900)
    empty.show()
    asker.start()
    QTest.qWait(2000)
    alone = share()
    view = MonitorView(context)
    view.resize(1100, 900)
    empty.hide()
    view.show()
    deadline = time.monotonic() + 60
    while not all(tile.has_plot for tile in view.tiles.tiles()) and time.monotonic() < deadline:
        QTest.qWait(100)
    QTest.qWait(3000)
    visible = share()
    view.hide()
    QTest.qWait(2000)
    hidden = share()
    print(
        f"an empty window, asking the engine for its status twice a second: {alone:.2%} of a core"
    )
    print(f"the monitor visible: {visible:.2%}")
    print(f"the monitor hidden:  {hidden:.2%}")
    is_good = visible < 0.02 and hidden < max(alone * 1.2, alone + 0.002)
    print("good" if is_good else "a goal is missed")
    asker.stop()
    supervisor.http.close()
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
