"""A corpus as a file of token pairs and what followed them, used where it is mapped.

    build_ngram_file(tokens, vocabulary, Path("corpus.ngrams"))
    with NgramFile.open(Path("corpus.ngrams"), vocabulary) as file: ...

Nothing is read when it is opened but a header of 128 bytes, whatever the file's size; memory is the
pages that drafting touches. Pairs that came fewer than three times are left out: drafting would never
use them. Layout, little endian: the header; slots (pair, how often, number of successors, where they
are; a single successor lies in the slot itself), found by hash; successors with their counts, the most
frequent first. The same structures are in engine/kernels/host/ngram.cpp.
"""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import os
import struct
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import numpy as np
import numpy.typing as npt

from engine.core.errors import InputError, ResourceError
from engine.kernels.library import load_library

TokenArray = npt.NDArray[np.int32]
KeyArray = npt.NDArray[np.int64]
RecordArray = npt.NDArray[np.void]

MAGIC = b"STRNGRAM"
FORMAT = 1
HEADER_BYTES = 128
LEAST_TOTAL = 3  # kStrictTotal[1] in ngram.cpp
CHUNK_TOKENS = 8 << 20  # of the corpus that are sorted at a time
# magic, format, vocabulary size, vocabulary, slots, successors, tokens of the corpus, file size
_HEADER = struct.Struct("<8sII32sQQQQ")
SLOT = np.dtype(
    [("a", "<i4"), ("b", "<i4"), ("total", "<u4"), ("successors", "<u4"), ("first", "<u4")]
)
ENTRY = np.dtype([("token", "<i4"), ("count", "<u4")])


class _Table(ctypes.Structure):
    """`StaticTable` of ngram.cpp."""

    _fields_ = (
        ("slots", ctypes.c_void_p),
        ("entries", ctypes.c_void_p),
        ("mask", ctypes.c_int64),
        ("num_entries", ctypes.c_int64),
    )


class NgramFileError(InputError):
    """A file of n-grams cannot be used."""

    code = "ngram_file_unusable"


def vocabulary_hash(pieces: Sequence[str]) -> bytes:
    """Names a vocabulary: its tokens in order, 32 bytes."""
    return hashlib.sha256("\0".join(pieces).encode("utf-8", "surrogatepass")).digest()


class NgramFile:
    """An open file.

    Attributes:
        num_pairs: slots, free ones too.
        num_successors: entries.
        num_corpus_tokens: that it was made of.
        num_bytes: its size.
    """

    def __init__(
        self, mapped: mmap.mmap, num_slots: int, num_entries: int, num_tokens: int
    ) -> None:
        self.num_slots = num_slots
        self.num_successors = num_entries
        self.num_corpus_tokens = num_tokens
        self.num_bytes = len(mapped)
        self._mapped = mapped
        self._bytes = np.frombuffer(mapped, np.uint8)
        start = self._bytes.ctypes.data + HEADER_BYTES
        self._table = _Table(start, start + num_slots * SLOT.itemsize, num_slots - 1, num_entries)

    @classmethod
    def open(cls, path: Path, vocabulary: Sequence[str]) -> NgramFile:
        """Map a file.

        Raises:
            NgramFileError: it cannot be read, is damaged, of another version or vocabulary.
        """
        try:
            with path.open("rb") as file:
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise NgramFileError(
                f"The n-gram file {path} cannot be read ({error}); build it again with "
                "`engine lookup build`, or leave it out."
            ) from error
        try:
            sizes = _read_header(path, mapped, vocabulary)
        except NgramFileError:
            mapped.close()
            raise
        return cls(mapped, *sizes)

    @property
    def at(self) -> int:
        """Address for the library."""
        return ctypes.addressof(self._table)

    def close(self) -> None:
        """Let go of the file; nothing may draft from it any more."""
        del self._bytes
        self._mapped.close()

    def __enter__(self) -> NgramFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _read_header(path: Path, mapped: mmap.mmap, vocabulary: Sequence[str]) -> tuple[int, int, int]:
    """Slots, successors and corpus tokens of a file that can be used."""
    again = "build it again with `engine lookup build`, or leave it out."
    head = mapped[:HEADER_BYTES]
    if len(head) < HEADER_BYTES or head[:8] != MAGIC:
        raise NgramFileError(f"{path} is no n-gram file; {again}")
    magic_and_format = struct.unpack_from("<8sI", head)
    if magic_and_format[1] != FORMAT:
        raise NgramFileError(
            f"The n-gram file {path} has the format {magic_and_format[1]}; this version reads "
            f"{FORMAT}. Update Stratum, or {again}"
        )
    (checksum,) = struct.unpack_from("<I", head, HEADER_BYTES - 4)
    if zlib.crc32(head[:-4]) != checksum:
        raise NgramFileError(f"The n-gram file {path} is damaged; {again}")
    _, _, size, vocab, num_slots, num_entries, num_tokens, num_bytes = _HEADER.unpack_from(head)
    if size != len(vocabulary) or vocab != vocabulary_hash(vocabulary):
        raise NgramFileError(
            f"The n-gram file {path} was made for another vocabulary; build one for this model "
            "with `engine lookup build`, or leave it out."
        )
    expected = HEADER_BYTES + num_slots * SLOT.itemsize + num_entries * ENTRY.itemsize
    is_sound = num_slots > 0 and num_slots & (num_slots - 1) == 0 and num_bytes == expected
    if not is_sound or len(mapped) != num_bytes:
        raise NgramFileError(
            f"The n-gram file {path} has {len(mapped)} bytes where {num_bytes} belong; {again}"
        )
    return num_slots, num_entries, num_tokens


def build_ngram_file(tokens: TokenArray, vocabulary: Sequence[str], path: Path) -> None:
    """Write the file of a corpus; it appears whole, under its name, in one step.

    Raises:
        ResourceError: it cannot be written.
    """
    slots, entries = _tables(tokens, len(vocabulary))
    num_bytes = HEADER_BYTES + slots.nbytes + entries.nbytes
    head = bytearray(HEADER_BYTES)
    _HEADER.pack_into(
        head,
        0,
        MAGIC,
        FORMAT,
        len(vocabulary),
        vocabulary_hash(vocabulary),
        len(slots),
        len(entries),
        len(tokens),
        num_bytes,
    )
    struct.pack_into("<I", head, HEADER_BYTES - 4, zlib.crc32(head[:-4]))
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            temporary = Path(file.name)
            file.write(head)
            file.write(slots.data)
            file.write(entries.data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        raise ResourceError(
            f"The n-gram file {path} cannot be written ({error}); free the disk or choose another "
            "folder."
        ) from error


def _tables(tokens: TokenArray, vocab_size: int) -> tuple[RecordArray, RecordArray]:
    """Slots and successors of a corpus."""
    keys, counts = _counted_triples(tokens, vocab_size)
    pairs = keys // vocab_size  # (n,), ascending: first token * V + second
    starts = np.flatnonzero(np.r_[True, pairs[1:] != pairs[:-1]]) if len(pairs) else pairs
    totals = np.add.reduceat(counts, starts) if len(starts) else counts
    sizes = np.diff(np.r_[starts, len(pairs)])
    is_kept = totals >= LEAST_TOTAL
    order = np.lexsort((keys, -counts, pairs))  # successors of a pair, the most frequent first
    in_list = np.repeat(is_kept & (sizes > 1), sizes)
    entries = np.zeros(int(in_list.sum()), ENTRY)
    entries["token"] = (keys[order] % vocab_size)[in_list]
    entries["count"] = counts[order][in_list]
    kept = starts[is_kept]
    filled = np.zeros(len(kept), SLOT)
    filled["a"], filled["b"] = np.divmod(pairs[kept], vocab_size)
    filled["total"] = totals[is_kept]
    filled["successors"] = sizes[is_kept]
    is_single = sizes[is_kept] == 1
    places = np.cumsum(np.where(is_single, 0, sizes[is_kept])) - sizes[is_kept]
    filled["first"] = np.where(is_single, keys[kept] % vocab_size, places)
    num_slots = 1 << max(4, (len(filled) * 5 // 4).bit_length())
    slots = np.zeros(num_slots, SLOT)
    load_library().ngram_put(slots.ctypes.data, num_slots - 1, filled.ctypes.data, len(filled))
    return slots, entries


def _counted_triples(tokens: TokenArray, vocab_size: int) -> tuple[KeyArray, KeyArray]:
    """Distinct triples of tokens as ascending numbers, and how often each came."""
    keys: KeyArray = np.zeros(0, np.int64)
    counts: KeyArray = np.zeros(0, np.int64)
    for start in range(0, max(0, len(tokens) - 2), CHUNK_TOKENS):
        part = tokens[start : start + CHUNK_TOKENS + 2].astype(np.int64)
        triples = (part[:-2] * vocab_size + part[1:-1]) * vocab_size + part[2:]
        new_keys, new_counts = np.unique(triples, return_counts=True)
        if not len(keys):
            keys, counts = new_keys, new_counts
            continue
        merged, places = np.unique(np.r_[keys, new_keys], return_inverse=True)
        summed = np.zeros(len(merged), np.int64)
        np.add.at(summed, places, np.r_[counts, new_counts])
        keys, counts = merged, summed
    return keys, counts
