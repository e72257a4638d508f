"""When the PC is kept from sleeping: while the engine works, with some patience at both ends."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field

from app.supervisor.state import EngineState, Phase
from engine.core.keep_awake import KeepAwake, system_keep_awake

# Short answers are not worth a lock; between two turns of an agent it is not given up.
WORKS_FOR_S = 10.0
RESTS_FOR_S = 60.0


@dataclass(slots=True)
class AwakeRule:
    """Says whether the PC is to stay awake."""

    is_held: bool = False
    _since_s: float | None = None  # the work, or the rest, that would change it

    def note(self, state: EngineState, now_s: float) -> bool:
        """Whether to hold it awake, after this state."""
        works = state.phase in {Phase.BUSY, Phase.LOADING}
        if works == self.is_held:
            self._since_s = None
        elif self._since_s is None:
            self._since_s = now_s
        wait_s = WORKS_FOR_S if works else RESTS_FOR_S
        is_at_rest_for_good = not works and state.phase is not Phase.READY
        if self._since_s is not None and (now_s - self._since_s >= wait_s or is_at_rest_for_good):
            self.is_held, self._since_s = works, None
        return self.is_held


@dataclass(slots=True)
class Wakefulness:
    """Does what the rule says; used by one thread."""

    keep_awake: KeepAwake = field(
        default_factory=lambda: system_keep_awake(resists_the_person=False)
    )
    _rule: AwakeRule = field(default_factory=AwakeRule)
    _held: contextlib.ExitStack | None = None

    def note(self, state: EngineState, now_s: float) -> None:
        """Hold the PC awake, or let it sleep."""
        wants = self._rule.note(state, now_s)
        if wants and self._held is None:
            self._held = contextlib.ExitStack()
            self._held.enter_context(self.keep_awake.hold("A model answers"))
        elif not wants:
            self.close()

    def close(self) -> None:
        """Let it sleep."""
        held, self._held = self._held, None
        if held is not None:
            held.close()
