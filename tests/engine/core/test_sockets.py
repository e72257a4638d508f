"""Counting processor packages."""

import struct
from pathlib import Path

from engine.core.sockets import count_records, count_sockets


def test_two_packages_of_sysfs_are_two_sockets(tmp_path: Path):
    for cpu, package in enumerate("0011"):
        folder = tmp_path / f"cpu{cpu}" / "topology"
        folder.mkdir(parents=True)
        (folder / "physical_package_id").write_text(f"{package}\n")
    assert count_sockets(tmp_path) == 2


def test_a_system_that_says_nothing_has_one(tmp_path: Path):
    assert count_sockets(tmp_path) == 1


def test_windows_records_are_counted_by_their_sizes():
    records = b"".join(struct.pack("<II", 3, size) + bytes(size - 8) for size in (48, 64))
    assert count_records(records) == 2
    assert count_records(b"") == 0
    assert count_records(struct.pack("<II", 3, 0)) == 0
