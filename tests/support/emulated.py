"""Launching kernels on an emulated card, for tests."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt

from engine.device.base import Argument, Arguments, Device, Size3, Stream
from engine.device.emulated import EmulatedDevice, ThreadOrder
from engine.device.emulated_build import CUDA_FOLDER
from engine.device.emulated_work import Timing

AnyArray = npt.NDArray[np.generic]
TEST_KERNELS = Path(__file__).parents[1] / "engine" / "device" / "kernels"


class Card:
    """A card with one stream, and arrays that go up before and come down after a launch."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.stream: Stream = device.new_stream()

    def up(self, array: AnyArray) -> int:
        """Where the array lies on the card now."""
        memory = self.device.alloc(array.nbytes)
        self.stream.upload(memory.address, np.ascontiguousarray(array))
        return memory.address

    def down(self, address: int, shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> AnyArray:
        """What lies on the card."""
        target = np.empty(shape, dtype)
        self.stream.download(target, address)
        return target

    def launch(
        self,
        name: str,
        threads: int | Size3,
        *values: int | float | Argument,
        blocks: int | Size3 = 1,
        shared_bytes: int = 0,
    ) -> None:
        """Launch a kernel; plain integers are addresses, plain floats are floats."""
        arguments = [
            ctypes.c_float(value)
            if isinstance(value, float)
            else ctypes.c_void_p(value)
            if isinstance(value, int)
            else value
            for value in values
        ]
        grid = (blocks, 1, 1) if isinstance(blocks, int) else blocks
        block = (threads, 1, 1) if isinstance(threads, int) else threads
        kernel = self.device.kernel(name)
        self.stream.launch(kernel, grid, block, Arguments(*arguments), shared_bytes)


def results_in_all_orders(
    run: Callable[[EmulatedDevice], AnyArray], kernel_folder: Path = CUDA_FOLDER
) -> set[bytes]:
    """The different results of a run on cards that do everything in other orders.

    More than one: something is not ordered that must be, or was never set.

    Args:
        run: takes a new card and returns what it computed there.
        kernel_folder: where the card's kernels are.
    """
    results = set()
    for order, timing, poison in product(
        (ThreadOrder.FORWARD, ThreadOrder.BACKWARD, ThreadOrder.RANDOM),
        (Timing.LATE, Timing.RANDOM, Timing.EAGER),
        (0xFF, 0x3C),
    ):
        device = EmulatedDevice(
            thread_order=order, timing=timing, poison=poison, kernel_folder=kernel_folder
        )
        try:
            results.add(run(device).tobytes())
        finally:
            device.close()
    return results
