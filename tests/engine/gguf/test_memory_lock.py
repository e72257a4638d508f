"""Locking a mapped model into memory."""

import errno
import os
import sys

import numpy as np
import pytest

from engine.core.ggml_types import GgmlType
from engine.gguf import memory_lock
from engine.gguf.memory_lock import lock_tensors, system_locker
from engine.gguf.reader import Tensor

PAGE = memory_lock.mmap.PAGESIZE


class FakeLocker:
    """Notes what it is asked for, and refuses after so many bytes."""

    def __init__(self, most=1 << 62):
        self.most = most
        self.locked = {}
        self.prepared = 0

    def prepare(self, num_bytes):
        self.prepared = num_bytes

    def lock(self, address, num_bytes):
        if sum(self.locked.values()) + num_bytes > self.most:
            raise OSError(errno.ENOMEM, "Cannot allocate memory")
        self.locked[address] = num_bytes

    def unlock(self, address, num_bytes):
        assert self.locked.pop(address) == num_bytes


@pytest.fixture
def memory():
    return np.zeros(64 * PAGE, np.uint8)


def tensor(memory, start, stop):
    data = memory[start:stop]
    return Tensor("t", GgmlType.F32, (len(data) // 4,), data)


def test_pages_that_two_tensors_share_are_locked_once(memory):
    base = -memory.ctypes.data % PAGE
    tensors = [
        tensor(memory, base + 8 * PAGE, base + 9 * PAGE + 16),
        tensor(memory, base + 100, base + 2 * PAGE + 4),
        tensor(memory, base + 2 * PAGE + 4, base + 3 * PAGE),
    ]
    locker = FakeLocker()
    steps = []
    result = lock_tensors(tensors, lambda done, total: steps.append((done, total)), locker)
    start = memory.ctypes.data + base
    assert locker.locked == {start: 3 * PAGE, start + 8 * PAGE: 2 * PAGE}
    assert result.num_bytes == locker.prepared == 5 * PAGE
    assert result.problem == ""
    assert steps == [(3 * PAGE, 5 * PAGE), (5 * PAGE, 5 * PAGE)]


def test_a_refusal_gives_everything_back_and_says_the_way_out(memory, monkeypatch):
    monkeypatch.setattr(memory_lock, "_PIECE_BYTES", 4 * PAGE)
    locker = FakeLocker(most=9 * PAGE)
    result = lock_tensors([tensor(memory, 0, memory.nbytes)], lambda *_: None, locker)
    assert locker.locked == {}
    assert result.num_bytes == 0
    assert "Cannot allocate memory" in result.problem
    assert "lock_memory" in result.problem
    assert "runs without" in result.problem


def test_nothing_is_asked_for_without_tensors():
    locker = FakeLocker()
    assert lock_tensors([], lambda *_: None, locker).num_bytes == 0
    assert locker.locked == {}


@pytest.mark.skipif(os.name == "nt" or sys.platform == "darwin", reason="reads /proc")
def test_this_system_locks_and_unlocks_pages(memory):
    def locked_kb():
        with open("/proc/self/status") as file:  # noqa: PTH123
            return next(int(line.split()[1]) for line in file if line.startswith("VmLck"))

    locker = system_locker()
    before = locked_kb()
    result = lock_tensors([tensor(memory, 0, 4 * PAGE)], lambda *_: None, locker)
    if result.problem:
        pytest.skip("this system locks nothing for us")
    assert locked_kb() == before + result.num_bytes // 1024
    locker.unlock(memory.ctypes.data // PAGE * PAGE, result.num_bytes)
    assert locked_kb() == before


class FakeKernel:
    """kernel32 as far as it is used here."""

    class Function:
        def __init__(self, result):
            self.result = result
            self.calls = []

        def __call__(self, *arguments):
            self.calls.append(arguments)
            return self.result

    def __init__(self, can_lock):
        self.GetCurrentProcess = self.Function(7)
        self.SetProcessWorkingSetSize = self.Function(1)
        self.VirtualLock = self.Function(can_lock)
        self.VirtualUnlock = self.Function(1)


def test_windows_gets_a_working_set_that_holds_what_is_locked(memory):
    kernel = FakeKernel(can_lock=1)
    locker = memory_lock._WindowsLocker(kernel, lambda: 0)
    base = -memory.ctypes.data % PAGE
    result = lock_tensors([tensor(memory, base, base + 2 * PAGE)], lambda *_: None, locker)
    assert result.num_bytes == 2 * PAGE
    assert kernel.VirtualLock.calls == [(memory.ctypes.data + base, 2 * PAGE)]
    ((process, least, most),) = kernel.SetProcessWorkingSetSize.calls
    assert process == 7
    assert 2 * PAGE < least <= most


def test_a_refusal_of_windows_is_a_sentence_with_its_number(memory):
    locker = memory_lock._WindowsLocker(FakeKernel(can_lock=0), lambda: 1453)
    result = lock_tensors([tensor(memory, 0, PAGE)], lambda *_: None, locker)
    assert "1453" in result.problem
