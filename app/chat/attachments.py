"""Files as text for the model: what a file is, its encoding, its limits, and PDF by pypdf.

    read = read_file(path, check)     # in a thread; `check` may raise to give up
    read.text, read.media_type, read.note

A file that cannot be used is refused with a sentence that says why and what to do instead.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from app.chat.pdf_text import MAX_PDF_BYTES, pdf_text
from app.chat.pictures import MAX_PICTURE_BYTES, picture_type
from app.chat.refusal import AttachmentError, refusal

# A million tokens is about 4 MB of text; nothing longer fits a context.
MAX_TEXT_BYTES = 8 << 20

# Bytes that text never has; a few control characters are let pass (escape sequences of terminals).
_CONTROL = bytes(set(range(32)) - set(b"\t\n\r\f\x08\x1b")) + b"\x7f"
MAX_CONTROL_SHARE = 0.02
SAMPLE_BYTES = 64 << 10

BOMS = (
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)

# Files that people try, with what helps.
OFFICE = frozenset(
    {".doc", ".docx", ".odt", ".rtf", ".ppt", ".pptx", ".odp", ".xls", ".xlsx", ".ods", ".pages"}
)


@dataclass(frozen=True, slots=True)
class ReadFile:
    """What was read.

    Attributes:
        text: of a text file or a PDF; None for a picture.
        data: of a picture; None otherwise.
        note: as in `Attachment`.
    """

    name: str
    media_type: str
    size_bytes: int
    text: str | None = None
    data: bytes | None = None
    note: str = ""


def _never() -> None:
    """Nobody gives up."""


def read_file(path: Path, check: Callable[[], None] = _never) -> ReadFile:
    """The text of a file, or a picture.

    Raises:
        AttachmentError: it cannot be read, is too large, empty, or of a kind that is no text.
    """
    name = path.name
    try:
        size_bytes = path.stat().st_size
        if path.is_dir():
            raise refusal(
                "attachment_folder", name, f"{name} is a folder. Attach the files that are in it."
            )
        with path.open("rb") as file:
            head = file.read(SAMPLE_BYTES)
            _check_size(name, head, size_bytes)
            check()
            data = head + file.read(max(MAX_PDF_BYTES, MAX_PICTURE_BYTES))
    except OSError as error:
        raise refusal(
            "attachment_unreadable",
            name,
            f"{name} cannot be read ({error.strerror or error}). Check that it is still there and "
            "belongs to you.",
        ) from error
    check()
    if head.lstrip()[:5] == b"%PDF-":
        read = pdf_text(name, data, check)
        return ReadFile(name, "application/pdf", len(data), text=read.text, note=read.note)
    kind = picture_type(data)
    if kind is not None:
        return ReadFile(name, kind, len(data), data=data)
    text = decode_text(name, data)
    media_type = mimetypes.guess_type(name)[0] or "text/plain"
    return ReadFile(name, media_type, len(data), text=text)


def _check_size(name: str, head: bytes, size_bytes: int) -> None:
    if not head:
        raise refusal("attachment_empty", name, f"{name} is empty.")
    if head.lstrip()[:5] == b"%PDF-":
        limit = MAX_PDF_BYTES
    elif picture_type(head) is not None:
        limit = MAX_PICTURE_BYTES
    else:
        _check_kind(name, head)
        limit = MAX_TEXT_BYTES
    if size_bytes > limit:
        raise AttachmentError(
            f"{name} has {size_bytes / (1 << 20):.0f} MB; at most {limit >> 20} MB can be attached. "
            "Attach the part that matters.",
            code="attachment_too_large",
            params={"name": name, "size_bytes": size_bytes, "limit_bytes": limit},
        )


def _check_kind(name: str, head: bytes) -> None:
    if Path(name).suffix.lower() in OFFICE:
        raise refusal(
            "attachment_office",
            name,
            f"{name} is an office document, which cannot be read. Save it as PDF or as text, and "
            "attach that.",
        )
    if not _looks_like_text(head):
        raise refusal(
            "attachment_no_text",
            name,
            f"{name} is neither text nor PDF. Only text, code, PDF and pictures can be attached.",
        )


def _looks_like_text(head: bytes) -> bool:
    if any(head.startswith(bom) for bom, _ in BOMS):
        return True
    if _wide_encoding(head) is not None:
        return True
    controls = len(head) - len(head.translate(None, _CONTROL))
    return b"\0" not in head and controls <= len(head) * MAX_CONTROL_SHARE


def _wide_encoding(head: bytes) -> str | None:
    """UTF-16 without a mark, as some Windows programs write it: every other byte is zero."""
    sample = head[: len(head) // 2 * 2][:4096]
    if len(sample) < 8:
        return None
    half = len(sample) // 2
    even, odd = sample[0::2].count(0), sample[1::2].count(0)
    if odd > half * 0.6 and even < half * 0.05:
        return "utf-16-le"
    if even > half * 0.6 and odd < half * 0.05:
        return "utf-16-be"
    return None


def decode_text(name: str, data: bytes) -> str:
    """The text of a file in whichever encoding it is; line ends are those of Unix.

    Raises:
        AttachmentError: it is no text.
    """
    if not data:
        raise refusal("attachment_empty", name, f"{name} is empty.")
    _check_kind(name, data[:SAMPLE_BYTES])
    text = _decoded(data)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not text.strip():
        raise refusal("attachment_empty", name, f"{name} has no text in it.")
    return text


def _decoded(data: bytes) -> str:
    for bom, encoding in BOMS:
        if data.startswith(bom):
            return data.decode(encoding, "replace")
    wide = _wide_encoding(data[:SAMPLE_BYTES])
    if wide is not None:
        return data.decode(wide, "replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        pass
    # Imported here: it takes a while, and most files are UTF-8.
    from charset_normalizer import from_bytes  # noqa: PLC0415

    best = from_bytes(data[: 1 << 20]).best()
    encoding = best.encoding if best is not None else "cp1252"
    try:
        return data.decode(encoding)
    except (UnicodeDecodeError, LookupError):
        return data.decode("utf-8", "replace")
