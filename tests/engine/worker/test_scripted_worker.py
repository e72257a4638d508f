"""The client, the supervisor and the scripted worker over real pipes."""

import asyncio
import json
import os
from pathlib import Path

import psutil
import pytest

from engine.core.errors import EngineError, InputError
from engine.worker.client import WorkerClient, scripted_command
from engine.worker.death import WorkerDied, WorkerFailed
from engine.worker.handle import RequestHandle
from engine.worker.messages import (
    Done,
    Load,
    Progress,
    PromptProgress,
    SamplingParams,
    Start,
    Tokens,
)
from engine.worker.scripted import load_script
from engine.worker.supervisor import WorkerState, WorkerSupervisor

GOLDEN_MODEL = Path(__file__).resolve().parents[2] / "golden" / "nople.gguf"
STOP_ID = 1
LOAD = Load({})


def write_script(folder: Path, *answers: dict[str, object], **more: object) -> Path:
    path = folder / "ein skript.json"
    content = {"format": 1, "model": str(GOLDEN_MODEL), "answers": answers, **more}
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def start(request_id: str = "r", prompt: tuple[int, ...] = (10, 11, 12), **more: object) -> Start:
    fields: dict[str, object] = {"max_tokens": 100, "stop_ids": (STOP_ID,)} | more
    return Start(request_id, prompt, sampling=SamplingParams(), **fields)  # type: ignore[arg-type]


async def collect(handle: RequestHandle) -> tuple[list[int], Done]:
    ids: list[int] = []
    async for message in handle:
        if isinstance(message, Tokens):
            ids += message.token_ids
    assert handle.done is not None
    return ids, handle.done


@pytest.fixture
async def open_client(tmp_path: Path):
    clients: list[WorkerClient] = []

    async def open_one(*answers: dict[str, object], stall_s: float = 60, **more: object):
        client = WorkerClient(scripted_command(write_script(tmp_path, *answers, **more)), stall_s)
        clients.append(client)
        await client.start(LOAD)
        return client

    yield open_one
    for client in clients:
        await client.stop()


def is_gone(pid: int | None) -> bool:
    return pid is not None and not psutil.pid_exists(pid)


async def test_an_answer_streams_in_order_and_ends_with_the_stop_id(open_client):
    client = await open_client(
        {"token_ids": [20, 21, 22], "prompt_steps": 3, "cached_tokens": 1}, context=512
    )
    assert client.ready.context == 512
    assert client.progress == Progress("weights", 4000, 4000)
    messages = [message async for message in client.submit(start())]
    read = [m.read for m in messages if isinstance(m, PromptProgress)]
    assert read == [1, 2, 3][-len(read) :]  # what nobody has fetched yet is merged
    assert read
    assert [i for m in messages if isinstance(m, Tokens) for i in m.token_ids] == [20, 21, 22, 1]
    done = messages[-1]
    assert isinstance(done, Done)
    assert (done.reason, done.timings.generated_tokens) == ("stop", 3)
    assert (done.timings.prompt_tokens, done.timings.cached_tokens) == (3, 1)


async def test_stop_asks_the_worker_and_it_is_gone(open_client):
    client = await open_client()
    pid = client.pid
    await client.stop(grace_s=90)
    assert client._process.returncode == 0  # of its own accord
    assert is_gone(pid)
    assert client.died is None
    with pytest.raises(WorkerDied, match="not loaded"):
        client.submit(start())


async def test_stop_kills_a_worker_that_hangs(open_client):
    client = await open_client({"token_ids": [20], "fault": {"kind": "hang"}})
    handle = client.submit(start())
    await anext(handle)
    await client.stop(grace_s=0.3)
    assert is_gone(client.pid)
    assert (await collect(handle))[1].reason == "error"


async def test_caps_stop_ids_and_repeats_end_a_scripted_answer(open_client):
    client = await open_client({"token_ids": [20, 21, 22, 23], "times": 0}, context=100, parallel=1)
    cases = [
        ({"max_tokens": 2}, [20, 21], "length"),
        ({"stop_ids": (22,)}, [20, 21, 22], "stop"),
        ({"prompt": tuple(range(97))}, [20, 21, 22], "context"),
        ({"repeat_stop_tokens": 1}, [20], "repeat"),
    ]
    handles = [client.submit(start(f"r{i}", **more)) for i, (more, _, _) in enumerate(cases)]
    for handle, (_, ids, reason) in zip(handles, cases, strict=True):
        got, done = await collect(handle)
        assert (got, done.reason) == (ids, reason)


async def test_a_request_can_be_cancelled_while_it_waits_reads_or_answers(open_client):
    slow = {"token_ids": [20] * 50, "delay_ms": 200, "times": 0}
    client = await open_client({**slow, "prompt_delay_ms": 60_000, "times": 1}, slow, parallel=1)
    reading, answering, waiting = (client.submit(start(f"r{i}")) for i in range(3))
    waiting.cancel()
    assert (await collect(waiting))[1].reason == "cancelled"
    reading.cancel()
    assert (await collect(reading))[1].reason == "cancelled"
    assert isinstance(await anext(answering), PromptProgress)
    assert isinstance(await anext(answering), Tokens)
    answering.cancel()
    ids, done = await collect(answering)
    assert done.reason == "cancelled"
    assert len(ids) < 49
    assert (await client.status()).running == 0


async def test_forced_tokens_follow_the_last_one_and_the_script_goes_on_as_it_says(open_client):
    client = await open_client(
        {"token_ids": [20] * 500, "delay_ms": 50, "after_force": "", "times": 0}
    )
    handle = client.submit(start(max_tokens=1000))
    await anext(handle)
    first = await anext(handle)
    assert isinstance(first, Tokens)
    client.force("r", [30, 31])
    ids, done = await collect(handle)
    assert ids[-3:] == [30, 31, STOP_ID]
    assert done.reason == "stop"
    client.force("r", [30])  # has ended: nothing happens
    client.force("unknown", [30])
    client.cancel("unknown")


async def test_thinking_rules_hold_in_a_script(open_client):
    client = await open_client({"token_ids": [20] * 6, "times": 0}, parallel=1)
    budget = start("a", think_close_id=9, think_budget=4, budget_ids=(8, 9, 7))
    assert (await collect(client.submit(budget)))[0] == [20] * 4 + [8, 9, 7] + [20, 20, STOP_ID]
    rescue = start("b", think_close_id=9, rescue_ids=(9, 7))
    ids, done = await collect(client.submit(rescue))
    assert ids == [20] * 6 + [9, 7]
    assert done.reason == "stop"


async def test_a_crash_ends_every_open_request_with_an_error_in_plain_words(open_client):
    client = await open_client(
        {"token_ids": [20] * 5, "fault": {"kind": "crash", "after": 3}},
        {"token_ids": [21] * 5, "delay_ms": 60_000},
    )
    crashing, other = client.submit(start("a")), client.submit(start("b"))
    ids, done = await collect(crashing)
    assert ids == [20] * 3
    assert done.reason == "error"
    assert "ended unexpectedly with exit status 70" in done.message
    assert (await collect(other))[1].reason == "error"
    await client.wait_closed()
    assert isinstance(client.died, WorkerDied)
    assert client.died.code == "engine_failed"
    with pytest.raises(WorkerDied, match="status 70"):
        await client.status()


@pytest.mark.skipif(os.name == "nt", reason="signals are POSIX")
async def test_a_killed_worker_is_said_to_have_been_killed(open_client):
    client = await open_client({"token_ids": [20] * 5, "delay_ms": 60_000})
    handle = client.submit(start())
    await anext(handle)
    os.kill(client.pid, 9)
    assert "was killed" in (await collect(handle))[1].message


async def test_garbage_on_the_pipe_stops_the_worker_with_an_error(open_client):
    client = await open_client({"token_ids": [20] * 5, "fault": {"kind": "garbage", "after": 2}})
    ids, done = await collect(client.submit(start()))
    assert ids == [20, 20]
    assert "no message" in done.message
    await client.wait_closed()
    assert is_gone(client.pid)


async def test_a_worker_that_goes_silent_in_a_request_is_stopped(open_client):
    client = await open_client({"token_ids": [20] * 5, "fault": {"kind": "hang"}}, stall_s=0.4)
    await asyncio.sleep(0.8)  # silence without a request is no stall
    assert client.is_ready
    done = (await collect(client.submit(start())))[1]
    assert "made no progress" in done.message
    assert is_gone(client.pid)


async def test_a_scripted_error_ends_one_request_and_the_worker_goes_on(open_client):
    client = await open_client(
        {"token_ids": [20], "fault": {"kind": "error", "message": "No room."}},
        {"when": "never in this prompt", "token_ids": [22]},
        {"token_ids": [21], "times": 2},
    )
    assert (await collect(client.submit(start())))[1].message == "No room."
    assert (await collect(client.submit(start())))[0] == [21, STOP_ID]
    assert (await collect(client.submit(start())))[0] == [21, STOP_ID]
    assert "no answer left" in (await collect(client.submit(start())))[1].message


async def test_messages_that_nobody_fetches_are_merged_and_none_is_lost(open_client):
    client = await open_client({"token_ids": list(range(20, 220))})
    handle = client.submit(start(max_tokens=1000))
    while handle.done is None:
        await asyncio.sleep(0.01)
    messages = [message async for message in handle]
    assert len(messages) < 70
    ids = [i for m in messages if isinstance(m, Tokens) for i in m.token_ids]
    assert ids == [*range(20, 220), STOP_ID]


async def test_an_answer_that_nobody_fetches_pauses_and_goes_on_when_it_is_fetched(open_client):
    client = await open_client(
        {"token_ids": [20, 21] * 20_000, "group": 10},
        {"token_ids": [21]},
        stall_s=2,  # the other answer, on a busy machine, takes less
        context=100_000,
    )
    handle = client.submit(start("slow", max_tokens=100_000))
    while not handle.is_held:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.2)
    assert handle.done is None
    assert (await collect(client.submit(start("other"))))[0] == [21, STOP_ID]
    await asyncio.sleep(3)  # longer than a stall, which a held answer is not
    assert client.is_ready
    ids, done = await collect(handle)
    assert (len(ids), done.reason) == (40_001, "stop")


async def test_a_held_answer_can_be_cancelled(open_client):
    answer = {"token_ids": [20, 21] * 20_000, "group": 10}
    client = await open_client(answer, context=100_000)
    handle = client.submit(start(max_tokens=100_000))
    while not handle.is_held:
        await asyncio.sleep(0.01)
    handle.cancel()
    assert (await collect(handle))[1].reason == "cancelled"


async def test_a_failed_load_gives_the_workers_own_error(tmp_path: Path):
    script = write_script(
        tmp_path, load={"fail_code": "insufficient_ram", "fail_message": "Needs 60 GB."}
    )
    client = WorkerClient(scripted_command(script))
    with pytest.raises(WorkerFailed, match="Needs 60 GB") as caught:
        await client.start(LOAD)
    assert caught.value.code == "insufficient_ram"
    assert is_gone(client.pid)


async def test_a_crash_while_loading_is_an_error_of_the_start(tmp_path: Path):
    client = WorkerClient(scripted_command(write_script(tmp_path, load={"crash": True})))
    with pytest.raises(WorkerDied, match="exit status 70"):
        await client.start(LOAD)


async def test_a_start_that_is_given_up_leaves_no_process(tmp_path: Path):
    script = write_script(tmp_path, load={"delay_ms": 60_000, "steps": 1})
    client = WorkerClient(scripted_command(script))
    starting = asyncio.create_task(client.start(LOAD))
    while client.pid is None:
        await asyncio.sleep(0.01)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert is_gone(client.pid)


async def test_a_program_that_is_not_there_is_an_error_of_the_start():
    client = WorkerClient(["/nowhere/at/all"])
    with pytest.raises(WorkerDied, match="could not be started"):
        await client.start(LOAD)


async def test_the_supervisor_restarts_after_a_crash_and_waiting_requests_are_served(
    tmp_path: Path,
):
    states: list[WorkerState] = []
    script = write_script(
        tmp_path,
        {"token_ids": [20] * 5, "fault": {"kind": "crash", "after": 2}, "when": "A"},
        {"token_ids": [21], "times": 0},
    )
    prompt_with_a = tuple(range(10, 90))
    supervisor = WorkerSupervisor(
        LOAD, scripted_command(script), backoff_s=(0.0, 0.0), on_change=states.append
    )
    try:
        with pytest.raises(WorkerDied, match="not loaded"):
            supervisor.submit(start())
        await supervisor.load()
        first_pid = supervisor.pid
        broken = supervisor.submit(start("a", prompt_with_a))
        assert (await collect(broken))[1].reason == "error"
        while supervisor.state is WorkerState.READY:
            await asyncio.sleep(0.01)
        await supervisor.wait_ready()
        assert supervisor.pid != first_pid
        assert supervisor.restarts == 1
        assert (await collect(supervisor.submit(start("b"))))[0] == [21, STOP_ID]
        await supervisor.unload()
        assert supervisor.state is WorkerState.UNLOADED
        assert is_gone(first_pid)
        await supervisor.load()
        assert (await supervisor.status()).running == 0
    finally:
        await supervisor.close()
    assert states == [
        WorkerState.LOADING,
        WorkerState.READY,
        WorkerState.LOADING,
        WorkerState.READY,
        WorkerState.UNLOADED,
        WorkerState.LOADING,
        WorkerState.READY,
        WorkerState.UNLOADED,
    ]


async def test_the_supervisor_gives_up_after_crashes_in_a_row_and_load_tries_again(tmp_path: Path):
    script = write_script(tmp_path, {"token_ids": [20], "fault": {"kind": "crash"}, "times": 0})
    supervisor = WorkerSupervisor(LOAD, scripted_command(script), backoff_s=(0.0,))
    try:
        for _ in range(2):
            await supervisor.load()
            await collect(supervisor.submit(start()))
            while supervisor.state is WorkerState.READY:
                await asyncio.sleep(0.01)
        with pytest.raises(EngineError, match="status 70"):
            await supervisor.wait_ready()
        assert supervisor.state is WorkerState.FAILED
        assert supervisor.failure is not None
        assert supervisor.failure.code == "engine_failed"
        assert (await supervisor.load()).ops == "scripted"
        assert supervisor.failure is None
    finally:
        await supervisor.close()


async def test_a_worker_that_answered_may_crash_any_number_of_times(tmp_path: Path):
    crash = {"token_ids": [20], "fault": {"kind": "crash"}}
    script = write_script(tmp_path, {"token_ids": [21]}, crash)
    supervisor = WorkerSupervisor(LOAD, scripted_command(script), backoff_s=(0.0,))
    try:
        for restarts in range(1, 4):  # one more in a row would be too many
            await supervisor.load()
            assert (await collect(supervisor.submit(start())))[-1].reason == "stop"
            assert (await collect(supervisor.submit(start())))[-1].reason == "error"
            while supervisor.state is WorkerState.READY:
                await asyncio.sleep(0.01)
            await supervisor.load()
            assert supervisor.restarts == restarts
    finally:
        await supervisor.close()


async def test_a_failed_load_is_told_to_all_who_wait(tmp_path: Path):
    script = write_script(tmp_path, load={"fail_code": "load_failed", "delay_ms": 200})
    supervisor = WorkerSupervisor(LOAD, scripted_command(script))
    try:
        supervisor.start_loading()
        results = await asyncio.gather(
            *(supervisor.wait_ready() for _ in range(3)), return_exceptions=True
        )
        assert [type(result) for result in results] == [WorkerFailed] * 3
    finally:
        await supervisor.close()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "is not valid JSON"),
        ("[" * 100_000, "nested too deeply"),
        ('{"format": 2}', "format"),
        ('{"format": 1, "answers": [{}]}', "exactly one of text, pieces"),
        ('{"format": 1, "answers": [{"text": "a", "delay": 3}]}', "answers.0.delay"),
    ],
)
def test_a_wrong_script_is_refused_with_its_place(tmp_path: Path, content: str, reason: str):
    path = tmp_path / "s.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=reason):
        load_script(path)


def test_a_missing_script_is_refused_by_name(tmp_path: Path):
    with pytest.raises(InputError, match=r"nothing\.json cannot be read"):
        load_script(tmp_path / "nothing.json")


def test_a_model_beside_the_script_is_found_from_anywhere(tmp_path: Path):
    path = tmp_path / "s.json"
    path.write_text('{"format": 1, "model": "m.gguf"}', encoding="utf-8")
    assert load_script(path).model_path == tmp_path / "m.gguf"


async def test_a_stop_while_loading_is_no_crash_and_blames_no_memory(tmp_path: Path, caplog):
    script = write_script(tmp_path, load={"delay_ms": 60_000, "steps": 1})
    supervisor = WorkerSupervisor(LOAD, scripted_command(script))
    supervisor.start_loading()
    while supervisor.progress is None:
        await asyncio.sleep(0.01)
    pid = supervisor.pid
    await supervisor.close()
    assert is_gone(pid)
    assert supervisor.state is WorkerState.UNLOADED
    assert caplog.text == ""
