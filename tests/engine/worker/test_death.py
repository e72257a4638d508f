"""Exit statuses in plain words."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from engine.worker.client import REPOSITORY
from engine.worker.death import died, exit_reason


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (1, "exit status 1"),
        (-15, "ended from outside"),
        (-9, "memory ran out"),
        (-7, "model file"),
        (-11, "crashed"),
        (-4, "instruction"),
        (-250, "signal 250"),
        (0xC0000005, "access violation"),
        (0xC0000017, "memory ran out"),
    ],
)
@pytest.mark.skipif(os.name == "nt", reason="signal names are POSIX")
def test_every_end_has_its_words(status: int, words: str):
    assert words in exit_reason(status)
    error = died(exit_reason(status), status)
    assert error.message.startswith("The model process ")
    assert error.params["exit_status"] == status


ORPHAN = """
import asyncio, sys
from pathlib import Path
from engine.worker.client import WorkerClient
from engine.worker.messages import Load

async def main():
    client = WorkerClient([sys.executable, "-c", {code!r}])
    task = asyncio.create_task(client.start(Load({{}})))
    while client.pid is None:
        await asyncio.sleep(0.01)
    print(client.pid, flush=True)
    await task

asyncio.run(main())
"""
# A worker that never reads its input, as in a long native call that holds the interpreter.
DEAF_WORKER = (
    "from engine.worker.channel import die_with_parent\n"
    "import pathlib, time\n"
    "die_with_parent()\n"
    "pathlib.Path({mark!r}).touch()\n"
    "time.sleep(600)\n"
)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has this signal")
def test_a_worker_does_not_outlive_a_killed_front_even_when_it_reads_nothing(tmp_path):
    mark = tmp_path / "has asked for the signal"
    with subprocess.Popen(
        [sys.executable, "-c", ORPHAN.format(code=DEAF_WORKER.format(mark=str(mark)))],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
    ) as front:
        assert front.stdout is not None
        worker = psutil.Process(int(front.stdout.readline()))
        while not mark.exists():
            time.sleep(0.02)
        front.send_signal(signal.SIGKILL)
        front.wait(60)
        worker.wait(60)
    assert not worker.is_running()
