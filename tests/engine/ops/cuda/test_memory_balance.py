"""Memory for experts that shrinks and grows while answers are made: the bits stay, other programs get theirs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from engine.device.base import Device, DeviceMemoryError
from engine.device.emulated import EmulatedDevice
from engine.model.trunk import Model
from engine.ops.cuda import CudaOps
from engine.ops.cuda_balance import MemoryBalance
from engine.ops.cuda_settings import CudaSettings
from tests.support.golden import arrays, golden_limits, model_file, run_tokens
from tests.support.plain_device import PlainDevice
from tests.support.plain_launches import plain_launches
from tests.support.quick_balance import quicken

MIB = 1 << 20


class FakeSlots:
    """Slots of any number of bytes on a plain device."""

    def __init__(self, device: PlainDevice, num_bytes: int, piece: int = 1) -> None:
        self._device = device
        self._piece = piece
        self.num_calls = 0
        self.slot_bytes = num_bytes
        device.used_bytes += num_bytes

    def resize(self, num_bytes: int) -> None:
        self.num_calls += 1
        num_bytes -= num_bytes % self._piece
        self._device.used_bytes += num_bytes - self.slot_bytes
        self.slot_bytes = num_bytes


class Desk:
    """A card of 8 GiB, half of it slots, with 700 MiB reserved and a clock that tests move."""

    def __init__(self, still_to_come: int = 0) -> None:
        self.now = 0.0
        self.device = PlainDevice(8192 * MIB)
        self.slots = FakeSlots(self.device, 4096 * MIB)
        self.device.used_bytes += (4096 - 700) * MIB - still_to_come
        self.balance = MemoryBalance(
            *(self.device, self.slots, 700 * MIB, 6000 * MIB),
            still_to_come=lambda: still_to_come,
            clock=lambda: self.now,
        )

    def look_for(self, seconds: float) -> list[int]:
        """MiB of slots that there were meanwhile, each once."""
        seen = [self.slots.slot_bytes // MIB]
        for _ in range(int(seconds / 0.25)):
            self.now += 0.25
            self.balance.look()
            if self.slots.slot_bytes // MIB != seen[-1]:
                seen.append(self.slots.slot_bytes // MIB)
        return seen


def test_a_game_gets_memory_until_the_reserve_is_free_again_and_the_slots_come_back_later() -> None:
    desk = Desk()
    assert desk.look_for(60) == [4096]
    desk.device.taken_bytes = 1000 * MIB
    assert desk.look_for(3) == [4096, 4096 - 1000 - 128]
    desk.device.taken_bytes = 0
    assert desk.look_for(9) == [2968]
    # In pieces, until the reserve and the margin are left.
    assert desk.look_for(60) == [2968, 3480, 3968]
    assert desk.device.free_bytes() == (700 + 128) * MIB


def test_a_program_that_takes_a_little_and_gives_it_back_moves_nothing() -> None:
    desk = Desk()
    desk.device.taken_bytes = 100 * MIB
    desk.look_for(2)
    slots = desk.slots.slot_bytes
    for taken in (0, 90 * MIB, 200 * MIB, 20 * MIB, 150 * MIB) * 20:
        desk.device.taken_bytes = taken
        desk.look_for(1)
    assert desk.slots.slot_bytes == slots


def test_memory_that_launches_will_take_is_not_given_to_experts() -> None:
    assert Desk(still_to_come=900 * MIB).look_for(60) == [4096]


def test_no_more_slots_are_taken_than_there_are_experts_or_were_asked_for() -> None:
    desk = Desk()
    desk.device.used_bytes -= 3000 * MIB
    assert desk.look_for(200)[-1] == 6000


def test_slots_that_come_whole_are_not_asked_for_again_and_again() -> None:
    desk = Desk()
    desk.slots = FakeSlots(desk.device, desk.slots.slot_bytes, 7 * MIB)
    desk.balance = MemoryBalance(
        *(desk.device, desk.slots, 700 * MIB, 6000 * MIB),
        still_to_come=lambda: 0,
        clock=lambda: desk.now,
    )
    desk.device.used_bytes = 4096 * MIB
    desk.look_for(60)
    taken, calls = desk.slots.slot_bytes, desk.slots.num_calls
    desk.look_for(60)
    assert 2900 * MIB < taken == desk.slots.slot_bytes
    assert desk.slots.num_calls <= calls + 1


def test_a_game_that_wants_everything_gets_all_slots() -> None:
    desk = Desk()
    desk.device.taken_bytes = 6000 * MIB
    assert desk.look_for(3)[-1] == 0
    assert desk.look_for(30) == [0]


# -- the engine's own slots ------------------------------------------------------------------------


def plain_model(settings: CudaSettings, device: Device | None = None) -> tuple[Model, CudaOps]:
    limits = golden_limits()
    ops = CudaOps(limits.for_ops(), device or PlainDevice(), settings, plain_launches)
    return Model.load(model_file("full"), ops, limits), ops


def emulated_model(settings: CudaSettings) -> tuple[Model, CudaOps]:
    limits = golden_limits(max_rows=64)
    ops = CudaOps(limits.for_ops(), EmulatedDevice(1 << 29, seed=8), settings)
    return Model.load(model_file("quant-IQ2_XS"), ops, limits), ops


Load = Callable[[CudaSettings], tuple[Model, CudaOps]]


def decoded(model: Model, case: str, chunk: int) -> np.ndarray:
    sequence = model.new_sequence()
    logits = run_tokens(model, sequence, arrays(case)["tokens"][:24].tolist(), chunk)
    sequence.release()
    return logits


@pytest.mark.parametrize(
    ("load", "case"), [(plain_model, "full"), (emulated_model, "quant-IQ2_XS")]
)
def test_answers_keep_their_bits_while_slots_go_and_come(load: Load, case: str) -> None:
    # Copied experts have the bits of cached ones, so nothing may change at all.
    model, ops = load(CudaSettings(pcie_frac=1.0, rounds_between_swaps=1))
    work = ops.moe_work
    memory, whole = work.memory, work.slot_bytes
    assert memory is not None
    wanted = [decoded(model, case, chunk) for chunk in (24, 2)]
    for share in (0.6, 0.25, 0.8, 0.0, 0.5, 1.0):
        work.resize(int(whole * share))
        assert whole * share * 0.7 - 1 <= work.slot_bytes <= whole * share
        for slot_of, bank in zip(memory.cache.slot_of, memory.banks, strict=True):
            used = slot_of[slot_of >= 0]
            assert len(set(used.tolist())) == len(used) == bank.num_slots
        for chunk, logits in zip((24, 2), wanted, strict=True):
            np.testing.assert_array_equal(decoded(model, case, chunk), logits)
    assert work.slot_bytes == whole
    ops.close()


def test_what_stays_in_slots_is_not_copied_from_the_host_again() -> None:
    model, ops = plain_model(CudaSettings(rounds_between_swaps=1000))
    memory = ops.moe_work.memory
    assert memory is not None
    decoded(model, "full", 4)
    counts = memory.cache.counts()
    copied = memory.mover.num_bytes
    ops.moe_work.resize(ops.moe_work.slot_bytes // 2)
    assert memory.mover.num_bytes == copied
    for slot_of, used in zip(memory.cache.slot_of, counts, strict=True):
        assert used[slot_of >= 0].min() >= used[slot_of < 0].max()  # the most wanted ones


def test_a_layer_that_lost_all_slots_gets_its_share_when_memory_comes_back() -> None:
    _, ops = plain_model(CudaSettings(pcie_frac=1.0))
    memory = ops.moe_work.memory
    assert memory is not None
    whole, slot = ops.moe_work.slot_bytes, memory.banks[0].layout.slot_bytes
    ops.moe_work.resize(2 * slot)
    assert 0 in [bank.num_slots for bank in memory.banks]
    ops.moe_work.resize(whole // 2)
    counts = [bank.num_slots for bank in memory.banks]
    assert min(counts) >= max(counts) // 2
    generation = memory.generation
    ops.moe_work.resize(ops.moe_work.slot_bytes + slot // 2)  # no slot more
    assert memory.generation == generation


def test_layers_shrink_also_where_there_is_no_room_for_a_second_set_of_slots() -> None:
    device = PlainDevice()
    model, ops = plain_model(CudaSettings(pcie_frac=1.0), device)
    wanted = decoded(model, "full", 3)
    device.taken_bytes += device.free_bytes()
    ops.moe_work.resize(ops.moe_work.slot_bytes // 2)
    assert ops.moe_work.slot_bytes > 0
    device.taken_bytes = 0
    np.testing.assert_array_equal(decoded(model, "full", 3), wanted)


@pytest.mark.parametrize("share", [1.0, 0.1])
def test_a_pass_gets_what_it_lacks_in_few_tries(share: float) -> None:
    """A long pass needs some hundred kilobytes of scratch; a small cache is gone after four tries."""
    device = PlainDevice()
    model, ops = plain_model(CudaSettings(pcie_frac=1.0), device)
    ops.moe_work.resize(int(ops.moe_work.slot_bytes * share))
    tries: list[int] = []
    make_room = ops.make_room

    def counted(error: DeviceMemoryError, attempt: int = 0) -> bool:
        tries.append(attempt)
        return make_room(error, attempt)

    ops.make_room = counted  # type: ignore[method-assign]
    sequence = model.new_sequence()
    run_tokens(model, sequence, [1, 2, 3], 3)
    device.taken_bytes = device.free_bytes() - 60_000
    if share < 1:
        with pytest.raises(DeviceMemoryError):
            run_tokens(model, sequence, arrays("full")["tokens"][:120].tolist(), 120)
        assert ops.moe_work.slot_bytes == 0
    else:
        run_tokens(model, sequence, arrays("full")["tokens"][:120].tolist(), 120)
    assert len(tries) <= 6


def test_an_engine_gives_a_game_its_memory_between_passes_and_answers_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    quicken(monkeypatch)
    device = EmulatedDevice(1 << 29, seed=2)
    limits = golden_limits(max_rows=64)
    settings = CudaSettings(pcie_frac=1.0, reserve_bytes=16 * MIB)
    ops = CudaOps(limits.for_ops(), device, settings)
    model = Model.load(model_file("quant-IQ2_XS"), ops, limits)
    whole = ops.moe_work.slot_bytes
    wanted = decoded(model, "quant-IQ2_XS", 2)
    ops.balance_memory()
    assert ops.moe_work.slot_bytes == whole
    device.others_bytes = device.free_bytes() - 16 * MIB + whole // 2
    ops.balance_memory()
    assert 0 < ops.moe_work.slot_bytes < whole
    assert device.free_bytes() >= 16 * MIB
    np.testing.assert_array_equal(decoded(model, "quant-IQ2_XS", 2), wanted)
    device.others_bytes = 0
    for _ in range(3):
        ops.balance_memory()
    assert ops.moe_work.slot_bytes == whole
    np.testing.assert_array_equal(decoded(model, "quant-IQ2_XS", 2), wanted)
    ops.close()


def test_slots_that_were_asked_for_are_not_taken_away_for_a_reserve_that_they_left_no_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    quicken(monkeypatch)
    device = PlainDevice(500 * MIB)
    _, ops = plain_model(CudaSettings(cache_bytes=1 << 20, reserve_bytes=600 * MIB), device)
    whole = ops.moe_work.slot_bytes
    assert whole > 0
    ops.balance_memory()
    assert ops.moe_work.slot_bytes == whole
    device.taken_bytes = device.free_bytes()  # but a game gets them where nothing else is left
    ops.balance_memory()
    assert ops.moe_work.slot_bytes < whole
