"""What checks of graphics cards came to, kept in the data folder, so that none is checked twice for nothing.

A record counts for one card with one driver and one state of the code that computes on cards: another
driver, another version of Stratum or of CuPy, or a moved card, and the card is checked again. A file that
is broken or missing means that nothing was checked yet. How a check is made: `engine/worker/card_check.py`.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
import logging
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from engine import __version__
from engine.core.emulated_cards import EMULATED_DRIVER
from engine.core.errors import EngineError, ParameterValue
from engine.core.files import read_json, write_json
from engine.core.gpu import Gpu, GpuReport
from engine.core.note import Note

logger = logging.getLogger(__name__)

RECORD_FORMAT: Literal[1] = 1
FILE_NAME = "card-checks.json"
_MOST_RECORDS = 16
_CUDA_PACKAGE = "cupy_backends"

_ENGINE = Path(__file__).resolve().parents[1]
_CODE = ("kernels/cuda/*.cu", "kernels/cuda/*.cuh", "kernels/*.py", "ops/*.py", "device/*.py")
_PACKAGES = ("cupy-cuda12x", "cupy-cuda13x", "nvidia-cuda-nvrtc-cu12", "nvidia-cuda-nvrtc")
# Failures of the check itself; every other is the sentence of what could not use the card.
CARD_WRONG, CARD_HANGS, CARD_CHECK_ENDED = "card_wrong", "card_hangs", "card_check_ended"
CARD_STALLED = "card_stalled"  # it passed, and hung later while it computed
CARD_CRASHED = "card_crashed"  # it passed, and processes that computed on it crashed
_LOST_PASS = frozenset({CARD_STALLED, CARD_CRASHED})
_OWN_CODES = _LOST_PASS | {CARD_WRONG, CARD_HANGS, CARD_CHECK_ENDED}
CARD_CHECK_KILLED = "card_check_killed"  # by the system, whose memory ran out, or by somebody
# What may be otherwise at the next start without anything having been changed: a game that took the
# card's memory or the machine's, a card that was busy or fell off the bus, packages that are installed later.
_PASSING_CODES = frozenset(
    {"gpu_out_of_memory", "gpu_lost", "gpu_packages_missing", CARD_CHECK_KILLED}
)


class CardRecord(BaseModel):
    """What one check came to.

    Attributes:
        key: card, driver and code, as `record_key` writes them.
        card: its name.
        is_passed: the card computes what the reference computes.
        code: of the failure; empty when it passed.
        sentence: for a person; empty when it passed.
        params: values of the sentence.
        num_checks: comparisons that were made.
        seconds: that it took.
        checked_at: date and time, with its zone.
    """

    model_config = ConfigDict(frozen=True)

    key: str
    card: str
    is_passed: bool
    code: str = ""
    sentence: str = ""
    params: dict[str, ParameterValue] = {}
    num_checks: int = 0
    seconds: float = 0.0
    checked_at: str = ""

    @property
    def is_lasting(self) -> bool:
        """Whether it would come to the same at the next start."""
        return self.code not in _PASSING_CODES

    @property
    def has_lost_pass(self) -> bool:
        """Whether the card passed its check, and failed later while it computed."""
        return self.code in _LOST_PASS

    @property
    def note(self) -> Note:
        """Why it did not pass, for translation."""
        if self.code in _OWN_CODES:
            return Note(self.code, self.params)
        return Note("card_refused", {"card": self.card, "reason": self.params.get("reason")})


def records_path(data_dir: Path) -> Path:
    """The file that keeps them."""
    return data_dir / FILE_NAME


def record_key(card: Gpu, driver: str) -> str:
    """What a check of a card is valid for, in words."""
    which = card.uuid or f"number {card.index}"
    mib = card.vram_total_bytes >> 20
    return f"{card.name}, {which}, {mib} MiB | driver {driver or '?'} | {code_state()}"


@functools.cache
def code_state() -> str:
    """The state of all code that computes on cards: version, a hash of the sources, packages."""
    digest = hashlib.sha256()
    for path in _code_files():
        digest.update(f"{path.name}\n".encode() + path.read_bytes().replace(b"\r\n", b"\n"))
    packages = ", ".join(_installed(_PACKAGES))
    return f"Stratum {__version__}, {digest.hexdigest()[:16]}, {packages or 'no packages'}"


def _code_files() -> Iterator[Path]:
    for pattern in _CODE:
        yield from sorted(_ENGINE.glob(pattern))


def _installed(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        try:
            yield f"{name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            continue


def read_records(data_dir: Path) -> tuple[CardRecord, ...]:
    """All that are kept; none when there is no file or it cannot be used (that is logged)."""
    path = records_path(data_dir)
    if not path.exists():
        return ()
    try:
        entries = read_json(path, RECORD_FORMAT).get("checks")
        if not isinstance(entries, list):
            entries = []
        return tuple(CardRecord.model_validate(entry) for entry in entries)
    except (EngineError, OSError, ValidationError) as error:
        logger.warning("earlier checks of graphics cards do not count: %s", error)
        return ()


def find_record(data_dir: Path, card: Gpu, driver: str) -> CardRecord | None:
    """What is known of a card with this driver and this code; None when it was not checked yet."""
    records = read_records(data_dir)
    if not records:
        return None
    key = record_key(card, driver)
    return next((record for record in records if record.key == key), None)


def keep_record(data_dir: Path, record: CardRecord) -> None:
    """Write a record in the place of an earlier one of the same key; the oldest go.

    Raises:
        ResourceError: the folder cannot be written.
    """
    others = [other for other in read_records(data_dir) if other.key != record.key]
    kept = [record, *others][:_MOST_RECORDS]
    content = [entry.model_dump(mode="json") for entry in kept]
    write_json(records_path(data_dir), {"format": RECORD_FORMAT, "checks": content})


def take_pass_away(
    data_dir: Path, record: CardRecord, code: str, why: str, params: Mapping[str, ParameterValue]
) -> None:
    """Remember that a card that passed its check is not to be used; that it cannot be written is logged.

    Args:
        data_dir: where records are kept.
        record: of the check that it passed.
        code: of what happened since.
        why: the rest of a sentence, with the way out.
        params: its values.
    """
    sentence = f"{record.card} is not used: {why}"
    failed = {"is_passed": False, "code": code, "sentence": sentence}
    said = {"card": record.card, **params}
    try:
        keep_record(data_dir, record.model_copy(update={**failed, "params": said}))
    except (EngineError, OSError) as error:
        logger.warning("that %s failed cannot be remembered: %s", record.card, error)


def has_card_packages(driver: str) -> bool:
    """Whether the packages are there without which no card with this driver can be used."""
    return driver == EMULATED_DRIVER or importlib.util.find_spec(_CUDA_PACKAGE) is not None


def card_troubles(data_dir: Path, report: GpuReport) -> dict[int, Note]:
    """What is known against cards of this PC, by their numbers: missing packages, a check that failed."""
    troubles = {}
    for card in report.cards:
        if not has_card_packages(report.driver):
            troubles[card.index] = Note("gpu_packages_missing", {"card": card.name})
            continue
        record = find_record(data_dir, card, report.driver)
        if record is not None and not record.is_passed:
            troubles[card.index] = record.note
    return troubles
