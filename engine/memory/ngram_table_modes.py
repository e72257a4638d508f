"""The n-gram table of a model in the mode that placement chose.

*mapped* is the model file's own mapping. *ram* is a copy in memory, read once and in order, without leaving
another one in the system's cache. *direct* is a reader (`ngram_table`); where this machine cannot have one (no
host library, say) the mapping serves, with the same results.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from engine.core.config import NgramMode, RunConfig
from engine.core.drive_speed import DriveKind, DriveSpeed, measure_random_reads
from engine.core.errors import ModelFileError, ResourceError
from engine.core.gguf_header import ModelHeader, TensorInfo
from engine.core.gguf_values import printable
from engine.core.ngram_mode import NgramPlan, slow_drive_sentence
from engine.core.ngram_numbers import TABLE_NAME
from engine.gguf.reader import Tensor
from engine.memory.ngram_table import NgramTable

logger = logging.getLogger(__name__)

ByteProgress = Callable[[str, int, int], None]  # (phase, bytes done, bytes in all)

_PIECE_BYTES = 16 << 20
# Below that `auto` holds the table in memory or it is read soon enough anyway: not worth a measurement.
_MEASURED_BYTES = 256 << 20


def measure_table_drive(header: ModelHeader, config: RunConfig) -> DriveSpeed | None:
    """Random reads of the drive that the table lies on; None where they do not matter."""
    place = _place(header)
    if place is None or config.ngram_mode is NgramMode.RAM:
        return None
    path, offset, info = place
    if info.num_bytes < _MEASURED_BYTES:
        return None
    return measure_random_reads(path, offset, info.num_bytes)


def drive_kind(speed: DriveSpeed | None) -> DriveKind:
    """What a measurement says."""
    return DriveKind.UNKNOWN if speed is None else speed.kind


def open_ngram_table(
    header: ModelHeader,
    plan: NgramPlan | None,
    config: RunConfig,
    speed: DriveSpeed | None = None,
    progress: ByteProgress | None = None,
) -> NgramTable | Tensor | None:
    """The table to be used instead of the mapped one; None for the mapped one.

    Args:
        header: of the model.
        plan: of its placement; None without a table.
        config: the size of the cache.
        speed: of the drive, where it was measured.
        progress: told how far reading the table into memory is.

    Raises:
        ModelFileError: the disk cannot read the table.
        ResourceError: there is no memory for the table.
    """
    place = _place(header)
    if plan is None or place is None:
        return None
    path, offset, info = place
    if speed is not None and (plan.is_slow or drive_kind(speed) is not DriveKind.SOLID_STATE):
        _warn_of_drive(plan, path, speed)
    if plan.mode is NgramMode.RAM:
        return _read_whole(path, offset, info, progress)
    if plan.mode is NgramMode.MAPPED:
        return None
    try:
        num_rows, columns = info.shape
        cache_rows = config.ngram_cache_rows
        table = NgramTable(path, offset, num_rows, columns, info.type, cache_rows=cache_rows)
    except ResourceError as error:
        logger.warning("the n-gram table is mapped into memory instead: %s", error)
        return None
    logger.info("the n-gram table is read directly: %s", table.words)
    return table


def _warn_of_drive(plan: NgramPlan, path: Path, speed: DriveSpeed) -> None:
    if plan.is_slow or plan.mode is NgramMode.RAM:
        sentence = slow_drive_sentence(plan, printable(path.name), speed.random_read_s)
        logger.warning("%s", sentence)


def _place(header: ModelHeader) -> tuple[Path, int, TensorInfo] | None:
    """File, first byte and description of the table."""
    found = header.tensors.get(TABLE_NAME)
    if found is None:
        return None
    shard, info = found
    return header.paths[shard], header.shards[shard].data_start + info.offset, info


def _read_whole(path: Path, offset: int, info: TensorInfo, progress: ByteProgress | None) -> Tensor:
    """The table in memory of its own."""
    try:
        data = np.empty(info.num_bytes, np.uint8)
    except MemoryError as error:
        raise ResourceError(
            f"There is no memory for the n-gram table's {info.num_bytes / 1e9:.1f} GB; "
            "set ngram_mode to direct.",
            code="insufficient_ram",
        ) from error
    left = memoryview(data.data)
    try:
        with path.open("rb", buffering=0) as file:
            file.seek(offset)
            while left:
                count = file.readinto(left[:_PIECE_BYTES])
                if not count:
                    raise _unreadable(path, offset + info.num_bytes - len(left), "it ends there")
                _drop_cached(file.fileno(), offset + info.num_bytes - len(left), count)
                left = left[count:]
                if progress is not None and info.num_bytes > _PIECE_BYTES:
                    progress("table", info.num_bytes - len(left), info.num_bytes)
    except OSError as error:
        at = offset + info.num_bytes - len(left)
        raise _unreadable(path, at, error.strerror or str(error)) from error
    data.flags.writeable = False
    return Tensor(info.name, info.type, info.shape, data)


def _drop_cached(descriptor: int, offset: int, num_bytes: int) -> None:
    """What was copied need not lie in the system's cache too."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(descriptor, offset, num_bytes, os.POSIX_FADV_DONTNEED)


def _unreadable(path: Path, offset: int, cause: str) -> ModelFileError:
    return ModelFileError(
        f"The n-gram table in {printable(str(path), 400)} cannot be read at byte {offset} ({cause}); "
        "check the disk, or download the file again.",
        code="file_unreadable",
        params={"file": str(path), "offset": offset},
    )
