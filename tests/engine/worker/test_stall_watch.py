"""A card that gives no answer any more is noticed; one that is slow, and a slow processor, are not."""

from __future__ import annotations

import functools
import logging
import queue
import threading
from collections.abc import Sequence

import pytest

from engine.device.base import DeviceError
from engine.device.emulated import EmulatedDevice
from engine.ops.base import Limits
from engine.ops.cuda import CudaOps
from engine.ops.cuda_settings import CardUse
from engine.worker import card_loading, process
from engine.worker.messages import Failed, Load, Message, SamplingParams, Start, Tokens
from engine.worker.process import run_worker
from engine.worker.stall_watch import StallWatch
from tests.support.golden import GOLDEN
from tests.support.plain_cards import stand_in


class HungDevice(EmulatedDevice):
    """A card that is waited for until somebody lets it go."""

    def __init__(self) -> None:
        super().__init__(1 << 20)
        self.is_let_go = threading.Event()

    def finish(self, wanted):
        self.is_let_go.wait(60)


def test_a_wait_that_does_not_end_is_told_once_and_the_log_says_where(caplog):
    device = HungDevice()
    told: list[float] = []

    def on_stall(silent_s: float) -> None:
        told.append(silent_s)
        device.is_let_go.set()

    watch = StallWatch(on_stall, limit_s=0.2, look_every_s=0.02)
    watch.start()
    with caplog.at_level(logging.CRITICAL):
        device.new_stream().synchronize()
    assert device.is_let_go.is_set()
    watch.close()
    assert len(told) == 1
    assert told[0] > 0.2
    assert "emulated_stream.py" in caplog.text
    assert "self.device.finish" in caplog.text


def waits_for(seconds: float, wait, watch: StallWatch, beat_every_s: float | None = None) -> None:
    """Have this thread wait, with beats if asked for."""
    if beat_every_s is None:
        wait(seconds)
        return
    for _ in range(int(seconds / beat_every_s)):
        wait(beat_every_s)
        watch.beat()


@pytest.mark.parametrize("is_in_card", [False, True])
def test_long_work_of_the_processor_and_a_card_that_goes_on_are_no_stall(is_in_card):
    told: list[float] = []
    watch = StallWatch(told.append, limit_s=1.5, look_every_s=0.02)
    watch.start()
    device = HungDevice()
    pause = threading.Event()

    def wait_on_card(seconds: float) -> None:
        timer = threading.Timer(seconds, device.is_let_go.set)
        timer.start()
        device.new_stream().synchronize()
        timer.join()
        device.is_let_go.clear()

    if is_in_card:
        waits_for(2.4, wait_on_card, watch, beat_every_s=0.05)
    else:
        waits_for(2.4, pause.wait, watch)
    watch.close()
    assert told == []


def test_closing_ends_the_thread():
    watch = StallWatch([].append, look_every_s=30)
    watch.start()
    watch.close()
    watch.close()
    assert not any(thread.name == "card" for thread in threading.enumerate())


class FrontThatWaits:
    """A channel that has a card fail with the first token of an answer."""

    def __init__(self, fail, on_end=lambda: None) -> None:
        self.commands: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self.quit_patience_s = 0.0
        self.sent: list[Message] = []
        self.last: list[Message] = []
        self._fail = fail
        self._on_end = on_end
        greedy = SamplingParams(temperature=0)
        model = str(GOLDEN / "quant-IQ2_XS.gguf")
        self.commands.put(
            Load({"model": model, "ops": "cuda", "context": 64, "prompt_chunk": 16, "threads": 1})
        )
        self.commands.put(Start("a", (5, 6, 7), max_tokens=20, stop_ids=(), sampling=greedy))

    def send(self, *messages: Message) -> None:
        self.sent += messages
        if any(isinstance(message, Tokens) for message in messages):
            self._fail()

    def end_with(self, message: Message) -> None:
        """The real one ends the process; here the card is let go so that the thread comes back."""
        self.last.append(message)
        self._on_end()


class FailingDevice(EmulatedDevice):
    """A card that hangs until somebody lets it go, then falls off the bus."""

    def __init__(self) -> None:
        super().__init__(1 << 29)
        self.is_hung = False
        self.is_let_go = threading.Event()

    def finish(self, wanted):
        if self.is_hung:
            self.is_let_go.wait(60)
            raise DeviceError("The card is gone.", code="gpu_lost")
        super().finish(wanted)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> FailingDevice:
    found = FailingDevice()

    def make(name: str, limits: Limits, settings: object, cards: Sequence[CardUse]) -> CudaOps:
        return CudaOps(limits, found, cards[0].settings)

    stand_in(monkeypatch, lambda: found)
    monkeypatch.setattr(card_loading, "make_ops", make)
    return found


def test_a_card_that_hangs_amid_an_answer_ends_the_worker_with_a_sentence(
    device, caplog, monkeypatch
):
    quick = functools.partial(StallWatch, limit_s=0.3, look_every_s=0.02)
    monkeypatch.setattr(process, "StallWatch", quick)
    front = FrontThatWaits(lambda: setattr(device, "is_hung", True), device.is_let_go.set)
    run_worker(front)
    (told,) = front.last
    assert isinstance(told, Failed)
    assert told.code == "gpu_stalled"
    assert "has not answered for 0 seconds; the model is started again" in told.message
    assert "no answer of the card" in caplog.text


def test_a_card_that_is_lost_amid_an_answer_ends_the_worker_with_its_sentence(device):
    sentence = "The card has fallen off the bus."
    front = FrontThatWaits(lambda: device.fail(sentence))
    assert run_worker(front) != 0
    told = front.sent[-1]
    assert isinstance(told, Failed)
    assert told.message == sentence
    assert front.last == []
