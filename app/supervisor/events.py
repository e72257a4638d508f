"""What happens to the engine (events), and what is to be done about it (effects). Plain data."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from app.engine_status import EngineStatus
from app.supervisor.state import Reason


class Command(enum.Enum):
    """What a person asks for."""

    START = enum.auto()
    STOP = enum.auto()
    RESTART = enum.auto()
    FREE = enum.auto()
    LOAD = enum.auto()
    QUIT = enum.auto()


@dataclass(frozen=True, slots=True)
class Asked:
    """A person asks for something."""

    command: Command


@dataclass(frozen=True, slots=True)
class Running:
    """An engine of ours that ran already."""

    pid: int
    base_url: str
    instance: str


@dataclass(frozen=True, slots=True)
class Prepared:
    """The config was read. An engine that runs already is adopted.

    Attributes:
        attempt: of the `Prepare` that this answers.
        saves_sessions: ending may take minutes, because conversations are written.
    """

    attempt: int
    running: Running | None = None
    saves_sessions: bool = False


@dataclass(frozen=True, slots=True)
class PrepareFailed:
    """The engine cannot even be started."""

    attempt: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Spawned:
    """The engine's process runs."""

    pid: int


@dataclass(frozen=True, slots=True)
class SpawnFailed:
    """The system refuses to start it."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class Listening:
    """The engine's process `pid` said where it answers."""

    pid: int
    base_url: str


@dataclass(frozen=True, slots=True)
class Heard:
    """It answered."""

    status: EngineStatus


@dataclass(frozen=True, slots=True)
class Missed:
    """It was asked and did not answer. `cpu_s`: processor time that its process has used so far."""

    cpu_s: float | None


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time has passed: the machine's due time has come."""

    cpu_s: float | None


@dataclass(frozen=True, slots=True)
class Exited:
    """Its process has ended.

    Attributes:
        pid: which; news of an earlier one may come late.
        status: exit status, None for an adopted one.
        reason: what the exit status and the log say.
    """

    pid: int
    status: int | None
    reason: Reason


@dataclass(frozen=True, slots=True)
class Gone:
    """No process of it lives any more."""


class Errand(enum.Enum):
    """Requests that the machine sends."""

    SHUTDOWN = enum.auto()
    UNLOAD = enum.auto()
    LOAD = enum.auto()


@dataclass(frozen=True, slots=True)
class ErrandDone:
    """A request was answered; `refusal` says why it was refused."""

    errand: Errand
    refusal: Reason | None = None


@dataclass(frozen=True, slots=True)
class Suspending:
    """The PC is about to sleep."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """It has slept. Not announced: only the clock tells."""

    was_announced: bool


Event = (
    Asked
    | Prepared
    | PrepareFailed
    | Spawned
    | SpawnFailed
    | Listening
    | Heard
    | Missed
    | Ticked
    | Exited
    | Gone
    | ErrandDone
    | Suspending
    | Resumed
)


@dataclass(frozen=True, slots=True)
class Prepare:
    """Read the config and look for an engine that runs; answered with the same number.

    `seeks_other`: the port was in use a moment ago; wait for the engine of ours that may have it.
    """

    attempt: int
    seeks_other: bool = False


@dataclass(frozen=True, slots=True)
class Spawn:
    """Start the process."""


@dataclass(frozen=True, slots=True)
class Adopt:
    """Watch a process that runs."""

    running: Running


@dataclass(frozen=True, slots=True)
class Send:
    """Send a request; answered by `ErrandDone`."""

    errand: Errand


@dataclass(frozen=True, slots=True)
class Terminate:
    """Ask the process to end by a signal."""


@dataclass(frozen=True, slots=True)
class Kill:
    """End it and all of its children at once."""


@dataclass(frozen=True, slots=True)
class WatchGone:
    """Say `Gone` when no process of it lives any more."""


@dataclass(frozen=True, slots=True)
class LookNow:
    """Ask for the status without waiting for the next time."""


@dataclass(frozen=True, slots=True)
class AllowSleep:
    """The PC may go to sleep now."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """Tell the person why a command is not obeyed."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class Finish:
    """Everything has ended after `QUIT`."""


Effect = (
    Prepare
    | Spawn
    | Adopt
    | Send
    | Terminate
    | Kill
    | WatchGone
    | LookNow
    | AllowSleep
    | Refuse
    | Finish
)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long is waited for what, in seconds.

    Attributes:
        start_quiet_s: a start that neither answers nor computes for so long hangs.
        start_s: a start may take so long at all.
        quiet_s, silence_s: the same for an engine that has answered before.
        pulse_s: how often a start is looked at.
        shutdown_s: for a clean end: ten seconds for running answers, and the memory.
        saving_s: added where conversations are written at the end.
        terminate_s: after a signal, before force.
        killed_s: after force; a process that is still there then is said.
        leftovers_s: the rest of a family may take so long when its head has ended.
        backoff_s: before the first and the second start after a crash.
        crash_window_s, max_crashes: so many crashes in this time are too many.
    """

    start_quiet_s: float = 120.0
    start_s: float = 900.0
    quiet_s: float = 60.0
    silence_s: float = 300.0
    pulse_s: float = 2.0
    shutdown_s: float = 25.0
    saving_s: float = 130.0
    terminate_s: float = 15.0
    killed_s: float = 15.0
    leftovers_s: float = 2.0
    backoff_s: tuple[float, ...] = (1.0, 5.0)
    crash_window_s: float = 300.0
    max_crashes: int = field(default=3)
