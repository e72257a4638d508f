"""What `/status` and `/metrics` say, typed. A key that an engine does not report is None, or empty.

Tolerant on purpose: an older or newer engine may report less or more, and whatever is shown must then
be left out, not guessed.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.core.errors import ParameterValue

JsonObject = Mapping[str, object]

# What `/metrics` puts before each name.
PREFIX = "llm_"


class ServerState(enum.StrEnum):
    """The words of `/status`; OTHER for one that this version does not know."""

    UNLOADED = "unloaded"
    LOADING = "loading"
    IDLE = "idle"
    READING = "reading"
    THINKING = "thinking"
    ANSWERING = "answering"
    TOOL_CALL = "tool_call"
    FAILED = "failed"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Loading:
    """How far a load is."""

    phase: str
    done_bytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a load failed: the engine's code, its sentence, and the values in it."""

    code: str
    message: str
    params: Mapping[str, ParameterValue]


@dataclass(frozen=True, slots=True)
class RunningRequest:
    """A request that runs."""

    request_id: str
    protocol: str
    prompt_tokens: int
    prompt_read: int
    cached_tokens: int
    generated: int
    max_tokens: int
    elapsed_s: float
    tokens_per_s: float


@dataclass(frozen=True, slots=True)
class WaitingRequest:
    """A request in the queue; position 1 is next."""

    request_id: str
    position: int
    waited_s: float


@dataclass(frozen=True, slots=True)
class LastTimings:
    """Counts and milliseconds of the request that ended last."""

    prompt_tokens: int
    cached_tokens: int
    prompt_ms: float
    generated_tokens: int
    generated_ms: float
    draft_tokens: int
    draft_accepted: int

    @property
    def tokens_per_s(self) -> float | None:
        """Generation speed; None when nothing can be said."""
        if self.generated_ms <= 0 or self.generated_tokens < 2:
            return None
        return (self.generated_tokens - 1) * 1000 / self.generated_ms


@dataclass(frozen=True, slots=True)
class WarmSessions:
    """Conversations that can be gone on with."""

    sessions: int
    tokens: int
    num_bytes: int


@dataclass(frozen=True, slots=True)
class Limits:
    """What the engine takes at most; None where it says nothing."""

    body_mib: int | None = None
    queue_max: int | None = None
    parallel: int | None = None
    context: int | None = None


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """One answer of `/status`.

    Attributes:
        state: one word for what the engine does.
        instance: the nonce of its `engine.json`.
        ops: implementation of the operations, such as `host avx512`; None while not loaded.
        card_notice: why a graphics card of this PC is not used, in the engine's sentences; may be empty.
        restarts: how often the model process was started again after a crash.
        raw: the whole answer, for what this version does not know.
    """

    state: ServerState
    instance: str = ""
    model: str = ""
    ops: str | None = None
    card_notice: str = ""
    is_loaded: bool = False
    loading: Loading | None = None
    failure: Failure | None = None
    restarts: int = 0
    queued: int = 0
    waiting: tuple[WaitingRequest, ...] = ()
    requests: tuple[RunningRequest, ...] = ()
    last_timings: LastTimings | None = None
    warm: WarmSessions | None = None
    uptime_s: float | None = None
    idle_unload_s: float | None = None
    limits: Limits = field(default_factory=Limits)
    raw: JsonObject = field(default_factory=dict, repr=False, compare=False)

    @property
    def is_working(self) -> bool:
        """Whether a request runs or waits."""
        return bool(self.requests) or self.queued > 0


def parse_status(content: JsonObject) -> EngineStatus | None:
    """The status in an answer; None when it is no status of an engine."""
    word, instance = content.get("state"), content.get("instance")
    if not isinstance(word, str) or not isinstance(instance, str):
        return None
    known = {state.value for state in ServerState}
    limits = _object(content, "limits")
    return EngineStatus(
        state=ServerState(word) if word in known else ServerState.OTHER,
        instance=instance,
        model=_text(content, "model"),
        ops=_text(content, "ops") or None,
        card_notice=_text(content, "card_notice"),
        is_loaded=content.get("loaded") is True,
        loading=_loading(content.get("loading")),
        failure=_failure(content.get("error")),
        restarts=_count(content, "restarts"),
        queued=_count(content, "queued"),
        waiting=tuple(_waiting(entry) for entry in _objects(content, "waiting")),
        requests=tuple(_running(entry) for entry in _objects(content, "requests")),
        last_timings=_timings(content.get("last_timings")),
        warm=_warm(content.get("warm")),
        uptime_s=_number_or_none(content, "uptime_s"),
        idle_unload_s=_number_or_none(content, "idle_unload_s"),
        limits=Limits(
            body_mib=_count_or_none(limits, "body_mib"),
            queue_max=_count_or_none(limits, "queue_max"),
            parallel=_count_or_none(limits, "parallel"),
            context=_count_or_none(limits, "n_ctx"),
        ),
        raw=content,
    )


@dataclass(frozen=True, slots=True)
class Histogram:
    """Observations: how many, their sum, and how many were at most so large (`inf` is the last)."""

    count: int
    total: float
    buckets: tuple[tuple[float, int], ...]

    def quantile(self, share: float) -> float | None:
        """The bound below which that share of the observations lies; None without any."""
        for bound, number in self.buckets:
            if self.count and number >= share * self.count:
                return bound if math.isfinite(bound) else None
        return None


@dataclass(frozen=True, slots=True)
class EngineMetrics:
    """One answer of `/metrics?format=json`; names are without `llm_`."""

    values: Mapping[str, float]
    labelled: Mapping[str, tuple[tuple[Mapping[str, str], float], ...]]
    histograms: Mapping[str, Histogram]

    def value(self, name: str) -> float | None:
        """A counter or gauge; None when the engine does not report it."""
        return self.values.get(name)

    def total(self, name: str) -> float | None:
        """A counter with labels, summed over them; None when it is not reported."""
        entries = self.labelled.get(name)
        return None if entries is None else sum(value for _, value in entries)


def parse_metrics(content: JsonObject) -> EngineMetrics:
    """The metrics in an answer."""
    values: dict[str, float] = {}
    labelled: dict[str, tuple[tuple[Mapping[str, str], float], ...]] = {}
    histograms: dict[str, Histogram] = {}
    for full_name, entry in content.items():
        name = full_name.removeprefix(PREFIX)
        if isinstance(entry, list):
            labelled[name] = tuple(_labelled(part) for part in entry if isinstance(part, dict))
        elif isinstance(entry, dict):
            histograms[name] = _histogram(entry)
        elif (number := _as_number(entry)) is not None:
            values[name] = number
    return EngineMetrics(values, labelled, histograms)


def _labelled(entry: JsonObject) -> tuple[Mapping[str, str], float]:
    labels = {key: str(value) for key, value in entry.items() if key != "value"}
    return labels, _number(entry, "value")


def _histogram(entry: JsonObject) -> Histogram:
    buckets: list[tuple[float, int]] = []
    for name, number in _object(entry, "buckets").items():
        try:
            bound = float(name)  # "+Inf" too
        except ValueError:
            continue
        buckets.append((bound, int(_as_number(number) or 0)))
    return Histogram(_count(entry, "count"), _number(entry, "sum"), tuple(sorted(buckets)))


def _loading(entry: object) -> Loading | None:
    if not isinstance(entry, dict):
        return None
    return Loading(_text(entry, "phase"), _count(entry, "done_bytes"), _count(entry, "total_bytes"))


def _failure(entry: object) -> Failure | None:
    if not isinstance(entry, dict):
        return None
    params: dict[str, ParameterValue] = {
        str(key): value
        for key, value in _object(entry, "params").items()
        if value is None or isinstance(value, str | int | float | bool)
    }
    return Failure(_text(entry, "code"), _text(entry, "message"), params)


def _running(entry: JsonObject) -> RunningRequest:
    return RunningRequest(
        request_id=_text(entry, "request_id"),
        protocol=_text(entry, "protocol"),
        prompt_tokens=_count(entry, "prompt_tokens"),
        prompt_read=_count(entry, "prompt_read"),
        cached_tokens=_count(entry, "cached_tokens"),
        generated=_count(entry, "generated"),
        max_tokens=_count(entry, "max_tokens"),
        elapsed_s=_number(entry, "elapsed_s"),
        tokens_per_s=_number(entry, "tokens_per_s"),
    )


def _waiting(entry: JsonObject) -> WaitingRequest:
    return WaitingRequest(
        _text(entry, "request_id"), _count(entry, "position"), _number(entry, "waited_s")
    )


def _timings(entry: object) -> LastTimings | None:
    if not isinstance(entry, dict):
        return None
    return LastTimings(
        prompt_tokens=_count(entry, "prompt_tokens"),
        cached_tokens=_count(entry, "cached_tokens"),
        prompt_ms=_number(entry, "prompt_ms"),
        generated_tokens=_count(entry, "generated_tokens"),
        generated_ms=_number(entry, "generated_ms"),
        draft_tokens=_count(entry, "draft_tokens"),
        draft_accepted=_count(entry, "draft_accepted"),
    )


def _warm(entry: object) -> WarmSessions | None:
    if not isinstance(entry, dict):
        return None
    return WarmSessions(_count(entry, "sessions"), _count(entry, "tokens"), _count(entry, "bytes"))


def _object(content: JsonObject, key: str) -> JsonObject:
    value = content.get(key)
    return value if isinstance(value, dict) else {}


def _objects(content: JsonObject, key: str) -> list[JsonObject]:
    value = content.get(key)
    return [part for part in value if isinstance(part, dict)] if isinstance(value, list) else []


def _text(content: JsonObject, key: str) -> str:
    value = content.get(key)
    return value if isinstance(value, str) else ""


def _as_number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _number_or_none(content: JsonObject, key: str) -> float | None:
    return _as_number(content.get(key))


def _number(content: JsonObject, key: str) -> float:
    return _as_number(content.get(key)) or 0.0


def _count_or_none(content: JsonObject, key: str) -> int | None:
    number = _as_number(content.get(key))
    return None if number is None else int(number)


def _count(content: JsonObject, key: str) -> int:
    return _count_or_none(content, key) or 0
