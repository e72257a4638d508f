"""Whether memory runs low."""

import ctypes

import pytest

from engine.core.memory_pressure import LinuxWatch, WindowsWatch, low_mark_bytes, system_watch

GIB = 1 << 30
MIB = 1 << 20
CALM = "some avg10=80.00 avg60=1.00 avg300=0.00 total=9\nfull avg10=9.99 avg60=0.00 avg300=0.00 total=1\n"
STALLED = CALM.replace("9.99", "10.50")


def watch(tmp_path, available, psi=CALM, total=32 * GIB):
    path = tmp_path / "memory"
    path.write_text(psi)
    return LinuxWatch(path, lambda: (total, available))


@pytest.mark.parametrize(
    ("total", "mark"), [(2 * GIB, 256 * MIB), (20 * GIB, 20 * GIB * 3 // 100), (128 * GIB, GIB)]
)
def test_low_is_a_share_of_the_memory_within_bounds(tmp_path, total, mark):
    assert low_mark_bytes(total) == pytest.approx(mark, abs=1)
    assert watch(tmp_path, mark - MIB, total=total).is_low()
    assert not watch(tmp_path, mark + MIB, total=total).is_low()


def test_time_in_which_all_work_stood_still_counts_and_some_of_it_does_not(tmp_path):
    assert not watch(tmp_path, 20 * GIB).is_low()
    assert watch(tmp_path, 20 * GIB, STALLED).is_low()


@pytest.mark.parametrize("text", ["", "some avg10=99.00\n", "full total=3\n", "\xff"])
def test_a_kernel_that_does_not_tell_of_stalls_is_no_alarm(tmp_path, text):
    (tmp_path / "memory").write_bytes(text.encode("latin-1"))
    assert not LinuxWatch(tmp_path / "memory", lambda: (32 * GIB, 20 * GIB)).is_low()
    assert not LinuxWatch(tmp_path / "none", lambda: (32 * GIB, 20 * GIB)).is_low()
    assert not LinuxWatch(None, lambda: (32 * GIB, 20 * GIB)).is_low()


def test_this_machine_can_be_watched():
    assert system_watch().is_low() in {True, False}


def test_windows_is_asked_by_its_notification():
    class Kernel:
        """The functions of kernel32 that are called."""

        is_low = 1
        handle = 77

        class CreateMemoryResourceNotification:
            def __new__(cls, kind):
                assert kind == 0
                return Kernel.handle

        class QueryMemoryResourceNotification:
            def __new__(cls, handle, address):
                assert handle == 77
                ctypes.c_int.from_address(address).value = Kernel.is_low
                return 1

    assert WindowsWatch(Kernel).is_low()
    Kernel.is_low = 0
    assert not WindowsWatch(Kernel).is_low()
    Kernel.is_low, Kernel.handle = 1, None
    assert not WindowsWatch(Kernel).is_low()
