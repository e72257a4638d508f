"""Threads, warps and blocks of the emulated card, against numpy and Python."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import numpy as np
import pytest

from engine.device.base import DeviceError
from engine.device.emulated import EmulatedDevice, ThreadOrder
from tests.support.emulated import TEST_KERNELS, Card

ORDERS = [ThreadOrder.FORWARD, ThreadOrder.BACKWARD, ThreadOrder.RANDOM]


@pytest.fixture(params=ORDERS, ids=lambda order: order.name.lower())
def card(request: pytest.FixtureRequest) -> Iterator[Card]:
    device = EmulatedDevice(1 << 30, thread_order=request.param, seed=3, kernel_folder=TEST_KERNELS)
    device.load_kernels()
    yield Card(device)
    device.close()


def test_every_thread_of_every_block_runs_once_and_knows_where_it_is(card: Card) -> None:
    grid, block = (3, 2, 2), (8, 2, 4)
    out = card.up(np.full((12, 64, 6), -1, np.int32))

    card.launch("write_indices", block, out, blocks=grid)

    expected = [
        (bx, by, bz, tx, ty, tz)
        for bz in range(2)
        for by in range(2)
        for bx in range(3)
        for tz in range(4)
        for ty in range(2)
        for tx in range(8)
    ]
    assert card.down(out, (768, 6), np.int32).tolist() == [list(where) for where in expected]


def test_sums_of_blocks_meet_at_shuffles_and_barriers(card: Card) -> None:
    values = np.random.default_rng(1).integers(-50, 50, (9, 1024)).astype(np.float32)
    sums = card.up(np.zeros(9, np.float32))

    card.launch("sum_blocks", 1024, card.up(values), sums, blocks=9)

    assert np.array_equal(card.down(sums, 9, np.float32), values.sum(1))


def test_warp_instructions_move_what_cuda_says(card: Card) -> None:
    values = np.random.default_rng(2).permutation(32).astype(np.int32)
    out = card.up(np.zeros((10, 32), np.int32))

    card.launch("warp_instructions", 32, card.up(values), out)

    lane = np.arange(32)
    threes = int(sum(1 << i for i in lane if values[i] % 3 == 0))
    expected = [
        values[lane * 7 % 32],
        values[np.where(lane >= 3, lane - 3, lane)],
        values[np.where(lane + 5 < 32, lane + 5, lane)],
        values[lane ^ 9],
        values[lane // 8 * 8 + 2],
        values[np.where(lane % 8 >= 1, lane - 1, lane)],
        values[np.where(lane % 16 + 2 < 16, lane + 2, lane)],
        np.full(32, threes, np.uint32).view(np.int32),
        np.full(32, 3),
        values[np.where(lane < 16, lane ^ 1, lane ^ 2)],
    ]
    assert card.down(out, (10, 32), np.int32).tolist() == [row.tolist() for row in expected]


def test_sums_of_a_warp_have_the_bits_of_shuffles(card: Card) -> None:
    values = np.random.default_rng(6).standard_normal(32).astype(np.float32)
    out, integers = card.up(np.zeros((3, 32), np.float32)), card.up(np.zeros(32, np.int32))

    card.launch("sum_warp", 32, card.up(values), out, integers)

    sums = values
    for step in (16, 8, 4, 2, 1):
        sums = sums + sums[np.arange(32) ^ step]
    rows = card.down(out, (3, 32), np.float32)
    assert rows[0].tobytes() == rows[1].tobytes() == sums.tobytes()
    assert rows[2].tolist() == [values.max()] * 32
    assert card.down(integers, 32, np.int32).tolist() == [496] * 32


def test_a_barrier_counts_predicates_of_all_threads(card: Card) -> None:
    values = np.arange(96, dtype=np.int32)
    out = card.up(np.zeros(3, np.int32))

    card.launch("count_in_block", 96, card.up(values), out)

    assert card.down(out, 3, np.int32).tolist() == [92, 1, 1]


def test_atomics_lose_nothing(card: Card) -> None:
    integers, floats = card.up(np.zeros(6, np.int32)), card.up(np.zeros(1, np.float32))

    card.launch("atomics", 256, integers, floats, blocks=4)

    assert card.down(integers, 6, np.int32).tolist() == [2048, 255, -255, 1, 5, 9]
    assert card.down(floats, 1, np.float32)[0] == 512


def test_every_half_is_converted_both_ways(card: Card) -> None:
    bits = np.arange(1 << 16, dtype=np.uint32)
    floats, bfloats = card.up(np.zeros(1 << 16, np.float32)), card.up(np.zeros(1 << 16, np.float32))
    back, bback = card.up(np.zeros(1 << 16, np.uint16)), card.up(np.zeros(1 << 16, np.uint16))

    card.launch("convert_halves", 256, floats, back, bfloats, bback, blocks=256)

    halves = bits.astype(np.uint16).view(np.float16)
    is_number = ~np.isnan(halves)
    assert np.array_equal(
        card.down(floats, 1 << 16, np.float32), halves.astype(np.float32), equal_nan=True
    )
    assert np.array_equal(
        card.down(back, 1 << 16, np.uint16)[is_number], bits.astype(np.uint16)[is_number]
    )
    wide = (bits << 16).view(np.float32)
    assert np.array_equal(card.down(bfloats, 1 << 16, np.float32), wide, equal_nan=True)
    is_wide_number = ~np.isnan(wide)
    assert np.array_equal(
        card.down(bback, 1 << 16, np.uint16)[is_wide_number],
        bits.astype(np.uint16)[is_wide_number],
    )


def test_floats_are_rounded_to_nearest_and_ties_to_even(card: Card) -> None:
    chosen = [1.0, 1.00048828125, 1.00146484375, 65504, 65520, 1e-8, -2.5e-5, 3.0e38, -0.0, 0.1]
    values = np.array([*chosen, *np.random.default_rng(3).standard_normal(54)], np.float32)
    halves, bfloats = card.up(np.zeros(64, np.uint16)), card.up(np.zeros(64, np.uint16))

    card.launch("round_floats", 64, card.up(values), halves, bfloats)

    with np.errstate(over="ignore"):
        expected = values.astype(np.float16).view(np.uint16)
    assert card.down(halves, 64, np.uint16).tolist() == expected.tolist()
    bits = values.view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    assert card.down(bfloats, 64, np.uint16).tolist() == rounded.tolist()


def test_integer_instructions_do_what_cuda_says(card: Card) -> None:
    rng = np.random.default_rng(4)
    a = rng.integers(-(1 << 31), 1 << 31, 64).astype(np.int32)
    b = rng.integers(-(1 << 31), 1 << 31, 64).astype(np.int32)
    a[:7] = [0, -1, 1, -(1 << 31), 0x7FC00000, 0x4F000000, 0x40200000]  # the last as floats
    out = card.up(np.zeros((10, 64), np.int32))

    card.launch("integer_instructions", 64, card.up(a), card.up(b), out)

    rows = card.down(out, (10, 64), np.int32)
    ua, ub = a.view(np.uint32).tolist(), b.view(np.uint32).tolist()
    dots = (a.view(np.int8).reshape(-1, 4).astype(int) * b.view(np.int8).reshape(-1, 4)).sum(1)
    assert rows[0].tolist() == (dots + 3).tolist()
    assert rows[1].tolist() == [x.bit_count() for x in ua]
    assert rows[2].tolist() == [32 - x.bit_length() for x in ua]
    assert rows[3].tolist() == [(x & -x).bit_length() for x in ua]
    for i, (x, y) in enumerate(zip(ua, ub, strict=True)):
        pool = x.to_bytes(4, "little") + y.to_bytes(4, "little")
        permuted = bytes([pool[0], pool[5], pool[2], pool[7]])
        assert rows[4].view(np.uint32)[i] == int.from_bytes(permuted, "little")
        assert rows[5].view(np.uint32)[i] == int(f"{x:032b}"[::-1], 2)
        assert rows[6][i] == (int(a[i]) * int(b[i])) >> 32
        differences = bytes((p - q) % 256 for p, q in zip(pool[:4], pool[4:], strict=True))
        assert rows[7].view(np.uint32)[i] == int.from_bytes(differences, "little")
        assert rows[8].view(np.uint32)[i] == ((y << 32 | x) >> 5) & 0xFFFFFFFF
    # Conversions saturate, and what is no number becomes 0.
    assert rows[9][4:7].tolist() == [0, 2147483647, 2]


@pytest.mark.parametrize(("kernel", "depth"), [("multiply_tile_32", 32), ("multiply_tile_16", 16)])
def test_tensor_core_products_are_exact(card: Card, kernel: str, depth: int) -> None:
    rng = np.random.default_rng(5)
    a = rng.integers(-128, 128, (16, depth)).astype(np.int8)
    b = rng.integers(-128, 128, (8, depth)).astype(np.int8)
    out = card.up(np.zeros((16, 8), np.int32))

    card.launch(kernel, 32, card.up(a), card.up(b), out)

    expected = a.astype(np.int32) @ b.astype(np.int32).T + 100
    assert np.array_equal(card.down(out, (16, 8), np.int32), expected)


def test_asynchronous_copies_land_at_their_wait(card: Card) -> None:
    words = np.arange(128, dtype=np.uint32)
    out = card.up(np.zeros(128, np.uint32))

    card.launch("reverse_words", 64, card.up(words), out, ctypes.c_int32(64), shared_bytes=128 * 4)

    result = card.down(out, 128, np.uint32)
    assert result[:64].tolist() == (words[:64] + 1).tolist()
    assert result[64:].tolist() == words[:63:-1].tolist()


def test_structs_and_wide_integers_arrive_whole(card: Card) -> None:
    class Scales(ctypes.Structure):
        _fields_ = (
            ("first", ctypes.c_float),
            ("second", ctypes.c_float),
            ("offset", ctypes.c_int64),
        )

    out = card.up(np.zeros(2, np.float32))

    card.launch("take_struct", 32, Scales(1.5, 4.0, 1 << 20), ctypes.c_int64(1 << 22), out)

    assert card.down(out, 2, np.float32).tolist() == [6.0, float((1 << 20) + (1 << 22))]


def test_arguments_of_other_sizes_are_refused(card: Card) -> None:
    values = card.up(np.zeros(4, np.float32))

    with pytest.raises(DeviceError, match=r"add_to takes arguments of \(8, 4, 4\) bytes"):
        card.launch("add_to", 32, values, 1.0, ctypes.c_int64(4))


@pytest.mark.parametrize("threads", [(0, 1, 1), (33, 1, 1), (1056, 1, 1), (16, 1, 128)])
def test_blocks_that_a_card_refuses_are_refused(card: Card, threads: tuple[int, int, int]) -> None:
    values = card.up(np.zeros(4, np.float32))

    with pytest.raises(DeviceError, match="cannot be launched with blocks of"):
        card.launch("add_to", threads, values, 1.0, ctypes.c_int32(4))


def test_a_kernel_with_a_bound_is_refused_larger_blocks(card: Card) -> None:
    out = card.up(np.zeros(96, np.int32))
    card.launch("fill_bounded", 64, out)
    assert card.down(out, 96, np.int32).sum() == 64

    with pytest.raises(DeviceError, match=r"fill_bounded cannot be launched with blocks of \(96"):
        card.launch("fill_bounded", 96, out)
