"""Warm conversations in a file, for the next start of the same model with the same settings.

    magic, u32 length of the header, u32 crc32 of it, header (JSON), pages, states

The header says what follows: how many pages, and for each checkpoint its length, its pages and why it
is kept. A page is what all layers hold of it, one after the other; a state is the checkpoint's tokens
(int32) and its arrays; each ends with a crc32 of its own. Pages that checkpoints share are there once.

A file that is damaged, of another format or of another model is left alone and nothing is read from
it; what of it does not fit into memory is left out. Knows nothing of folders.
"""

from __future__ import annotations

import json
import logging
import os
import struct
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from engine.core.errors import EngineError
from engine.core.files import replacing
from engine.device.array import is_on_card
from engine.memory.kv_pages import PageTable
from engine.sequence.prefix_tree import Place, token_array
from engine.sequence.rope import RopePositions
from engine.sequence.sessions import CheckpointKind, Kept, Line, Sessions
from engine.sequence.state import Checkpoint, StateStore

logger = logging.getLogger(__name__)

SAVED_FORMAT = 1
_MAGIC = b"Stratum sessions\n"
_LENGTHS = struct.Struct("<II")
_CRC = struct.Struct("<I")
_MOST_HEADER_BYTES = 64 << 20

Array = npt.NDArray[np.generic]


class SavedSessionsError(EngineError):
    """A file of saved conversations cannot be used."""

    code = "saved_sessions_unusable"


class _Entry(BaseModel):
    """One checkpoint."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    length: int = Field(ge=1)
    mtp_length: int = Field(ge=0)
    mtp_base: int = Field(default=0, ge=0)
    token_tail: list[int]
    pages: list[int]
    kind: int = Field(ge=0, le=2)
    line: int = Field(ge=0)
    is_superseded: bool
    has_streams: bool


class _Header(BaseModel):
    """What a file holds."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    format: int
    key: str
    page_bytes: int
    state_bytes: int
    num_pages: int = Field(ge=0)
    entries: list[_Entry]  # the most valuable first


@dataclass(frozen=True, slots=True)
class SavedCount:
    """How much was written or read."""

    checkpoints: int = 0
    num_bytes: int = 0


def save_sessions(
    path: Path, key: str, sessions: Sessions, store: StateStore, most_bytes: int
) -> SavedCount:
    """Write what is worth most, up to a number of bytes; an older file is replaced.

    Raises:
        ResourceError: it cannot be written; the older file is untouched.
    """
    chosen, pages = _choose(sessions, store, most_bytes)
    if not chosen:
        return SavedCount()
    number = {page: index for index, page in enumerate(pages)}
    lines: dict[int, int] = {}
    header = _Header(
        format=SAVED_FORMAT,
        key=key,
        page_bytes=store.page_bytes,
        state_bytes=_state_bytes(store),
        num_pages=len(pages),
        entries=[_entry(kept, number, lines) for _, kept in chosen],
    )
    encoded = header.model_dump_json().encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    store.ops.synchronize()  # pages in host memory are read without asking the card
    with replacing(path) as file:
        if sys.platform != "win32":  # there, the data folder is the person's own
            os.fchmod(file.fileno(), 0o600)
        file.write(_MAGIC + _LENGTHS.pack(len(encoded), zlib.crc32(encoded)) + encoded)
        for page in pages:
            _write(file, _page_arrays(store, page))
        for place, kept in chosen:
            tokens = sessions.tree.tokens_of(place).astype(np.int32)
            streams = kept.checkpoint.last_streams
            _write(file, [tokens, *kept.checkpoint.fixed, *([] if streams is None else [streams])])
        return SavedCount(len(chosen), file.tell())


def read_sessions(path: Path, key: str, sessions: Sessions, store: StateStore) -> SavedCount:
    """Add what a file holds, as far as there is room.

    Raises:
        SavedSessionsError: the file is damaged, or not of this model; nothing was added from the
            damaged part on.
    """
    try:
        with path.open("rb") as file:
            header = _read_header(file, key, store)
            if os.fstat(file.fileno()).st_size != file.tell() + _bytes_behind(header, store):
                raise SavedSessionsError("It has another length than its header says.")
            return _read_entries(file, header, sessions, store)
    except OSError as error:
        raise SavedSessionsError(f"{path.name} cannot be read ({error.strerror}).") from error


def _choose(
    sessions: Sessions, store: StateStore, most_bytes: int
) -> tuple[list[tuple[Place[Kept], Kept]], list[int]]:
    """The checkpoints that are written, and the pages that they need."""
    chosen: list[tuple[Place[Kept], Kept]] = []
    pages: dict[int, None] = {}
    num_bytes = 0
    for place in sessions.by_worth():
        kept = place.value
        if kept is None or not kept.checkpoint.rope.is_text:
            continue
        fresh = [page for page in kept.checkpoint.pages.pages if page not in pages]
        size = kept.checkpoint.num_bytes + len(fresh) * store.page_bytes + 4 * place.depth
        if num_bytes + size > most_bytes:
            continue
        num_bytes += size
        chosen.append((place, kept))
        pages.update(dict.fromkeys(fresh))
    return chosen, list(pages)


def _entry(kept: Kept, number: dict[int, int], lines: dict[int, int]) -> _Entry:
    checkpoint = kept.checkpoint
    return _Entry(
        length=checkpoint.length,
        mtp_length=checkpoint.mtp_length,
        mtp_base=checkpoint.mtp_base,
        token_tail=list(checkpoint.token_tail),
        pages=[number[page] for page in checkpoint.pages.pages],
        kind=int(kept.kind),
        line=lines.setdefault(id(kept.line), len(lines)),
        is_superseded=kept.is_superseded,
        has_streams=checkpoint.last_streams is not None,
    )


def _read_header(file: BinaryIO, key: str, store: StateStore) -> _Header:
    start = file.read(len(_MAGIC) + _LENGTHS.size)
    if len(start) < len(_MAGIC) + _LENGTHS.size or not start.startswith(_MAGIC):
        raise SavedSessionsError("It is not a file of saved conversations.")
    length, crc = _LENGTHS.unpack(start[len(_MAGIC) :])
    encoded = file.read(min(length, _MOST_HEADER_BYTES))
    if len(encoded) != length or zlib.crc32(encoded) != crc:
        raise SavedSessionsError("Its beginning is damaged.")
    try:
        plain = json.loads(encoded)
        found = plain.get("format") if isinstance(plain, dict) else None
        if found != SAVED_FORMAT:
            raise SavedSessionsError(
                f"It has the format {found}; this version reads {SAVED_FORMAT}."
            )
        header = _Header.model_validate(plain)
    except (ValueError, ValidationError, RecursionError) as error:
        raise SavedSessionsError("Its header cannot be read.") from error
    sizes = (header.key, header.page_bytes, header.state_bytes)
    if sizes != (key, store.page_bytes, _state_bytes(store)):
        raise SavedSessionsError("It belongs to another model, or to other settings.")
    page_tokens = store.pages.page_tokens
    for entry in header.entries:
        num_pages = -(-max(entry.length, entry.mtp_length) // page_tokens)
        is_sound = (
            len(entry.pages) == num_pages
            and entry.mtp_base <= max(entry.mtp_length, entry.length)
            and entry.mtp_base % page_tokens == 0
            and len(set(entry.pages)) == num_pages
            and all(0 <= page < header.num_pages for page in entry.pages)
            and len(entry.token_tail) == min(store.num_tail_tokens, entry.length)
        )
        if not is_sound:
            raise SavedSessionsError("Its header contradicts itself.")
    return header


def _read_entries(
    file: BinaryIO, header: _Header, sessions: Sessions, store: StateStore
) -> SavedCount:
    wanted = _fitting(header, sessions, store)
    needed = {page for index in wanted for page in header.entries[index].pages}
    page_of: dict[int, int] = {}  # in the pool, by number in the file
    lines: dict[int, Line] = {}
    read: list[tuple[npt.NDArray[np.int64], Checkpoint, _Entry]] = []
    num_bytes = 0
    try:
        for number in range(header.num_pages):
            if number in needed:
                page_of[number] = store.pages.allocate()
                _read(file, _page_arrays(store, page_of[number]))
                num_bytes += header.page_bytes
            else:
                file.seek(header.page_bytes + _CRC.size, 1)
        for index, entry in enumerate(header.entries):
            arrays = _empty_state(store, entry)
            if index not in wanted:
                file.seek(sum(a.nbytes for a in arrays) + _CRC.size, 1)
                continue
            _read(file, arrays)
            read.append((token_array(arrays[0]), _checkpoint(store, entry, arrays, page_of), entry))
            num_bytes += sum(a.nbytes for a in arrays)
        for tokens, checkpoint, entry in reversed(read):  # the most valuable is the newest
            line = lines.setdefault(entry.line, Line(rounds=1))
            kind = CheckpointKind.STEP if entry.is_superseded else CheckpointKind(entry.kind)
            if sessions.tree.at(tokens) is None:
                sessions.add(tokens, checkpoint, kind, line)
            else:
                checkpoint.release()
        read.clear()
    finally:
        for _, checkpoint, _ in read:  # after a mistake
            checkpoint.release()
        for page in page_of.values():
            store.pages.release(page)  # checkpoints hold it now, or nobody
    return SavedCount(len(wanted), num_bytes)


def _fitting(header: _Header, sessions: Sessions, store: StateStore) -> set[int]:
    """Indices of the checkpoints that there is room for."""
    wanted: set[int] = set()
    pages: set[int] = set()
    num_bytes = 0
    for index, entry in enumerate(header.entries):
        fresh = set(entry.pages) - pages
        num_bytes += header.state_bytes
        is_too_long = max(entry.length, entry.mtp_length) > store.context
        has_pages = len(pages) + len(fresh) <= store.pages.num_free
        if is_too_long or not has_pages or not sessions.has_room(num_bytes):
            num_bytes -= header.state_bytes
            continue
        wanted.add(index)
        pages |= fresh
    return wanted


def _checkpoint(
    store: StateStore, entry: _Entry, arrays: list[Array], page_of: dict[int, int]
) -> Checkpoint:
    table = PageTable(store.pages)
    for number in entry.pages:
        store.pages.share(page_of[number])
        table.pages.append(page_of[number])
    rope = RopePositions()
    rope.extend(entry.length, None)
    fixed = [np.asarray(array, np.float32) for array in arrays[1:]]
    return Checkpoint(
        length=entry.length,
        token_tail=tuple(entry.token_tail),
        mtp_length=entry.mtp_length,
        mtp_base=entry.mtp_base,
        rope=rope,
        pages=table,
        fixed=fixed[:-1] if entry.has_streams else fixed,
        last_streams=fixed[-1] if entry.has_streams else None,
    )


def _empty_state(store: StateStore, entry: _Entry) -> list[Array]:
    """Arrays for a checkpoint's tokens, states and streams."""
    arrays: list[Array] = [np.empty(entry.length, np.int32)]
    arrays += [np.empty(view.shape, view.dtype) for view in store.fixed_arrays(0, 0)]
    if entry.has_streams:
        arrays.append(np.empty(store.streams_shape, np.float32))
    return arrays


def _state_bytes(store: StateStore) -> int:
    """Of one checkpoint's arrays."""
    streams = 4 * int(np.prod(store.streams_shape))
    return sum(view.nbytes for view in store.fixed_arrays(0, 0)) + streams


def _bytes_behind(header: _Header, store: StateStore) -> int:
    """How much follows the header: pages and states, each with its checksum."""
    num_bytes = header.num_pages * (header.page_bytes + _CRC.size)
    streams = 4 * int(np.prod(store.streams_shape))
    for entry in header.entries:
        left_out = 0 if entry.has_streams else streams
        num_bytes += 4 * entry.length + header.state_bytes - left_out + _CRC.size
    return num_bytes


def _page_arrays(store: StateStore, page: int) -> list[Array]:
    """Views of what all layers hold of a page."""
    return [array for pool in store.kv for array in pool.page(page)]


def _write(file: BinaryIO, arrays: Sequence[Array]) -> None:
    crc = 0
    for array in arrays:
        values = array.numpy() if is_on_card(array) else np.ascontiguousarray(array)
        data = values.reshape(-1).view(np.uint8).data
        crc = zlib.crc32(data, crc)
        file.write(data)
    file.write(_CRC.pack(crc))


def _read(file: BinaryIO, arrays: Sequence[Array]) -> None:
    """Fill the arrays, which are contiguous."""
    crc = 0
    for array in arrays:
        values = np.empty(array.shape, array.dtype) if is_on_card(array) else array
        data = values.reshape(-1).view(np.uint8).data
        if file.readinto(data) != array.nbytes:  # type: ignore[attr-defined]  # not in the stub
            raise SavedSessionsError("It ends too early.")
        crc = zlib.crc32(data, crc)
        if values is not array:
            array[...] = values
    if file.read(_CRC.size) != _CRC.pack(crc):
        raise SavedSessionsError("It is damaged.")
