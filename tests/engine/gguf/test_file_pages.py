"""Asking the disk for mapped pages."""

import ctypes
import mmap
import os
import sys

import numpy as np
import pytest

from engine.gguf.file_pages import (
    LinuxPages,
    WindowsPages,
    joined,
    may_look_into_cache,
    system_pages,
    whole_pages,
)

PAGE = mmap.PAGESIZE
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="madvise is Linux's")


@pytest.fixture
def mapped(tmp_path):
    """A file of 256 pages that is on the disk and not in memory, mapped."""
    path = tmp_path / "große Datei.bin"
    path.write_bytes(os.urandom(256 * PAGE))
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return path, np.frombuffer(memory, np.uint8)


def test_ranges_are_widened_to_whole_pages_and_joined_where_they_touch():
    assert whole_pages(PAGE + 1, PAGE) == (PAGE, 2 * PAGE)
    assert joined([(5 * PAGE, 10), (PAGE + 7, 20), (2 * PAGE, 1)]) == [
        (PAGE, 2 * PAGE),
        (5 * PAGE, PAGE),
    ]
    assert joined([]) == []


@linux
def test_what_was_asked_for_and_waited_for_is_in_memory(mapped):
    _, data = mapped
    pages = system_pages()
    base = data.ctypes.data
    ranges = [(base + 10 * PAGE, 4 * PAGE), (base + 100 * PAGE + 5, PAGE)]
    pages.expect_random([(base, len(data))])
    assert pages.missing_bytes(ranges) == [4 * PAGE, 2 * PAGE]
    pages.request(ranges)
    assert pages.wait(ranges)
    assert pages.missing_bytes(ranges) == [0, 0]
    assert pages.missing_bytes([(base + 200 * PAGE, PAGE)]) == [PAGE]  # and nothing else


@linux
def test_a_file_that_was_cut_is_an_error_where_touching_would_end_the_process(mapped):
    path, data = mapped
    pages = system_pages()
    ranges = [(data.ctypes.data + 200 * PAGE, PAGE)]
    os.truncate(path, 100 * PAGE)
    pages.request(ranges)
    with pytest.raises(OSError, match="Bad address"):
        pages.wait(ranges)


@linux
def test_who_may_not_look_is_told_that_nothing_is_known(mapped):
    _, data = mapped
    pages = LinuxPages(ctypes.CDLL(None, use_errno=True), can_look=False)
    assert pages.missing_bytes([(data.ctypes.data, PAGE)]) is None


@linux
def test_an_old_kernel_cannot_wait_and_says_so_once():
    class OldKernel:
        """Knows no MADV_POPULATE_READ."""

        def __init__(self):
            self.calls = []
            self.madvise = self._Function(self)
            self.mincore = self._Function(self)

        class _Function:
            def __init__(self, kernel):
                self.kernel = kernel

            def __call__(self, *arguments):
                self.kernel.calls.append(arguments)
                ctypes.set_errno(22)
                return -1

    kernel = OldKernel()
    pages = LinuxPages(kernel)
    assert pages.wait([(0, PAGE)]) is False
    assert pages.wait([(0, PAGE)]) is False
    assert len(kernel.calls) == 1


@pytest.mark.skipif(os.name == "nt", reason="owners are POSIX's")
def test_the_cache_may_be_looked_into_by_those_who_may_write_the_file(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"x")
    assert may_look_into_cache([path])
    assert not may_look_into_cache([tmp_path / "missing"])


def test_windows_is_asked_for_all_ranges_in_one_call():
    class Function:
        """Notes calls."""

        def __init__(self, result):
            self.result = result
            self.calls = []

        def __call__(self, *arguments):
            if len(arguments) == 4:
                _, count, address, flags = arguments
                raw = (ctypes.c_size_t * (2 * count)).from_address(address)
                arguments = (list(raw), flags)
            self.calls.append(arguments)
            return self.result

    class Kernel:
        """The functions of kernel32 that are called."""

        GetCurrentProcess = Function(-1)
        PrefetchVirtualMemory = Function(1)

    pages = WindowsPages(Kernel)
    pages.request([(PAGE, PAGE), (8 * PAGE + 3, 10)])
    assert Kernel.PrefetchVirtualMemory.calls == [([PAGE, PAGE, 8 * PAGE, PAGE], 0)]
    pages.request([])
    assert len(Kernel.PrefetchVirtualMemory.calls) == 1
    assert pages.missing_bytes([(0, PAGE)]) is None
    assert pages.wait([(0, PAGE)]) is False
