"""Rows of the n-gram table for passes to come.

The scheduler says what is known: the next token and its drafts as soon as they are chosen, and the prompt
that follows the chunk which is being computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from engine.sequence.pass_parts import Part
from engine.sequence.running_request import RunningRequest

_CONTEXT_TOKENS = 8  # before the first token that is announced; n-grams are shorter


class RowsReader(Protocol):
    """What reads rows early (engine/model/ngram_rows.py)."""

    def expect(self, token_ids: Sequence[int], previous: Sequence[int]) -> None:
        """Begin to read the rows of tokens that come after others."""


class RowsAhead:
    """Announces tokens of running requests; without a reader it does nothing."""

    def __init__(self, reader: RowsReader | None) -> None:
        self._reader = reader

    def window(self, request: RunningRequest, drafts: Sequence[int] = ()) -> None:
        """A request's next tokens are chosen, with drafts behind them."""
        if self._reader is not None:
            length = request.state.length
            self._expect(request.tokens, length, [*request.tokens[length:], *drafts])

    def prompts(self, parts: Sequence[Part], most_rows: int) -> None:
        """A pass over these parts has begun: announce what follows in their prompts."""
        if self._reader is None:
            return
        for part in parts:
            tokens, first = part.request.tokens, part.request.state.length + part.num_rows
            if first < len(tokens):
                self._expect(tokens, first, tokens[first : first + most_rows])

    def _expect(self, tokens: Sequence[int], first: int, expected: Sequence[int]) -> None:
        if self._reader is not None and expected:
            self._reader.expect(expected, tokens[max(0, first - _CONTEXT_TOKENS) : first])
