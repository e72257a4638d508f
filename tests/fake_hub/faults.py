"""What can go wrong at the fake hub, and how often."""

from __future__ import annotations

import enum
import threading
from dataclasses import dataclass


class Kind(enum.Enum):
    """A kind of fault."""

    CUT = "cut"  # the line breaks after `after_bytes` of the body
    STALL = "stall"  # nothing comes any more after `after_bytes` of the body
    END_EARLY = "end_early"  # the body ends properly after `after_bytes`, without a length
    WRONG_BYTE = "wrong_byte"  # the byte `after_bytes` of the file is another
    IGNORE_RANGE = "ignore_range"  # 200 and the whole file
    WRONG_RANGE = "wrong_range"  # 206, but of the file's beginning
    OTHER_TOTAL = "other_total"  # 206 of a file that is one byte longer
    TOO_LONG = "too_long"  # more bytes than there should be, without a length
    NO_LENGTH = "no_length"  # the right bytes, without a length
    STATUS = "status"  # `status`, with `retry_after` if given
    LOGIN_PAGE = "login_page"  # 200 and a page


class Where(enum.Enum):
    """Which part of the hub has the fault."""

    LISTING = "listing"
    LOCATION = "location"
    BYTES = "bytes"


@dataclass(slots=True)
class Fault:
    """One fault.

    Attributes:
        path: only for files whose path contains this.
        times: how often it happens; -1: always.
        skip: it begins after so many fitting requests.
    """

    kind: Kind
    where: Where = Where.BYTES
    path: str = ""
    times: int = 1
    skip: int = 0
    after_bytes: int = 0
    status: int = 503
    retry_after: str | None = None


class Faults:
    """The faults that are set; each request takes at most one."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._lock = threading.Lock()

    def add(self, fault: Fault) -> None:
        with self._lock:
            self._faults.append(fault)

    def clear(self) -> None:
        with self._lock:
            self._faults.clear()

    def take(self, where: Where, path: str) -> Fault | None:
        """The fault of this request."""
        with self._lock:
            for fault in self._faults:
                if fault.where is not where or fault.path not in path or fault.times == 0:
                    continue
                if fault.skip:
                    fault.skip -= 1
                    continue
                fault.times -= fault.times > 0
                return fault
        return None
