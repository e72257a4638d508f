"""The error of everything that cannot be attached."""

from __future__ import annotations

from engine.core.errors import InputError


class AttachmentError(InputError):
    """A file or picture cannot be attached."""

    code = "attachment"


def refusal(code: str, name: str, message: str) -> AttachmentError:
    """An error about the file of this name."""
    return AttachmentError(message, code=code, params={"name": name})
