"""How fast this machine's memory is, measured in a moment and without numpy.

Decoding reads every used weight once per token, so this number bounds its speed. Threads that call
into the C library leave Python's lock, so they really run beside each other. Two ways, the better
one counts: a search that finds nothing (reads only; where the C library does it with vectors it is
the better one) and a copy (each byte is read and written). Each thread times small pieces and its
median counts: pieces in which another program had the core are left out so.
"""

from __future__ import annotations

import ctypes
import mmap
import statistics
import sys
import threading
import time
from collections.abc import Callable

BUFFER_BYTES = 256 << 20  # far above most caches; less where little memory is free
_LEAST_BYTES = 32 << 20
_SHARE_OF_FREE = 8
_PIECE_BYTES = 8 << 20
_ROUNDS = 6

# Moves the bytes of one piece (its address, the address of the other half, its size).
_Move = Callable[[int, int, int], object]


def measure_bandwidth(
    num_threads: int, available_bytes: int, time_limit_s: float = 1.5
) -> float | None:
    """Bytes per second that the threads move together.

    Args:
        num_threads: one for each core.
        available_bytes: free memory; an eighth of it is used at most.
        time_limit_s: for both ways together.

    Returns:
        None when there is not even memory to measure in.
    """
    num_bytes = min(BUFFER_BYTES, available_bytes // _SHARE_OF_FREE)
    if num_bytes < _LEAST_BYTES:
        return None
    half = num_bytes // 2 // mmap.PAGESIZE * mmap.PAGESIZE
    try:
        memory = mmap.mmap(-1, 2 * half)
    except (OSError, ValueError):
        return None
    try:
        # The address stays valid until the mapping is closed.
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        return _measure(start, half, max(1, num_threads), time_limit_s)
    finally:
        memory.close()


def _measure(start: int, half: int, num_threads: int, time_limit_s: float) -> float:
    def fill(near: int, far: int, size: int) -> None:  # a page exists once it was written to
        ctypes.memset(near, 1, size)
        ctypes.memset(far, 1, size)

    def copy(near: int, far: int, size: int) -> object:
        return ctypes.memmove(far, near, size)

    parts = _split(start, half, num_threads)
    _rate(fill, parts, half, rounds=1, deadline=time.monotonic() + time_limit_s)
    ways: list[_Move] = [copy]
    find = _search_function()
    if find is not None:

        def search(near: int, far: int, size: int) -> None:
            find(near, 0, size)
            find(far, 0, size)

        ways.append(search)
    best = 0.0
    for way in ways:
        deadline = time.monotonic() + time_limit_s / len(ways)
        best = max(best, _rate(way, parts, half, rounds=_ROUNDS, deadline=deadline))
    return best


def _split(start: int, num_bytes: int, num_threads: int) -> list[tuple[int, int]]:
    """Address and size of each thread's part."""
    step = -(-num_bytes // num_threads // 64) * 64
    return [(start + at, min(step, num_bytes - at)) for at in range(0, num_bytes, step)]


def _rate(
    move: _Move, parts: list[tuple[int, int]], half: int, *, rounds: int, deadline: float
) -> float:
    """Bytes per second of all threads together; both halves' bytes count."""
    rates: list[float] = []

    def work(address: int, size: int) -> None:
        times: list[float] = []
        piece = min(_PIECE_BYTES, size)
        for _ in range(rounds):
            for at in range(0, size - piece + 1, piece):
                began = time.perf_counter()
                move(address + at, address + half + at, piece)
                times.append(time.perf_counter() - began)
            if time.monotonic() > deadline:
                break
        rates.append(2 * piece / max(statistics.median(times), 1e-9))

    threads = [threading.Thread(target=work, args=part, daemon=True) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(rates)


def _search_function() -> Callable[[int, int, int], object] | None:
    """`memchr` of the C library; None where there is none."""
    try:
        library = ctypes.CDLL("ucrtbase") if sys.platform == "win32" else ctypes.CDLL(None)
        function = library.memchr
    except (OSError, AttributeError, TypeError):
        return None
    function.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
    function.restype = ctypes.c_void_p
    typed: Callable[[int, int, int], object] = function
    return typed
