"""Experts in locked memory: in place, as a copy, or through buffers, the same bytes arrive."""

import mmap

import numpy as np
import pytest

from engine.device.array import ArraySpace
from engine.device.emulated import EmulatedDevice
from engine.memory.expert_bank import Bank, ExpertMover, ExpertSource
from engine.memory.expert_pins import ExpertPins

RANDOM = np.random.default_rng(6)
PAGE = mmap.ALLOCATIONGRANULARITY
NUM_EXPERTS = 12
SIZES = (PAGE // 2, PAGE // 2, 3 * PAGE // 4)


def sources(count: int = 2) -> list[ExpertSource]:
    """Layers whose stacks follow each other, as in a file: they share pages."""
    file = RANDOM.integers(0, 256, count * NUM_EXPERTS * sum(SIZES) + 3 * PAGE, np.uint8)
    at, made = 96 - file.ctypes.data % 32, []
    for _ in range(count):
        parts = []
        for size in SIZES:
            num_bytes = NUM_EXPERTS * size
            parts.append(file[at : at + num_bytes].reshape(NUM_EXPERTS, size))
            at += num_bytes
        made.append(ExpertSource.of(*parts))
    return made


def num_locked(pins: ExpertPins, source: ExpertSource) -> int:
    return sum(pins.parts_of(source, e) is not None for e in range(NUM_EXPERTS))


def check_copies(device: EmulatedDevice, layers: list[ExpertSource], pins: ExpertPins) -> None:
    space = ArraySpace(device, device.new_stream())
    mover = ExpertMover(device, layers[0].layout.slot_bytes, pins=pins)
    for source in layers:
        layout = source.layout
        bank = Bank(space.empty((NUM_EXPERTS * layout.slot_bytes,), np.uint8), NUM_EXPERTS, layout)
        mover.put_all(source, list(range(NUM_EXPERTS - 1)), bank)
        mover.put(source, NUM_EXPERTS - 1, bank.address_of(NUM_EXPERTS - 1))
        mover.stream.synchronize()
        assert bank.memory is not None
        slots = bank.memory.numpy().reshape(NUM_EXPERTS, layout.slot_bytes)
        for part, offset, size in zip(source.parts, layout.offsets, layout.sizes, strict=True):
            np.testing.assert_array_equal(slots[:, offset : offset + size], part)
    mover.close()
    assert device._pinned_bytes == 0


@pytest.mark.parametrize(
    ("limit", "copy_bytes", "locked"),
    [
        (None, 0, [True, True]),  # all in place
        (0, 1 << 30, [False, False]),  # nothing may be locked, not even a copy
        (2 * NUM_EXPERTS * sum(SIZES), 1 << 30, [True, True]),
        (NUM_EXPERTS * sum(SIZES) - 1, 0, [True, False]),  # without the edges one layer fits
    ],
)
def test_every_expert_arrives_whatever_can_be_locked(limit, copy_bytes, locked, caplog):
    device = EmulatedDevice(1 << 24, seed=3)  # copies are done late
    layers = sources()
    device.pinned_limit = limit
    pins = ExpertPins(device, layers, copy_bytes)
    device.pinned_limit = None
    found = [num_locked(pins, source) for source in layers]
    assert [count > NUM_EXPERTS // 2 for count in found] == locked
    assert ("refuses to lock the experts" in caplog.text) is not all(locked)
    check_copies(device, layers, pins)


def test_what_cannot_be_locked_in_place_is_copied_as_far_as_there_is_room(monkeypatch, caplog):
    device = EmulatedDevice(1 << 24, seed=4)
    monkeypatch.setattr(device, "pin", lambda _array: None)  # a driver that locks no mapped file
    layers = sources(3)
    layer_bytes = NUM_EXPERTS * sum(SIZES)
    pins = ExpertPins(device, layers, 2 * layer_bytes)
    assert [num_locked(pins, source) for source in layers] == [NUM_EXPERTS, NUM_EXPERTS, 0]
    assert (pins.in_place_bytes, pins.copied_bytes) == (0, 2 * layer_bytes)
    assert caplog.text.count("refuses to lock the experts") == 1
    check_copies(device, layers, pins)


def test_no_page_is_locked_twice(monkeypatch):
    device = EmulatedDevice(1 << 24)
    pages: list[int] = []
    pin = device.pin

    def noted(array):
        first = array.ctypes.data // PAGE
        pages.extend(range(first, -(-(array.ctypes.data + array.nbytes) // PAGE)))
        return pin(array)

    monkeypatch.setattr(device, "pin", noted)
    pins = ExpertPins(device, sources(), 0)
    assert len(pages) == len(set(pages)) > 30
    pins.close()
