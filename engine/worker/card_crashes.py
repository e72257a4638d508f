"""Leaves out graphics cards on which the model process crashes again and again while it computes.

A crash takes the process with it that knew what it did, so the front counts: whose process ended amid an
answer, for a reason that may be the card's or its driver's (`death.py`). After the second time within ten
minutes the cards lose the pass of their check, as those lose it that hang (`card_gate.distrust`): the next
process computes without them, and `card_notice` says why.

    crashes = CardCrashes()
    crashes.note(ready.cards)     # once per crash
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable

from engine.core.card_record import CARD_CRASHED, read_records, take_pass_away
from engine.core.errors import EngineError
from engine.core.settings import load_settings

logger = logging.getLogger(__name__)

MOST_CRASHES = 2
WITHIN_S = 600.0


class CardCrashes:
    """The crashes of this engine's processes, by the cards on which they computed."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """None so far.

        Args:
            clock: seconds.
        """
        self._clock = clock
        self._crashed_at: dict[str, list[float]] = {}

    def note(self, keys: Iterable[str]) -> None:
        """A process crashed; cards with which it was too often are not used from the next one on.

        Which of several cards it was cannot be told: the crash counts for each.

        Args:
            keys: of the records of the cards that computed; those asked for by name have none to lose.
        """
        now = self._clock()
        for key in keys:
            recent = [at for at in self._crashed_at.get(key, ()) if now - at <= WITHIN_S]
            self._crashed_at[key] = [*recent, now]
            if len(recent) + 1 >= MOST_CRASHES:
                del self._crashed_at[key]
                _leave_out(key)


def _leave_out(key: str) -> None:
    minutes = round(WITHIN_S / 60)
    why = (
        f"the model process ended unexpectedly {MOST_CRASHES} times within {minutes} minutes while it computed "
        "on it; install the newest driver, then run `engine card-check`."
    )
    params = {"crashes": MOST_CRASHES, "minutes": minutes}
    try:
        data_dir = load_settings().data_dir
    except EngineError as error:
        logger.warning("that a graphics card crashes cannot be remembered: %s", error)
        return
    for record in read_records(data_dir):
        if record.key == key and record.is_passed:
            take_pass_away(data_dir, record, CARD_CRASHED, why, params)
