"""What `gguf_fuzz` can do with a file, beside functions of the engine; and faults for its own test."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from engine.core.errors import ModelFileError
from engine.core.gguf_header import read_model_header


def read_all_strings(path: Path) -> None:
    """Read the header and every element of every list."""
    for value in read_model_header(path).metadata.values():
        if isinstance(value, Sequence) and not isinstance(value, str):
            list(value)


def open_and_decode(path: Path) -> None:
    """Map the file and decode every tensor."""
    from engine.gguf.reader import GgufFile  # noqa: PLC0415  numpy only where it is needed

    with GgufFile.open(path) as model:
        for tensor in model.tensors.values():
            tensor.dequantise()


def divide_by_zero(path: Path) -> float:
    return 1 / 0


def speak_two_sentences(path: Path) -> None:
    raise ModelFileError("This is wrong. So is this.")


def hang(path: Path) -> None:
    time.sleep(60)


def allocate_a_gigabyte(path: Path) -> int:
    return len(bytearray(1 << 30))
