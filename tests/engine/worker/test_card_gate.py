"""Which cards are used: those that passed, each checked once."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.core.card_record import CardRecord, find_record, record_key, records_path
from engine.core.config import OpsName, RunConfig
from engine.core.emulated_cards import EMULATED_DRIVER as DRIVER
from engine.core.gpu import Gpu
from engine.core.settings import load_settings
from engine.worker.card_check import StepProgress
from engine.worker.card_gate import PHASE, Gate, allowed_cards, check_and_keep, distrust

CARD = Gpu(0, "RTX 5070", 12 << 30, 11 << 30, (12, 0), uuid="GPU-1")
OTHER = Gpu(1, "RTX 3060", 12 << 30, 11 << 30, (8, 6), uuid="GPU-2")
AUTO = RunConfig(ops=OpsName.AUTO)
BY_NAME = RunConfig(ops=OpsName.CUDA)


class Checks:
    """Makes checks in the place of the real one, and counts them."""

    def __init__(self, **failures: str) -> None:
        self.failures = failures  # code by the card's name without its blank
        self.made: list[str] = []

    def __call__(self, card: Gpu, driver: str, on_step: StepProgress | None = None) -> CardRecord:
        self.made.append(card.name)
        if on_step is not None:
            on_step(100, 100)
        code = self.failures.get(card.name.replace(" ", ""), "")
        return CardRecord(
            key=record_key(card, driver),
            card=card.name,
            is_passed=not code,
            code=code,
            sentence=f"{card.name} is not used: {code}." if code else "",
        )


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STRATUM_HOME", str(tmp_path))
    return load_settings().data_dir


def test_a_card_is_checked_once_and_then_its_record_counts() -> None:
    checks = Checks()
    for _ in range(3):
        gate = allowed_cards(AUTO, [CARD], DRIVER, check=checks)
        assert gate == Gate((CARD,))
        assert gate.notice == ""
    assert checks.made == [CARD.name]


def test_a_card_that_failed_is_told_at_each_start_and_not_checked_again() -> None:
    checks = Checks(RTX5070="card_hangs")
    for _ in range(3):
        gate = allowed_cards(AUTO, [CARD], DRIVER, check=checks)
        assert gate.passed == ()
        assert gate.notice == "RTX 5070 is not used: card_hangs."
    assert checks.made == [CARD.name]


def test_of_two_cards_the_one_that_passed_is_used() -> None:
    checks = Checks(RTX5070="card_wrong")
    gate = allowed_cards(AUTO, [CARD, OTHER], DRIVER, check=checks)
    assert gate.passed == (OTHER,)
    assert [refusal.card for refusal in gate.refused] == [CARD]
    assert checks.made == [CARD.name, OTHER.name]


def test_a_new_driver_is_a_new_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.worker.card_gate.has_card_packages", lambda _driver: True)
    assert not allowed_cards(AUTO, [CARD], "580.1", check=Checks(RTX5070="card_wrong")).passed
    checks = Checks()
    assert allowed_cards(AUTO, [CARD], "581.0", check=checks).passed == (CARD,)
    assert checks.made == [CARD.name]


@pytest.mark.parametrize("code", ["gpu_out_of_memory", "gpu_lost"])
def test_what_passes_by_itself_is_tried_again_at_the_next_start(code: str) -> None:
    assert not allowed_cards(AUTO, [CARD], DRIVER, check=Checks(RTX5070=code)).passed
    assert allowed_cards(AUTO, [CARD], DRIVER, check=Checks()).passed == (CARD,)


def test_the_doctor_s_check_replaces_an_old_record(home: Path) -> None:
    allowed_cards(AUTO, [CARD], DRIVER, check=Checks(RTX5070="card_hangs"))
    check_and_keep(CARD, DRIVER, home, check=Checks())
    record = find_record(home, CARD, DRIVER)
    assert record is not None
    assert record.is_passed
    assert allowed_cards(AUTO, [CARD], DRIVER, check=Checks()).passed == (CARD,)


def test_a_card_that_hangs_while_it_computes_loses_its_pass_until_it_is_checked_again(
    home: Path,
) -> None:
    allowed_cards(AUTO, [CARD], DRIVER, check=Checks())
    distrust(61.3)
    checks = Checks()
    gate = allowed_cards(AUTO, [CARD], DRIVER, check=checks)
    assert gate.passed == ()
    assert "RTX 5070 is not used: it did not answer for 61 seconds" in gate.notice
    assert checks.made == []
    check_and_keep(CARD, DRIVER, home, check=Checks())
    assert allowed_cards(AUTO, [CARD], DRIVER, check=Checks()).passed == (CARD,)


def test_a_card_that_failed_and_one_asked_for_by_name_have_no_pass_to_lose(home: Path) -> None:
    allowed_cards(AUTO, [CARD], DRIVER, check=Checks(RTX5070="card_wrong"))
    distrust(61.0)
    record = find_record(home, CARD, DRIVER)
    assert record is not None
    assert record.code == "card_wrong"
    allowed_cards(AUTO, [OTHER], DRIVER, check=Checks())
    allowed_cards(BY_NAME, [OTHER], DRIVER, check=Checks())
    distrust(61.0)
    record = find_record(home, OTHER, DRIVER)
    assert record is not None
    assert record.is_passed


def test_a_broken_record_means_not_tried_yet(home: Path) -> None:
    allowed_cards(AUTO, [CARD], DRIVER, check=Checks())
    records_path(home).write_text("{")
    checks = Checks()
    assert allowed_cards(AUTO, [CARD], DRIVER, check=checks).passed == (CARD,)
    assert checks.made == [CARD.name]


def test_a_record_that_cannot_be_written_does_not_stop_the_start(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home.parent.mkdir(exist_ok=True)
    home.write_text("a file where the folder should be")
    assert allowed_cards(AUTO, [CARD], DRIVER, check=Checks()).passed == (CARD,)
    assert "the check of RTX 5070 will be repeated at the next start" in caplog.text


def test_without_cards_nothing_is_asked() -> None:
    checks = Checks()
    assert allowed_cards(AUTO, [], DRIVER, check=checks) == Gate()
    assert checks.made == []


def test_without_packages_the_way_out_is_told_and_nothing_is_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("engine.worker.card_gate.has_card_packages", lambda _driver: False)
    checks = Checks()
    gate = allowed_cards(AUTO, [CARD], "580.1", check=checks)
    assert gate.passed == ()
    assert (
        "RTX 5070 is not used: the packages for NVIDIA cards are not installed; run " in gate.notice
    )
    assert checks.made == []


@pytest.mark.parametrize("code", ["", "card_wrong"])
def test_a_card_that_is_asked_for_by_name_is_used_with_a_warning(
    code: str, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    if code:
        check_and_keep(CARD, DRIVER, home, check=Checks(RTX5070=code))
    checks = Checks()
    assert allowed_cards(BY_NAME, [CARD], DRIVER, check=checks).passed == (CARD,)
    assert checks.made == []
    said = "though its check failed" if code else "was not checked on this PC yet"
    assert said in caplog.text


def test_a_card_that_passed_is_asked_for_by_name_without_a_warning(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    check_and_keep(CARD, DRIVER, home, check=Checks())
    with caplog.at_level(logging.WARNING):
        allowed_cards(BY_NAME, [CARD], DRIVER, check=Checks())
    assert caplog.text == ""


def test_the_check_is_shown_as_a_phase_of_loading() -> None:
    said: list[tuple[str, int, int]] = []
    progress: Callable[[str, int, int], None] = lambda *parts: said.append(parts)  # noqa: E731
    allowed_cards(AUTO, [CARD], DRIVER, progress, Checks())
    assert said == [(PHASE, 0, 0), (PHASE, 100, 100)]
    allowed_cards(AUTO, [dataclasses.replace(CARD)], DRIVER, progress, Checks())
    assert len(said) == 2
