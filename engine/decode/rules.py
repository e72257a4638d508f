"""When an answer ends, and what is put into it: the rules that a `Start` message carries.

One object per request is told every token and answers what follows from it. It knows ids only, no
logits and no text; the real and the scripted worker use the same rules.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.worker.messages import Start


@dataclass(frozen=True, slots=True)
class Outcome:
    """What follows from one token.

    Attributes:
        is_kept: whether the token belongs to the answer (and is sent).
        append: tokens that must come next instead of what the model would choose.
        reason: why the answer ends here; None = it goes on.
    """

    is_kept: bool = True
    append: tuple[int, ...] = ()
    reason: str | None = None


class AnswerRules:
    """Counts one answer's tokens against its limits.

    Attributes:
        num_generated: tokens of the answer, forced ones included, the final stop id not.
        is_in_call: whether the last token stands inside a tool call (no penalties there).
    """

    def __init__(self, start: Start, context: int) -> None:
        self.num_generated = 0
        self.is_in_call = False
        self._start = start
        self._stop_ids = frozenset(start.stop_ids)
        self._room = min(start.max_tokens, context - len(start.prompt))
        self._is_thinking = start.think_close_id >= 0
        self._can_rescue = self._is_thinking and bool(start.rescue_ids)
        self._last_id = -1
        self._num_repeats = 0

    def accept(self, token_id: int, *, is_forced: bool = False) -> Outcome:
        """Take one token, sampled or forced; a forced one never ends the answer as a stop id."""
        start = self._start
        if token_id in self._stop_ids and not is_forced:
            if self._can_rescue and self._is_thinking:
                self._can_rescue = False
                return Outcome(is_kept=False, append=start.rescue_ids)
            return Outcome(reason="stop")
        self.num_generated += 1
        self._note(token_id)
        if self.num_generated >= self._room:
            is_cap = self.num_generated >= start.max_tokens
            return Outcome(reason="length" if is_cap else "context")
        if start.repeat_stop_tokens and self._num_repeats >= start.repeat_stop_tokens:
            return Outcome(reason="repeat")
        if self._is_thinking and self.num_generated == start.think_budget:
            return Outcome(append=start.budget_ids)
        return Outcome()

    def _note(self, token_id: int) -> None:
        start = self._start
        self._num_repeats = self._num_repeats + 1 if token_id == self._last_id else 1
        self._last_id = token_id
        if token_id == start.think_close_id:
            self._is_thinking = False
        if token_id == start.call_open_id:
            self.is_in_call = True
        elif token_id == start.call_close_id:
            self.is_in_call = False
