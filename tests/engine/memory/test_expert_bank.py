import numpy as np
import pytest

from engine.device.array import ArraySpace
from engine.device.emulated import EmulatedDevice
from engine.memory.expert_bank import Bank, ExpertMover, ExpertSource

RANDOM = np.random.default_rng(5)


def source(num_experts: int = 20, sizes: tuple[int, int, int] = (300, 300, 144)) -> ExpertSource:
    return ExpertSource.of(
        *(RANDOM.integers(0, 256, (num_experts, size), np.uint8) for size in sizes)
    )


def test_parts_of_a_slot_begin_at_multiples_of_256():
    layout = source().layout
    assert layout.offsets == (0, 512, 1024)
    assert layout.slot_bytes == 1280


@pytest.mark.parametrize("num_staged", [1, 2, 3, 8])
def test_every_expert_arrives_in_its_slot_however_few_buffers_there_are(num_staged):
    device = EmulatedDevice(1 << 24, seed=num_staged)  # copies are done late
    experts = source()
    space = ArraySpace(device, device.new_stream())
    layout = experts.layout
    bank = Bank(space.empty((20 * layout.slot_bytes,), np.uint8), 20, layout)
    mover = ExpertMover(device, layout.slot_bytes, num_staged)
    order = RANDOM.permutation(20).tolist()
    mover.put_all(experts, order[:-1], bank)
    mover.put(experts, order[-1], bank.address_of(19))
    mover.stream.synchronize()
    assert bank.memory is not None
    slots = bank.memory.numpy().reshape(20, layout.slot_bytes)
    for slot, expert in enumerate(order):
        for part, offset, size in zip(experts.parts, layout.offsets, layout.sizes, strict=True):
            np.testing.assert_array_equal(slots[slot, offset : offset + size], part[expert])
    mover.close()


def test_a_slot_that_is_not_there_has_no_address():
    bank = Bank(None, 0, source().layout)
    with pytest.raises(IndexError):
        bank.address_of(0)
