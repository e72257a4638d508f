"""Memory of a process: private memory grows by what is written, the peak stays."""

import os

import numpy as np

from engine.core.process_memory import peak_resident_bytes, private_bytes

SIZE = 64 << 20


def test_private_memory_counts_what_was_written_and_the_peak_stays():
    before = private_bytes()
    block = np.ones(SIZE // 8)
    assert private_bytes(os.getpid()) - before > SIZE * 0.9
    del block
    assert private_bytes() - before < SIZE * 0.5
    assert peak_resident_bytes() > SIZE
