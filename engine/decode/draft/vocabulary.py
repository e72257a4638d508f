"""Which tokens the draft head may propose: a smaller head costs less per draft.

    script_ids(tokenizer_bytes, size, "cjk")     # by the letters of a script, with ASCII
    read_vocabulary_file(path, pieces)           # by counts over texts: tools/draft_vocabulary.py

A token that is missing is never drafted, so answers full of them gain nothing; they stay what they are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from engine.core.errors import InputError
from engine.core.strict_json import parse_json
from engine.decode.draft.ngram_file import vocabulary_hash

IdArray = npt.NDArray[np.int64]

ALL = "all"
# Letters beside ASCII and punctuation, as ranges of code points.
SCRIPTS: dict[str, tuple[tuple[int, int], ...]] = {
    "en": (),
    "cjk": (
        (0x1100, 0x11FF),
        (0x2E80, 0x9FFF),
        (0xA960, 0xA97F),
        (0xAC00, 0xD7FF),
        (0xF900, 0xFAFF),
        (0xFE30, 0xFE4F),
        (0xFF00, 0xFFEF),
        (0x20000, 0x3FFFF),
    ),
    "cyrillic": ((0x0400, 0x052F), (0x1C80, 0x1C8F), (0x2DE0, 0x2DFF), (0xA640, 0xA69F)),
}
_COMMON = ((0x00, 0x7F), (0xA0, 0xBF), (0x2000, 0x22FF), (0x2500, 0x27BF))
FILE_FORMAT = 1


class DraftVocabularyError(InputError):
    """A file of ids cannot be used."""

    code = "draft_vocabulary_unusable"


def script_ids(token_bytes: Callable[[int], bytes], size: int, script: str) -> IdArray:
    """Ids of the tokens whose letters all belong to a script, ascending.

    Single bytes and tokens without text (control tokens) always belong to it; parts of characters
    do where the script has letters of several bytes.

    Raises:
        KeyError: the script is none of `SCRIPTS`.
    """
    ranges = (*_COMMON, *SCRIPTS[script])
    has_parts = bool(SCRIPTS[script])
    kept: list[int] = []
    for token_id in range(size):
        data = token_bytes(token_id)
        if len(data) <= 1 or data.isascii():
            kept.append(token_id)
            continue
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            if has_parts:
                kept.append(token_id)
            continue
        if all(any(low <= ord(c) <= high for low, high in ranges) for c in text):
            kept.append(token_id)
    return np.array(kept, np.int64)


def write_vocabulary_file(ids: Sequence[int], pieces: Sequence[str], path: Path) -> None:
    """Write a file of ids for this vocabulary."""
    content = {
        "format": FILE_FORMAT,
        "vocabulary": vocabulary_hash(pieces).hex(),
        "ids": sorted(set(ids)),
    }
    path.write_text(json.dumps(content), encoding="utf-8")


def read_vocabulary_file(path: Path, pieces: Sequence[str]) -> IdArray:
    """The ids of a file, ascending.

    Raises:
        DraftVocabularyError: it cannot be read, or belongs to another vocabulary.
    """
    again = "make it again with `python -m tools.draft_vocabulary`, or leave it out."
    try:
        content = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DraftVocabularyError(
            f"The draft vocabulary {path} cannot be read ({error}); {again}"
        ) from error
    if not isinstance(content, dict) or content.get("format") != FILE_FORMAT:
        raise DraftVocabularyError(f"{path} is no draft vocabulary of this version; {again}")
    if content.get("vocabulary") != vocabulary_hash(pieces).hex():
        raise DraftVocabularyError(
            f"The draft vocabulary {path} was made for another model's tokens; {again}"
        )
    ids = content.get("ids")
    is_list = isinstance(ids, list) and all(type(i) is int for i in ids)
    if not is_list or not ids or min(ids) < 0 or max(ids) >= len(pieces):
        raise DraftVocabularyError(f"The draft vocabulary {path} holds no usable ids; {again}")
    return np.unique(np.array(ids, np.int64))
