"""How the n-gram table is read, and what that takes: pure functions that placement uses.

A token reads 16 rows of about 90 bytes out of tens of gigabytes. *direct* reads pages as needed and early,
past the system's cache, and keeps the rows that came last; *mapped* leaves it to the system's paging;
*ram* holds the whole table. *auto* chooses: memory for a table that is no larger than the cache of rows would
be, or whose drive is slow at random reads while memory is free for it, else *direct*.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.config import NgramMode, RunConfig
from engine.core.drive_speed import DriveKind
from engine.core.ggml_types import row_bytes
from engine.core.gguf_header import TensorInfo
from engine.core.ngram_numbers import CACHE_ROWS, PAGE_BYTES
from engine.core.sizes import size_in_words

# Buffers of reads in flight (256 of 2 pages), lists, the kernel's rings.
READER_BYTES = (2 << 20) + (1 << 20)
_BUCKET = 16  # slots of the cache, in row_cache.h
_SLOT_BYTES = 4 + 1  # key and mark of a slot
# What stays free when a table of gigabytes is taken into memory: the system's own file cache, others.
_SPARE_BYTES = 2 << 30
# Of the published tables, whose rows have 90 bytes.
CACHE_BYTES = CACHE_ROWS * (90 + _SLOT_BYTES) + READER_BYTES
SLOW_DRIVES = frozenset({DriveKind.HARD_DISK, DriveKind.SLOW_SOLID_STATE})


@dataclass(frozen=True, slots=True)
class NgramPlan:
    """What was chosen.

    Attributes:
        mode: direct, mapped or ram.
        table_bytes: size of the table.
        ram_bytes: memory that this takes: the cache and buffers, or the table.
        reason: why this mode.
        is_slow: the drive is slow at random reads, and the table stays on it.
    """

    mode: NgramMode
    table_bytes: int
    ram_bytes: int
    reason: str
    is_slow: bool = False


def plan_ngram_table(
    config: RunConfig, table: TensorInfo | None, drive: DriveKind, free_bytes: int
) -> NgramPlan | None:
    """How the table is read; None without one.

    Args:
        config: says a mode, or `auto`.
        table: of the model's header.
        drive: what the file's drive was measured to be; unknown counts as fast.
        free_bytes: memory that everything else leaves.
    """
    if table is None:
        return None
    size, bytes_per_row = table.num_bytes, row_bytes(table.type, table.shape[-1])
    cache = reader_bytes(bytes_per_row, min(config.ngram_cache_rows, table.shape[0]))
    mode, reason, is_slow = config.ngram_mode, "setting: ngram_mode", False
    if mode is NgramMode.AUTO:
        if size <= cache:
            mode, reason = NgramMode.RAM, "no larger than a cache of its rows"
        elif drive in SLOW_DRIVES and size + _SPARE_BYTES <= free_bytes:
            mode, reason = NgramMode.RAM, "its drive is slow at random reads"
        else:
            mode, reason = NgramMode.DIRECT, "a few rows per token are read, before they are needed"
    if mode is NgramMode.DIRECT and bytes_per_row > PAGE_BYTES:
        mode, reason = NgramMode.MAPPED, "its rows are larger than a page"
    if mode is not NgramMode.RAM:
        is_slow = drive in SLOW_DRIVES
    ram = {NgramMode.RAM: size, NgramMode.DIRECT: cache}.get(mode, 0)
    return NgramPlan(mode, size, ram, reason, is_slow)


def reader_bytes(bytes_per_row: int, cache_rows: int) -> int:
    """Memory of the reader and its cache of rows."""
    buckets = max(1, -(-cache_rows // _BUCKET))
    return buckets * (_BUCKET * (bytes_per_row + _SLOT_BYTES) + 1) + READER_BYTES


def slow_drive_sentence(plan: NgramPlan, file_name: str, random_read_s: float) -> str:
    """What a person whose table lies on a slow drive should know."""
    finding = (
        f"The drive of {file_name} takes {random_read_s * 1000:.1f} ms for a random read, and every token "
        "reads 16 rows of the n-gram table"
    )
    if plan.mode is NgramMode.RAM:
        return f"{finding}: its {size_in_words(plan.table_bytes)} are kept in memory."
    return (
        f"{finding}: prompts will be slow. Move the model to an SSD, or free "
        f"{size_in_words(plan.table_bytes)} of memory for the table (setting: ngram_mode)."
    )
