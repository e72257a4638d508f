"""Run by a Windows Python: the engine's processes as a family, with a stand-in for the engine.

python job_check.py PROGRAM FOLDER            prints one JSON object
python job_check.py PROGRAM FOLDER keep       starts a family, prints its numbers, and waits
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
import time
import types
from pathlib import Path

STILL_ACTIVE = 259
QUERY = 0x1000
NORMAL_PRIORITY = 0x20

# Writes its own number and that of a child of its own, and goes on for minutes.
STAND_IN = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
print("gr\\u00fc\\u00dfe \\u6e2c", os.getpid(), child.pid, flush=True)
time.sleep(300)
"""


class _NoProcess:
    """psutil is not in this Python: nothing but the Job object tells who lives."""

    def __init__(self, _pid: int) -> None:
        raise psutil.Error


psutil = types.ModuleType("psutil")
psutil.Error = type("Error", (Exception,), {})  # type: ignore[attr-defined]
psutil.Process = _NoProcess  # type: ignore[attr-defined]
sys.modules["psutil"] = psutil
sys.path.insert(0, sys.argv[1])

from app.supervisor.events import (  # noqa: E402  # after the stand-in
    Asked,
    Command,
    Exited,
    Gone,
    Listening,
    Prepared,
    Spawned,
    Ticked,
)
from app.supervisor.launch import Launched, launch  # noqa: E402
from app.supervisor.log_file import LogPump, RotatingLog  # noqa: E402
from app.supervisor.machine import Machine  # noqa: E402
from app.supervisor.reasons import reason_of_exit  # noqa: E402

FOLDER = Path(sys.argv[2])
kernel = ctypes.WinDLL("kernel32")  # type: ignore[attr-defined]
kernel.OpenProcess.restype = ctypes.c_void_p


def lives(pid: int) -> bool:
    """Whether a process runs."""
    handle = kernel.OpenProcess(QUERY, 0, pid)
    if not handle:
        return False
    code = ctypes.c_uint32()
    kernel.GetExitCodeProcess(ctypes.c_void_p(handle), ctypes.byref(code))
    kernel.CloseHandle(ctypes.c_void_p(handle))
    return code.value == STILL_ACTIVE


def priority(pid: int) -> int:
    """The priority class of a process."""
    handle = kernel.OpenProcess(QUERY, 0, pid)
    found = kernel.GetPriorityClass(ctypes.c_void_p(handle))
    kernel.CloseHandle(ctypes.c_void_p(handle))
    return int(found)


def ended(pids: list[int], within_s: float = 20.0) -> bool:
    """Whether all of them end in time."""
    deadline = time.monotonic() + within_s
    while any(lives(pid) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def start() -> tuple[Launched, LogPump, list[int]]:
    """A family of two, with its log."""
    lines: list[str] = []
    launched = launch([sys.executable, "-c", STAND_IN], cwd=FOLDER)
    pump = LogPump(launched.output, RotatingLog(FOLDER / "logs" / "engine.log"), lines.append)
    pump.start()
    deadline = time.monotonic() + 60
    while not lines and time.monotonic() < deadline:
        time.sleep(0.05)
    return launched, pump, [int(word) for word in lines[0].split()[2:]]


def keep() -> None:
    """Be the supervisor that is killed."""
    _launched, _pump, pids = start()
    print(json.dumps(pids), flush=True)  # noqa: T201
    time.sleep(300)


def check_family() -> dict[str, object]:
    """Start, look, end."""
    launched, pump, pids = start()
    report: dict[str, object] = {
        "is_its_child": launched.process.pid == pids[0],
        "lives": launched.family.lives() and all(lives(pid) for pid in pids),
        "priorities": [priority(pid) == NORMAL_PRIORITY for pid in pids],
    }
    launched.family.terminate()
    report["asking_is_no_force"] = launched.family.lives()
    launched.family.kill()
    report["killed"] = ended(pids)
    report["exit_status"] = launched.process.wait(20)
    report["family_lives"] = launched.family.lives()
    pump.last_lines(10)
    launched.family.close()
    log = (FOLDER / "logs" / "engine.log").read_text(encoding="utf-8")
    report["log"] = "gr\u00fc\u00dfe \u6e2c" in log
    return report


def check_orphans() -> dict[str, object]:
    """Kill the one who holds the Job object."""
    keeper = subprocess.Popen(
        [sys.executable, __file__, *sys.argv[1:3], "keep"], stdout=subprocess.PIPE
    )
    assert keeper.stdout is not None
    pids = json.loads(keeper.stdout.readline())
    before = all(lives(pid) for pid in pids)
    keeper.kill()
    keeper.wait()
    return {"lived_before": before, "orphans": not ended(pids)}


def check_log() -> dict[str, object]:
    """A log that somebody reads can be put aside later."""
    log = RotatingLog(FOLDER / "logs" / "small.log", max_bytes=100)
    log.write_line("x" * 80)
    with (FOLDER / "logs" / "small.log").open("rb"):
        log.write_line("y" * 80)
    log.write_line("z" * 80)
    log.close()
    texts = [path.read_text(encoding="utf-8") for path in (FOLDER / "logs").glob("small*.log")]
    return {"log_lines": sorted(line[0] for text in texts for line in text.splitlines())}


def check_machine() -> dict[str, object]:
    """A life with a crash."""
    machine = Machine()
    machine.handle(Asked(Command.START), 0.0)
    machine.handle(Prepared(1), 0.0)
    machine.handle(Spawned(7), 0.0)
    machine.handle(Listening(7, "http://127.0.0.1:1"), 1.0)
    phases = [machine.state.phase.value]
    reason = reason_of_exit(0xC0000017, [])
    machine.handle(Exited(7, 0xC0000017, reason), 2.0)
    machine.handle(Gone(), 2.0)
    phases.append(machine.state.phase.value)
    effects = machine.handle(Ticked(None), 4.0)
    return {
        "phases": phases,
        "reason": reason.code.value,
        "effects": [type(effect).__name__ for effect in effects],
    }


if __name__ == "__main__":
    if sys.argv[3:] == ["keep"]:
        keep()
    else:
        report = {**check_family(), **check_orphans(), **check_log(), **check_machine()}
        print(json.dumps(report))  # noqa: T201
