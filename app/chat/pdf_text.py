"""The text of a PDF, page by page, by pypdf; with limits, for a PDF may be anything."""

from __future__ import annotations

import io
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.chat.refusal import AttachmentError, refusal

if TYPE_CHECKING:
    import pypdf

logger = logging.getLogger(__name__)

MAX_PDF_BYTES = 64 << 20
MAX_PAGES = 3000
MAX_CHARS = 8 << 20
MAX_S = 120.0


@dataclass(frozen=True, slots=True)
class PdfText:
    """The text.

    Attributes:
        note: `pdf_pages_without_text` (some pages are pictures), `pdf_cut` (it was too long), or
            empty.
    """

    text: str
    num_pages: int
    note: str = ""


def pdf_text(name: str, data: bytes, check: Callable[[], None]) -> PdfText:
    """The text of a PDF.

    Args:
        name: for the sentences.
        data: the file.
        check: called between pages; it may raise to give up.

    Raises:
        AttachmentError: it is encrypted, damaged, has no text, or takes for ever.
    """
    # Imported here: it takes a third of a second.
    import pypdf  # noqa: PLC0415
    from pypdf.errors import PyPdfError  # noqa: PLC0415

    try:
        reader = pypdf.PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise refusal(
                "pdf_encrypted",
                name,
                f"{name} is protected by a password. Save it without one, and attach that.",
            )
        return _read_pages(name, reader, check)
    except AttachmentError:
        raise
    except PyPdfError as error:
        raise _damaged(name, str(error)) from error
    except (
        ValueError,
        TypeError,
        KeyError,
        IndexError,
        AttributeError,
        AssertionError,
        ArithmeticError,
        NotImplementedError,
        RecursionError,
        MemoryError,
        OSError,
    ) as error:
        # What pypdf raises for files that are broken in ways that nobody thought of.
        logger.info("a PDF could not be read: %s", type(error).__name__)
        raise _damaged(name, type(error).__name__) from error


def _read_pages(name: str, reader: pypdf.PdfReader, check: Callable[[], None]) -> PdfText:
    deadline = time.monotonic() + MAX_S
    texts: list[str] = []
    num_chars, num_blank, num_failed = 0, 0, 0
    note = ""
    num_pages = len(reader.pages)
    for number in range(num_pages):
        check()
        if number >= MAX_PAGES or num_chars > MAX_CHARS or time.monotonic() > deadline:
            note = "pdf_cut"
            break
        try:
            text = reader.pages[number].extract_text().strip()
        except AttachmentError:
            raise
        except Exception as error:  # noqa: BLE001  # one bad page must not cost the others
            logger.info("a page of a PDF could not be read: %s", type(error).__name__)
            num_failed += 1
            continue
        if not text:
            num_blank += 1
            continue
        num_chars += len(text)
        texts.append(text)
    if not texts:
        if num_failed:
            raise _damaged(name, "no page can be read")
        raise refusal(
            "pdf_without_text",
            name,
            f"{name} has no text in it; its pages are pictures, as from a scanner. Run a text "
            "recognition over it first.",
        )
    if not note and (num_blank or num_failed):
        note = "pdf_pages_without_text"
    text = "\n\n".join(texts).encode("utf-8", "replace").decode("utf-8")
    return PdfText(text, num_pages, note)


def _damaged(name: str, reason: str) -> AttachmentError:
    return AttachmentError(
        f"{name} is damaged and cannot be read ({reason[:120]}). Open it in a PDF viewer, save it "
        "again, and attach that.",
        code="pdf_damaged",
        params={"name": name, "reason": reason[:120]},
    )
