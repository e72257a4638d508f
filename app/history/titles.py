"""The title of a conversation: the first line of its first message."""

from __future__ import annotations

import re

MAX_CHARS = 80
_DECORATION = re.compile(r"^[\s#>*+\-=_`~|]+|[\s#*_`~|]+$")


def title_of(text: str) -> str:
    """The first line that says something, without Markdown's signs, not cut inside a word."""
    for line in text.splitlines():
        plain = " ".join(_DECORATION.sub("", line).split())
        if plain:
            return _shortened(plain)
    return ""


def _shortened(line: str) -> str:
    if len(line) <= MAX_CHARS:
        return line
    head = line[: MAX_CHARS - 1]
    blank = head.rfind(" ")
    if blank > MAX_CHARS // 2:
        head = head[:blank]
    return head.rstrip() + "…"
