"""Keeps `None`, `True` and `False` alive under PySide 6.12 and Python 3.11.

There, some functions without a result (`QPainter.fillRect`, `QTextDocument.addResource` and others)
give back a `None` that they do not own: each call takes one reference away, and after some thousands of
them Python ends with "deallocating None" (seen 2026-11-30, scrolling a conversation). The same was seen
with "deallocating True or False". From Python 3.12 on they cannot be freed, and nothing is needed.
"""

from __future__ import annotations

import ctypes
import sys

_MANY = 1 << 40  # more calls than a program makes in its life


def keep_none_alive() -> None:
    """Give them so many references that none of these is the last."""
    if sys.version_info >= (3, 12) or sys.getrefcount(None) > _MANY // 2:
        return
    # The first field of every object is its count of references.
    for lasting in (None, True, False):
        ctypes.c_ssize_t.from_address(id(lasting)).value += _MANY
