"""A real server in a control group that another program fills: warm conversations are given back."""

import subprocess
import sys

import psutil
import pytest

from bench.memory_group import NoGroupError, memory_group

MIB = 1 << 20
LIMIT = 900 * MIB
HOG = (
    "import sys, mmap\n"
    "memory = mmap.mmap(-1, int(sys.argv[1]))\n"
    "for at in range(0, len(memory), 4096): memory[at] = 1\n"
    "print('full', flush=True)\n"
    "sys.stdin.read()\n"
)


@pytest.fixture
def group():
    try:
        with memory_group(LIMIT) as made:
            yield made
    except NoGroupError as error:
        pytest.skip(f"needs a memory group of its own: {error}")


def test_warm_conversations_are_given_back_when_memory_runs_low(start_server, group):
    server = start_server(None, "--context", "512", "--threads", "2", "--parallel", "1")
    for name in ("one", "two", "three", "four"):
        assert server.chat(f"remember {name}", max_tokens=2).status_code == 200
    before = server.wait_for(lambda status: status["warm"]["sessions"] >= 4)["warm"]
    front = psutil.Process(server.process.pid)
    for process in (front, *front.children(recursive=True)):
        group.add(process.pid)
    hog = subprocess.Popen(
        group.inside([sys.executable, "-c", HOG, str(LIMIT - 150 * MIB)]),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert hog.stdout.readline() == b"full\n"
        after = server.wait_for(lambda status: status["warm"]["bytes"] <= before["bytes"] // 2 + 1)
        assert after["warm"]["sessions"] < before["sessions"]
        assert server.chat("still here", max_tokens=2).status_code == 200
        assert "warm conversations were given back" in server.log_path.read_text(encoding="utf-8")
    finally:
        hog.communicate()
        server.process.terminate()
        server.process.wait(90)
