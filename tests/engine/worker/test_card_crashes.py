"""A card on which the model process crashes again and again is left out; one crash, and other ends, are not."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.core.card_record import CardRecord, keep_record, read_records, record_key
from engine.core.emulated_cards import EMULATED_DRIVER as DRIVER
from engine.core.settings import load_settings
from engine.worker.card_crashes import WITHIN_S, CardCrashes
from engine.worker.card_gate import allowed_cards
from engine.worker.messages import Load, SamplingParams, Start, Tokens
from engine.worker.supervisor import WorkerState, WorkerSupervisor
from tests.engine.worker.test_card_gate import AUTO, CARD, OTHER, Checks

SENTENCE = (
    "RTX 5070 is not used: the model process ended unexpectedly 2 times within 10 minutes while it computed "
    "on it; install the newest driver, then run `engine card-check`."
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STRATUM_HOME", str(tmp_path))
    return load_settings().data_dir


@pytest.fixture
def keys(home: Path) -> list[str]:
    """Two cards have passed."""
    for card in (CARD, OTHER):
        keep_record(home, CardRecord(key=record_key(card, DRIVER), card=card.name, is_passed=True))
    return [record_key(card, DRIVER) for card in (CARD, OTHER)]


class Clock:
    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now


def notice() -> str:
    checks = Checks()
    gate = allowed_cards(AUTO, [CARD, OTHER], DRIVER, check=checks)
    assert checks.made == []
    return gate.notice


def test_a_card_is_left_out_after_the_second_crash_within_ten_minutes(keys: list[str]) -> None:
    clock = Clock()
    crashes = CardCrashes(clock)
    crashes.note(keys[:1])
    assert notice() == ""
    clock.now += WITHIN_S - 1
    crashes.note(keys[:1])
    assert notice() == SENTENCE


def test_crashes_that_lie_further_apart_leave_the_card_in_use(keys: list[str]) -> None:
    clock = Clock()
    crashes = CardCrashes(clock)
    for _ in range(4):
        crashes.note(keys[:1])
        clock.now += WITHIN_S + 1
    assert notice() == ""


def test_of_several_cards_each_is_blamed_for_what_it_took_part_in(keys: list[str]) -> None:
    crashes = CardCrashes(Clock())
    crashes.note(keys)
    crashes.note(keys[:1])
    assert notice() == SENTENCE
    crashes.note(keys[1:])
    assert "RTX 3060 is not used" in notice()


def test_a_card_that_was_checked_again_begins_anew(keys: list[str], home: Path) -> None:
    crashes = CardCrashes(Clock())
    for _ in range(2):
        crashes.note(keys[:1])
    keep_record(home, CardRecord(key=keys[0], card=CARD.name, is_passed=True))
    crashes.note(keys[:1])
    assert notice() == ""


def test_what_cannot_be_remembered_is_logged_and_ends_nothing(
    keys: list[str], home: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("engine.core.card_record.write_json", full)
    crashes = CardCrashes(Clock())
    for _ in range(2):
        crashes.note(keys[:1])
    assert "that RTX 5070 failed cannot be remembered" in caplog.text
    assert notice() == ""


# -- which ends are crashes ------------------------------------------------------------------------

# A worker that is ready at once and ends with the first request.
WORKER = """
import os, sys, time
from engine.worker.messages import Done, Failed, Ready, Timings, Tokens, decode, encode
def send(message):
    sys.stdout.buffer.write(encode(message))
    sys.stdout.buffer.flush()
sys.stdin.readline()
send(Ready(64, "cuda sm_89", "fp", cards={cards!r}))
name = decode(sys.stdin.readline().encode()).request_id
send(Tokens(name, (5,)))
{end}
"""
ABORT = "os.abort()"
DONE = "send(Done(name, 'stop', Timings()))"


def failed(code: str) -> str:
    return f"send(Failed({code!r}, 'No.', {{}})); os._exit(1)"


def killed(signal_number: int) -> str:
    return f"os.kill(os.getpid(), {signal_number}); time.sleep(60)"


def supervisor_of(keys: Sequence[str], end: str) -> WorkerSupervisor:
    program = WORKER.format(cards=tuple(keys), end=end)
    return WorkerSupervisor(Load({}), [sys.executable, "-c", program], backoff_s=(0.0,) * 3)


async def crash(supervisor: WorkerSupervisor, number: int) -> None:
    """Have the worker answer one request, and wait until it is gone."""
    await supervisor.load()
    start = Start(f"r{number}", (1, 2), max_tokens=5, stop_ids=(), sampling=SamplingParams())
    handle = supervisor.submit(start)
    assert [message async for message in handle if isinstance(message, Tokens)]
    while supervisor.state is WorkerState.READY:
        await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("end", "is_counted"),
    [
        (ABORT, True),
        ("os._exit(70)", True),  # as a driver ends a process
        (failed("gpu_failed"), True),
        (failed("gpu_lost"), True),
        (failed("gpu_stalled"), False),  # has taken the pass itself
        (failed("gpu_out_of_memory"), False),
        (failed("internal_error"), False),
        (killed(9), False),
        (killed(getattr(signal, "SIGBUS", 0)), False),  # the model's file
    ],
)
async def test_ends_that_may_be_the_cards_count_and_no_others(
    keys: list[str], home: Path, end: str, is_counted: bool
) -> None:
    if "os.kill" in end and sys.platform == "win32":
        pytest.skip("signals are POSIX")
    supervisor = supervisor_of(keys[:1], end)
    try:
        for number in range(2):
            assert all(record.is_passed for record in read_records(home))
            await crash(supervisor, number)
        await supervisor.wait_ready()  # the count comes before the next start
    finally:
        await supervisor.close()
    left_out = [record.card for record in read_records(home) if not record.is_passed]
    assert left_out == (["RTX 5070"] if is_counted else [])


@pytest.mark.parametrize(("num_cards", "end"), [(0, ABORT), (1, f"{DONE}\n{ABORT}")])
async def test_a_crash_without_a_card_or_without_a_request_is_not_counted(
    keys: list[str], home: Path, num_cards: int, end: str
) -> None:
    supervisor = supervisor_of(keys[:num_cards], end)
    try:
        for number in range(2):
            await crash(supervisor, number)
        await supervisor.wait_ready()
    finally:
        await supervisor.close()
    assert all(record.is_passed for record in read_records(home))
