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
            same = _common_length(token.data, left)
            token.taken += token.data[:same]
            token.data, left = token.data[same:], left[same:]
            if token.data and left:
                left = self._skip(token, left)
            if not token.data:
                self._pending.popleft()
                if token.taken:
                    entries.append(self._entry(token))
        return entries

    def finish(self) -> list[dict[str, object]]:
        """The entry of a token that the end of the answer cut, if there is one."""
        cut = [self._entry(token) for token in self._pending if token.taken]
        self._pending.clear()
        return cut

    def _skip(self, token: _Pending, left: bytes) -> bytes:
        """The token goes on differently than the text: what is left of the text is returned."""
        if left.startswith(REPLACEMENT):  # its bytes were no UTF-8
            broken = _broken_bytes(token.data)
            token.taken += token.data[:broken]
            token.data = token.data[broken:]
            return left[len(REPLACEMENT) :]
        shown = token.data.lstrip(b"\r\n")  # newlines around thinking and calls are dropped
        token.data = shown if shown != token.data else b""
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


def _common_length(one: bytes, other: bytes) -> int:
    """How many bytes both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def _broken_bytes(data: bytes) -> int:
    """How many of the bytes one replacement character stands for: a cut character, or one byte."""
    wanted = {0b110: 2, 0b1110: 3, 0b11110: 4}
    length = next((n for lead, n in wanted.items() if data[0] >> (7 - n) == lead), 1)
    end = 1
    while end < min(length, len(data)) and data[end] & 0xC0 == 0x80:
        end += 1
    return end
