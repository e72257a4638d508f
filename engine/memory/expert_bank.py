"""Copies of experts on a card: how one lies in a slot, the slots of a layer, and the copying.

    slot:  gate rows | up rows | down rows      each as in the file, begun at a multiple of 256 bytes

The same layout serves the slots of the cache and the ring through which experts pass that have none, so
kernels do not know which of them they read. Copies run in a stream of their own beside the kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.core.errors import ResourceError
from engine.device.array import DeviceArray
from engine.device.base import Device, Event, PinnedMemory, Stream

ByteArray = npt.NDArray[np.uint8]

_ALIGNMENT = 256
_NUM_STAGED = 4  # experts on their way at once; each takes a pinned buffer


@dataclass(frozen=True, slots=True)
class ExpertLayout:
    """Where the parts of an expert lie in its slot.

    Attributes:
        offsets: of gate, up and down, in bytes.
        sizes: of them.
        slot_bytes: from one slot to the next.
    """

    offsets: tuple[int, int, int]
    sizes: tuple[int, int, int]
    slot_bytes: int


def expert_layout(gate_bytes: int, up_bytes: int, down_bytes: int) -> ExpertLayout:
    """The layout for parts of these sizes."""
    up = _aligned(gate_bytes)
    down = up + _aligned(up_bytes)
    return ExpertLayout(
        (0, up, down), (gate_bytes, up_bytes, down_bytes), down + _aligned(down_bytes)
    )


def _aligned(num_bytes: int) -> int:
    return -(-num_bytes // _ALIGNMENT) * _ALIGNMENT


@dataclass(frozen=True, slots=True, eq=False)
class ExpertSource:
    """A layer's experts in host memory.

    Attributes:
        parts: gate, up and down, each `[E, bytes]`; usually views of the mapped file.
        layout: of a slot.
    """

    parts: tuple[ByteArray, ByteArray, ByteArray]
    layout: ExpertLayout

    @classmethod
    def of(cls, gate: ByteArray, up: ByteArray, down: ByteArray) -> ExpertSource:
        """For stacks `[E, bytes]`."""
        return cls((gate, up, down), expert_layout(gate.shape[1], up.shape[1], down.shape[1]))

    @property
    def num_experts(self) -> int:
        """E."""
        return len(self.parts[0])


@dataclass(frozen=True, slots=True, eq=False)
class Bank:
    """Slots of one layout.

    Attributes:
        memory: where they lie; None when there are none.
        num_slots: how many.
        layout: of each.
    """

    memory: DeviceArray | None
    num_slots: int
    layout: ExpertLayout

    def address_of(self, slot: int) -> int:
        """Where a slot begins."""
        if self.memory is None or not 0 <= slot < self.num_slots:
            raise IndexError(f"slot {slot} of {self.num_slots}")
        return self.memory.address + slot * self.layout.slot_bytes


class ExpertMover:
    """Copies experts to the card, in a stream of its own.

    Attributes:
        stream: takes the copies; events recorded in it say when they have landed.
        num_bytes: what was copied so far.
    """

    def __init__(self, device: Device, most_slot_bytes: int, num_staged: int = _NUM_STAGED) -> None:
        """Provide buffers.

        Raises:
            ResourceError: the system locks no memory at all.
        """
        self.stream: Stream = device.new_stream()
        self.num_bytes = 0
        self._next = 0
        self._staged: list[tuple[PinnedMemory, Event]] = []
        for _ in range(num_staged):
            try:
                self._staged.append((device.pinned(max(1, most_slot_bytes)), device.new_event()))
            except ResourceError:
                if not self._staged:
                    raise
                break  # fewer copies at once

    def put(self, source: ExpertSource, expert: int, address: int) -> None:
        """Put the copying of an expert to a slot at this address into the stream.

        The bytes are read from the host's memory before this returns.
        """
        pinned, is_free = self._staged[self._next]
        self._next = (self._next + 1) % len(self._staged)
        is_free.synchronize()
        layout = source.layout
        for part, offset, size in zip(source.parts, layout.offsets, layout.sizes, strict=True):
            np.copyto(pinned.array[offset : offset + size], part[expert])
        end = layout.offsets[2] + layout.sizes[2]
        self.stream.upload(address, pinned.array[:end])
        self.stream.record(is_free)
        self.num_bytes += end

    def put_all(self, source: ExpertSource, experts: Sequence[int], bank: Bank) -> None:
        """`put` of experts into the first slots of a bank, in this order."""
        for slot, expert in enumerate(experts):
            self.put(source, expert, bank.address_of(slot))

    def close(self) -> None:
        """Unlock the buffers; nothing may be on its way."""
        self.stream.synchronize()
        for pinned, _ in self._staged:
            pinned.free()
        self._staged.clear()
