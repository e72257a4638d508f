"""The rows of a pass, request by request: pieces of prompts, and windows with their drafts."""

from __future__ import annotations

from collections.abc import Sequence

from engine.ops.base import CHUNK_TOKENS
from engine.sequence.batch import BatchEntry, LogitsWanted
from engine.sequence.running_request import RunningRequest


class Part:
    """A request's rows of a pass.

    Attributes:
        request: whose.
        num_rows: how many, from the sequence's end on.
        drafts: rows behind them, which may turn out to be wrong.
        num_computed: rows with those of drafts.
        is_last: these rows complete what is to be computed, so that a token can be chosen.
    """

    __slots__ = ("drafts", "is_last", "num_computed", "num_rows", "request")

    def __init__(self, request: RunningRequest, num_rows: int, drafts: Sequence[int] = ()) -> None:
        self.request = request
        self.num_rows = num_rows
        self.drafts = drafts
        self.num_computed = num_rows + len(drafts)
        self.is_last = num_rows == request.num_pending

    def entry(self) -> BatchEntry:
        """The rows for the model; logits where a token is chosen."""
        request = self.request
        length = request.state.length
        tokens = request.tokens[length : length + self.num_rows]
        if self.drafts:  # behind the newest token, which stands alone then, and behind every draft
            return BatchEntry(request.state, [*tokens, *self.drafts], LogitsWanted.ALL)
        wanted = LogitsWanted.LAST if self.is_last else LogitsWanted.NONE
        return BatchEntry(request.state, tokens, wanted)


def chunk_rows(length: int, num_pending: int, room: int, prompt_chunk: int) -> int:
    """Rows of a prompt that go into a pass with room for `room` rows; 0 = wait.

    A cut that is not the prompt's end lies at a multiple of 64 positions (unless passes are smaller
    than that anyway).

    >>> chunk_rows(0, 300, 256, 256), chunk_rows(256, 44, 256, 256), chunk_rows(0, 300, 212, 256)
    (256, 44, 192)
    """
    if num_pending <= room or prompt_chunk < CHUNK_TOKENS:
        return min(num_pending, room)
    stop = (length + room) // CHUNK_TOKENS * CHUNK_TOKENS
    return max(0, stop - length)


def is_in_vain(parts: Sequence[Part]) -> bool:
    """Whether a pass is better left: a prompt in it, or everything, has been cancelled."""
    cancelled = [part for part in parts if part.request.is_cancelled]
    return any(part.num_rows > 1 for part in cancelled) or len(cancelled) == len(parts)
