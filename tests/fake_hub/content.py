"""What files of the fake hub hold: bytes, or gigabytes that are made when they are read."""

from __future__ import annotations

import hashlib
import random
from functools import cached_property
from typing import Protocol

_BLOCK_BYTES = 1 << 20


class Content(Protocol):
    """The bytes of a file."""

    size: int

    @property
    def sha256(self) -> str: ...

    def read(self, start: int, count: int) -> bytes: ...


class BytesContent:
    """Bytes in memory."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.size = len(data)

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    def read(self, start: int, count: int) -> bytes:
        return self.data[start : start + count]


class GeneratedContent:
    """Any number of bytes without memory: one random block, with its number at its beginning."""

    def __init__(self, size: int, seed: int = 0) -> None:
        self.size = size
        self._block = random.Random(seed).randbytes(_BLOCK_BYTES - 8)  # noqa: S311  # test data

    @cached_property
    def sha256(self) -> str:
        digest = hashlib.sha256()
        for start in range(0, self.size, _BLOCK_BYTES):
            digest.update(self.read(start, _BLOCK_BYTES))
        return digest.hexdigest()

    def read(self, start: int, count: int) -> bytes:
        end = min(start + count, self.size)
        parts = []
        while start < end:
            index, offset = divmod(start, _BLOCK_BYTES)
            block = index.to_bytes(8, "little") + self._block
            part = block[offset : offset + end - start]
            parts.append(part)
            start += len(part)
        return b"".join(parts)
