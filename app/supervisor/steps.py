"""Where the engine's process is, how hard its end is asked for, and what comes after it."""

from __future__ import annotations

import enum


class Step(enum.Enum):
    """Where the process is; the phase that people see follows from it and from `/status`."""

    NONE = enum.auto()  # no process
    PREPARING = enum.auto()
    SPAWNING = enum.auto()
    STARTING = enum.auto()  # it runs and has not said where it answers
    ANSWERING = enum.auto()  # it answers, or should
    ENDING = enum.auto()  # it was asked to end
    CLEARING = enum.auto()  # it has ended by itself; the rest of its family is cleared away
    WAITING = enum.auto()  # before the next start after a crash


class Force(enum.IntEnum):
    """How hard the end is asked for."""

    ASKED = 0
    TERMINATED = 1
    KILLED = 2


class After(enum.Enum):
    """What comes when the process is gone."""

    REST = enum.auto()  # STOPPED, or FAILED when there is a reason
    START = enum.auto()
    ADOPTION = enum.auto()  # look for the one that has the port
    BACKOFF = enum.auto()
    FINISH = enum.auto()
