"""The real worker with a real (tiny, random) model, over real pipes."""

import asyncio
import logging
import os
import queue
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from engine.worker import __main__ as worker_main
from engine.worker.client import REPOSITORY, WorkerClient, worker_command
from engine.worker.death import WorkerFailed
from engine.worker.handle import RequestHandle
from engine.worker.messages import (
    Cancel,
    Done,
    Failed,
    Hold,
    Load,
    Message,
    Progress,
    PromptProgress,
    Quit,
    Ready,
    SamplingParams,
    Start,
    StatusReport,
    Tokens,
    decode,
    encode,
)
from engine.worker.process import run_worker
from engine.worker.supervisor import WorkerSupervisor

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
MODEL = GOLDEN / "nople.gguf"
LOAD = Load(
    {"model": str(MODEL), "ops": "reference", "context": 256, "prompt_chunk": 64, "parallel": 2}
)
GREEDY = SamplingParams(temperature=0)


def start(request_id: str, length: int = 20, **more: object) -> Start:
    prompt = tuple((7 * i + 3) % 300 + 10 for i in range(length))
    fields: dict[str, object] = {"max_tokens": 8, "stop_ids": (), "sampling": GREEDY} | more
    return Start(request_id, prompt, **fields)  # type: ignore[arg-type]


async def ids_of(handle: RequestHandle) -> list[int]:
    return [
        token_id
        async for message in handle
        if isinstance(message, Tokens)
        for token_id in message.token_ids
    ]


@pytest.fixture
async def client():
    client = WorkerClient()
    await client.start(LOAD)
    yield client
    await client.stop()


async def test_a_model_loads_streams_and_reports(client: WorkerClient):
    assert client.ready is not None
    assert (client.ready.context, client.ready.ops) == (256, "reference")
    assert client.progress is not None
    assert client.progress.done_bytes == client.progress.total_bytes > 1_000_000
    messages = [message async for message in client.submit(start("a", 100))]
    reads = [m.read for m in messages if isinstance(m, PromptProgress)]
    assert reads == [0, 64, 100]
    done = messages[-1]
    assert isinstance(done, Done)
    assert (done.reason, done.timings.generated_tokens) == ("length", 8)
    report = await client.status()
    assert isinstance(report, StatusReport)
    assert (report.running, report.waiting) == (0, 0)
    assert report.memory_bytes > 10_000_000


async def test_three_requests_at_once_get_what_each_gets_alone_and_seeds_reproduce(
    client: WorkerClient,
):
    starts = [
        start("a", 70),
        start("b", 5, sampling=SamplingParams(seed=4)),
        start("c", 33, sampling=SamplingParams(seed=4, top_k=20)),
    ]
    together = await asyncio.gather(*(ids_of(client.submit(one)) for one in starts))
    alone = [await ids_of(client.submit(one)) for one in starts]
    assert together == alone
    assert len({tuple(ids) for ids in alone}) == 3


async def test_a_cancelled_request_ends_soon_and_the_next_one_is_served(client: WorkerClient):
    handle = client.submit(start("a", 20, max_tokens=230))
    async for message in handle:
        if isinstance(message, Tokens):
            break
    handle.cancel()
    rest = await ids_of(handle)
    assert len(rest) < 200
    assert handle.done is not None
    assert handle.done.reason == "cancelled"
    assert len(await ids_of(client.submit(start("b")))) == 8


async def test_a_forced_token_comes_next_in_the_stream(client: WorkerClient):
    handle = client.submit(start("a", 20, max_tokens=100))
    client.force("a", [33, 34])
    ids = await ids_of(handle)
    assert ids[1:3] == [33, 34]


@pytest.mark.skipif(os.name == "nt", reason="signals are POSIX")
async def test_a_worker_killed_in_mid_answer_costs_one_error_and_the_next_request_is_answered():
    supervisor = WorkerSupervisor(LOAD, backoff_s=(0.0, 0.0))
    try:
        await supervisor.load()
        expected = await ids_of(supervisor.submit(start("a")))
        handle = supervisor.submit(start("b", 20, max_tokens=230))
        async for message in handle:
            if isinstance(message, Tokens):
                break
        assert supervisor.pid is not None
        os.kill(supervisor.pid, 9)
        await ids_of(handle)
        assert handle.done is not None
        assert handle.done.reason == "error"
        assert "was killed" in handle.done.message
        while supervisor.ready is not None:
            await asyncio.sleep(0.01)
        await supervisor.wait_ready()
        assert await ids_of(supervisor.submit(start("c"))) == expected
    finally:
        await supervisor.close()


@pytest.mark.parametrize(
    ("config", "code", "words"),
    [
        ({"model": "/nowhere/there is no.gguf"}, None, "there is no.gguf"),
        ({"model": str(GOLDEN / "full.npz")}, None, "full.npz"),
        ({"model": str(MODEL), "context": 10**9}, "context_too_long", "context"),
        ({"model": str(MODEL), "parallel": 0}, "config", "parallel"),
    ],
)
async def test_what_cannot_be_loaded_is_told_with_code_and_sentence(
    config: dict[str, object], code: str | None, words: str
):
    client = WorkerClient()
    with pytest.raises(WorkerFailed, match=words) as caught:
        await client.start(Load(config))
    assert caught.value.code not in {"engine_failed", "internal_error"}
    if code is not None:
        assert caught.value.code == code
    assert client.pid is not None
    assert not psutil.pid_exists(client.pid)


def open_process() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        worker_command(),
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def read_until_ready(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(encode(LOAD))
    process.stdin.flush()
    while not isinstance(decode(process.stdout.readline()), Ready):
        pass


def test_the_worker_ends_at_once_when_its_input_ends_even_in_mid_answer():
    with open_process() as process:
        read_until_ready(process)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(encode(start("a", 200, max_tokens=50)))
        process.stdin.close()
        assert process.wait(90) == 0
        ended = [decode(line) for line in process.stdout.read().splitlines()]
        assert not any(isinstance(one, Done) and one.reason == "length" for one in ended)


def test_quit_ends_with_status_0_and_says_so_to_running_requests():
    with open_process() as process:
        read_until_ready(process)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(encode(start("a", 200, max_tokens=50)) + encode(Quit()))
        process.stdin.flush()
        assert process.wait(90) == 0
        last = decode(process.stdout.read().splitlines()[-1])
        assert isinstance(last, Done)
        assert last.reason == "cancelled"


def test_a_line_that_is_no_message_ends_the_worker_with_a_word_of_why():
    with open_process() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"GET / HTTP/1.1\n")
        process.stdin.flush()
        assert process.wait(90) == 1
        failed = decode(process.stdout.readline())
        assert isinstance(failed, Failed)
        assert "cannot go on" in failed.message


@pytest.mark.parametrize(
    ("word", "level"),
    [("debug", "DEBUG"), ("WARNING", "WARNING"), ("nonsense", "INFO"), ("", "INFO")],
)
def test_a_word_that_is_no_log_level_costs_no_worker(
    monkeypatch: pytest.MonkeyPatch, word: str, level: str
):
    monkeypatch.setenv("STRATUM_LOG", word)
    assert logging.getLevelName(worker_main._log_level()) == level


@pytest.mark.skipif(os.name == "nt", reason="signals to a group exist elsewhere only")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_to_the_whole_group_do_not_end_a_worker(number):
    """A service manager's stop would else kill the answers that the front lets end."""
    with open_process() as process:
        read_until_ready(process)
        process.send_signal(number)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(encode(start("a")))
        process.stdin.flush()
        assert isinstance(decode(process.stdout.readline()), PromptProgress)
        process.stdin.close()
        assert process.wait(90) == 0


def test_prints_of_libraries_do_not_reach_the_pipe():
    code = (
        "import os, sys\n"
        "from engine.worker.channel import open_channel\n"
        "from engine.worker.messages import Quit, Progress\n"
        "channel = open_channel()\n"
        "print('from python', flush=True)\n"
        "os.write(1, b'from below\\n')\n"
        "channel.send(Progress('x', 1, 2))\n"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(
        command,
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        lines = process.stdout.read().splitlines()
        assert [decode(line) for line in lines] == [Progress("x", 1, 2)]
        assert process.stderr.read().splitlines() == [b"from python", b"from below"]


class RecordingChannel:
    """A channel whose front asks to quit as soon as its request has ended."""

    def __init__(self, *commands: Message) -> None:
        self.commands: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self.sent: list[Message] = []
        for command in commands:
            self.commands.put(command)

    def send(self, *messages: Message) -> None:
        self.sent += messages
        if any(isinstance(message, Done) for message in messages):
            self.commands.put(Quit())


@pytest.mark.parametrize(("interval_s", "is_chatty"), [(0.0, True), (1000.0, False)])
def test_a_worker_that_computes_for_long_gives_signs_of_life_between_layers(
    monkeypatch: pytest.MonkeyPatch, interval_s: float, is_chatty: bool
):
    monkeypatch.setattr("engine.worker.process.SIGN_OF_LIFE_S", interval_s)
    channel = RecordingChannel(LOAD, start("a", 100, max_tokens=1))
    assert run_worker(channel) == 0  # type: ignore[arg-type]
    kinds = [message.kind for message in channel.sent if message.kind != "progress"]
    # two passes (64 and 36 rows) of four layers; the last thing between them is the prompt's progress
    assert kinds.count("status_report") == (8 if is_chatty else 0)
    assert [kind for kind in kinds if kind != "status_report"] == [
        "ready",
        *("prompt_progress",) * 3,
        "tokens",
        "done",
    ]


class WatchedQueue(queue.SimpleQueue[Message]):
    """Commands; nobody may wait for one without an end."""

    def get(self, block: bool = True, timeout: float | None = None) -> Message:
        assert timeout is not None or not self.empty()
        return super().get(block, timeout)


class PausingChannel(RecordingChannel):
    """A channel whose front pauses the answer, and lets it go on at the next sign of life."""

    def __init__(self, *commands: Message) -> None:
        super().__init__()
        self.commands = WatchedQueue()
        for command in commands:
            self.commands.put(command)

    def send(self, *messages: Message) -> None:
        super().send(*messages)
        for message in messages:
            if isinstance(message, PromptProgress):
                self.commands.put(Hold(message.request_id, is_held=True))
            if isinstance(message, StatusReport):
                self.commands.put(Hold("a", is_held=False))


def test_a_worker_whose_requests_all_pause_gives_signs_of_life(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("engine.worker.process.SIGN_OF_LIFE_S", 0.2)
    channel = PausingChannel(LOAD, start("a", 20, max_tokens=4))
    assert run_worker(channel) == 0  # type: ignore[arg-type]
    reports = [message for message in channel.sent if isinstance(message, StatusReport)]
    assert [report.running for report in reports][:1] == [1]
    done = [message for message in channel.sent if isinstance(message, Done)]
    assert [one.reason for one in done] == ["length"]


def test_what_was_read_of_a_prompt_when_the_worker_is_asked_to_end_is_saved(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("STRATUM_HOME", str(tmp_path))
    load = Load(LOAD.config | {"save_sessions": True, "session_cache_mib": 32})

    monkeypatch.setattr("engine.worker.process.SIGN_OF_LIFE_S", 0.0)  # one after each layer

    class QuittingChannel(RecordingChannel):
        def send(self, *messages: Message) -> None:
            super().send(*messages)
            reads = [one.read for one in self.sent if isinstance(one, PromptProgress)]
            if reads[-1:] == [128] and isinstance(messages[-1], StatusReport):
                self.commands.put(Cancel("a"))
                self.commands.put(Quit())

    channel = QuittingChannel(load, start("a", 240))
    assert run_worker(channel) == 0  # type: ignore[arg-type]
    assert [one.reason for one in channel.sent if isinstance(one, Done)] == ["cancelled"]
    again = RecordingChannel(load, start("a", 240, max_tokens=1))
    assert run_worker(again) == 0  # type: ignore[arg-type]
    assert [one.timings.cached_tokens for one in again.sent if isinstance(one, Done)] == [128]
