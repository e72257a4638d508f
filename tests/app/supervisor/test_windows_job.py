"""The parts of the Job object that hold on every system; tests/windows has the rest."""

import ctypes
import sys

import pytest

from app.supervisor.windows_job import Accounting, ExtendedLimits, Job, ending_limits


@pytest.mark.skipif(ctypes.sizeof(ctypes.c_void_p) != 8, reason="sizes of 64-bit Windows")
def test_the_structures_have_the_sizes_that_windows_wants():
    assert ctypes.sizeof(ExtendedLimits) == 144
    assert ctypes.sizeof(Accounting) == 48


def test_the_limit_is_to_end_with_the_last_handle_and_nothing_else():
    raw = bytes(ending_limits())
    assert int.from_bytes(raw[16:20], "little") == 0x2000
    assert raw.count(0) == len(raw) - 1


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has them")
def test_other_systems_have_no_job_objects():
    with pytest.raises(OSError, match="only Windows"):
        Job()
