"""One streamed answer of `/v1/chat/completions`, read in a thread of its own.

    reading = AnswerReading(http, make_body)
    reading.start()
    for event in reading.take(): ...      # on the main thread, as often as it likes
    reading.cancel()

The thread turns server-sent events into the events below; neighbouring parts of text become one, so what
waits for a slow reader stays small in number. Knows no conversation and no Qt.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import requests

from app.engine_http import EngineHttp, EngineHttpError
from engine.core.errors import EngineError, ParameterValue

logger = logging.getLogger(__name__)

JsonObject = dict[str, object]

PATH = "/v1/chat/completions"
# The engine sends a sign of life at least once a minute.
SILENCE_S = 150.0
# After a cancellation the engine ends the stream itself, with the counts; not for ever.
CANCEL_GRACE_S = 2.0


@dataclass(frozen=True, slots=True)
class Admitted:
    """The engine has taken the request."""

    request_id: str


@dataclass(frozen=True, slots=True)
class Began:
    """The request has its turn, and the model is in memory."""


@dataclass(frozen=True, slots=True)
class PromptProgress:
    """How far the prompt has been read; `read` includes what was remembered."""

    total: int
    cached: int
    read: int


@dataclass(frozen=True, slots=True)
class Grown:
    """Parts of the answer, or of its thinking."""

    is_thinking: bool
    pieces: list[str]


@dataclass(frozen=True, slots=True)
class Counted:
    """Tokens written so far."""

    num_tokens: int


@dataclass(frozen=True, slots=True)
class ToolNews:
    """What the engine says about a tool call: `phase` start, ask, call, result or limit."""

    phase: str
    data: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class CallGrown:
    """A call of a tool that is nobody's here, as the model writes it."""

    index: int
    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Sampled:
    """With which values the engine chooses tokens, under its own names."""

    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Finished:
    """The answer is over: `stop`, `length` or `tool_calls`."""

    reason: str


@dataclass(frozen=True, slots=True)
class Usage:
    """The engine's counts, under its own names; sums over all rounds of tools."""

    usage: Mapping[str, object]
    timings: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Ended:
    """The stream is over; with an error if it did not end well. Nothing comes after it."""

    error: EngineError | None = None


Event = (
    Admitted
    | Began
    | PromptProgress
    | Grown
    | Counted
    | ToolNews
    | CallGrown
    | Sampled
    | Finished
    | Usage
    | Ended
)


class Inbox:
    """Events between the thread that reads them and the one that shows them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: list[Event] = []
        self._count: Counted | None = None

    def put(self, event: Event) -> None:
        """Add an event; a newer count or progress replaces the older one, text joins the text."""
        with self._lock:
            if isinstance(event, Counted):
                self._count = event
                return
            last = self._events[-1] if self._events else None
            if isinstance(event, PromptProgress) and isinstance(last, PromptProgress):
                self._events[-1] = event
            elif (
                isinstance(event, Grown)
                and isinstance(last, Grown)
                and last.is_thinking == event.is_thinking
            ):
                last.pieces.extend(event.pieces)
            else:
                self._events.append(event)

    def take(self) -> list[Event]:
        """All events since the last call, in order; the count comes last, before the end."""
        with self._lock:
            events, self._events = self._events, []
            if self._count is not None:
                is_over = bool(events) and isinstance(events[-1], Ended)
                events.insert(len(events) - is_over, self._count)
                self._count = None
            return events


class AnswerReading:
    """A request under way."""

    def __init__(
        self,
        http: EngineHttp,
        make_body: Callable[[], JsonObject],
        *,
        grace_s: float = CANCEL_GRACE_S,
    ) -> None:
        """Prepare a request.

        Args:
            http: the engine.
            make_body: called in the thread; it may read files and ask the engine. An `EngineError`
                that it raises ends the reading.
            grace_s: how long the engine may take to end the stream after a cancellation.
        """
        self._cancelled = threading.Event()
        self._http = http
        self._make_body = make_body
        self._grace_s = grace_s
        self._inbox = Inbox()
        self._lock = threading.Lock()
        self._request_id = ""
        self._response: requests.Response | None = None
        self._is_over = threading.Event()
        self._wants_answer = False
        self._thread = threading.Thread(target=self._run, name="answer", daemon=True)

    @property
    def is_cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._cancelled.is_set()

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def take(self) -> list[Event]:
        """What has come since the last call."""
        return self._inbox.take()

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end of the thread; whether it came."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def cancel(self) -> None:
        """End the request in the engine, at once and from whatever it is doing; does not block."""
        with self._lock:
            if self.is_cancelled:
                return
            self._cancelled.set()
        _in_thread(self._cancel)

    def answer_now(self) -> None:
        """End the thinking, now or as soon as the engine has the request; does not block."""
        with self._lock:
            self._wants_answer = True
            request_id = self._request_id
        if request_id:
            _in_thread(lambda: self._control("stop_thinking", {}))

    def consent(self, call_id: str, *, allow: bool, always: bool) -> None:
        """Answer the question whether a tool may be called; does not block."""
        body: JsonObject = {"id": call_id, "allow": allow, "always": always}
        _in_thread(lambda: self._control("mcp_consent", body))

    def _control(self, action: str, body: JsonObject) -> bool:
        try:
            self._http.post(f"/v1/requests/{self._request_id}/{action}", body)
        except EngineError as error:  # the request has ended meanwhile, or the engine has
            logger.info("%s was not taken: %s", action, error.code)
            return False
        return True

    def _cancel(self) -> None:
        with self._lock:
            response, request_id = self._response, self._request_id
        if response is None:
            return  # the thread leaves as soon as it has one
        if request_id and self._control("cancel", {}) and self._is_over.wait(self._grace_s):
            return
        _cut(response)

    # -- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._read(self._make_body())
        except EngineError as error:
            ended = Ended(None if self.is_cancelled else error)
        except Exception as error:
            logger.exception("the answer could not be read")
            reason = f"{type(error).__name__}: {error}"
            ended = Ended(
                EngineError(
                    f"Something unexpected happened ({reason}). Try again; the log has the details.",
                    code="unexpected",
                    params={"reason": reason},
                )
            )
        else:
            ended = Ended()
        self._is_over.set()
        self._inbox.put(ended)

    def _read(self, body: JsonObject) -> None:
        if self._cancelled.is_set():
            return
        with self._http.stream(PATH, body, read_timeout_s=SILENCE_S) as response:
            with self._lock:
                self._response = response
                self._request_id = response.headers.get("x-request-id", "")
                is_over, wants_answer = self._cancelled.is_set(), self._wants_answer
            if is_over:
                return  # leaving ends the connection, and by that the request
            self._inbox.put(Admitted(self._request_id))
            self._inbox.put(Sampled(sampling_of(response.headers.get("x-sampling", ""))))
            if wants_answer:
                self._control("stop_thinking", {})
            is_done = False
            try:
                for data in data_lines(response.iter_content(chunk_size=None)):
                    if data == b"[DONE]":
                        is_done = True
                        break
                    self._take_in(data)
            except (requests.RequestException, OSError, ValueError, AttributeError) as error:
                # urllib3 raises odd errors for a socket that another thread has shut down.
                if not self.is_cancelled:
                    raise _cut_off() from error
            if not is_done and not self.is_cancelled:
                raise _cut_off()

    def _take_in(self, data: bytes) -> None:
        chunk = json.loads(data)
        if not isinstance(chunk, dict):
            raise _cut_off()
        error = chunk.get("error")
        if error:
            raise _error_of(error)
        for event in events_of(chunk):
            self._inbox.put(event)


def data_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The data of each server-sent event; comments are skipped."""
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                yield line[5:].strip()


def events_of(chunk: Mapping[str, object]) -> Iterator[Event]:
    """What one chunk of the stream says (the shapes are in engine/server/chat_chunks.py)."""
    progress = chunk.get("prompt_progress")
    if isinstance(progress, dict):
        yield PromptProgress(
            _count(progress, "total"), _count(progress, "cache"), _count(progress, "processed")
        )
    news = chunk.get("mcp_event")
    if isinstance(news, dict):
        yield ToolNews(str(news.get("phase")), news)
    for choice in _objects(chunk.get("choices")):
        yield from _choice_events(choice)
    timings = chunk.get("timings")
    usage = chunk.get("usage")
    if isinstance(usage, dict):
        yield Usage(usage, timings if isinstance(timings, dict) else {})
    elif isinstance(timings, dict):
        yield Counted(_count(timings, "predicted_n"))


def _choice_events(choice: Mapping[str, object]) -> Iterator[Event]:
    delta = choice.get("delta")
    if isinstance(delta, dict):
        if "role" in delta:
            yield Began()
        thinking, text = delta.get("reasoning_content"), delta.get("content")
        if isinstance(thinking, str) and thinking:
            yield Grown(is_thinking=True, pieces=[thinking])
        if isinstance(text, str) and text:
            yield Grown(is_thinking=False, pieces=[text])
        for call in _objects(delta.get("tool_calls")):
            function = call.get("function")
            known = function if isinstance(function, dict) else {}
            yield CallGrown(
                _count(call, "index"),
                str(call.get("id") or ""),
                str(known.get("name") or ""),
                str(known.get("arguments") or ""),
            )
    reason = choice.get("finish_reason")
    if isinstance(reason, str):
        yield Finished(reason)


def _objects(value: object) -> list[JsonObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _count(data: Mapping[str, object], key: str) -> int:
    value = data.get(key)
    return int(value) if isinstance(value, int | float) else 0


def _error_of(error: object) -> EngineHttpError:
    """The error that the engine sent in the middle of the stream."""
    known = error if isinstance(error, dict) else {}
    params: dict[str, ParameterValue] = {
        key: value
        for key, value in known.items()
        if key not in {"message", "code", "type"}
        and (value is None or isinstance(value, str | int | float | bool))
    }
    code = known.get("code") or known.get("type")
    return EngineHttpError(
        str(known.get("message") or "The engine ended the answer with an error."),
        code=str(code) if code else "engine_failed",
        params=params,
    )


def sampling_of(header: str) -> dict[str, float]:
    """The values in the header `x-sampling`; empty for an engine that does not send it."""
    try:
        content = json.loads(header) if header else {}
    except ValueError:
        return {}
    if not isinstance(content, dict):
        return {}
    return {
        str(name): value
        for name, value in content.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def _cut_off() -> EngineHttpError:
    return EngineHttpError(
        "The engine went away in the middle of its answer.", code="engine_cut_off"
    )


def _cut(response: requests.Response) -> None:
    """End a connection that another thread reads from."""
    with contextlib.suppress(Exception):  # it is over already, or never was one
        response.raw.shutdown()


def _in_thread(work: Callable[[], object]) -> None:
    threading.Thread(target=work, name="answer-control", daemon=True).start()


@dataclass(slots=True)
class RateWindow:
    """Tokens per second over the last two seconds: steady, and no wild figure at the first token."""

    window_s: float = 2.0
    least_s: float = 0.25
    _points: list[tuple[float, int]] = field(default_factory=list)

    def add(self, now_s: float, count: int) -> None:
        """Note how many there are in total now."""
        if self._points and count < self._points[-1][1]:
            self._points.clear()
        self._points.append((now_s, count))
        while len(self._points) > 2 and now_s - self._points[1][0] >= self.window_s:
            self._points.pop(0)

    def per_s(self, now_s: float) -> float:
        """The rate; 0 until there is enough to say."""
        if len(self._points) < 2:
            return 0.0
        first_s, first = self._points[0]
        passed = max(now_s, self._points[-1][0]) - first_s
        return (self._points[-1][1] - first) / passed if passed >= self.least_s else 0.0
