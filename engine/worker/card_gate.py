"""Which of this PC's cards may be used: those that passed their check here, checked now if need be.

A card whose check is not known yet is checked before anything else touches CUDA in this process: a
driver that hangs then hangs another one. With `ops` = `cuda` nothing is checked: a card that is asked
for by name is used, whatever an old record says, and a warning tells it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.core.card_record import (
    CARD_STALLED,
    CardRecord,
    find_record,
    has_card_packages,
    keep_record,
    take_pass_away,
)
from engine.core.config import OpsName, RunConfig
from engine.core.errors import EngineError
from engine.core.gpu import Gpu
from engine.core.operating_system import setup_command
from engine.core.settings import load_settings
from engine.worker.card_check import StepProgress, check_card

logger = logging.getLogger(__name__)

PHASE = "card check"  # of loading, as its progress is called


ByteProgress = Callable[[str, int, int], None]  # as in loading.py: (phase, done, total)
_trusted: dict[int, CardRecord] = {}  # of the cards that this process uses, by their number

Check = Callable[[Gpu, str, StepProgress | None], CardRecord]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A card that is not used.

    Attributes:
        card: which one.
        sentence: why, and the way out.
    """

    card: Gpu
    sentence: str


@dataclass(frozen=True, slots=True)
class Gate:
    """The answer.

    Attributes:
        passed: cards that may be used.
        refused: the others.
    """

    passed: tuple[Gpu, ...] = ()
    refused: tuple[Refusal, ...] = ()

    @property
    def notice(self) -> str:
        """Why cards that are there are not used, in sentences; empty when all are."""
        return " ".join(refusal.sentence for refusal in self.refused)


def allowed_cards(
    config: RunConfig,
    candidates: Sequence[Gpu],
    driver: str,
    progress: ByteProgress | None = None,
    check: Check = check_card,
) -> Gate:
    """Which of these cards may be used.

    Args:
        config: how the card was asked for.
        candidates: cards that are wanted.
        driver: version of their driver.
        progress: told how far a check is, as phase `card check`, in steps.
        check: makes one.
    """
    _trusted.clear()
    if not candidates:
        return Gate()
    data_dir = _data_dir()
    if config.ops is OpsName.CUDA:
        for card in candidates:
            _warn_of(card, driver, data_dir)
        return Gate(tuple(candidates))
    passed, refused = [], []
    for card in candidates:
        lacking = missing_packages(card, driver)
        if lacking:
            refused.append(Refusal(card, lacking))
            continue
        record = find_record(data_dir, card, driver) if data_dir is not None else None
        if record is None:
            record = check_and_keep(card, driver, data_dir, _steps(progress), check)
        if record.is_passed:
            passed.append(card)
            _trusted[card.index] = record
        else:
            refused.append(Refusal(card, record.sentence))
    return Gate(tuple(passed), tuple(refused))


def now_compute(indices: Collection[int]) -> None:
    """Of the cards that were allowed only these compute: no other can hang."""
    for index in _trusted.keys() - set(indices):
        del _trusted[index]


def trusted_keys() -> tuple[str, ...]:
    """Of the records of the cards that compute here; none of those that were asked for by name."""
    return tuple(record.key for record in _trusted.values())


def distrust(silent_s: float) -> None:
    """Take the pass from the cards that were allowed here: one of them hangs while it computes.

    Which one cannot be told: the driver answers no question any more, so none is asked. The next start
    uses the processor, until the driver or the version changes or somebody has the cards checked again.
    Cards that were asked for by name have no pass to lose.
    """
    data_dir = _data_dir()
    if data_dir is None:
        return
    seconds = round(silent_s)
    why = (
        f"it did not answer for {seconds} seconds while it computed; restart the PC, install the newest "
        "driver, then run `engine card-check`."
    )
    for record in _trusted.values():
        take_pass_away(data_dir, record, CARD_STALLED, why, {"seconds": seconds})


def check_and_keep(
    card: Gpu,
    driver: str,
    data_dir: Path | None,
    on_step: StepProgress | None = None,
    check: Check = check_card,
) -> CardRecord:
    """Check a card now, and remember what it came to where that would be the same again.

    Args:
        card: which one.
        driver: version of its driver.
        data_dir: where records are kept; None: nowhere.
        on_step: told how many of how many steps are done.
        check: makes the check.
    """
    record = check(card, driver, on_step)
    if data_dir is not None and record.is_lasting:
        try:
            keep_record(data_dir, record)
        except (EngineError, OSError) as error:
            logger.warning(
                "the check of %s will be repeated at the next start: %s", card.name, error
            )
    return record


def _warn_of(card: Gpu, driver: str, data_dir: Path | None) -> None:
    record = find_record(data_dir, card, driver) if data_dir is not None else None
    if record is None:
        logger.warning(
            "%s was not checked on this PC yet and is used because it was asked for by name; "
            "`engine doctor` checks it.",
            card.name,
        )
    elif not record.is_passed:
        logger.warning(
            "%s is used because it was asked for by name, though its check failed on %s: %s",
            card.name,
            record.checked_at,
            record.sentence,
        )


def missing_packages(card: Gpu, driver: str) -> str:
    """Why a card cannot even be checked, in a sentence: packages; empty when they are there."""
    if has_card_packages(driver):
        return ""
    return (
        f"{card.name} is not used: the packages for NVIDIA cards are not installed; run {setup_command()} "
        "again."
    )


def _steps(progress: ByteProgress | None) -> StepProgress | None:
    if progress is None:
        return None
    progress(PHASE, 0, 0)
    return lambda done, total: progress(PHASE, done, total)


def _data_dir() -> Path | None:
    try:
        return load_settings().data_dir
    except EngineError as error:  # said by whoever needs the settings
        logger.warning("earlier checks of graphics cards do not count: %s", error)
        return None
