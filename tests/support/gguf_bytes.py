"""GGUF headers written by hand, byte by byte, so that tests can write what no writer would."""

from __future__ import annotations

import struct
from collections.abc import Sequence

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)


def string(text: str | bytes) -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(raw)) + raw


def key(name: str | bytes, value_type: int, value: bytes) -> bytes:
    return string(name) + struct.pack("<I", value_type) + value


def u32_key(name: str, value: int) -> bytes:
    return key(name, U32, struct.pack("<I", value))


def array_value(element_type: int, count: int, elements: bytes = b"") -> bytes:
    return struct.pack("<IQ", element_type, count) + elements


def array_key(name: str, element_type: int, count: int, elements: bytes = b"") -> bytes:
    return key(name, ARRAY, array_value(element_type, count, elements))


def tensor(name: str | bytes, ne: Sequence[int], ggml_type: int = 0, offset: int = 0) -> bytes:
    dimensions = struct.pack(f"<I{len(ne)}Q", len(ne), *ne)
    return string(name) + dimensions + struct.pack("<IQ", ggml_type, offset)


def gguf(
    keys: Sequence[bytes] = (),
    tensors: Sequence[bytes] = (),
    *,
    data_bytes: int = 0,
    magic: bytes = b"GGUF",
    version: int = 3,
    num_tensors: int | None = None,
    num_keys: int | None = None,
    alignment: int = 32,
) -> bytes:
    """A whole file: header, padding, and `data_bytes` zeros."""
    head = magic + struct.pack(
        "<IQQ",
        version,
        len(tensors) if num_tensors is None else num_tensors,
        len(keys) if num_keys is None else num_keys,
    )
    head += b"".join(keys) + b"".join(tensors)
    if data_bytes:
        head += bytes(-len(head) % alignment + data_bytes)
    return head
