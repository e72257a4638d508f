"""How a worker's end is said in plain words."""

from __future__ import annotations

import signal
from collections.abc import Collection

from engine.core.errors import EngineError

# NTSTATUS values with which Windows ends a process; seen as its exit code.
_WINDOWS_REASONS = {
    0xC0000005: "crashed (access violation)",
    0xC0000006: "could not read its model file any more: the drive is gone or damaged",
    0xC0000017: "was ended because memory ran out",
    0xC000001D: "met an instruction that this processor does not have",
    0xC000012D: "was ended because memory ran out",
    0xC000013A: "was ended from outside",
}
_SIGNAL_REASONS = {
    "SIGKILL": "was killed, most likely by the system because memory ran out",
    "SIGTERM": "was ended from outside",
    "SIGSEGV": "crashed (SIGSEGV)",
    "SIGABRT": "crashed (SIGABRT)",
    "SIGFPE": "crashed (SIGFPE)",
    "SIGBUS": "could not read its model file any more: the file was changed or the drive failed",
    "SIGILL": "met an instruction that this processor does not have",
}
# Ends that say nothing of what the process did: somebody wanted them, or memory was short just then.
_OUTSIDE_SIGNALS = frozenset({"SIGKILL", "SIGTERM", "SIGINT", "SIGHUP"})
_OUTSIDE_STATUSES = frozenset({0xC0000017, 0xC000012D, 0xC000013A})
# Ends whose cause is known and no graphics card: the model's file, or an old processor.
_OTHER_SIGNALS = frozenset({"SIGBUS", "SIGILL"})
_OTHER_STATUSES = frozenset({0xC0000006, 0xC000001D})
_CARD_CODES = frozenset({"gpu_failed", "gpu_lost"})  # of a worker's last word


class WorkerDied(EngineError):  # noqa: N818  # an event more than a mistake
    """The model process is gone; what it was computing is lost."""

    code = "engine_failed"


class WorkerFailed(EngineError):  # noqa: N818  # the same
    """The model process said why it cannot load or go on; `code` and `params` are its own."""

    code = "load_failed"


def exit_reason(returncode: int) -> str:
    """What an exit status means, as the rest of a sentence about the process.

    >>> exit_reason(-9)
    'was killed, most likely by the system because memory ran out'
    >>> exit_reason(3)
    'ended unexpectedly with exit status 3'
    """
    if returncode < 0:
        try:
            name = signal.Signals(-returncode).name
        except ValueError:
            name = f"signal {-returncode}"
        return _SIGNAL_REASONS.get(name, f"was ended by {name}")
    reason = _WINDOWS_REASONS.get(returncode)
    return reason or f"ended unexpectedly with exit status {returncode}"


def is_from_outside(returncode: int) -> bool:
    """Whether somebody ended the process, or the system for lack of memory: the next try may well succeed.

    >>> is_from_outside(-9), is_from_outside(-11)
    (True, False)
    """
    return _is_one_of(returncode, _OUTSIDE_STATUSES, _OUTSIDE_SIGNALS)


def may_be_the_card(returncode: int, fault: EngineError | None) -> bool:
    """Whether a process that computed on a graphics card may have ended for the card's or its driver's sake.

    Args:
        returncode: its exit status.
        fault: its own last word, or what was seen of it; None without any.

    >>> may_be_the_card(-11, None), may_be_the_card(-9, None)
    (True, False)
    """
    if fault is not None:
        return isinstance(fault, WorkerFailed) and fault.code in _CARD_CODES
    is_other = _is_one_of(returncode, _OTHER_STATUSES, _OTHER_SIGNALS)
    return returncode != 0 and not is_other and not is_from_outside(returncode)


def _is_one_of(returncode: int, statuses: Collection[int], signals: Collection[str]) -> bool:
    if returncode >= 0:
        return returncode in statuses
    names = {int(getattr(signal, name)) for name in signals if hasattr(signal, name)}
    return -returncode in names


def died(reason: str, returncode: int | None = None) -> WorkerDied:
    """The error for a worker whose process `reason` (a rest of a sentence)."""
    return WorkerDied(
        f"The model process {reason}. It is started again for the next request; the log says more.",
        params={"reason": reason, "exit_status": returncode},
    )
