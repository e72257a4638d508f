"""Token ids to text while they arrive, never half a character.

A token is a piece of bytes and may end inside a character (an emoji is four bytes, often two or
three tokens). Bytes wait here until their code point is complete; bytes that can never become one
turn into U+FFFD (spec/tools_format.md, T15). The state is at most three bytes, so a step costs the
same at token 10 and at token 100,000.

    >>> [detokenizer.push(token_id) for token_id in (172, 253, 246, 222)]    # U+1F600
    ['', '', '', '😀']
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable

from engine.text.tokenizer import Tokenizer


class StreamingDetokenizer:
    """Text of one answer, token by token. The concatenated results equal `Tokenizer.decode`."""

    def __init__(self, tokenizer: Tokenizer, *, show_control: bool = False) -> None:
        self._tokenizer = tokenizer
        self._show_control = show_control
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, token_id: int) -> str:
        """The text that this token completes; control tokens have none, unless shown.

        Raises:
            InputError: the vocabulary has no such id.
        """
        if not self._show_control and self._tokenizer.is_control(token_id):
            return ""
        return self._decoder.decode(self._tokenizer.token_bytes(token_id))

    def push_all(self, token_ids: Iterable[int]) -> str:
        """The text that these tokens complete together.

        Raises:
            InputError: the vocabulary has no such id.
        """
        tokenizer, is_shown = self._tokenizer, self._show_control
        pieces = [
            tokenizer.token_bytes(token_id)
            for token_id in token_ids
            if is_shown or not tokenizer.is_control(token_id)
        ]
        return self._decoder.decode(b"".join(pieces))

    def flush(self) -> str:
        """What is left when the answer ends: U+FFFD for an unfinished character, else nothing."""
        text = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return text
