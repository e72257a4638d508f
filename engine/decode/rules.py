"""When an answer ends, and what is put into it: the rules that a `Start` message carries.

One object per request is told every token and answers what follows from it. It knows ids only, no
logits and no text; the real and the scripted worker use the same rules.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from engine.worker.messages import Start

# A phrase of 2 to 8 tokens ends an answer when it comes so often in a row. (Of a single token more
# are allowed, `Start.repeat_stop_tokens`: ruled lines and blanks are honest text.)
MAX_PHRASE_TOKENS = 8
PHRASE_REPEATS = 40
# Inside a tool call: a file of equal lines, a table of zeros. What is written there is work, not talk.
CALL_PHRASE_REPEATS = 256

MAX_CHARACTER_BYTES = 4


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


GOES_ON = Outcome()


def ends_inside_character(data: bytes) -> bool:
    """Whether the last character of a UTF-8 text lacks bytes; what is no UTF-8 lacks none.

    >>> ends_inside_character("ä".encode()[:1]), ends_inside_character("ä".encode())
    (True, False)
    """
    for length, byte in enumerate(reversed(data[-MAX_CHARACTER_BYTES:]), 1):
        if byte & 0xC0 != 0x80:  # the character's first byte
            return length < {0b110: 2, 0b1110: 3, 0b11110: 4}.get(_leading(byte), 1)
    return False


def _leading(byte: int) -> int:
    """The bits of a first byte that tell the character's length."""
    return byte >> 5 if byte < 0xE0 else byte >> 4 if byte < 0xF0 else byte >> 3


class Repeats:
    """Notices an answer that goes round in circles.

    A phrase of p tokens has come n times when the last (n - 1) * p tokens each equal the one p
    places before.

    Args:
        stop_tokens: one token in a row is a circle when it comes so often; 0 = nothing ever is.
    """

    def __init__(self, stop_tokens: int) -> None:
        self._stop_tokens = stop_tokens
        self._recent: deque[int] = deque(maxlen=MAX_PHRASE_TOKENS)
        self._runs = [0] * (MAX_PHRASE_TOKENS + 1)  # tokens that equal the one p places before
        self._has_runs = False

    def is_stuck(self, phrase_repeats: int = PHRASE_REPEATS) -> bool:
        """Whether the answer should end; a phrase may come fewer than `phrase_repeats` times."""
        if not self._stop_tokens:
            return False
        if not self._has_runs:
            return self._stop_tokens == 1 and bool(self._recent)
        num_same = self._runs[1] + 1 if self._recent else 0
        if num_same >= self._stop_tokens:
            return True
        if max(self._runs) < (phrase_repeats - 1) * 2:
            return False
        return any(
            self._runs[length] >= (phrase_repeats - 1) * length
            for length in range(2, MAX_PHRASE_TOKENS + 1)
            if num_same < length  # else the phrase is one token, which has a rule of its own
        )

    def note(self, token_id: int) -> None:
        """Take the next token."""
        recent = self._recent
        if token_id in recent:
            self._has_runs = True
            runs = self._runs
            for length, earlier in enumerate(reversed(recent), 1):
                runs[length] = runs[length] + 1 if earlier == token_id else 0
        elif self._has_runs:
            self._has_runs = False
            self._runs = [0] * len(self._runs)
        recent.append(token_id)


class AnswerRules:
    """Counts one answer's tokens against its limits.

    Attributes:
        num_generated: tokens of the answer, forced ones included, the final stop id not.
        is_in_call: whether the last token stands inside a tool call (no penalties there).
    """

    def __init__(
        self, start: Start, context: int, token_bytes: Callable[[int], bytes] | None = None
    ) -> None:
        """Begin an answer; `token_bytes`, if known, keeps characters whole at the budget's end."""
        self.num_generated = 0
        self.is_in_call = False
        self._start = start
        self._stop_ids = frozenset(start.stop_ids)
        self._room = min(start.max_tokens, context - len(start.prompt))
        self._is_thinking = start.think_close_id >= 0
        self._can_rescue = self._is_thinking and bool(start.rescue_ids)
        self._repeats = Repeats(start.repeat_stop_tokens)
        self._token_bytes = token_bytes
        self._has_budget = start.think_budget > 0
        self._recent: deque[int] = deque(maxlen=MAX_CHARACTER_BYTES)

    @property
    def num_left(self) -> int:
        """Tokens that may still come."""
        return self._room - self.num_generated

    def drop_late(self, forced: deque[int]) -> None:
        """Drop tokens that were to close thinking which the model has closed meanwhile."""
        if not self._is_thinking and self._start.think_close_id in forced:
            forced.clear()

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
        if self._repeats.is_stuck(CALL_PHRASE_REPEATS if self.is_in_call else PHRASE_REPEATS):
            return Outcome(reason="repeat")
        if self._is_thinking and self._is_budget_used():
            self._has_budget = False
            return Outcome(append=start.budget_ids)
        return GOES_ON

    def _is_budget_used(self) -> bool:
        """Whether thinking ends here: not inside a character, while there is room to wait."""
        start = self._start
        if not self._has_budget or self.num_generated < start.think_budget:
            return False
        room_left = self._room - self.num_generated - len(start.budget_ids) - 1
        if self._token_bytes is None or room_left < 1:
            return True
        tail = b"".join(map(self._token_bytes, self._recent))
        late = self.num_generated - start.think_budget
        return late >= MAX_CHARACTER_BYTES or not ends_inside_character(tail)

    def _note(self, token_id: int) -> None:
        start = self._start
        self._recent.append(token_id)
        self._repeats.note(token_id)
        if token_id == start.think_close_id:
            self._is_thinking = False
        if token_id == start.call_open_id:
            self.is_in_call = True
        elif token_id == start.call_close_id:
            self.is_in_call = False
