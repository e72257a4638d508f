"""Memory of emulated cards: limits, several cards, and failures that tests ask for."""

from __future__ import annotations

import ctypes
import gc
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from engine.core.errors import ResourceError
from engine.device.base import Arguments, DeviceError, DeviceMemoryError
from engine.device.emulated import EmulatedDevice
from tests.support.emulated import TEST_KERNELS, Card

COUNT = ctypes.c_int32(32)


def test_a_card_gives_as_much_as_it_has() -> None:
    device = EmulatedDevice(1 << 20, name="Small card")
    first = device.alloc(1 << 19)
    assert device.free_bytes() == 1 << 19

    with pytest.raises(DeviceMemoryError, match="Small card has 0 MiB free and 0 MiB are needed"):
        device.alloc((1 << 19) + 1)

    first.free()
    first.free()
    assert device.free_bytes() == 1 << 20
    assert device.alloc(1 << 20).address % 256 == 0
    assert device.free_bytes() == 0


def test_other_programs_may_take_memory_at_any_time() -> None:
    device = EmulatedDevice(1 << 20)
    memory = device.alloc(1 << 19)

    device.others_bytes = 1 << 20

    assert device.free_bytes() == 0
    with pytest.raises(DeviceMemoryError):
        device.alloc(256)
    memory.free()
    assert device.free_bytes() == 0
    device.others_bytes = 0
    device.alloc(1 << 20)


def test_allocations_are_aligned_and_apart() -> None:
    device = EmulatedDevice(1 << 24)
    sizes = [1, 255, 256, 257, 4095, 4096, 4097, 100_000]

    blocks = sorted((device.alloc(size).address, size) for size in sizes for _ in range(3))

    assert all(address % 256 == 0 for address, _ in blocks)
    for (address, size), (following, _) in pairwise(blocks):
        assert address + size + 65536 < following


def test_two_cards_of_different_sizes_work_side_by_side() -> None:
    cards = [
        Card(EmulatedDevice(size, seed=seed, kernel_folder=TEST_KERNELS))
        for seed, size in enumerate((1 << 20, 1 << 22))
    ]
    for card in cards:
        card.device.load_kernels(["plain"])
    bridge = [card.device.pinned(128) for card in cards]
    small, large = cards
    ready = small.device.new_event()
    values = [card.up(np.full(32, i, np.float32)) for i, card in enumerate(cards)]

    # Layer split: the first card's result goes over the host to the second one.
    small.launch("add_to", 32, values[0], 5.0, COUNT)
    small.stream.download(bridge[0].array.view(np.float32), values[0])
    small.stream.record(ready)
    ready.synchronize()
    bridge[1].array[:] = bridge[0].array
    large.stream.upload(values[1], bridge[1].array.view(np.float32))
    large.launch("add_to", 32, values[1], 1.0, COUNT)

    assert large.down(values[1], 32, np.float32).tolist() == [6.0] * 32
    assert small.device.info.total_bytes != large.device.info.total_bytes
    with pytest.raises(DeviceMemoryError):
        small.device.alloc(1 << 21)
    large.device.alloc(1 << 21)
    with pytest.raises(DeviceError, match="add_to is another device's"):
        large.stream.launch(
            small.device.kernel("add_to"),
            (1, 1, 1),
            (32, 1, 1),
            Arguments(ctypes.c_void_p(values[1]), ctypes.c_float(1), COUNT),
        )


def test_memory_that_is_pinned_for_one_card_is_pinned_for_all() -> None:
    owner = EmulatedDevice(1 << 20)
    card = Card(EmulatedDevice(1 << 20, kernel_folder=TEST_KERNELS))
    card.device.load_kernels(["plain"])
    pinned, target = owner.pinned(128), card.up(np.zeros(32, np.float32))
    source = pinned.array.view(np.float32)
    source[:] = 1

    card.stream.upload(target, source)
    source[:] = 5
    card.launch("add_to", 32, pinned.device_address, 1.0, COUNT)

    assert card.down(target, 32, np.float32).tolist() == [5] * 32
    assert source.tolist() == [6] * 32
    owner.close()
    with pytest.raises(DeviceError, match="cannot reach it"):
        card.launch("add_to", 32, pinned.device_address, 1.0, COUNT)


def test_a_card_that_nobody_closed_gives_its_memory_back() -> None:
    def resident_pages() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1])

    if not Path("/proc/self/statm").exists():
        pytest.skip("the system does not say how much memory a process has")
    before = resident_pages()
    for _ in range(20):
        device = EmulatedDevice(1 << 30)
        device.new_stream()
        device.alloc(32 << 20)
        del device
    gc.collect()

    assert (resident_pages() - before) * 4096 < 100 << 20


def test_the_system_may_refuse_to_lock_memory() -> None:
    device = EmulatedDevice(1 << 20)
    device.pinned_limit = 1000
    first = device.pinned(600)

    with pytest.raises(ResourceError, match="refuses to lock 600 bytes"):
        device.pinned(600)
    assert device.pin(np.zeros(600, np.uint8)) is None

    first.free()
    first.free()
    device.pinned(600)


def test_views_of_pinned_memory_outlive_it() -> None:
    device = EmulatedDevice(1 << 20)
    pinned = device.pinned(4096)
    view = pinned.array[100:200]
    view[:] = 4

    pinned.free()
    device.close()
    del pinned, device
    gc.collect()

    assert view.tolist() == [4] * 100


def test_a_stalled_card_gets_nothing_done() -> None:
    card = Card(EmulatedDevice(1 << 20))
    event = card.device.new_event()
    card.stream.fill(card.device.alloc(64).address, 0, 64)
    card.stream.record(event)

    card.device.is_stalled = True
    assert not any(event.is_done() for _ in range(50))
    with pytest.raises(DeviceError, match="is stalled"):
        event.synchronize()

    card.device.is_stalled = False
    event.synchronize()


def test_a_card_that_falls_off_the_bus_fails_at_every_call() -> None:
    device = EmulatedDevice(1 << 20)
    stream, event = device.new_stream(), device.new_event()

    device.fail("The card is gone.")

    for call in (device.free_bytes, lambda: device.alloc(1), stream.synchronize, event.is_done):
        with pytest.raises(DeviceError, match=r"The card is gone\."):
            call()


def test_a_closed_card_is_closed() -> None:
    device = EmulatedDevice(1 << 20, name="Card")
    memory = device.alloc(100)

    device.close()
    device.close()
    memory.free()

    with pytest.raises(DeviceError, match="Card is closed"):
        device.alloc(100)
