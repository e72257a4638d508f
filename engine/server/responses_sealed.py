"""`encrypted_content` of reasoning items: thinking as an opaque string that only we read back.

A stateless client (`store: false`, `include: ["reasoning.encrypted_content"]`) may keep nothing of a
reasoning item but this string, and sends it with its next turn. There is nobody to hide the thinking
from on the person's own computer, so the string is encoded, not encrypted.
"""

from __future__ import annotations

import base64
import binascii

MARK = "stratum-reasoning-1."


def seal(text: str) -> str:
    """The opaque string of a thinking text."""
    return MARK + base64.urlsafe_b64encode(text.encode("utf-8", "replace")).decode("ascii")


def unseal(sealed: str) -> str | None:
    """The thinking in a string of ours; None for another server's, or a damaged one."""
    if not sealed.startswith(MARK):
        return None
    try:
        return base64.b64decode(sealed.removeprefix(MARK), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):  # ValueError: letters outside ASCII, or no UTF-8
        return None
