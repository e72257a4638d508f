"""Metadata values of a GGUF file, read from bytes that may be hostile.

A `Cursor` walks over the header. Whatever the file says about a count or a length is compared with
the bytes that remain before anything is allocated, looped over or sliced, so a count of 2^60 costs
nothing. What a value means is not known here. Layout (`spec/qwen4exp.md` section 3.0): a string is a
u64 length and UTF-8 bytes; an array is a u32 element type, a u64 count and the elements, so the
array ["a"] is the 21 bytes `08 00 00 00 | 01 00 .. 00 | 01 00 .. 00 | 61`.
"""

from __future__ import annotations

import enum
import mmap
import struct
import sys
from array import array
from collections.abc import Iterator, Sequence
from typing import NoReturn, overload

from engine.core.errors import ModelFileError

Buffer = mmap.mmap | memoryview | bytes

# The header of the real model is about 12 MB. These limits bound what a hostile header can make us
# allocate (Python objects are larger than their bytes in the file) and how long we look at it.
MAX_HEADER_BYTES = 128 << 20
MAX_NAME_BYTES = 65_535
MAX_ARRAYS = 65_536
MAX_ARRAY_DEPTH = 4
MAX_BOOLS = 1 << 22  # in all lists of a file together: each takes a byte there and 8 bytes here

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")


class GgufValueType(enum.IntEnum):
    """The type of a metadata value, by its number in the file."""

    UINT8 = 0
    INT8 = 1
    UINT16 = 2
    INT16 = 3
    UINT32 = 4
    INT32 = 5
    FLOAT32 = 6
    BOOL = 7
    STRING = 8
    ARRAY = 9
    UINT64 = 10
    INT64 = 11
    FLOAT64 = 12


# The code of each fixed-size type, the same for `struct` and `array` (sizes do not differ between
# the platforms that we run on).
NUMBER_CODES = {
    GgufValueType.UINT8: "B",
    GgufValueType.INT8: "b",
    GgufValueType.UINT16: "H",
    GgufValueType.INT16: "h",
    GgufValueType.UINT32: "I",
    GgufValueType.INT32: "i",
    GgufValueType.FLOAT32: "f",
    GgufValueType.UINT64: "Q",
    GgufValueType.INT64: "q",
    GgufValueType.FLOAT64: "d",
}


class StringArray(Sequence[str]):
    """The strings of a metadata array: lengths are checked when read, text is decoded when asked.

    Holds its own copy of the bytes, so it outlives the file it came from. Indexing and iterating
    raise `ModelFileError` when a string is not UTF-8.
    """

    __slots__ = ("_data", "_ends", "_file_name")

    def __init__(self, data: bytes, ends: array[int], file_name: str) -> None:
        self._data = data  # the elements as they lie in the file: u64 length, bytes, ...
        self._ends = ends  # where each element ends in `data`
        self._file_name = file_name

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self._ends)))]
        position = range(len(self._ends))[index]
        start = self._ends[position - 1] if position else 0
        return self._decode(self._data[start + 8 : self._ends[position]])

    def __iter__(self) -> Iterator[str]:
        data, start = self._data, 8
        try:
            for end in self._ends:
                yield data[start:end].decode()
                start = end + 8
        except UnicodeDecodeError:
            self._decode(data[start:end])

    def __repr__(self) -> str:
        return f"StringArray of {len(self)} strings"

    def _decode(self, raw: bytes) -> str:
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise damaged(
                self._file_name, f"a string in one of its lists is not UTF-8 ({quoted(raw)})"
            ) from error


MetadataArray = (
    Sequence[int] | Sequence[float] | Sequence[bool] | Sequence[str] | Sequence["MetadataArray"]
)
MetadataValue = bool | int | float | str | MetadataArray


def printable(text: str | bytes, limit: int = 80) -> str:
    """Text of a file as it may stand in a message: one line, short, nothing that moves a cursor."""
    if isinstance(text, bytes):
        text = text[: 4 * limit].decode("utf-8", "backslashreplace")
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def quoted(name: str | bytes) -> str:
    """A key, a tensor's name or other text of a file as it may stand in a message."""
    return '"' + printable(name).replace('"', "'") + '"'


def damaged(file_name: str, cause: str, code: str = "gguf_damaged") -> ModelFileError:
    """The error for a file that contradicts itself or the format."""
    return ModelFileError(
        f"The file {printable(file_name)} is damaged: {cause}; download or convert it again.",
        code=code,
        params={"file": file_name, "cause": cause},
    )


class Cursor:
    """A place in a header that moves forward and never past the header's end.

    Attributes:
        position: the next byte to read.
        end: bytes that may be read (of the buffer, and of a header of reasonable size).
        file_name: the file's name, for messages.
    """

    __slots__ = (
        "_bools_left",
        "_buffer",
        "_file_size",
        "_num_arrays",
        "end",
        "file_name",
        "position",
    )

    def __init__(self, buffer: Buffer, file_size: int, file_name: str) -> None:
        self._buffer = buffer
        self._file_size = file_size
        self._num_arrays = 0
        self._bools_left = MAX_BOOLS
        self.position = 0
        self.end = min(len(buffer), file_size, MAX_HEADER_BYTES)
        self.file_name = file_name

    @property
    def remaining(self) -> int:
        """How many bytes may still be read."""
        return self.end - self.position

    def take(self, num_bytes: int, what: str) -> bytes:
        """The next `num_bytes` bytes; `what` they are is said when they do not exist."""
        if num_bytes > self.remaining:
            self.too_short(what)
        start = self.position
        self.position += num_bytes
        return bytes(self._buffer[start : self.position])

    def too_short(self, what: str) -> NoReturn:
        """Refuse a header that ends inside `what`."""
        if self.end == self._file_size:
            raise ModelFileError(
                f"The file {printable(self.file_name)} is cut off or damaged: it ends at byte "
                f"{self._file_size}, inside {what}; download or convert it again.",
                code="file_truncated",
                params={"file": self.file_name, "size": self._file_size, "inside": what},
            )
        raise damaged(self.file_name, f"its header is longer than {self.end} bytes, inside {what}")

    def u32(self, what: str) -> int:
        """The next unsigned 32-bit number."""
        value: int = _U32.unpack(self.take(4, what))[0]
        return value

    def u64(self, what: str) -> int:
        """The next unsigned 64-bit number."""
        value: int = _U64.unpack(self.take(8, what))[0]
        return value

    def count(self, what: str, min_item_bytes: int, limit: int | None = None) -> int:
        """The next u64, as a number of items that can exist in the bytes that remain.

        Raises:
            ModelFileError: items of at least `min_item_bytes` each would not fit, or exceed `limit`.
        """
        count = self.u64(f"the number of {what}")
        if limit is not None and count > limit:
            raise damaged(self.file_name, f"it claims {count} {what}, and {limit} is the most")
        if count > self.remaining // min_item_bytes:
            raise damaged(
                self.file_name,
                f"it claims {count} {what}, for which the {self.remaining} bytes left in its "
                "header are too few",
            )
        return count

    def string(self, what: str, limit: int | None = None) -> str:
        """The next string.

        Raises:
            ModelFileError: it is longer than the header or `limit` bytes, or not UTF-8.
        """
        raw = self.take(self.count(f"bytes of {what}", 1, limit), what)
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise damaged(self.file_name, f"{what} is not UTF-8 ({quoted(raw)})") from error

    def value_type(self, key: str) -> GgufValueType:
        """The next u32, as the type of the value of `key`."""
        number = self.u32(f"the type of the key {key}")
        try:
            return GgufValueType(number)
        except ValueError as error:
            raise damaged(
                self.file_name, f"the key {key} has the unknown value type {number}"
            ) from error

    def value(self, key: str, depth: int = 0) -> MetadataValue:
        """The next type and value, of the key that is called `key` in messages."""
        value_type = self.value_type(key)
        what = f"the value of the key {key}"
        if value_type is GgufValueType.ARRAY:
            return self._array(key, what, depth + 1)
        if value_type is GgufValueType.STRING:
            return self.string(what)
        if value_type is GgufValueType.BOOL:
            return self.take(1, what) != b"\0"
        number = struct.Struct("<" + NUMBER_CODES[value_type])
        value: int | float = number.unpack(self.take(number.size, what))[0]
        return value

    def _array(self, key: str, what: str, depth: int) -> MetadataArray:
        self._num_arrays += 1
        if depth > MAX_ARRAY_DEPTH or self._num_arrays > MAX_ARRAYS:
            raise damaged(self.file_name, f"the key {key} has too many lists inside lists")
        element_type = self.value_type(key)
        if element_type is GgufValueType.STRING:
            return self._strings(key, what)
        if element_type is GgufValueType.ARRAY:
            num_arrays = self.count(f"elements in the key {key}", 12, MAX_ARRAYS)
            return tuple(self._array(key, what, depth + 1) for _ in range(num_arrays))
        if element_type is GgufValueType.BOOL:
            num_bools = self.count(f"elements in the key {key}", 1, self._bools_left)
            self._bools_left -= num_bools
            return tuple(byte != 0 for byte in self.take(num_bools, what))
        numbers: array[int] | array[float] = array(NUMBER_CODES[element_type])
        num_numbers = self.count(f"elements in the key {key}", numbers.itemsize)
        numbers.frombytes(self.take(num_numbers * numbers.itemsize, what))
        if sys.byteorder == "big":
            numbers.byteswap()
        return numbers

    def _strings(self, key: str, what: str) -> StringArray:
        count = self.count(f"elements in the key {key}", 8)
        start = position = self.position
        end, buffer, length_at = self.end, self._buffer, _U64.unpack_from
        ends = array("I")  # offsets within one header: at most MAX_HEADER_BYTES
        # The hot loop of opening a file: 250,000 tokens and as many merges, about 0.2 us each.
        for _ in range(count):
            if position + 8 > end:
                self.too_short(what)
            position += 8 + length_at(buffer, position)[0]
            if position > end:
                self.too_short(what)
            ends.append(position - start)
        return StringArray(self.take(position - start, what), ends, self.file_name)
