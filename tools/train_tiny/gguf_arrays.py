"""Reads the float tensors of a small GGUF file; only what the checks of this tool need.

Formats F32, F16 and BF16; anything else is refused. (The engine's reader is the full one; this
one has no part of the engine in it, so that a check of the trainer cannot share a fault with it.)
"""

import struct
from pathlib import Path

import numpy as np

SCALARS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}


class _Cursor:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 4

    def take(self, code: str) -> int | float | bool:
        value = struct.unpack_from("<" + code, self.data, self.at)[0]
        self.at += struct.calcsize("<" + code)
        return value  # type: ignore[no-any-return]

    def count(self, code: str = "Q") -> int:
        return int(self.take(code))

    def string(self) -> str:
        length = self.count()
        self.at += length
        return self.data[self.at - length : self.at].decode()

    def value(self, kind: int) -> object:
        if kind == 8:
            return self.string()
        if kind == 9:
            item, count = self.count("I"), self.count()
            return [self.value(item) for _ in range(count)]
        return self.take(SCALARS[kind])


def read_arrays(path: Path) -> tuple[dict[str, object], dict[str, np.ndarray]]:
    """Returns the metadata and the tensors as float32 arrays in row-major shape."""
    data = path.read_bytes()
    cursor = _Cursor(data)
    cursor.count("I")
    num_tensors, num_keys = cursor.count(), cursor.count()
    metadata: dict[str, object] = {}
    for _ in range(num_keys):
        key = cursor.string()
        metadata[key] = cursor.value(cursor.count("I"))
    infos = []
    for _ in range(num_tensors):
        name = cursor.string()
        ne = [cursor.count() for _ in range(cursor.count("I"))]
        infos.append((name, ne, cursor.count("I"), cursor.count()))
    start = -(-cursor.at // 32) * 32
    arrays = {}
    for name, ne, kind, offset in infos:
        count = int(np.prod(ne))
        if kind == 0:
            flat = np.frombuffer(data, "<f4", count, start + offset).copy()
        elif kind == 1:
            flat = np.frombuffer(data, "<f2", count, start + offset).astype(np.float32)
        elif kind == 30:
            halves = np.frombuffer(data, "<u2", count, start + offset).astype(np.uint32)
            flat = (halves << 16).view(np.float32)
        else:
            message = f"{path}: tensor {name} has type {kind}; this check reads F32, F16 and BF16."
            raise ValueError(message)
        arrays[name] = flat.reshape(ne[::-1])
    return metadata, arrays
