"""Text of models and servers on a person's terminal."""

from __future__ import annotations

import re

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def without_controls(text: str) -> str:
    """The text without control characters, newlines and tabs excepted.

    They would move the cursor, change the window's title, or type for the person. Half a surrogate
    pair cannot be printed at all.
    """
    return _CONTROLS.sub("", text)
