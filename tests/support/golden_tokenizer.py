"""Tokenizers of the golden models, their metadata read by the `gguf` package and not by ours."""

from __future__ import annotations

import functools
from pathlib import Path

from gguf import GGUFReader

from engine.text.tokenizer import Tokenizer

_GOLDEN = Path(__file__).resolve().parents[1] / "golden"


def tokenizer_metadata(case: str) -> dict[str, object]:
    """The keys `tokenizer.*` of a golden file."""
    fields = GGUFReader(_GOLDEN / f"{case}.gguf").fields
    return {key: field.contents() for key, field in fields.items() if key.startswith("tokenizer.")}


@functools.cache
def golden_tokenizer(case: str) -> Tokenizer:
    """The tokenizer of a golden file."""
    return Tokenizer.from_metadata(tokenizer_metadata(case))
