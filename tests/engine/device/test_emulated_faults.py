"""Mistakes of kernels that the emulated card catches, each with the kernel's name."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import numpy as np
import pytest

from engine.device.base import DeviceError
from engine.device.emulated import EmulatedDevice, ThreadOrder
from tests.support.emulated import TEST_KERNELS, Card, results_in_all_orders


@pytest.fixture
def card() -> Iterator[Card]:
    device = EmulatedDevice(1 << 30, kernel_folder=TEST_KERNELS)
    device.load_kernels()
    yield Card(device)
    device.close()


def fails(card: Card, words: str) -> None:
    with pytest.raises(DeviceError, match=words):
        card.stream.synchronize()


@pytest.mark.parametrize(
    ("index", "where"),
    # Between the 4,000 bytes and the next page there are 96 more; the page behind is nobody's.
    [(1024, "96 bytes behind the end of 4000 bytes"), (-1100, r"4400 bytes before 4000 bytes")],
)
def test_reading_outside_an_allocation_names_kernel_and_place(
    card: Card, index: int, where: str
) -> None:
    values, out = card.up(np.zeros(1000, np.float32)), card.up(np.zeros(1, np.float32))

    card.launch("read_at", 32, values, ctypes.c_int64(index), out, blocks=3)

    fails(
        card, rf"^read_at reads 0x[0-9a-f]+, {where} at 0x[0-9a-f]+, in block \(\d, 0, 0\), thread"
    )


@pytest.mark.parametrize("distance", [0, 1, 95, 96, 4000])
def test_writing_one_byte_behind_an_allocation_is_caught(card: Card, distance: int) -> None:
    values = card.up(np.zeros(4000, np.uint8))

    card.launch("write_at", 32, values, ctypes.c_int64(4000 + distance))

    fails(card, "^write_at writes ")


def test_memory_that_was_freed_faults(card: Card) -> None:
    memory = card.device.alloc(4096)
    out = card.up(np.zeros(1, np.float32))
    card.launch("read_at", 32, memory.address, ctypes.c_int64(0), out)

    memory.free()

    fails(card, "^read_at reads .* 0 bytes into 4096 bytes that were freed")


def test_a_card_that_failed_stays_failed(card: Card) -> None:
    values, out = card.up(np.zeros(4, np.float32)), card.up(np.zeros(1, np.float32))
    near_zero = 1024 - values // 4  # where nothing is ever mapped
    card.launch("read_at", 32, values, ctypes.c_int64(near_zero), out)
    fails(card, "read_at reads .* in no memory of the card")

    with pytest.raises(DeviceError, match="read_at reads"):
        card.device.alloc(16)
    with pytest.raises(DeviceError, match="read_at reads"):
        card.launch("read_at", 32, values, ctypes.c_int64(0), out)


def test_the_process_and_another_card_live_on_after_a_fault(card: Card) -> None:
    for _ in range(3):
        other = Card(EmulatedDevice(1 << 20, kernel_folder=TEST_KERNELS))
        other.device.load_kernels()
        out = other.up(np.zeros(32, np.int32))
        other.launch("wait_apart", 64, out)
        fails(other, "wait_apart")
    values = card.up(np.ones(64, np.float32))

    card.launch("add_to", 64, values, 2.0, ctypes.c_int32(64))

    assert card.down(values, 64, np.float32).tolist() == [3.0] * 64


@pytest.mark.parametrize("index", [1, 2, 3])
def test_misaligned_addresses_are_caught(card: Card, index: int) -> None:
    values, out = card.up(np.zeros(64, np.uint8)), card.up(np.zeros(32, np.uint32))

    card.launch("read_words_at", 32, values, ctypes.c_int64(index), out)

    fails(card, "^read_words_at fails a check: a misaligned address")


@pytest.mark.parametrize("index", [-1, 32, 1000])
def test_indices_outside_a_shared_array_are_caught(card: Card, index: int) -> None:
    card.launch("index_shared", 32, ctypes.c_int32(index), card.up(np.zeros(32, np.float32)))

    fails(card, "^index_shared fails a check: .* an index outside an array")


def test_dynamic_shared_memory_ends_where_the_launch_says(card: Card) -> None:
    out = card.up(np.zeros(32, np.float32))
    card.launch("index_dynamic_shared", 32, ctypes.c_int32(31), out, shared_bytes=128)
    card.stream.synchronize()

    card.launch("index_dynamic_shared", 32, ctypes.c_int32(32), out, shared_bytes=128)

    fails(card, "^index_dynamic_shared reads ")


def test_a_launch_with_too_much_shared_memory_is_refused(card: Card) -> None:
    with pytest.raises(DeviceError, match="49153 bytes of shared memory"):
        card.launch(
            "index_dynamic_shared", 32, ctypes.c_int32(0), card.up(np.zeros(32, np.float32)),
            shared_bytes=(48 << 10) + 1,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("kernel", "value", "words"),
    [("shift_by", 32, "a shift by too many bits"), ("divide_by", 0, "divides by zero")],
)
def test_arithmetic_that_a_card_does_differently_is_caught(
    card: Card, kernel: str, value: int, words: str
) -> None:
    card.launch(kernel, 32, ctypes.c_int32(value), card.up(np.zeros(32, np.int32)))

    fails(card, f"^{kernel} .*{words}")


@pytest.mark.parametrize(
    ("kernel", "threads", "words"),
    [
        (
            "wait_apart",
            64,
            r"threads wait for ever: 48 at a block barrier, 16 at warp instructions",
        ),
        ("shuffle_without_the_last", 32, "31 at warp instructions .* and 1 have ended"),
        ("meet_differently", 32, "lanes of one mask meet at different operations"),
    ],
)
def test_threads_that_would_wait_for_ever_are_reported(
    card: Card, kernel: str, threads: int, words: str
) -> None:
    card.launch(kernel, threads, card.up(np.zeros(64, np.int32)))

    fails(card, f"^{kernel} .*{words}.* in block")


def test_a_stack_that_is_full_is_reported(card: Card) -> None:
    card.launch("fill_stack", 32, ctypes.c_int32(40000), card.up(np.zeros(32, np.int32)))

    fails(card, "^fill_stack ")


def test_a_lane_that_is_not_there_gives_no_sensible_value(card: Card) -> None:
    out = card.up(np.zeros(8, np.int32))

    card.launch("shuffle_from_outside", 32, out)

    assert 7 not in card.down(out, 8, np.int32).tolist()


def test_a_missing_wait_for_an_asynchronous_copy_shows(card: Card) -> None:
    out = card.up(np.zeros(32, np.uint32))

    card.launch("copy_without_wait", 32, card.up(np.arange(32, dtype=np.uint32)), out)

    assert set(card.down(out, 32, np.uint32).tolist()) == {0xFFFFFFFF}


def test_shared_memory_is_poisoned_before_each_block(card: Card) -> None:
    for _ in range(8):  # the emulator learns from the first launches which bytes a kernel uses
        out = card.up(np.zeros((3, 64), np.float32))
        card.launch(
            "sum_blocks", 64, card.up(np.ones((3, 64), np.float32)), card.up(np.zeros(3)), blocks=3
        )
        card.launch("use_shared_unset", 64, out, blocks=3)
        result = card.down(out, (3, 64), np.float32)
        assert (result[:, :16] == 1).all()
        assert np.isnan(result[:, 16:]).all()
        card.launch("read_what_was_left", 64, out, blocks=3)
        assert np.isnan(card.down(out, (3, 64), np.float32)).all()


def test_an_address_of_the_host_is_refused(card: Card) -> None:
    array = np.zeros(4, np.float32)

    with pytest.raises(DeviceError, match=r"^Argument 0 of read_at is 0x.* a card cannot reach it"):
        card.launch("read_at", 32, array.ctypes.data, ctypes.c_int64(0), card.up(np.zeros(1)))


def test_an_address_of_another_card_is_refused(card: Card) -> None:
    other = EmulatedDevice(1 << 20, kernel_folder=TEST_KERNELS)
    memory = other.alloc(64)

    with pytest.raises(DeviceError, match=r"^Argument 0 of read_at"):
        card.launch("read_at", 32, memory.address, ctypes.c_int64(0), card.up(np.zeros(1)))


def test_new_memory_holds_no_numbers(card: Card) -> None:
    memory, pinned = card.device.alloc(4000), card.device.pinned(4000)

    assert np.isnan(card.down(memory.address, 1000, np.float32)).all()
    assert np.isnan(pinned.array.view(np.float16)).all()


def run_alone(kernel: str, blocks: int, threads: int) -> int:
    """How many results a kernel with one output has."""

    def run(device: EmulatedDevice) -> np.ndarray:
        device.load_kernels(["wrong"])
        card = Card(device)
        out = card.up(np.zeros(blocks * threads, np.int32))
        card.launch(kernel, threads, out, blocks=blocks)
        return card.down(out, blocks * threads, np.int32)

    return len(results_in_all_orders(run, TEST_KERNELS))


@pytest.mark.parametrize(
    ("kernel", "blocks", "threads"),
    [("race_in_shared", 1, 128), ("race_of_blocks", 5, 32), ("use_shared_unset", 1, 64)],
)
def test_races_and_unset_memory_show_as_different_results(
    kernel: str, blocks: int, threads: int
) -> None:
    assert run_alone(kernel, blocks, threads) > 1


def test_the_order_of_threads_can_be_chosen() -> None:
    results = []
    for order in (ThreadOrder.FORWARD, ThreadOrder.BACKWARD):
        device = EmulatedDevice(1 << 20, thread_order=order, kernel_folder=TEST_KERNELS)
        device.load_kernels(["wrong"])
        card = Card(device)
        out = card.up(np.zeros(1, np.int32))
        card.launch("race_of_blocks", 32, out, blocks=7)
        results.append(int(card.down(out, 1, np.int32)[0]))

    assert results == [6, 0]
