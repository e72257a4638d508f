"""Copies of experts on a card: how one lies in a slot, the slots of a layer, and the copying.

    slot:  gate rows | up rows | down rows      each as in the file, begun at a multiple of 256 bytes

The same layout serves the slots of the cache and the ring through which experts pass that have none, so
kernels do not know which of them they read. Copies run in a stream of their own beside the kernels: from
locked memory as they are (`expert_pins.py`), else through pinned buffers.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.core.errors import ResourceError
from engine.device.array import DeviceArray
from engine.device.base import Device, Event, PinnedMemory, Stream
from engine.memory.expert_pins import ExpertPins

ByteArray = npt.NDArray[np.uint8]

_ALIGNMENT = 256
_NUM_STAGED = 8  # experts on their way at once; each takes a pinned buffer
_MOST_THREADS = 4  # that fill the buffers: one thread copies less than the bus takes


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


@dataclass(slots=True, eq=False)
class _Staged:
    """A pinned buffer of one slot's size, and whether its last copy has left."""

    pinned: PinnedMemory
    is_free: Event


class ExpertMover:
    """Copies experts to the card, in a stream of its own.

    Attributes:
        stream: takes the copies; events recorded in it say when they have landed.
        num_bytes: what was copied so far.
    """

    def __init__(
        self,
        device: Device,
        most_slot_bytes: int,
        num_staged: int = _NUM_STAGED,
        pins: ExpertPins | None = None,
    ) -> None:
        """Provide buffers.

        Args:
            device: the card.
            most_slot_bytes: of the largest expert.
            num_staged: buffers.
            pins: experts that need none; closed with this.

        Raises:
            ResourceError: the system locks no memory at all.
        """
        self.stream: Stream = device.new_stream()
        self.num_bytes = 0
        self._pins = pins
        self._next = 0
        self._pool = ThreadPoolExecutor(min(_MOST_THREADS, os.cpu_count() or 1), "experts")
        self._staged: list[_Staged] = []
        for _ in range(num_staged):
            try:
                pinned = device.pinned(max(1, most_slot_bytes))
                self._staged.append(_Staged(pinned, device.new_event()))
            except ResourceError:
                if not self._staged:
                    raise
                break  # fewer copies at once

    def put(self, source: ExpertSource, expert: int, address: int) -> None:
        """Put the copying of an expert to a slot at this address into the stream.

        The bytes are read from the host's memory before this returns, unless that is locked.
        """
        if self._send_locked(source, expert, address):
            return
        staged = self._take()
        _fill(staged.pinned.array, source, expert)
        self._send(staged, source, address)

    def put_all(self, source: ExpertSource, experts: Sequence[int], bank: Bank) -> None:
        """`put` of experts into the first slots of a bank, in this order."""
        self.put_many([(source, e, bank.address_of(slot)) for slot, e in enumerate(experts)])

    def put_many(self, wanted: Sequence[tuple[ExpertSource, int, int]]) -> None:
        """`put` of several, each with its source, number and address; several threads read them."""
        wanted = [one for one in wanted if not self._send_locked(*one)]
        batch = max(1, len(self._staged) // 2)  # buffers are filled while others are on their way
        for start in range(0, len(wanted), batch):
            part = wanted[start : start + batch]
            taken = [self._take() for _ in part]
            filling = [
                self._pool.submit(_fill, staged.pinned.array, source, expert)
                for staged, (source, expert, _) in zip(taken, part, strict=True)
            ]
            for staged, filled, (source, _, address) in zip(taken, filling, part, strict=True):
                filled.result()
                self._send(staged, source, address)

    def _take(self) -> _Staged:
        """The next buffer, when its last copy has left."""
        staged = self._staged[self._next]
        self._next = (self._next + 1) % len(self._staged)
        staged.is_free.synchronize()
        return staged

    def _send_locked(self, source: ExpertSource, expert: int, address: int) -> bool:
        """Copy an expert from where it lies; whether that is possible."""
        parts = None if self._pins is None else self._pins.parts_of(source, expert)
        if parts is None:
            return False
        for part, offset in zip(parts, source.layout.offsets, strict=True):
            self.stream.upload(address + offset, part)
            self.num_bytes += part.nbytes
        return True

    def _send(self, staged: _Staged, source: ExpertSource, address: int) -> None:
        num_bytes = source.layout.offsets[2] + source.layout.sizes[2]
        self.stream.upload(address, staged.pinned.array[:num_bytes])
        self.stream.record(staged.is_free)
        self.num_bytes += num_bytes

    def close(self) -> None:
        """Unlock the buffers; nothing may be on its way."""
        self.stream.synchronize()
        self._pool.shutdown()
        if self._pins is not None:
            self._pins.close()
        for staged in self._staged:
            staged.pinned.free()
        self._staged.clear()


def _fill(target: ByteArray, source: ExpertSource, expert: int) -> None:
    """An expert's bytes as they lie in a slot. Copying needs no Python, so threads do it at once."""
    layout = source.layout
    for part, offset, size in zip(source.parts, layout.offsets, layout.sizes, strict=True):
        np.copyto(target[offset : offset + size], part[expert])
