"""Records of checks of graphics cards, in files."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from engine.core import card_record
from engine.core.card_record import (
    CardRecord,
    card_troubles,
    find_record,
    keep_record,
    read_records,
    record_key,
    records_path,
)
from engine.core.emulated_cards import EMULATED_DRIVER
from engine.core.gpu import Gpu, GpuReport

CARD = Gpu(0, "RTX 5070", 12 << 30, 11 << 30, (12, 0), uuid="GPU-1")
DRIVER = "580.95.05"


def record_of(card: Gpu = CARD, driver: str = DRIVER, **changes: object) -> CardRecord:
    values = {"key": record_key(card, driver), "card": card.name, "is_passed": True, **changes}
    return CardRecord.model_validate(values)


def test_a_record_is_found_again(tmp_path: Path) -> None:
    keep_record(tmp_path, record_of(num_checks=61, seconds=4.2))
    found = find_record(tmp_path, CARD, DRIVER)
    assert found is not None
    assert (found.is_passed, found.num_checks, found.seconds) == (True, 61, 4.2)


@pytest.mark.parametrize(
    ("card", "driver"),
    [
        (CARD, "581.0"),
        (dataclasses.replace(CARD, uuid="GPU-2"), DRIVER),
        (dataclasses.replace(CARD, name="RTX 5090"), DRIVER),
        (dataclasses.replace(CARD, vram_total_bytes=16 << 30), DRIVER),
    ],
)
def test_another_driver_or_card_was_not_checked(card: Gpu, driver: str, tmp_path: Path) -> None:
    keep_record(tmp_path, record_of())
    assert find_record(tmp_path, card, driver) is None


def test_what_the_card_has_free_does_not_matter(tmp_path: Path) -> None:
    keep_record(tmp_path, record_of())
    busy = dataclasses.replace(CARD, vram_free_bytes=0, has_display=True)
    assert find_record(tmp_path, busy, DRIVER) is not None


def test_other_kernels_make_a_record_worthless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_record(tmp_path, record_of())
    before = card_record.code_state()
    source = tmp_path / "kernels" / "cuda" / "route.cu"
    source.parent.mkdir(parents=True)
    source.write_text("// changed")
    monkeypatch.setattr(card_record, "_ENGINE", tmp_path)
    card_record.code_state.cache_clear()
    try:
        assert card_record.code_state() != before
        assert find_record(tmp_path, CARD, DRIVER) is None
    finally:
        card_record.code_state.cache_clear()


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"format": 1, "checks": [{"key": 3}]}', '{"format": 9}', '{"checks": 1}'],
)
def test_a_broken_file_means_that_nothing_was_checked(text: str, tmp_path: Path) -> None:
    records_path(tmp_path).write_text(text)
    assert find_record(tmp_path, CARD, DRIVER) is None
    keep_record(tmp_path, record_of())
    assert find_record(tmp_path, CARD, DRIVER) is not None


def test_a_newer_record_takes_the_place_of_the_older_one_and_few_are_kept(tmp_path: Path) -> None:
    for number in range(30):
        keep_record(tmp_path, record_of(driver=f"580.{number}"))
    keep_record(tmp_path, record_of(driver="580.29", is_passed=False))
    records = read_records(tmp_path)
    assert len(records) == 16
    assert [record.is_passed for record in records[:2]] == [False, True]
    assert find_record(tmp_path, CARD, "580.0") is None


def test_troubles_are_failed_checks_and_missing_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = dataclasses.replace(CARD, index=1, uuid="GPU-2")
    report = GpuReport((CARD, other), EMULATED_DRIVER)
    params = {"card": CARD.name, "seconds": 120}
    keep_record(tmp_path, record_of(other, EMULATED_DRIVER))
    keep_record(
        tmp_path,
        record_of(driver=EMULATED_DRIVER, is_passed=False, code="card_hangs", params=params),
    )
    troubles = card_troubles(tmp_path, report)
    assert {index: (note.code, note.params) for index, note in troubles.items()} == {
        0: ("card_hangs", params)
    }
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    troubles = card_troubles(tmp_path, GpuReport((CARD,), DRIVER))
    assert [note.code for note in troubles.values()] == ["gpu_packages_missing"]
