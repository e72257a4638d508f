"""Order on the emulated card: only streams and events make any, and what lacks it goes wrong."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from engine.device.base import DeviceError
from engine.device.emulated import EmulatedDevice
from engine.device.emulated_work import Timing
from tests.support.emulated import TEST_KERNELS, Card

COUNT = ctypes.c_int32(32)
SEEDS = range(12)


def new_device(seed: int = 0, timing: Timing = Timing.RANDOM) -> EmulatedDevice:
    device = EmulatedDevice(1 << 30, seed=seed, timing=timing, kernel_folder=TEST_KERNELS)
    device.load_kernels(["plain"])
    return device


@pytest.fixture
def card() -> Iterator[Card]:
    device = new_device()
    yield Card(device)
    device.close()


def ones(card: Card) -> int:
    address = card.up(np.ones(32, np.float32))
    card.stream.synchronize()
    return address


def first(card: Card, address: int) -> float:
    return float(card.down(address, 32, np.float32)[0])


@pytest.mark.parametrize("timing", list(Timing))
def test_a_stream_does_its_work_in_order(timing: Timing) -> None:
    for seed in SEEDS:
        card = Card(new_device(seed, timing))
        values, other = ones(card), card.device.alloc(128).address
        card.launch("add_to", 32, values, 1.0, COUNT)
        card.stream.copy(other, values, 128)
        card.launch("add_to", 32, values, 5.0, COUNT)
        card.launch("add_to", 32, other, 0.5, COUNT)
        card.stream.copy(values, other, 64)

        result = card.down(values, 32, np.float32)

        assert result.tolist() == [2.5] * 16 + [7.0] * 16


def test_nothing_happens_before_somebody_waits(card: Card) -> None:
    values = ones(card)

    card.launch("add_to", 32, values, 1.0, COUNT)

    assert (ctypes.c_float * 32).from_address(values)[0] == 1.0
    card.stream.synchronize()
    assert (ctypes.c_float * 32).from_address(values)[0] == 2.0


def test_pinned_memory_is_read_when_the_copy_is_done_and_other_memory_at_once(card: Card) -> None:
    pinned, plain = card.device.pinned(128), np.ones(32, np.float32)
    source = pinned.array.view(np.float32)
    source[:] = 1
    late, early = card.device.alloc(128).address, card.device.alloc(128).address

    card.stream.upload(late, source)
    card.stream.upload(early, plain)
    source[:] = 7
    plain[:] = 7

    assert (first(card, late), first(card, early)) == (7, 1)


def test_a_download_into_pinned_memory_arrives_when_it_is_waited_for(card: Card) -> None:
    values, pinned = ones(card), card.device.pinned(128)
    pinned.array[:] = 0
    event = card.device.new_event()

    card.stream.download(pinned.array.view(np.float32), values)
    card.stream.record(event)

    assert not pinned.array.any()
    event.synchronize()
    assert pinned.array.view(np.float32).tolist() == [1] * 32


def test_memory_that_was_registered_counts_as_pinned(card: Card) -> None:
    array = np.zeros(256, np.uint8)
    pinned = card.device.pin(array)
    assert pinned is not None
    values = ones(card)

    card.stream.upload(values, array[:128])
    array[:128].view(np.float32)[:] = 3

    assert first(card, values) == 3
    card.launch("add_to", 32, pinned.device_address, 2.0, COUNT)
    card.stream.synchronize()
    assert array.view(np.float32)[0] == 5
    pinned.free()
    with pytest.raises(DeviceError, match="a card cannot reach it"):
        card.launch("add_to", 32, pinned.device_address, 2.0, COUNT)


def in_two_streams(device: EmulatedDevice, *, with_event: bool) -> float:
    """1, + 1 in one stream, doubled by a copy and a sum in another: 2 where both are ordered."""
    card, second = Card(device), Card(device)
    values, target = ones(card), card.device.alloc(128).address
    event = device.new_event()
    card.launch("add_to", 32, values, 1.0, COUNT)
    card.stream.record(event)
    if with_event:
        second.stream.wait(event)
    second.stream.copy(target, values, 128)
    return first(second, target)


@pytest.mark.parametrize("timing", list(Timing))
def test_an_event_orders_streams(timing: Timing) -> None:
    assert {in_two_streams(new_device(seed, timing), with_event=True) for seed in SEEDS} == {2}


def test_a_missing_event_shows_as_a_wrong_result() -> None:
    assert in_two_streams(new_device(timing=Timing.LATE), with_event=False) == 1
    results = {in_two_streams(new_device(seed), with_event=False) for seed in SEEDS}
    assert results == {1, 2}


def overwritten_too_early(device: EmulatedDevice, *, with_event: bool) -> float:
    """A buffer is read in one stream and then filled anew in another, which may overtake."""
    card, second = Card(device), Card(device)
    buffer, target = ones(card), card.device.alloc(128).address
    event = device.new_event()
    card.stream.copy(target, buffer, 128)
    card.stream.record(event)
    if with_event:
        second.stream.wait(event)
    second.stream.fill(buffer, 0, 128)
    return first(card, target)


def test_a_buffer_that_is_reused_too_early_shows_as_a_wrong_result() -> None:
    results = {overwritten_too_early(new_device(seed), with_event=False) for seed in SEEDS}
    assert results == {0, 1}
    assert {overwritten_too_early(new_device(seed), with_event=True) for seed in SEEDS} == {1}


def test_waiting_counts_for_the_event_as_it_was_recorded_last(card: Card) -> None:
    values, target = ones(card), card.device.alloc(128).address
    second = Card(card.device)
    event = card.device.new_event()
    card.stream.record(event)
    second.stream.wait(event)
    card.launch("add_to", 32, values, 1.0, COUNT)
    card.stream.record(event)  # the wait above was for the earlier point

    second.stream.copy(target, values, 128)
    second.stream.synchronize()
    event.synchronize()

    assert first(card, values) == 2


def test_an_event_that_was_never_recorded_is_done(card: Card) -> None:
    event = card.device.new_event()

    assert event.is_done()
    card.stream.wait(event)
    event.synchronize()


def test_an_event_is_not_done_at_first_and_is_in_the_end(card: Card) -> None:
    answers = []
    for _ in range(20):
        values, event = ones(card), card.device.new_event()
        card.launch("add_to", 32, values, 1.0, COUNT)
        card.stream.record(event)
        polls = 1
        while not event.is_done():
            polls += 1
        answers.append(polls)

    assert max(answers) > 1


def test_time_between_events_is_measured(card: Card) -> None:
    begin, end = card.device.new_event(timed=True), card.device.new_event(timed=True)
    values = ones(card)
    card.stream.record(begin)
    card.launch("add_to", 32, values, 1.0, COUNT)
    card.stream.record(end)
    with pytest.raises(DeviceError, match="that are done"):
        end.elapsed_ms(begin)

    end.synchronize()

    assert end.elapsed_ms(begin) > 0
    with pytest.raises(DeviceError, match="made for it"):
        end.elapsed_ms(card.device.new_event())


def captured(card: Card, body: Callable[[], None]) -> Callable[[], None]:
    card.stream.begin_capture()
    body()
    graph = card.stream.end_capture()
    return lambda: card.stream.run(graph)


@pytest.mark.parametrize("timing", list(Timing))
def test_a_graph_is_not_done_at_its_capture_and_any_number_of_times_later(timing: Timing) -> None:
    card = Card(new_device(timing=timing))
    values, amount = ones(card), ctypes.c_float(1.0)
    run = captured(card, lambda: card.launch("add_to", 32, values, amount, COUNT))
    amount.value = 100.0  # a captured launch keeps what the arguments held
    assert first(card, values) == 1

    for _ in range(3):
        run()

    assert first(card, values) == 4


def test_a_graph_reads_pinned_memory_at_each_run(card: Card) -> None:
    pinned, values = card.device.pinned(128), ones(card)
    source = pinned.array.view(np.float32)
    run = captured(card, lambda: card.stream.upload(values, source))

    results = []
    for number in (3, 8):
        source[:] = number
        run()
        results.append(first(card, values))

    assert results == [3, 8]


def test_other_streams_join_a_capture_and_keep_its_order() -> None:
    for seed in SEEDS:
        card = Card(new_device(seed))
        side = Card(card.device)
        values, target = ones(card), card.device.alloc(128).address
        fork, join = card.device.new_event(), card.device.new_event()
        card.stream.begin_capture()
        card.launch("add_to", 32, values, 1.0, COUNT)
        card.stream.record(fork)
        side.stream.wait(fork)
        side.stream.copy(target, values, 128)
        side.launch("add_to", 32, target, 10.0, COUNT)
        side.stream.record(join)
        card.stream.wait(join)
        card.launch("add_to", 32, target, 0.5, COUNT)
        graph = card.stream.end_capture()

        card.stream.run(graph)
        card.stream.run(graph)

        assert first(card, target) == 13.5
        side.launch("add_to", 32, values, 1.0, COUNT)  # it is a stream of its own again
        side.stream.synchronize()
        assert first(card, values) == 4


def test_parts_of_a_graph_that_nothing_orders_are_done_in_any_order() -> None:
    results = set()
    for seed in SEEDS:
        card = Card(new_device(seed))
        side = Card(card.device)
        values = ones(card)
        fork, join = card.device.new_event(), card.device.new_event()
        card.stream.begin_capture()
        card.stream.record(fork)
        side.stream.wait(fork)
        side.stream.fill(values, 0, 128)
        side.stream.record(join)
        card.launch("add_to", 32, values, 1.0, COUNT)
        card.stream.wait(join)
        card.stream.run(card.stream.end_capture())
        results.add(first(card, values))

    assert results == {0, 1}


def test_what_a_capture_forbids_is_refused(card: Card) -> None:
    device, values = card.device, ones(card)
    outside, inside, side = device.new_event(), device.new_event(), device.new_stream()
    side.record(outside)
    card.stream.begin_capture()
    card.stream.record(inside)

    for forbidden, words in [
        (lambda: device.alloc(16), "during a capture"),
        (lambda: device.pinned(16), "during a capture"),
        (device.synchronize, "during a capture"),
        (card.stream.synchronize, "during a capture"),
        (lambda: card.stream.upload(values, np.zeros(4, np.float32)), "must lie in pinned memory"),
        (lambda: card.stream.download(np.zeros(4, np.float32), values), "must go into pinned"),
        (lambda: card.stream.wait(outside), "cannot wait for an event from outside"),
        (inside.is_done, "recorded in a capture"),
        (inside.synchronize, "recorded in a capture"),
        (card.stream.begin_capture, "being captured already"),
    ]:
        with pytest.raises(DeviceError, match=words):
            forbidden()

    side.wait(inside)  # joins, and is never waited for
    with pytest.raises(DeviceError, match="was not waited for"):
        card.stream.end_capture()
    with pytest.raises(DeviceError, match="recorded in a capture"):
        side.wait(inside)


def test_a_graph_that_was_freed_cannot_run(card: Card) -> None:
    values = ones(card)
    card.stream.begin_capture()
    card.launch("add_to", 32, values, 1.0, COUNT)
    graph = card.stream.end_capture()

    graph.free()
    graph.free()

    with pytest.raises(DeviceError, match="freed"):
        card.stream.run(graph)


def test_copies_outside_an_allocation_are_refused(card: Card) -> None:
    values = ones(card)

    with pytest.raises(
        DeviceError, match=r"^A copy of 128 bytes at 0x.* is 4 bytes into 128 bytes"
    ):
        card.stream.copy(values + 4, values, 128)


def test_a_long_queue_is_done_without_deep_recursion(card: Card) -> None:
    values = ones(card)
    for _ in range(5000):
        card.launch("add_to", 32, values, 1.0, COUNT)

    assert first(card, values) == 5001
