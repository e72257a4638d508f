"""Which tokens an answer's text consists of, for `logprobs`.

Tokens and text are not one to one: text is held back (stop strings, half characters), dropped
(newlines after thinking) or cut (a stop string in the middle of a token). Here each piece of emitted
text takes the tokens that it is made of, so that the joined bytes of all entries equal the text.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from engine.text.tokenizer import Tokenizer
from engine.worker.messages import TokenLogprobs

REPLACEMENT = "\ufffd".encode()

# JSON has no infinity; OpenAI uses this value for tokens that are impossible.
LOWEST = -9999.0


@dataclass(slots=True)
class _Pending:
    """A token whose text has not been emitted completely: `data` is left, `taken` has gone out."""

    logprobs: TokenLogprobs
    data: bytes
    taken: bytes = b""


class LogprobAligner:
    """Push tokens of the answer as they come, take the entries of text as it goes out."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._pending: deque[_Pending] = deque()

    def push(self, logprobs: TokenLogprobs) -> None:
        """A token that may become answer text."""
        data = self._tokenizer.token_bytes(logprobs.token_id)
        self._pending.append(_Pending(logprobs, data))

    def take(self, text: str) -> list[dict[str, object]]:
        """The entries of the tokens that `text` completes."""
        left = text.encode("utf-8", "replace")
        entries: list[dict[str, object]] = []
        while left and self._pending:
            token = self._pending[0]
            if left.startswith(token.data):
                left = left[len(token.data) :]
                token.taken += token.data
                entries.append(self._entry(self._pending.popleft()))
            elif token.data.startswith(left):
                token.taken, token.data, left = token.taken + left, token.data[len(left) :], b""
            else:
                left = self._skip(token, left, entries)
        return entries

    def finish(self) -> list[dict[str, object]]:
        """The entry of a token that the end of the answer cut, if there is one."""
        cut = [self._entry(token) for token in self._pending if token.taken]
        self._pending.clear()
        return cut

    def _skip(self, token: _Pending, left: bytes, entries: list[dict[str, object]]) -> bytes:
        """The token's text is not what went out: newlines were dropped, or bytes were no UTF-8."""
        shown = token.data.lstrip(b"\r\n")
        if shown != token.data and shown and (left.startswith(shown) or shown.startswith(left)):
            token.data = shown
            return left
        self._pending.popleft()
        if left.startswith(REPLACEMENT):
            token.taken += token.data
            entries.append(self._entry(token))
            return left[len(REPLACEMENT) :]
        return left

    def _entry(self, token: _Pending) -> dict[str, object]:
        top = [
            self._describe(self._tokenizer.token_bytes(token_id), logprob)
            for token_id, logprob in token.logprobs.top
        ]
        return {**self._describe(token.taken, token.logprobs.logprob), "top_logprobs": top}

    def _describe(self, data: bytes, logprob: float) -> dict[str, object]:
        return {
            "token": data.decode("utf-8", "replace"),
            "logprob": min(max(logprob, LOWEST), 0.0),
            "bytes": list(data),
        }
