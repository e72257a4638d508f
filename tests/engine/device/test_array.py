import gc

import numpy as np
import pytest

from engine.device.array import ArraySpace, host_copy
from engine.device.base import DeviceError
from engine.device.emulated import EmulatedDevice
from tests.support.plain_device import PlainDevice, PlainGraph


@pytest.fixture
def space():
    device = PlainDevice(1 << 20)
    return ArraySpace(device, device.new_stream())


def test_a_new_array_is_zero_though_the_memory_was_not(space):
    assert not space.zeros((3, 4)).numpy().any()


@pytest.mark.parametrize(
    "index",
    [0, -1, (1, 2), slice(1, 3), (2, slice(0, 2)), (0, 1, slice(2, None)), None, ..., (1, ...)],
)
def test_views_are_those_of_numpy(space, index):
    values = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
    part = space.upload(values)[index]
    np.testing.assert_array_equal(part.numpy(), values[index])
    assert part.shape == values[index].shape
    assert len(part) == len(values[index])
    assert part.nbytes == values[index].nbytes


@pytest.mark.parametrize("index", [(slice(0, 2), 1), (slice(None), slice(1, 2)), slice(0, 3, 2)])
def test_a_part_with_gaps_is_refused(space, index):
    with pytest.raises(TypeError, match="contiguous"):
        space.zeros((3, 4))[index]


def test_a_number_outside_is_refused(space):
    with pytest.raises(IndexError):
        space.zeros((3, 4))[3]


def test_parts_are_set_from_host_and_device_arrays_and_to_zero(space):
    array = space.upload(np.ones((4, 2), np.float32))
    array[1] = np.array([5, 6], np.float64)
    array[2:] = array[:2]
    array[0] = 0
    np.testing.assert_array_equal(array.numpy(), [[0, 0], [5, 6], [1, 1], [5, 6]])


def test_what_does_not_fit_is_refused(space):
    array = space.zeros((2, 3))
    with pytest.raises(ValueError, match="do not fit"):
        array[0] = np.zeros(2, np.float32)
    with pytest.raises(ValueError, match="do not fit"):
        array[0] = space.zeros((3,), np.int32)
    with pytest.raises(ValueError, match="cannot be set"):
        array[0] = 1.0


def test_a_copy_is_independent(space):
    array = space.upload(np.arange(6, dtype=np.int32).reshape(2, 3))
    other = array[1:].copy()
    array[1] = 0
    np.testing.assert_array_equal(other.numpy(), [[3, 4, 5]])


def test_a_reshaped_array_shares_memory(space):
    array = space.upload(np.arange(6, dtype=np.float32).reshape(2, 3))
    array.reshape(3, -1)[2] = np.zeros(2, np.float32)
    np.testing.assert_array_equal(array.numpy(), [[0, 1, 2], [3, 0, 0]])
    with pytest.raises(ValueError, match="cannot become"):
        array.reshape(4, 2)


def test_numpy_takes_it_for_its_values(space):
    array = space.upload(np.arange(4, dtype=np.float32))
    np.testing.assert_array_equal(np.asarray(array), [0, 1, 2, 3])
    np.testing.assert_array_equal(array.numpy() - 1, host_copy(array) - 1)


def test_arrays_that_are_gone_make_room(space):
    for _ in range(100):
        space.zeros((1 << 16,))  # 256 KiB of 1 MiB
        gc.collect()
    kept = space.device.used_bytes
    assert kept <= 1 << 19
    space.drop_kept()
    assert space.device.used_bytes == 0


def test_arrays_that_are_collected_while_memory_is_given_back_are_not_lost(space, monkeypatch):
    late = [space.zeros((1 << 12,)), space.zeros((1 << 13,))]
    gone = [space.zeros((1 << 14,)), space.zeros((1 << 15,))]
    memory = type(space.device.alloc(1))
    free = memory.free

    def free_and_collect(self) -> None:
        free(self)
        if late:
            late.pop()

    monkeypatch.setattr(memory, "free", free_and_collect)
    gone.clear()
    space.drop_kept()
    assert not late
    space.drop_kept()
    assert space.device.used_bytes == 1


def test_a_view_keeps_the_memory(space):
    part = space.upload(np.arange(256, dtype=np.float32))[100:]
    gc.collect()
    space.zeros((256,))
    np.testing.assert_array_equal(part[:2].numpy(), [100, 101])


def test_copies_can_be_captured(space):
    array = space.upload(np.array([1, 2], np.float32))
    space.stream.begin_capture()
    array[1:] = array[:1]
    graph = space.stream.end_capture()
    assert isinstance(graph, PlainGraph)
    np.testing.assert_array_equal(array.numpy(), [1, 2])
    space.stream.run(graph)
    np.testing.assert_array_equal(array.numpy(), [1, 1])


@pytest.mark.parametrize("count", [1, 100, 448, 512])
def test_on_the_emulated_card_one_byte_behind_an_array_is_too_far(count: int) -> None:
    device = EmulatedDevice(1 << 20)
    stream = device.new_stream()
    array = ArraySpace(device, stream).empty((count,), np.uint8)
    stream.fill(array.address, 1, count)
    stream.synchronize()
    with pytest.raises(DeviceError, match=f"of {count + 1} bytes"):
        stream.fill(array.address, 1, count + 1)
