import contextlib
import ctypes
import mmap
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from engine.core.errors import ModelFileError, ResourceError
from engine.core.ggml_types import GgmlType
from engine.core.process_memory import private_bytes
from engine.memory.ngram_table import NgramTable

PAGE = 4096
ROW_BYTES = 90  # of 160 values in IQ4_NL, so that rows lie across pages
NUM_ROWS = 40_000
OFFSET = 5 * PAGE + 32  # tensors begin at multiples of 32
WAYS = (
    {},
    {"uses_threads": True},
    {"is_buffered": True},
    {"uses_threads": True, "is_buffered": True},
)


@dataclass(frozen=True)
class TableFile:
    """A file, and what its table holds, `[NUM_ROWS, ROW_BYTES]`."""

    path: Path
    rows: npt.NDArray[np.uint8]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> TableFile:
    path = tmp_path_factory.mktemp("table") / "täble.gguf"
    rows = np.random.default_rng(1).integers(0, 256, (NUM_ROWS, ROW_BYTES), np.uint8)
    path.write_bytes(bytes(OFFSET) + rows.tobytes())  # ends inside a page
    return TableFile(path, rows)


@contextlib.contextmanager
def opened(
    path: Path, offset: int = OFFSET, num_rows: int = NUM_ROWS, **options: object
) -> Iterator[NgramTable]:
    table = NgramTable(path, offset, num_rows, 160, GgmlType.IQ4_NL, **options)  # type: ignore[arg-type]
    try:
        yield table
    finally:
        table.close()


def collected(table: NgramTable, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    out = np.zeros((rows.size, table.row_bytes), np.uint8)
    table.collect(rows, out)
    return out


def random_rows(seed: int, *shape: int) -> npt.NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0, NUM_ROWS, shape)


def pages_of(rows: npt.NDArray[np.int64]) -> set[int]:
    starts = OFFSET + np.unique(rows) * ROW_BYTES
    return {*(starts // PAGE).tolist(), *((starts + ROW_BYTES - 1) // PAGE).tolist()}


@pytest.mark.parametrize("way", WAYS)
def test_every_row_is_the_files_in_every_way_of_reading(file: TableFile, way: dict[str, bool]):
    every = np.arange(NUM_ROWS)
    np.random.default_rng(2).shuffle(every)
    with opened(file.path, **way) as table:
        for rows in np.array_split(every, 11):
            assert (collected(table, rows) == file.rows[rows]).all()
        assert table.uses_threads == way.get("uses_threads", table.uses_threads)


def test_what_was_requested_is_read_once_and_found_when_it_is_collected(file: TableFile):
    rows = random_rows(3, 30, 16)
    with opened(file.path) as table:
        table.request(rows)
        deadline = time.monotonic() + 60
        while table.figures.cached_rows < len(np.unique(rows)) and time.monotonic() < deadline:
            table.advance()
        before = table.figures
        assert (collected(table, rows) == file.rows[rows.reshape(-1)]).all()
        after = table.figures
    assert after.reads == before.reads <= len(pages_of(rows))
    assert after.waits == 0
    assert after.rows == rows.size
    assert after.hits == rows.size - len(np.unique(rows))  # the others came from the disk


def test_collecting_needs_no_request(file: TableFile):
    rows = random_rows(4, 16)
    with opened(file.path) as table:
        assert (collected(table, rows) == file.rows[rows]).all()
        assert table.figures.waits == 1
        assert table.figures.wait_s > 0
        assert (collected(table, rows) == file.rows[rows]).all()
        assert table.figures.hits == rows.size
        assert table.figures.waits == 1


def test_rows_of_one_page_are_read_together(file: TableFile):
    first = (3 * PAGE) // ROW_BYTES
    rows = np.array([first + 5, first + 1, first + 5, first + 3, first + 30, first + 1])
    assert len(pages_of(rows)) == 1
    with opened(file.path) as table:
        assert (collected(table, rows) == file.rows[rows]).all()
        assert table.figures.reads == 1
        assert table.figures.read_bytes == PAGE
        assert table.figures.hits == 2  # the repeated ones


def test_a_row_across_two_pages_is_one_read(file: TableFile):
    starts = OFFSET + np.arange(NUM_ROWS) * ROW_BYTES
    across = np.flatnonzero(starts // PAGE != (starts + ROW_BYTES - 1) // PAGE)[7:8]
    with opened(file.path) as table:
        assert (collected(table, across) == file.rows[across]).all()
        assert table.figures.reads == 1
        assert table.figures.read_bytes == 2 * PAGE


def test_prompt_chunks_are_read_while_others_are_collected(file: TableFile):
    chunks = [random_rows(10 + i, 256, 16) for i in range(6)]
    with opened(file.path, cache_rows=NUM_ROWS) as table:
        table.request(chunks[0])
        for chunk, following in zip(chunks, [*chunks[1:], None], strict=True):
            if following is not None:
                table.request(following)
            assert (collected(table, chunk) == file.rows[chunk.reshape(-1)]).all()
        figures = table.figures
    everything = np.concatenate(chunks)
    assert figures.reads <= len(pages_of(everything)) * 6
    assert figures.rows == everything.size


@pytest.mark.parametrize("cache_rows", [1, 16, 100, 5000])
def test_a_full_cache_gives_up_rows_and_the_results_stay_right(file: TableFile, cache_rows: int):
    with opened(file.path, cache_rows=cache_rows) as table:
        for i in range(12):
            rows = random_rows(20 + i, 50, 16)
            table.request(random_rows(21 + i, 50, 16))
            assert (collected(table, rows) == file.rows[rows.reshape(-1)]).all()
        figures = table.figures
    assert figures.cached_rows <= -(-cache_rows // 16) * 16
    assert figures.evicted_rows > 0


def test_rows_that_are_used_again_outlive_those_that_are_not(file: TableFile):
    wanted = random_rows(30, 100)
    with opened(file.path, cache_rows=4000) as table:
        for i in range(40):
            collected(table, wanted)
            collected(table, random_rows(31 + i, 400))
        before = table.figures
        collected(table, wanted)
        after = table.figures
    assert before.evicted_rows > 8000
    assert after.hits - before.hits > 95


def test_a_cache_that_gives_memory_back_keeps_rows_that_were_used_again(file: TableFile):
    used, once = np.arange(4000), np.arange(4000, 24_000)
    with opened(file.path, cache_rows=32_000) as table:
        assert table.shrink() == 0  # nothing is cached
        for rows in (used, used, once):
            collected(table, rows)
        held = table.figures.cached_rows
        before = private_bytes()
        assert table.shrink() == pytest.approx(32_000 * 95 / 2, rel=0.01)
        assert before - private_bytes() > 1_000_000
        after = table.figures
        assert after.cached_rows <= 16_000
        assert after.evicted_rows >= held - after.cached_rows > 6000
        assert (collected(table, used) == file.rows[used]).all()
        assert table.figures.hits - after.hits > 3900
        every = np.arange(NUM_ROWS)
        np.random.default_rng(7).shuffle(every)
        assert (collected(table, every) == file.rows[every]).all()
        while table.shrink():
            assert (collected(table, every[:3000]) == file.rows[every[:3000]]).all()
        assert 2000 < table.figures.cached_rows <= 8000


def test_rows_that_were_requested_are_right_after_the_cache_gave_memory_back(file: TableFile):
    rows = random_rows(45, 600, 16)
    with opened(file.path, cache_rows=33_333) as table:
        table.request(rows)
        collected(table, rows[:10])
        assert table.shrink() > 0
        assert (collected(table, rows) == file.rows[rows.reshape(-1)]).all()


def test_more_rows_than_can_wait_are_collected_all_the_same(file: TableFile):
    rows = random_rows(40, 200_000)
    with opened(file.path) as table:
        table.request(rows)
        assert (collected(table, rows) == file.rows[rows]).all()


def test_threads_that_ask_at_the_same_time_get_their_own_rows(file: TableFile):
    wrong: list[int] = []

    def run(table: NgramTable, seed: int) -> None:
        for i in range(30):
            rows = random_rows(1000 * seed + i, 40)
            table.request(random_rows(1000 * seed + i + 1, 40))
            if not (collected(table, rows) == file.rows[rows]).all():
                wrong.append(seed)

    with opened(file.path, cache_rows=500) as table:
        threads = [threading.Thread(target=run, args=(table, seed)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


@pytest.mark.parametrize("way", WAYS)
def test_a_table_may_be_closed_while_it_is_being_read(file: TableFile, way: dict[str, bool]):
    for i in range(20):
        with opened(file.path, **way) as table:
            table.request(random_rows(50 + i, 3000))


def test_reads_of_a_thread_that_has_ended_are_not_missed(file: TableFile):
    rows = random_rows(60, 2000)
    with opened(file.path) as table:
        thread = threading.Thread(target=table.request, args=(rows,))
        thread.start()
        thread.join()
        assert (collected(table, rows) == file.rows[rows]).all()


@pytest.mark.parametrize("way", WAYS)
def test_a_file_that_became_shorter_is_a_sentence_and_other_rows_still_come(
    file: TableFile, way: dict[str, bool], tmp_path: Path
):
    path = tmp_path / "table.gguf"
    shutil.copyfile(file.path, path)
    last = np.array([NUM_ROWS - 1, NUM_ROWS - 2])
    with opened(path, **way) as table:
        os.truncate(path, OFFSET + (NUM_ROWS // 2) * ROW_BYTES)
        table.request(last)  # says nothing: nobody waits for it yet
        with pytest.raises(
            ModelFileError, match=r"table.gguf cannot be read at byte \d+ \(it ends"
        ):
            collected(table, last)
        assert table.failure().code == "file_unreadable"
        assert (collected(table, np.arange(300)) == file.rows[:300]).all()
        shutil.copyfile(file.path, path)  # the disk is well again
        assert (collected(table, last) == file.rows[last]).all()


@pytest.mark.skipif(sys.platform != "linux", reason="reads its own memory as a file")
@pytest.mark.parametrize("uses_threads", [True, False])
def test_a_disk_that_returns_errors_is_a_sentence_and_other_rows_still_come(uses_threads: bool):
    # The memory of this process is a file whose unmapped parts give real input/output errors.
    num_rows, num_bytes = 2000, 2000 * ROW_BYTES
    rows = np.random.default_rng(5).integers(0, 256, (num_rows, ROW_BYTES), np.uint8)
    with mmap.mmap(-1, num_bytes + 2 * PAGE) as memory:
        memory[:num_bytes] = rows.tobytes()
        anchor = ctypes.c_char.from_buffer(memory)
        address = ctypes.addressof(anchor)
        del anchor
        hole = address + 10 * PAGE
        libc = ctypes.CDLL(None, use_errno=True)
        with opened(Path("/proc/self/mem"), address, num_rows, uses_threads=uses_threads) as table:
            assert not table.is_unbuffered
            kept = memory[10 * PAGE : 12 * PAGE]
            unmap_and_wait(libc, hole)
            bad = np.array([10 * PAGE // ROW_BYTES + 3])
            table.request(bad)
            with pytest.raises(ModelFileError, match="Input/output error"):
                collected(table, np.array([1, int(bad[0]), 2]))
            assert table.figures.failed_reads >= 2  # it was tried twice
            good = np.array([0, 1, num_rows - 1])
            assert (collected(table, good) == rows[good]).all()
            map_again(libc, hole)
            memory[10 * PAGE : 12 * PAGE] = kept
            assert (collected(table, bad) == rows[bad]).all()


def unmap_and_wait(libc: ctypes.CDLL, address: int) -> None:
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    assert libc.munmap(address, 2 * PAGE) == 0


def map_again(libc: ctypes.CDLL, address: int) -> None:
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [
        *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int),
        *(ctypes.c_int, ctypes.c_int, ctypes.c_int64),
    ]
    private_fixed = 0x02 | 0x10 | 0x20
    assert libc.mmap(address, 2 * PAGE, 3, private_fixed, -1, 0) == address


def test_a_prefetch_that_fails_harms_only_those_who_want_its_rows(file: TableFile, tmp_path: Path):
    path = tmp_path / "table.gguf"
    shutil.copyfile(file.path, path)
    with opened(path) as table:
        os.truncate(path, OFFSET + (NUM_ROWS // 2) * ROW_BYTES)
        for i in range(20):
            table.request(np.arange(NUM_ROWS - 500, NUM_ROWS))
            rows = random_rows(70 + i, 200) // 2
            assert (collected(table, rows) == file.rows[rows]).all()


def test_rows_outside_of_the_table_are_refused(file: TableFile):
    with opened(file.path) as table:
        for row in (-1, NUM_ROWS):
            with pytest.raises(ValueError, match="does not have"):
                table.request(np.array([0, row]))
            with pytest.raises(ValueError, match="does not have"):
                collected(table, np.array([0, row]))
        with pytest.raises(ValueError, match="int64"):
            table.request(np.array([0], np.int32))
        with pytest.raises(ValueError, match="bytes for"):
            table.collect(np.array([0]), np.zeros(3, np.uint8))
        assert collected(table, np.zeros(0, np.int64)).size == 0


def test_a_file_that_is_not_there_is_a_sentence(tmp_path: Path):
    with pytest.raises(ModelFileError, match="cannot be opened"):
        NgramTable(tmp_path / "nowhere", 0, 10, 160, GgmlType.IQ4_NL)


def test_rows_larger_than_a_page_are_not_read_one_by_one(file: TableFile):
    with pytest.raises(ResourceError, match="ngram_mode to mapped"):
        NgramTable(file.path, 0, 2, 2048, GgmlType.F32)


def test_a_closed_table_can_be_closed_again(file: TableFile):
    with opened(file.path) as table:
        table.close()
