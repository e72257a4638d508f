from __future__ import annotations

from pathlib import Path

import pytest

from engine.core.drive_speed import DriveKind, DriveSpeed
from engine.core.drives import Drive, drive_at, drive_of, existing_parent, list_drives, speed_of

FAST = DriveSpeed(1e-4, 2e9, is_unbuffered=True)
SLOW = DriveSpeed(8e-3, 1e8, is_unbuffered=True)


def make_drive(speed: DriveSpeed | None, *, turns: bool | None) -> Drive:
    return Drive(Path("/data"), "ext4", 10**12, 10**11, speed=speed, claims_to_turn=turns)


def test_this_machine_has_a_drive_with_its_file_system() -> None:
    drive = drive_of(Path(__file__))
    assert drive is not None
    assert 0 < drive.free_bytes <= drive.total_bytes
    assert Path(__file__).is_relative_to(drive.mount)


def test_the_drives_of_this_machine_are_listed_once() -> None:
    drives = list_drives()
    assert len({drive.mount for drive in drives}) == len(drives)
    assert not any(drive.is_memory for drive in drives)


def test_a_folder_that_is_not_there_yet_counts_as_its_parent(tmp_path: Path) -> None:
    wanted = tmp_path / "models" / "new folder"
    assert existing_parent(wanted) == tmp_path.resolve()
    here, there = drive_of(tmp_path), drive_of(wanted)
    assert here is not None
    assert there is not None
    assert here.mount == there.mount


def test_a_drive_that_does_not_answer_is_none(tmp_path: Path) -> None:
    assert drive_at(tmp_path / "unplugged") is None


@pytest.mark.parametrize(
    ("speed", "turns", "kind", "notes"),
    [
        (FAST, False, DriveKind.SOLID_STATE, 0),
        (FAST, True, DriveKind.SOLID_STATE, 1),
        (SLOW, False, DriveKind.HARD_DISK, 1),
        (SLOW, True, DriveKind.HARD_DISK, 0),
        (SLOW, None, DriveKind.HARD_DISK, 0),
        (None, True, DriveKind.HARD_DISK, 0),
        (None, False, DriveKind.SOLID_STATE, 0),
        (None, None, DriveKind.UNKNOWN, 0),
    ],
)
def test_what_a_drive_does_counts_before_what_the_system_says(
    speed: DriveSpeed | None, turns: bool | None, kind: DriveKind, notes: int
) -> None:
    drive = make_drive(speed, turns=turns)
    assert drive.kind is kind
    assert [note.code for note in drive.notes()] == ["drive_sources_disagree"] * notes


def test_the_speed_of_this_drive_is_measured(tmp_path: Path) -> None:
    speed = speed_of(tmp_path / "new", 1.0)
    assert speed is not None
    assert speed.sequential_bytes_per_s > 1e6
