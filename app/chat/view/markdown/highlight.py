"""Which words of code have which colour, with Pygments; in slices, so that nothing waits for it.

job = HighlightJob("print(1)", "python")
while not job.run(0.004): ...       # some milliseconds at a time
job.spans                           # [(0, 5, "builtin"), ...]
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import lru_cache

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import (
    Comment,
    Generic,
    Keyword,
    Name,
    Number,
    Operator,
    String,
    Token,
    is_token_subtype,
)
from pygments.token import _TokenType as TokenType  # the type of all tokens
from pygments.util import ClassNotFound

Span = tuple[int, int, str]  # begin, length, kind of word

# Beyond this a block stays plain: nobody reads colours in a megabyte of JSON.
MAX_CHARS = 200_000

_ALIASES = {"sh": "bash", "shell": "bash", "zsh": "bash", "plaintext": "", "text": "", "txt": ""}
_KINDS: tuple[tuple[TokenType, str], ...] = (
    (Comment, "comment"),
    (Keyword, "keyword"),
    (Operator.Word, "keyword"),
    (Name.Function, "function"),
    (Name.Class, "class"),
    (Name.Exception, "class"),
    (Name.Decorator, "function"),
    (Name.Builtin, "builtin"),
    (Name.Namespace, "class"),
    (Name.Tag, "tag"),
    (Name.Attribute, "function"),
    (Name.Constant, "number"),
    (String, "string"),
    (Number, "number"),
    (Operator, "operator"),
    (Generic.Inserted, "inserted"),
    (Generic.Deleted, "deleted"),
    (Generic.Heading, "keyword"),
    (Generic.Subheading, "function"),
    (Generic.Prompt, "comment"),
)


@lru_cache(maxsize=64)
def lexer_for(language: str) -> Lexer | None:
    """The lexer of a language as people name it behind a fence; None = show it plain."""
    name = language.strip("{}.").lower()
    name = _ALIASES.get(name, name)
    if not name:
        return None
    try:
        return get_lexer_by_name(name, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


@lru_cache(maxsize=512)
def kind_of(token: TokenType) -> str:
    """The kind of a word; empty for what has no colour of its own."""
    for parent, kind in _KINDS:
        if is_token_subtype(token, parent):
            return kind
    return ""


class HighlightJob:
    """Colours one block of code.

    Attributes:
        spans: found so far.
        is_done: nothing is left to do.
    """

    def __init__(self, code: str, language: str) -> None:
        self.spans: list[Span] = []
        lexer = lexer_for(language) if len(code) <= MAX_CHARS else None
        self.is_done = lexer is None
        self._tokens: Iterator[tuple[int, TokenType, str]] = (
            iter(lexer.get_tokens_unprocessed(code)) if lexer is not None else iter(())
        )

    def run(self, seconds: float) -> bool:
        """Work for about this long; whether it is done."""
        end = time.perf_counter() + seconds
        if self.is_done:
            return True
        for count, (begin, token, value) in enumerate(self._tokens):
            kind = kind_of(token) if token is not Token.Text else ""
            if kind and value:
                self.spans.append((begin, len(value), kind))
            if count % 32 == 31 and time.perf_counter() > end:
                return False
        self.is_done = True
        return True
