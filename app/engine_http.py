"""Talks to the engine: address, key, JSON, and errors with their codes.

    http = EngineHttp(EngineAddress("http://127.0.0.1:8080", "sk-local-..."))
    http.post("/unload")
    with http.stream("/v1/chat/completions", {"stream": True, ...}) as response: ...

Everything blocks: use it off the main thread, from as many threads as needed. Connections are kept
alive and handed from one request to the next. `address` may change at any time (the engine was
started on another port); requests under way are not touched by it.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.core.errors import EngineError, ParameterValue

if TYPE_CHECKING:  # it takes 70 ms, for which no window should wait
    import requests

JsonObject = dict[str, object]

CONNECT_S = 3.0
READ_S = 30.0


@dataclass(frozen=True, slots=True)
class EngineAddress:
    """Where an engine answers, and the key that it asks for (None: none)."""

    base_url: str
    api_key: str | None = None


class EngineHttpError(EngineError):
    """The engine could not be asked, or refused.

    Attributes:
        status: the HTTP status; 0 when there was no answer (codes `engine_unreachable`,
            `engine_timeout`, `engine_cut_off`).
    """

    code = "engine_http"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        params: Mapping[str, ParameterValue] | None = None,
        status: int = 0,
    ) -> None:
        super().__init__(message, code=code, params=params)
        self.status = status


class EngineHttp:
    """Requests to one engine over few kept connections.

    Attributes:
        address: where to ask; None while no engine runs.
    """

    def __init__(self, address: EngineAddress | None = None) -> None:
        self._address = address
        self._idle: list[requests.Session] = []
        self._lock = threading.Lock()

    @property
    def address(self) -> EngineAddress | None:
        """See above."""
        return self._address

    @address.setter
    def address(self, address: EngineAddress | None) -> None:
        with self._lock:
            is_elsewhere = _url(address) != _url(self._address)
            self._address = address
        if is_elsewhere:
            # Every engine that ended left two sockets that nobody closed (2026-11-30).
            self.close()

    def close(self) -> None:
        """Close the connections that are not in use."""
        with self._lock:
            idle, self._idle = self._idle, []
        for session in idle:
            session.close()

    def get(self, path: str, *, read_timeout_s: float = READ_S) -> JsonObject:
        """The JSON object at a path.

        Raises:
            EngineHttpError: no answer, an error, or something that is no JSON object.
        """
        return self._ask("GET", path, None, read_timeout_s)

    def post(
        self, path: str, body: JsonObject | None = None, *, read_timeout_s: float | None = READ_S
    ) -> JsonObject:
        """The answer to a JSON body; an error as for `get`."""
        return self._ask("POST", path, body or {}, read_timeout_s)

    def text(self, path: str, *, read_timeout_s: float = READ_S) -> str:
        """What is at a path, whatever it is; an error as for `get`."""
        with self._send("GET", path, None, read_timeout_s, is_stream=False) as response:
            return response.text

    @contextlib.contextmanager
    def stream(
        self, path: str, body: JsonObject, *, read_timeout_s: float | None = None
    ) -> Iterator[requests.Response]:
        """An answer that is read piece by piece; errors before its first byte are raised.

        Closing the response (leaving the block) ends the connection, by which the engine stops.

        Raises:
            EngineHttpError: no answer, an error, or a connection that broke inside the block.
        """
        import requests  # noqa: PLC0415  # see above

        with self._send("POST", path, body, read_timeout_s, is_stream=True) as response:
            try:
                yield response
            except requests.RequestException as error:
                raise cut_off() from error

    def _ask(
        self, method: str, path: str, body: JsonObject | None, read_timeout_s: float | None
    ) -> JsonObject:
        with self._send(method, path, body, read_timeout_s, is_stream=False) as response:
            content = _json_of(response)
            if content is None:
                raise EngineHttpError(
                    f"What answers at {response.url} is not Stratum's engine: its answer is no "
                    "JSON object.",
                    code="not_an_engine",
                    params={"url": response.url},
                    status=response.status_code,
                )
            return content

    @contextlib.contextmanager
    def _send(
        self,
        method: str,
        path: str,
        body: JsonObject | None,
        read_timeout_s: float | None,
        *,
        is_stream: bool,
    ) -> Iterator[requests.Response]:
        import requests  # noqa: PLC0415  # see above

        address = self.address
        if address is None:
            raise EngineHttpError(
                "The engine does not run. Start it, and try again.", code="engine_not_running"
            )
        headers = {} if body is None else {"Content-Type": "application/json"}
        if address.api_key is not None:
            headers["Authorization"] = f"Bearer {address.api_key}"
        with self._session(address.base_url) as session:
            try:
                response = session.request(
                    method,
                    address.base_url + path,
                    data=None if body is None else json.dumps(body).encode(),
                    headers=headers,
                    timeout=(CONNECT_S, read_timeout_s),
                    stream=is_stream,
                    allow_redirects=False,
                )
            except requests.RequestException as error:
                raise connection_error(error, address) from error
            with response:
                if not 200 <= response.status_code < 300:
                    raise error_of(response, address)
                yield response

    @contextlib.contextmanager
    def _session(self, base_url: str) -> Iterator[requests.Session]:
        """A session that no other request uses meanwhile."""
        import requests  # noqa: PLC0415  # see above

        with self._lock:
            session = self._idle.pop() if self._idle else None
        if session is None:
            session = requests.Session()
            session.trust_env = False  # no proxy and no .netrc: this PC is asked
        try:
            yield session
        finally:
            with self._lock:
                is_kept = base_url == _url(self._address)
                if is_kept:
                    self._idle.append(session)
            if not is_kept:
                session.close()


def _url(address: EngineAddress | None) -> str | None:
    return None if address is None else address.base_url


def connection_error(error: requests.RequestException, address: EngineAddress) -> EngineHttpError:
    """A connection that could not be made, or broke, as a sentence."""
    import requests  # noqa: PLC0415  # see above

    params = {"url": address.base_url}
    if isinstance(error, requests.ConnectTimeout | requests.ReadTimeout):
        return EngineHttpError(
            f"The engine at {address.base_url} did not answer in time. Try again; if it goes on, "
            "restart the engine.",
            code="engine_timeout",
            params=params,
        )
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return cut_off()
    return EngineHttpError(
        f"The engine at {address.base_url} cannot be reached. Start it, and try again.",
        code="engine_unreachable",
        params=params,
    )


def cut_off() -> EngineHttpError:
    """A connection that ended in the middle of an answer."""
    return EngineHttpError(
        "The engine went away in the middle of its answer.", code="engine_cut_off"
    )


def error_of(response: requests.Response, address: EngineAddress) -> EngineHttpError:
    """The error in an answer, whichever protocol's shape it has."""
    content = _json_of(response) or {}
    error = content.get("error")
    known = error if isinstance(error, dict) else {}
    message = known.get("message")
    code = known.get("code") or known.get("type")
    params: dict[str, ParameterValue] = {
        key: value
        for key, value in known.items()
        if key not in {"message", "code", "type"}
        and (value is None or isinstance(value, str | int | float | bool))
    }
    return EngineHttpError(
        message
        if isinstance(message, str) and message
        else f"The engine at {address.base_url} answered with HTTP status {response.status_code}.",
        code=code if isinstance(code, str) and code else "engine_http",
        params={**params, "status": response.status_code},
        status=response.status_code,
    )


def _json_of(response: requests.Response) -> JsonObject | None:
    import requests  # noqa: PLC0415  # see above

    try:
        content = json.loads(response.content)
    except (ValueError, RecursionError):
        return None
    except requests.RequestException:
        return None
    return content if isinstance(content, dict) else None
