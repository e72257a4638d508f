"""Whether an engine that does not answer still lives: it may be busy, or beyond hope."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Pulse:
    """The signs of life of one process; times are those of a clock that stands still during sleep.

    Attributes:
        sign_s: of the last sign: an answer, or the start itself.
        growth_s: when it was last seen to compute.
        cpu_s: processor time that it had used by then.
    """

    sign_s: float = 0.0
    growth_s: float = 0.0
    cpu_s: float = 0.0

    def beat(self, now_s: float) -> None:
        """It has given a sign of life."""
        self.sign_s = self.growth_s = now_s

    def silent_s(self, now_s: float) -> float:
        """How long there has been no sign."""
        return now_s - self.sign_s

    def is_dead(self, cpu_s: float | None, limits: tuple[float, float], now_s: float) -> bool:
        """Whether it is beyond hope: silent for the second limit, or for the first without computing."""
        quiet_s, silence_s = limits
        if cpu_s is not None and cpu_s > self.cpu_s:
            self.cpu_s, self.growth_s = cpu_s, now_s
        silent_s = self.silent_s(now_s)
        return silent_s >= silence_s or (silent_s >= quiet_s and now_s - self.growth_s >= quiet_s)
