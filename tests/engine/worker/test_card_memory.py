"""A worker with nothing to do gives graphics memory to a game that is started, and takes it again."""

from __future__ import annotations

import queue
import threading
import time

import pytest

from engine.worker import process
from engine.worker.messages import Load, Message, Quit, Ready
from engine.worker.process import run_worker
from tests.support.golden import GOLDEN
from tests.support.plain_cards import gpu, stand_in
from tests.support.plain_device import PlainDevice
from tests.support.quick_balance import quicken

MIB = 1 << 20


class Front:
    """A channel that loads a model and says when it is there."""

    def __init__(self) -> None:
        self.commands: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self.quit_patience_s = 0.0
        self.is_ready = threading.Event()
        model = str(GOLDEN / "quant-IQ2_XS.gguf")
        settings = {"prompt_chunk": 16, "threads": 1, "vram_reserve_mib": 16}
        self.commands.put(Load({"model": model, "ops": "cuda", "context": 64, **settings}))

    def send(self, *messages: Message) -> None:
        if any(isinstance(message, Ready) for message in messages):
            self.is_ready.set()


def wait_until(is_so: object, what: str) -> None:
    assert callable(is_so)
    for _ in range(3000):
        if is_so():
            return
        time.sleep(0.01)
    raise AssertionError(what)


def test_a_worker_without_requests_follows_what_a_game_takes(monkeypatch: pytest.MonkeyPatch):
    device = PlainDevice(600 * MIB)
    stand_in(monkeypatch, lambda: device, gpus=[gpu(0, 0.6)])
    monkeypatch.setattr(process, "CARD_LOOK_S", 0.01)
    quicken(monkeypatch)
    front = Front()
    thread = threading.Thread(target=run_worker, args=(front,))
    thread.start()
    assert front.is_ready.wait(60)
    used = device.used_bytes
    device.taken_bytes = device.free_bytes() - 15 * MIB  # a megabyte of the reserve
    wait_until(lambda: device.used_bytes < used - 100_000, "no slot was given back")
    device.taken_bytes = 0
    wait_until(lambda: device.used_bytes >= used - 1_000, "no slot was taken again")
    front.commands.put(Quit())
    thread.join(60)
    assert not thread.is_alive()
