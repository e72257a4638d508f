"""What the rest of the program sees of the engine: one immutable value, without Qt.

STOPPED --start--> STARTING --> LOADING --> READY <--> BUSY
^                  ^            |          |         |
|                  +--- crash --+----------+---------+     (at most twice in five minutes)
+---- STOPPING <---stop---------+----------+---------+
FAILED: the `reason` says why; `start` tries again.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.core.errors import ParameterValue


class Phase(enum.StrEnum):
    """Where the engine is."""

    STOPPED = "stopped"  # no process of it lives
    STARTING = "starting"  # its process was started, or is about to be (again)
    LOADING = "loading"  # it reads the model
    READY = "ready"  # it answers; see `is_loaded`
    BUSY = "busy"  # it works on a request; see `activity`
    STOPPING = "stopping"  # it gives its memory back
    FAILED = "failed"  # see `reason`


class Activity(enum.StrEnum):
    """What a running engine does now."""

    NONE = "none"  # nothing, or it does not run
    READING = "reading"
    THINKING = "thinking"
    ANSWERING = "answering"
    TOOL_CALL = "tool_call"
    RELEASING = "releasing"  # gives the model's memory back and runs on


class ReasonCode(enum.StrEnum):
    """Why the engine does not run; `reason_words.py` has the sentences."""

    OUT_OF_MEMORY = "out_of_memory"
    KILLED = "killed"  # by nobody knows whom; most often the system, for want of memory
    VRAM_IN_USE = "vram_in_use"  # others use the graphics card; the next request tries again
    PORT_IN_USE = "port_in_use"  # params: port, owner, offered
    GPU_DRIVER = "gpu_driver"
    MODEL_DAMAGED = "model_damaged"
    MODEL_MISSING = "model_missing"
    CONFIG_MISSING = "config_missing"
    CONFIG_BROKEN = "config_broken"
    NO_MODEL = "no_model"  # nothing was installed yet
    PROGRAM_BROKEN = "program_broken"  # Python or a package of ours is not there
    PROCESSOR = "processor"  # it has not the instructions that are needed
    NO_ANSWER = "no_answer"  # it was there and said nothing for too long
    START_HUNG = "start_hung"
    WILL_NOT_END = "will_not_end"
    BUSY = "busy"  # the command cannot be obeyed while a request runs
    ENDED_OUTSIDE = "ended_outside"  # somebody else stopped it; no fault
    UNKNOWN = "unknown"  # `detail` is the log's last line


@dataclass(frozen=True, slots=True)
class Reason:
    """Why.

    Attributes:
        code: what kind of reason it is.
        params: values in the sentence.
        detail: the engine's own words (English), or its log's last line; may be empty.
        engine_code: the engine's own, finer code, such as `file_truncated`; may be empty.
    """

    code: ReasonCode
    params: Mapping[str, ParameterValue] = field(default_factory=dict)
    detail: str = ""
    engine_code: str = ""


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """How far loading is; `step` is the engine's short word, such as `weights`."""

    step: str
    done_bytes: int
    total_bytes: int

    @property
    def share(self) -> float:
        """0 to 1."""
        if self.total_bytes <= 0:
            return 0.0
        return min(max(self.done_bytes / self.total_bytes, 0.0), 1.0)


@dataclass(frozen=True, slots=True)
class EngineState:
    """Where the engine is, and why.

    Attributes:
        phase: see `Phase`.
        progress: while LOADING, once the engine has reported some.
        reason: of FAILED; in STARTING: why it has to be started again; in STOPPED: why it ended
            although nobody here asked for it.
        model: name under which the model is served; empty before it is known.
        base_url: such as `http://127.0.0.1:8080` while the engine listens there, else empty.
        activity: what it does now.
        is_loaded: the model is in memory; False in READY means that the next request loads it.
        pid: of the engine's process.
        is_adopted: it ran already and was not started by this program.
        queued: requests that wait.
    """

    phase: Phase = Phase.STOPPED
    progress: LoadProgress | None = None
    reason: Reason | None = None
    model: str = ""
    base_url: str = ""
    activity: Activity = Activity.NONE
    is_loaded: bool = False
    pid: int | None = None
    is_adopted: bool = False
    queued: int = 0

    @property
    def can_answer(self) -> bool:
        """Whether a request would be taken now (and may have to wait for the model)."""
        return bool(self.base_url) and self.phase in {Phase.LOADING, Phase.READY, Phase.BUSY}
