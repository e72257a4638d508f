"""The switch "start at login"; the system's own list of such programs is where the truth is.

The choice is noted in `settings.json` too, so that an update of the program knows it.
"""

from __future__ import annotations

import logging

from app.person_settings import PersonSettings
from app.program_folder import PROGRAM_DIR
from engine.core.errors import EngineError
from engine.core.login_start import is_portable, set_login_start, starts_at_login

logger = logging.getLogger(__name__)


def can_be_changed() -> bool:
    """Whether there is such a switch: a portable copy changes nothing of the system."""
    return not is_portable()


def is_on() -> bool:
    """Whether the system starts Stratum when this person logs in."""
    return can_be_changed() and starts_at_login()


def set_on(settings: PersonSettings, *, is_on: bool) -> None:
    """Start at login from now on, or no longer.

    Raises:
        ResourceError: the system refuses; nothing is changed then.
    """
    set_login_start(PROGRAM_DIR, is_on=is_on)
    logger.info("start at login: %s", "on" if is_on else "off")
    try:
        before = settings.reread()
        content = before.model_dump(mode="json") | {"starts_at_login": is_on}
        settings.put(type(before).model_validate(content))
    except EngineError as error:  # the system has it; only the note of it is missing
        logger.warning("the choice is not noted in the settings: %s", error)
