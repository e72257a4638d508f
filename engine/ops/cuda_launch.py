"""Putting kernels into the stream of an engine's operations: kernels by name, scratch memory.

What the launch modules (`cuda_products.py`, `cuda_mixers.py`, ...) know of the card.
"""

from __future__ import annotations

import ctypes

import numpy as np

from engine.device.array import ArraySpace, DeviceArray
from engine.device.base import Argument, Arguments, Device, Kernel, Size3, Stream

_MOST_SPARE_BYTES = 1 << 20  # scratch memory doubles up to this, or each larger window moves it


class Launcher:
    """A card, its stream of operations, and scratch memory.

    Attributes:
        device: the card.
        stream: takes all operations; read it at each call.
        space: where arrays lie.
        generation: changes when scratch memory has moved, so that captured launches know.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.stream: Stream = device.new_stream()
        self.space = ArraySpace(device, self.stream)
        self._kernels: dict[str, Kernel] = {}
        self._scratch: dict[str, DeviceArray] = {}
        self._lent: dict[str, DeviceArray] = {}
        self.generation = 0

    def launch(
        self, name: str, grid: Size3, block: Size3, *arguments: Argument, shared_bytes: int = 0
    ) -> None:
        """Put a kernel into the stream.

        Args:
            name: as it is exported.
            grid: blocks.
            block: threads.
            arguments: of the kernel's parameters' exact types; addresses are `c_void_p`.
            shared_bytes: dynamic shared memory.
        """
        kernel = self._kernels.get(name)
        if kernel is None:
            kernel = self._kernels[name] = self._find(name)
        self.stream.launch(kernel, grid, block, Arguments(*arguments), shared_bytes)

    def _find(self, name: str) -> Kernel:
        try:
            return self.device.kernel(name)
        except KeyError:  # operations without a model: nobody said which formats come
            self.device.load_kernels()
            return self.device.kernel(name)

    def scratch(self, name: str, num_bytes: int) -> int:
        """Address of memory of undefined content, the same at each call with this name.

        It moves when more is asked for than ever before, which must not happen amid a capture: the
        first call of an operation with its largest sizes is never captured, and what was captured
        before is captured again.

        Raises:
            DeviceMemoryError: there is no room for it.
        """
        lent = self._lent.get(name)
        if lent is not None and num_bytes <= lent.nbytes:
            return lent.address
        array = self._scratch.get(name)
        if array is None or array.nbytes < num_bytes:
            if array is not None:
                self.generation += 1
                num_bytes = max(num_bytes, min(2 * array.nbytes, _MOST_SPARE_BYTES))
                # The old memory goes first: both together are more than what was planned for.
                del self._scratch[name], array
            array = self._scratch[name] = self.space.empty((max(num_bytes, 1),), np.uint8)
        return array.address

    def lend(self, name: str, memory: DeviceArray) -> None:
        """Have scratch memory of this name lie in an array, as far as that is large enough."""
        self._lent[name] = memory
        self.generation += 1

    @property
    def scratch_bytes(self) -> int:
        """What it takes altogether."""
        return sum(array.nbytes for array in self._scratch.values())

    def release(self) -> None:
        """Let go of scratch memory; captured launches cannot run any more."""
        self._scratch.clear()
        self._lent.clear()


def pointer(array: DeviceArray | int | None) -> ctypes.c_void_p:
    """An address as a kernel's parameter; None is the null pointer."""
    return ctypes.c_void_p(array.address if isinstance(array, DeviceArray) else array)
