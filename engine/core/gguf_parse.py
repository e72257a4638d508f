"""The header of a GGUF file: metadata, and what and where each tensor is; no tensor data is read.

Everything that a file claims is checked here, before it is used: a file that passes can be mapped
and sliced by `TensorInfo.offset` and `num_bytes` without looking again. What the keys mean is not
known here. Source: `spec/qwen4exp.md` section 3.0. Split files are joined in `gguf_header.py`.

The smallest file, version 3 with no key and no tensor, is 24 bytes:
`47 47 55 46 | 03 00 00 00 | 00 .. 00 (8 bytes) | 00 .. 00 (8 bytes)`.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.core.errors import ModelFileError
from engine.core.ggml_types import GgmlType, row_bytes
from engine.core.gguf_values import (
    MAX_NAME_BYTES,
    Buffer,
    Cursor,
    MetadataValue,
    damaged,
    printable,
    quoted,
)

MAGIC = b"GGUF"
DEFAULT_ALIGNMENT = 32
MAX_ALIGNMENT = 1 << 24
MAX_KEYS = 65_536
MAX_TENSORS = 1 << 18
MAX_DIMENSIONS = 4
_MIN_KEY_BYTES = 8 + 4 + 1  # name length, type, the smallest value
_MIN_TENSOR_BYTES = 8 + 4 + 8 + 4 + 8  # name length, number of dimensions, one, type, offset


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Where a tensor lies in its file.

    Attributes:
        name: such as `blk.0.attn_qkv.weight`.
        type: how its values are stored.
        ne: its dimensions as in the file, the contiguous one first.
        offset: its first byte, from `GgufHeader.data_start`.
        num_bytes: its size in the file.
    """

    name: str
    type: GgmlType
    ne: tuple[int, ...]
    offset: int
    num_bytes: int

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions in row-major order, the contiguous one last."""
        return self.ne[::-1]


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """What one GGUF file says about itself.

    Attributes:
        version: of the format, 2 or 3.
        metadata: the keys in the order of the file. Lists of numbers are `array`s, lists of booleans
            tuples, lists of strings `StringArray`s.
        tensors: in the order of the file.
        alignment: of the tensors' offsets, in bytes.
        data_start: the byte of the file that tensor offsets count from.
    """

    version: int
    metadata: Mapping[str, MetadataValue]
    tensors: tuple[TensorInfo, ...]
    alignment: int
    data_start: int


def read_header(path: Path) -> GgufHeader:
    """The header of the file at `path`.

    Raises:
        ModelFileError: it is missing, unreadable, no GGUF file, damaged or hostile.
    """
    try:
        if path.exists() and not path.is_file():  # a pipe would block, a folder has no bytes
            kind = "a folder" if path.is_dir() else "a device or pipe"
            raise ModelFileError(
                f"{printable(str(path), 400)} is {kind}, not a GGUF file; name a .gguf file.",
                code="not_a_file",
                params={"file": str(path)},
            )
        with path.open("rb") as file:
            size = file.seek(0, 2)
            if size == 0:
                raise ModelFileError(
                    f"The file {printable(path.name)} is empty; download or convert it again.",
                    code="file_empty",
                    params={"file": path.name},
                )
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
                return parse_header(mapped, len(mapped), path.name)
    except FileNotFoundError as error:
        raise ModelFileError(
            f"The file {printable(str(path), 400)} does not exist; check its folder and name.",
            code="file_missing",
            params={"file": str(path)},
        ) from error
    except (OSError, ValueError) as error:  # ValueError: a name with a zero character
        reason = getattr(error, "strerror", None) or str(error)
        raise ModelFileError(
            f"The file {printable(str(path), 400)} cannot be read ({printable(reason)}); check "
            "its permissions and the disk.",
            code="file_unreadable",
            params={"file": str(path), "reason": reason},
        ) from error


def parse_header(buffer: Buffer, file_size: int, name: str = "model.gguf") -> GgufHeader:
    """The header at the start of `buffer`.

    Nothing of the result refers to `buffer`. Time and memory are bounded by the header's own size.

    Args:
        buffer: the file's first bytes, at least its whole header.
        file_size: the size of the whole file, which tensors must lie in.
        name: the file's name, for messages.

    Raises:
        ModelFileError: a claim of the header is impossible, with the claim in the sentence.
    """
    cursor = Cursor(buffer, file_size, name)
    version = _check_magic(cursor)
    num_tensors = cursor.count("tensors", _MIN_TENSOR_BYTES, MAX_TENSORS)
    num_keys = cursor.count("metadata keys", _MIN_KEY_BYTES, MAX_KEYS)
    metadata = _read_metadata(cursor, num_keys)
    alignment = _alignment(metadata, name)
    if num_tensors > cursor.remaining // _MIN_TENSOR_BYTES:
        cursor.too_short("the list of tensors")
    tensors: dict[str, TensorInfo] = {}
    for _ in range(num_tensors):
        tensor = _read_tensor(cursor)
        if tensor.name in tensors:
            raise damaged(name, f"the tensor {quoted(tensor.name)} is listed twice")
        tensors[tensor.name] = tensor
    data_start = -(-cursor.position // alignment) * alignment
    header = GgufHeader(version, metadata, tuple(tensors.values()), alignment, data_start)
    _check_places(header, file_size, name)
    return header


def _check_magic(cursor: Cursor) -> int:
    """The format's version, of a file that we can read."""
    file = printable(cursor.file_name)
    if cursor.take(min(4, cursor.remaining), "the magic number") != MAGIC:
        raise ModelFileError(
            f"The file {file} is not a GGUF file (it does not begin with the letters GGUF); choose "
            "a file that ends in .gguf, or download it again.",
            code="not_gguf",
            params={"file": cursor.file_name},
        )
    version = cursor.u32("the version")
    if version in (2, 3):
        return version
    if version & 0xFFFF == 0 and version:
        raise ModelFileError(
            f"The file {file} was written for big-endian machines, which Stratum does not read; "
            "use a little-endian GGUF file.",
            code="gguf_big_endian",
            params={"file": cursor.file_name},
        )
    raise ModelFileError(
        f"The file {file} has version {version} of the GGUF format, and Stratum reads 2 and 3; use "
        "a file of one of these versions.",
        code="gguf_version",
        params={"file": cursor.file_name, "version": version},
    )


def _read_metadata(cursor: Cursor, num_keys: int) -> dict[str, MetadataValue]:
    metadata: dict[str, MetadataValue] = {}
    for _ in range(num_keys):
        key = cursor.string("a metadata key", MAX_NAME_BYTES)
        if not key:
            raise damaged(cursor.file_name, "a metadata key has no name")
        if key in metadata:
            raise damaged(cursor.file_name, f"the metadata key {quoted(key)} is there twice")
        metadata[key] = cursor.value(quoted(key))
    return metadata


def _alignment(metadata: Mapping[str, MetadataValue], name: str) -> int:
    alignment = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    if (
        not isinstance(alignment, int)
        or not 8 <= alignment <= MAX_ALIGNMENT
        or alignment & (alignment - 1)
    ):
        shown = alignment if isinstance(alignment, int | float) else "a text or list"
        raise damaged(
            name,
            f"its general.alignment must be a power of two from 8 to {MAX_ALIGNMENT}, which {shown} "
            "is not",
        )
    return alignment


def _read_tensor(cursor: Cursor) -> TensorInfo:
    file_name = cursor.file_name
    name = cursor.string("a tensor's name", MAX_NAME_BYTES)
    if not name:
        raise damaged(file_name, "a tensor has no name")
    shown = quoted(name)
    what = f"the description of the tensor {shown}"
    num_dimensions = cursor.u32(what)
    if not 1 <= num_dimensions <= MAX_DIMENSIONS:
        raise damaged(
            file_name, f"the tensor {shown} has {num_dimensions} dimensions instead of 1 to 4"
        )
    ne = tuple(cursor.u64(what) for _ in range(num_dimensions))
    if 0 in ne:
        raise damaged(file_name, f"the tensor {shown} has a dimension of length 0")
    type_number = cursor.u32(what)
    try:
        ggml_type = GgmlType(type_number)
    except ValueError as error:
        raise ModelFileError(
            f"The file {printable(file_name)} stores the tensor {shown} in the format with number "
            f"{type_number}, which Stratum does not know; use another quantisation of the model, or "
            "a newer Stratum.",
            code="unknown_tensor_type",
            params={"file": file_name, "tensor": name, "type": type_number},
        ) from error
    if ne[0] % ggml_type.block_values:
        raise damaged(
            file_name,
            f"the tensor {shown} has rows of {ne[0]} values, no whole number of {ggml_type.name} "
            f"blocks of {ggml_type.block_values}",
        )
    num_bytes = row_bytes(ggml_type, ne[0])  # Python's integers do not overflow
    for length in ne[1:]:
        num_bytes *= length
    return TensorInfo(name, ggml_type, ne, cursor.u64(what), num_bytes)


def _check_places(header: GgufHeader, file_size: int, name: str) -> None:
    """Refuse tensors that are misaligned, outside the file, or lie over each other."""
    data_bytes = file_size - header.data_start
    last_name, last_end = "", 0
    for tensor in sorted(header.tensors, key=lambda tensor: tensor.offset):
        shown = quoted(tensor.name)
        if tensor.offset % header.alignment:
            raise damaged(
                name,
                f"the tensor {shown} begins at offset {tensor.offset}, no multiple of "
                f"{header.alignment}",
            )
        if tensor.offset + tensor.num_bytes > data_bytes:
            raise ModelFileError(
                f"The file {printable(name)} is cut off or damaged: its tensor {shown} needs "
                f"{header.data_start + tensor.offset + tensor.num_bytes} bytes and the file has "
                f"{file_size}; download or convert it again.",
                code="file_truncated",
                params={"file": name, "tensor": tensor.name, "size": file_size},
            )
        if tensor.offset < last_end:
            raise damaged(name, f"its tensors {last_name} and {shown} overlap")
        last_name, last_end = shown, tensor.offset + tensor.num_bytes
