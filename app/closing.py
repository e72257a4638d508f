"""What closing the main window does. A table, because it was got wrong by so many programs."""

from __future__ import annotations

import enum


class Closing(enum.StrEnum):
    """What happens."""

    HIDE = "hide"  # the sign beside the clock stays
    QUIT = "quit"
    ASK = "ask"  # something is being answered, and quitting would cut it off


def what_closing_does(*, has_sign: bool, closes_to_tray: bool, is_busy: bool) -> Closing:
    """The answer.

    Args:
        has_sign: there is a sign beside the clock by which the window can be had back.
        closes_to_tray: the person's switch.
        is_busy: the engine answers somebody.
    """
    if has_sign and closes_to_tray:
        return Closing.HIDE
    return Closing.ASK if is_busy else Closing.QUIT
