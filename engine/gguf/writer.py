"""Write GGUF files, single or split: metadata and tensors, version 3, little endian.

    writer = GgufWriter(Path("model.gguf"), "qwen4exp")
    writer.add_metadata("qwen4exp.block_count", 6)
    writer.add_tensor("token_embd.weight", embedding, GgmlType.Q8_0)   # float32 [V, H] is quantised
    writer.write()                                                    # -> [Path("model.gguf")]

Tensors that are larger than memory come in parts: `add_streamed_tensor`. Everything is written to
temporary names first and renamed when complete, so no half file is ever found under its final name.
Knows nothing of what keys and tensors mean.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.core.ggml_types import GgmlType, row_bytes
from engine.core.gguf_header import MetadataValue
from engine.core.gguf_values import NUMBER_CODES, GgufValueType
from engine.gguf.quantise import quantise

# Called once, when the tensor is written; its parts are uint8 arrays that follow each other.
TensorParts = Callable[[], Iterable[NDArray[np.uint8]]]

_DEFAULT_ALIGNMENT = 32
_INTEGER_TYPES = (
    GgufValueType.UINT32,
    GgufValueType.INT32,
    GgufValueType.UINT64,
    GgufValueType.INT64,
)


@dataclass(frozen=True, slots=True)
class _PackedTensor:
    name: str
    type: GgmlType
    ne: tuple[int, ...]
    num_bytes: int
    parts: TensorParts


class GgufWriter:
    """Collects metadata and tensors, then writes them.

    Attributes:
        path: the file to write; for a split model, `NAME.gguf` gives `NAME-00001-of-00003.gguf`.
    """

    def __init__(
        self,
        path: Path,
        architecture: str,
        *,
        alignment: int = _DEFAULT_ALIGNMENT,
        num_shards: int | None = None,
        max_shard_bytes: int | None = None,
        first_shard_empty: bool = False,
    ) -> None:
        """Begin a model of one file, or of several.

        Args:
            path: the file to write.
            architecture: the value of `general.architecture`.
            alignment: of the tensors, a power of two of at least 8.
            num_shards: split into this many files of similar size.
            max_shard_bytes: split so that the tensors of a file take at most this many bytes (one
                tensor is never divided).
            first_shard_empty: the first of several files holds only metadata.
        """
        if alignment < 8 or alignment & (alignment - 1):
            raise ValueError("alignment must be a power of two of at least 8")
        if num_shards is not None and max_shard_bytes is not None:
            raise ValueError("give num_shards or max_shard_bytes, not both")
        if num_shards is not None and num_shards < (2 if first_shard_empty else 1):
            raise ValueError("too few shards")
        self.path = path
        self._alignment = alignment
        self._num_shards = num_shards
        self._max_shard_bytes = max_shard_bytes
        self._first_shard_empty = first_shard_empty
        self._metadata: dict[str, bytes] = {}  # key -> type and value as they are written
        self._tensors: dict[str, _PackedTensor] = {}
        self.add_metadata("general.architecture", architecture)
        if alignment != _DEFAULT_ALIGNMENT:
            self.add_metadata("general.alignment", alignment, GgufValueType.UINT32)

    def add_metadata(
        self, key: str, value: MetadataValue, value_type: GgufValueType | None = None
    ) -> None:
        """Add a key.

        Args:
            key: its name.
            value: a bool, number, string, or a sequence of one of these.
            value_type: of a number, or of the elements of a sequence. By default the first of u32,
                i32, u64, i64 that holds the value (for sequences i32, u32, ...), and f32 for floats.
                An empty sequence needs it.

        Raises:
            ValueError: the key was added before, or the value does not fit the type.
        """
        if key in self._metadata:
            raise ValueError(f"the metadata key {key} was added before")
        self._metadata[key] = _packed_value(key, value, value_type)

    def add_tensor(
        self,
        name: str,
        values: NDArray[np.generic],
        ggml_type: GgmlType,
        shape: tuple[int, ...] | None = None,
    ) -> None:
        """Add a tensor.

        Args:
            name: its name.
            values: its numbers, row-major, which are stored as `ggml_type`; or, if `shape` is given,
                its bytes, uint8, which already are of that type.
            ggml_type: how its values are stored.
            shape: the row-major shape of a tensor that comes as bytes.

        Raises:
            ValueError: the name was added before, or bytes, type and shape do not fit.
        """
        if name in self._tensors:
            raise ValueError(f"the tensor {name} was added before")
        if shape is None:
            shape = values.shape
            raw = quantise(values.astype(np.float32), ggml_type)
        else:
            if values.dtype != np.uint8:
                raise ValueError(f"the bytes of {name} must be uint8")
            raw = np.ascontiguousarray(values, np.uint8)
        expected = _num_bytes(name, ggml_type, shape)
        if raw.size != expected:
            raise ValueError(f"the tensor {name} has {raw.size} bytes instead of {expected}")
        data = raw.reshape(-1)
        self._tensors[name] = _PackedTensor(name, ggml_type, shape[::-1], expected, lambda: (data,))

    def add_streamed_tensor(
        self, name: str, ggml_type: GgmlType, shape: tuple[int, ...], parts: TensorParts
    ) -> None:
        """Add a tensor whose bytes are made while it is written, so that it is never held whole.

        Args:
            name: its name.
            ggml_type: how its values are stored.
            shape: row-major.
            parts: called once by `write`; gives its bytes, already of that type, one after another.

        Raises:
            ValueError: the name was added before, or the shape does not fit the type.
        """
        if name in self._tensors:
            raise ValueError(f"the tensor {name} was added before")
        num_bytes = _num_bytes(name, ggml_type, shape)
        self._tensors[name] = _PackedTensor(name, ggml_type, shape[::-1], num_bytes, parts)

    def write(self) -> list[Path]:
        """Write all files and return their paths in order.

        Raises:
            ValueError: the parts of a streamed tensor are not as long together as it is.
            OSError: the disk is full or the folder not writable; no file has its final name then
                unless renaming failed half-way.
        """
        shards = self._distribute()
        paths = self._paths(len(shards))
        partial = [path.with_name(path.name + ".partial") for path in paths]
        try:
            for index, (path, tensors) in enumerate(zip(partial, shards, strict=True)):
                self._write_file(path, self._shard_metadata(index, len(shards)), tensors)
            for temporary, path in zip(partial, paths, strict=True):
                temporary.replace(path)
        finally:
            for temporary in partial:
                temporary.unlink(missing_ok=True)
        return paths

    def _distribute(self) -> list[list[_PackedTensor]]:
        """The tensors of each file, in the order in which they were added."""
        tensors = list(self._tensors.values())
        if self._num_shards is None and self._max_shard_bytes is None:
            return [tensors]
        shards: list[list[_PackedTensor]] = [[]] if self._first_shard_empty else []
        if self._num_shards is not None:
            num_filled = self._num_shards - len(shards)
            total = sum(tensor.num_bytes for tensor in tensors)
            filled: list[list[_PackedTensor]] = [[] for _ in range(num_filled)]
            before = 0
            for tensor in tensors:  # a tensor goes where its middle byte lies
                middle = before + tensor.num_bytes // 2
                filled[middle * num_filled // total].append(tensor)
                before += tensor.num_bytes
            return shards + filled
        used = 0
        for tensor in tensors:
            if not shards or (
                shards[-1] and used + tensor.num_bytes > (self._max_shard_bytes or 0)
            ):
                shards.append([])
                used = 0
            elif self._first_shard_empty and len(shards) == 1:
                shards.append([])
            shards[-1].append(tensor)
            used += tensor.num_bytes
        return shards or [[]]

    def _paths(self, count: int) -> list[Path]:
        if self._num_shards is None and self._max_shard_bytes is None:
            return [self.path]
        stem, suffix = self.path.stem, self.path.suffix or ".gguf"
        return [
            self.path.with_name(f"{stem}-{index:05d}-of-{count:05d}{suffix}")
            for index in range(1, count + 1)
        ]

    def _shard_metadata(self, index: int, count: int) -> dict[str, bytes]:
        """All keys for the first file, the alignment for the others, and what a split adds."""
        metadata = {
            key: value
            for key, value in self._metadata.items()
            if index == 0 or key == "general.alignment"
        }
        if self._num_shards is not None or self._max_shard_bytes is not None:
            for key, number, value_type in (
                ("split.no", index, GgufValueType.UINT16),
                ("split.count", count, GgufValueType.UINT16),
                ("split.tensors.count", len(self._tensors), GgufValueType.INT32),
            ):
                metadata[key] = _packed_value(key, number, value_type)
        return metadata

    def _write_file(
        self, path: Path, metadata: dict[str, bytes], tensors: list[_PackedTensor]
    ) -> None:
        header = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(metadata))]
        for key, value in metadata.items():
            header += [_packed_string(key), value]
        offset = 0
        for tensor in tensors:
            header.append(_packed_string(tensor.name))
            header.append(struct.pack(f"<I{len(tensor.ne)}Q", len(tensor.ne), *tensor.ne))
            header.append(struct.pack("<IQ", tensor.type, offset))
            offset += tensor.num_bytes + self._padding(tensor.num_bytes)
        with path.open("wb") as file:
            file.write(b"".join(header))
            file.write(bytes(self._padding(file.tell())))
            for tensor in tensors:
                written = sum(file.write(part.data) for part in tensor.parts())
                if written != tensor.num_bytes:
                    raise ValueError(
                        f"the parts of {tensor.name} have {written} bytes instead of "
                        f"{tensor.num_bytes}"
                    )
                file.write(bytes(self._padding(tensor.num_bytes)))

    def _padding(self, size: int) -> int:
        return -size % self._alignment


def _num_bytes(name: str, ggml_type: GgmlType, shape: tuple[int, ...]) -> int:
    """Bytes of a tensor.

    Raises:
        ValueError: the shape is none that a tensor of this type can have.
    """
    if not 1 <= len(shape) <= 4 or 0 in shape:
        raise ValueError(f"the tensor {name} cannot have the shape {shape}")
    return row_bytes(ggml_type, shape[-1]) * math.prod(shape[:-1])


def _packed_string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _packed_value(key: str, value: MetadataValue, value_type: GgufValueType | None) -> bytes:
    """A value with its type before it."""
    if isinstance(value, str | bool | int | float):
        if value_type is None:
            value_type = _type_for([value], key, _INTEGER_TYPES)
        return struct.pack("<I", value_type) + _packed_elements(key, [value], value_type)
    if value_type is None:
        u32, i32, u64, i64 = _INTEGER_TYPES
        value_type = _type_for(value, key, (i32, u32, i64, u64))
    head = struct.pack("<IIQ", GgufValueType.ARRAY, value_type, len(value))
    return head + _packed_elements(key, value, value_type)


def _packed_elements(key: str, values: Sequence[object], value_type: GgufValueType) -> bytes:
    if value_type is GgufValueType.STRING:
        return b"".join(_packed_string(str(value)) for value in values)
    if value_type is GgufValueType.BOOL:
        return bytes(bool(value) for value in values)
    if value_type is GgufValueType.ARRAY:
        raise ValueError(f"lists inside lists are not written ({key})")
    try:
        return struct.pack(f"<{len(values)}{NUMBER_CODES[value_type]}", *values)
    except (struct.error, OverflowError) as error:
        raise ValueError(f"a value of {key} does not fit the type {value_type.name}") from error


def _type_for(
    values: Sequence[object], key: str, integer_types: Sequence[GgufValueType]
) -> GgufValueType:
    """The type that a value or the elements of a sequence are written with by default."""
    if not values:
        raise ValueError(f"the empty list {key} needs a type")
    if all(isinstance(value, bool) for value in values):
        return GgufValueType.BOOL
    if all(isinstance(value, str) for value in values):
        return GgufValueType.STRING
    if all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        for value_type in integer_types:
            try:
                _packed_elements(key, values, value_type)
            except ValueError:
                continue
            return value_type
        raise ValueError(f"a value of {key} does not fit 64 bits")
    if all(isinstance(value, int | float) for value in values):
        return GgufValueType.FLOAT32
    raise ValueError(f"the values of {key} are of a kind that GGUF does not have")
