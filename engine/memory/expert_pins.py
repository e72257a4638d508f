"""Experts whose host memory is locked, so that a card's copy engine reads it without a buffer between.

Each layer's stacks are a slice: locked in place, as the file is mapped, where system and driver allow it; as
a locked copy where they do not and there is memory to spare; else not at all, and the layer's experts go
through buffers. Only whole pages are locked in place: stacks that follow each other in a file share one,
and no page may be locked twice. An expert that begins or ends outside of them goes through a buffer.
"""

from __future__ import annotations

import logging
import mmap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from engine.core.errors import ResourceError
from engine.device.base import Device, PinnedMemory

if TYPE_CHECKING:
    from engine.memory.expert_bank import ExpertSource

logger = logging.getLogger(__name__)

ByteArray = npt.NDArray[np.uint8]
Parts = tuple[ByteArray, ByteArray, ByteArray]


class ExpertPins:
    """Locked memory of layers' experts.

    Attributes:
        in_place_bytes: locked where they lie.
        copied_bytes: of locked copies.
    """

    def __init__(self, device: Device, sources: Sequence[ExpertSource], copy_bytes: int) -> None:
        """Lock what can be locked; one sentence in the log when that is not all.

        Args:
            device: the card.
            sources: each layer's experts, those first that are to be locked first.
            copy_bytes: most bytes of copies, where locking in place is refused.
        """
        self._device = device
        self._held: list[PinnedMemory] = []
        self._locked: dict[int, tuple[Parts, int, int]] = {}  # by source: parts, first and stop
        self.in_place_bytes = self.copied_bytes = 0
        is_refused, may_copy = False, True
        for source in sources:
            is_refused = is_refused or not self._lock(source)
            if id(source) not in self._locked and may_copy:
                may_copy = self._copy(source, copy_bytes)
        total = sum(part.nbytes for source in sources for part in source.parts)
        if is_refused:
            logger.warning(
                "The system refuses to lock the experts in memory for the graphics card (%d of %d MiB "
                "are locked, %d MiB of them as copies); the others go through buffers, which is slower.",
                (self.in_place_bytes + self.copied_bytes) >> 20,
                total >> 20,
                self.copied_bytes >> 20,
            )

    def parts_of(self, source: ExpertSource, expert: int) -> Parts | None:
        """An expert's gate, up and down in locked memory; None when they do not lie there."""
        known = self._locked.get(id(source))
        if known is None or not known[1] <= expert < known[2]:
            return None
        gate, up, down = known[0]
        return gate[expert], up[expert], down[expert]

    def close(self) -> None:
        """Unlock everything; nothing may be on its way."""
        self._locked.clear()
        for pinned in self._held:
            pinned.free()
        self._held.clear()

    def _lock(self, source: ExpertSource) -> bool:
        """Lock a layer in place; whether system and driver allow it."""
        held: list[PinnedMemory] = []
        first, stop = 0, source.num_experts
        for part in source.parts:
            start, end = _whole_pages(part)
            if end > start:
                pinned = self._device.pin(part.reshape(-1)[start:end])
                if pinned is None:
                    for other in held:
                        other.free()
                    return False
                held.append(pinned)
            first = max(first, -(-start // part.shape[1]))
            stop = min(stop, end // part.shape[1])
        self._held += held
        self._locked[id(source)] = (source.parts, first, stop)
        self.in_place_bytes += sum(pinned.array.nbytes for pinned in held)
        return True

    def _copy(self, source: ExpertSource, most_bytes: int) -> bool:
        """Copy a layer to locked memory; whether more may be copied."""
        needed = sum(part.nbytes for part in source.parts)
        if self.copied_bytes + needed > most_bytes:
            return False
        held: list[PinnedMemory] = []
        copies = []
        for part in source.parts:
            try:
                pinned = self._device.pinned(part.nbytes)
            except ResourceError:
                for other in held:
                    other.free()
                return False
            held.append(pinned)
            copies.append(pinned.array[: part.nbytes].reshape(part.shape))
            np.copyto(copies[-1], part)
        self._held += held
        gate, up, down = copies
        self._locked[id(source)] = ((gate, up, down), 0, source.num_experts)
        self.copied_bytes += needed
        return True


def _whole_pages(part: ByteArray) -> tuple[int, int]:
    """The bytes of a stack that share no page with what lies before and behind it."""
    address, page = part.ctypes.data, mmap.ALLOCATIONGRANULARITY
    start = -address % page
    end = part.nbytes - (address + part.nbytes) % page
    return (start, end) if end > start else (0, 0)
