"""Keeps a card's reserve free while the engine runs: slots for experts go when a game comes, and come back.

    balance = MemoryBalance(device, work, reserve_bytes, most_bytes, still_to_come)
    balance.look()         # between passes; looks every second or so, not at each call

Below the reserve slots are given back at once. They are taken again when clearly more has been free for a
while, and a piece at a time: between the two limits nothing moves, or a program that needs a little more
and a little less would have experts copied to and fro.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Protocol

from engine.device.base import Device

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
MARGIN_BYTES = 128 << 20  # beside the reserve after giving back, and after taking again
WORTH_BYTES = 256 << 20  # beside the margin: for less nothing is taken
PIECE_BYTES = (
    512 << 20
)  # taken at a time: experts are copied meanwhile, and nobody's tokens are computed
CALM_S = 10.0  # so long must more have been free


class Slots(Protocol):
    """What gives and takes: the experts of the operations."""

    @property
    def slot_bytes(self) -> int:
        """Card memory of all slots."""

    def resize(self, num_bytes: int) -> None:
        """Have slots for at most so many bytes."""


class MemoryBalance:
    """One card's slots against the memory that others leave free."""

    def __init__(
        self,
        device: Device,
        slots: Slots,
        reserve_bytes: int,
        most_bytes: int,
        still_to_come: Callable[[], int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin with the slots as they are.

        Args:
            device: the card.
            slots: give and take.
            reserve_bytes: to be kept free.
            most_bytes: of slots, never more.
            still_to_come: memory that launches have not taken yet but will.
            clock: seconds.
        """
        self._device = device
        self._slots = slots
        self._reserve = reserve_bytes
        self._most = most_bytes
        self._still_to_come = still_to_come
        self._clock = clock
        self._looked_at = clock()
        self._calm_since: float | None = None
        self._in_vain = 0  # bytes of slots that were asked for when no slot came of it

    def look(self) -> None:
        """Between passes: give back or take again, when it is time to look."""
        now = self._clock()
        if now - self._looked_at < LOOK_EVERY_S:
            return
        self._looked_at = now
        spare = self._device.free_bytes() - self._reserve
        has = self._slots.slot_bytes
        if spare < 0:
            self._calm_since = None
            self._in_vain = 0
            if has:
                self._change(has + spare - MARGIN_BYTES, "another program takes graphics memory")
            return
        spare -= self._still_to_come() + MARGIN_BYTES
        room = min(spare, self._most - has, PIECE_BYTES)
        if spare < WORTH_BYTES or room <= 0 or has + room <= self._in_vain:
            self._calm_since = None
            return
        if self._calm_since is None:
            self._calm_since = now
        elif now - self._calm_since >= CALM_S:
            self._change(has + room, "graphics memory is free again")
            if self._slots.slot_bytes <= has:
                self._in_vain = has + room

    def _change(self, num_bytes: int, why: str) -> None:
        before = self._slots.slot_bytes
        self._slots.resize(max(num_bytes, 0))
        logger.info(
            "%s: experts take %d MiB of it now, %d before",
            *(why, self._slots.slot_bytes >> 20, before >> 20),
        )
        self._looked_at = self._clock()
