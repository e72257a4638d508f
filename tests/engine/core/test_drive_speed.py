from __future__ import annotations

import time
from pathlib import Path

import pytest

from engine.core import drive_speed
from engine.core.drive_speed import (
    DriveKind,
    DriveSpeed,
    largest_file,
    measure_drive,
    measure_random_reads,
)


@pytest.mark.parametrize(
    ("read_s", "kind"),
    [
        (9e-5, DriveKind.SOLID_STATE),
        (4e-4, DriveKind.SOLID_STATE),
        (1.5e-3, DriveKind.SLOW_SOLID_STATE),
        (4.2e-3, DriveKind.HARD_DISK),
        (1.2e-2, DriveKind.HARD_DISK),
    ],
)
def test_a_drive_is_judged_by_what_it_does(read_s: float, kind: DriveKind) -> None:
    assert DriveSpeed(read_s, 1e8, is_unbuffered=True).kind is kind


def test_a_speed_that_may_be_the_caches_says_nothing_of_the_drive() -> None:
    assert DriveSpeed(1e-6, 9e9, is_unbuffered=False).kind is DriveKind.UNKNOWN


@pytest.fixture
def small_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drive_speed, "SAMPLE_BYTES", 4 << 20)
    monkeypatch.setattr(drive_speed, "_LEAST_FILE_BYTES", 1 << 20)


@pytest.mark.usefixtures("small_sample")
def test_a_file_that_is_there_is_read_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "größe" / "weights.bin"
    path.parent.mkdir()
    path.write_bytes(bytes(2 << 20))
    found = measure_drive(tmp_path)
    assert found is not None
    assert found.random_read_s > 0
    assert found.sequential_bytes_per_s > 0
    assert [p.name for p in tmp_path.rglob("*")] == ["größe", "weights.bin"]


@pytest.mark.usefixtures("small_sample")
def test_a_written_sample_is_deleted_again(tmp_path: Path) -> None:
    assert measure_drive(tmp_path) is not None
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_not_measured(tmp_path: Path) -> None:
    assert measure_drive(tmp_path / "nowhere") is None


@pytest.mark.usefixtures("small_sample")
def test_the_largest_file_counts_and_small_ones_do_not(tmp_path: Path) -> None:
    (tmp_path / "small").write_bytes(bytes(1000))
    assert largest_file([tmp_path], time.monotonic() + 60) is None
    (tmp_path / "middle").write_bytes(bytes(1 << 20))
    (tmp_path / "large").write_bytes(bytes(2 << 20))
    assert largest_file([tmp_path], time.monotonic() + 60) == tmp_path / "large"


@pytest.mark.usefixtures("small_sample")
def test_reading_ends_at_the_time_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    class SlowReader:
        is_unbuffered = True

        def read(self, _offset: int, num_bytes: int) -> int:
            asked.append(num_bytes)
            time.sleep(0.02)
            return num_bytes

    monkeypatch.setattr(drive_speed, "SAMPLE_BYTES", 1 << 30)  # more than there is time for
    found = drive_speed._measure(SlowReader(), 1 << 30, time.monotonic() + 1)
    assert sum(asked) < 1 << 30
    assert found is not None
    assert found.kind is DriveKind.HARD_DISK


def test_a_file_that_ends_early_gives_no_speed() -> None:
    class EmptyReader:
        is_unbuffered = True

        def read(self, _offset: int, _num_bytes: int) -> int:
            return 0

    assert drive_speed._measure(EmptyReader(), 1 << 20, time.monotonic() + 1) is None


@pytest.mark.usefixtures("small_sample")
def test_a_part_of_a_file_is_measured_by_its_random_reads_alone(tmp_path: Path) -> None:
    path = tmp_path / "weights.bin"
    path.write_bytes(bytes(1 << 20))
    found = measure_random_reads(path, 300_000, 500_000)
    assert found is not None
    assert found.random_read_s > 0
    assert found.sequential_bytes_per_s == 0
    assert measure_random_reads(tmp_path / "nowhere", 0, 100) is None
    assert measure_random_reads(path, 8 << 20, 4096) is None  # behind its end
