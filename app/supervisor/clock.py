"""Finds out from the clocks alone that the PC has slept, where nobody announces it."""

from __future__ import annotations

from dataclasses import dataclass

# Smaller jumps are a clock that was set.
JUMP_S = 30.0
# A wait that takes so much longer than asked for: the clock ran on in the sleep (Windows), or a machine
# so loaded that looking after the engine anew does no harm.
LATE_S = 60.0


@dataclass(slots=True)
class ClockWatch:
    """Compares two looks at the clocks."""

    _wall_s: float | None = None
    _running_s: float = 0.0

    def note(self, wall_s: float, running_s: float, waited_s: float) -> bool:
        """Whether the PC has slept since the last look.

        Args:
            wall_s: time of day.
            running_s: of a clock that never goes back, and on Linux stands still in the sleep.
            waited_s: how long was meant to be waited since the last look.
        """
        before_wall_s, before_running_s = self._wall_s, self._running_s
        self._wall_s, self._running_s = wall_s, running_s
        if before_wall_s is None:
            return False
        passed_s = running_s - before_running_s
        jumped_s = wall_s - before_wall_s - passed_s
        return jumped_s > JUMP_S or passed_s > waited_s + LATE_S
