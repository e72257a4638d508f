"""A server under measurement: started, asked over HTTP, looked at, ended.

Any server that speaks OpenAI's chat completions with streaming will do. Speeds are taken from the
clock on this side; servers that report `timings` (llama.cpp and Stratum do) are checked against it.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from engine.core.process_memory import private_bytes

HOST = "127.0.0.1"
_START_TIMEOUT_S = 600.0
_ANSWER_TIMEOUT_S = 1800.0
_END_TIMEOUT_S = 20.0


class ServerError(Exception):
    """A server did not start or did not answer; the text says which and why."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One measured request.

    Attributes:
        prompt_tokens: as the server counted them.
        answer_tokens: the same.
        prompt_per_s: prompt tokens per second until the first piece of the answer.
        decode_per_s: answer tokens per second between the first piece and the end.
        reported_prompt_per_s: the server's own figure, None if it gives none.
        reported_decode_per_s: the same.
    """

    prompt_tokens: int
    answer_tokens: int
    prompt_per_s: float
    decode_per_s: float
    reported_prompt_per_s: float | None
    reported_decode_per_s: float | None


@dataclass(frozen=True, slots=True)
class Memory:
    """Of a server's processes together, in bytes.

    Attributes:
        peak_resident: the most that was resident, pages of mapped files included.
        private: what is held now beside pages of files.
    """

    peak_resident: int
    private: int


class ServerProcess:
    """A running server; a context manager that ends it.

    Attributes:
        name: for people.
        start_s: seconds from the start of the process until it answered.
    """

    def __init__(self, name: str, command: Sequence[str], log: Path) -> None:
        """Start a server and wait until it is ready.

        Args:
            name: for people.
            command: its words; `{port}` in them is replaced.
            log: where its output goes.

        Raises:
            ServerError: it cannot be started, ends early, or is not ready in ten minutes.
        """
        self.name = name
        self._log = log
        self._port = _free_port()
        words = [word.replace("{port}", str(self._port)) for word in command]
        began_at = time.perf_counter()
        try:
            with log.open("wb") as output:
                self._process = subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
                )
        except OSError as error:
            raise ServerError(f"{name} cannot be started ({error}); check its command.") from error
        try:
            self._wait()
        except BaseException:
            self.close()
            raise
        self.start_s = time.perf_counter() - began_at

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the server and its children; idempotent."""
        children = self._family()[1:] if self._process.poll() is None else []
        self._process.terminate()
        try:
            self._process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for child in children:
            with contextlib.suppress(psutil.Error):
                child.kill()

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._port

    def memory(self) -> Memory:
        """Of the server and its children."""
        peak = private = 0
        for process in self._family():
            peak += _peak_resident(process)
            private += private_bytes(process.pid)
        return Memory(peak, private)

    @property
    def status(self) -> int | None:
        """How its process ended (minus a signal's number), None while it runs."""
        return self._process.poll()

    def processes(self) -> list[psutil.Process]:
        """The server's process and its children."""
        return self._family()

    def ask(self, prompt: str, max_tokens: int) -> Answer:
        """Send one message and read the streamed answer.

        Raises:
            ServerError: the server refuses, fails or reports no counts.
        """
        body = json.dumps(
            {
                "model": "any",
                "messages": [{"role": "user", "content": prompt}],
                "max_tokens": max_tokens,
                "temperature": 0,
                "reasoning_effort": "medium",  # templates add sentences for others, not all alike
                "stream": True,
                "stream_options": {"include_usage": True},
            }
        )
        connection = http.client.HTTPConnection(HOST, self._port, timeout=_ANSWER_TIMEOUT_S)
        try:
            began_at = time.perf_counter()
            connection.request(
                "POST", "/v1/chat/completions", body, {"Content-Type": "application/json"}
            )
            response = connection.getresponse()
            if response.status != http.HTTPStatus.OK:
                text = response.read(500).decode(errors="replace")
                raise ServerError(f"{self.name} answered {response.status}: {text}")
            return self._read(response, began_at)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ServerError(
                f"{self.name} did not answer: {error}. Its log: {self._log}"
            ) from error
        finally:
            connection.close()

    def _read(self, response: http.client.HTTPResponse, began_at: float) -> Answer:
        first_at = last_at = 0.0
        usage: dict[str, float] = {}
        timings: dict[str, float] = {}
        for event in _events(response):
            if "error" in event:
                raise ServerError(f"{self.name} failed: {event['error']}")
            if _has_text(event):
                last_at = time.perf_counter()
                first_at = first_at or last_at
            usage = _table(event, "usage") or usage
            timings = _table(event, "timings") or timings
        prompt = int(usage.get("prompt_tokens", 0))
        answer = int(usage.get("completion_tokens", 0))
        if answer < 2 or first_at == last_at:
            raise ServerError(f"{self.name} gave {answer} tokens; nothing can be measured by that.")
        return Answer(
            prompt_tokens=prompt,
            answer_tokens=answer,
            prompt_per_s=prompt / (first_at - began_at),
            decode_per_s=(answer - 1) / (last_at - first_at),
            reported_prompt_per_s=timings.get("prompt_per_second"),
            reported_decode_per_s=timings.get("predicted_per_second"),
        )

    def _wait(self) -> None:
        until = time.perf_counter() + _START_TIMEOUT_S
        while time.perf_counter() < until:
            if self._process.poll() is not None:
                tail = self._log.read_text(encoding="utf-8", errors="replace")[-800:]
                raise ServerError(f"{self.name} ended at its start:\n{tail}")
            connection = http.client.HTTPConnection(HOST, self._port, timeout=5)
            try:
                connection.request("GET", "/v1/models")
                if connection.getresponse().status == http.HTTPStatus.OK and self._is_loaded():
                    return
            except (OSError, http.client.HTTPException):
                pass
            finally:
                connection.close()
            time.sleep(0.05)
        raise ServerError(f"{self.name} was not ready in {_START_TIMEOUT_S:.0f} s.")

    def _is_loaded(self) -> bool:
        """Whether /health, where there is one, says that the model can answer."""
        connection = http.client.HTTPConnection(HOST, self._port, timeout=5)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status != http.HTTPStatus.SERVICE_UNAVAILABLE
        finally:
            connection.close()

    def _family(self) -> list[psutil.Process]:
        try:
            root = psutil.Process(self._process.pid)
            return [root, *root.children(recursive=True)]
        except psutil.Error:
            return []


def _events(response: http.client.HTTPResponse) -> Iterator[dict[str, object]]:
    """The JSON objects of an event stream."""
    for line in response:
        if line.startswith(b"data:") and (data := line[5:].strip()) != b"[DONE]":
            event = json.loads(data)
            if isinstance(event, dict):
                yield event


def _has_text(event: dict[str, object]) -> bool:
    choices = event.get("choices")
    if not isinstance(choices, list) or not choices:
        return False
    delta = choices[0].get("delta", {})
    return any(delta.get(key) for key in ("content", "reasoning_content", "reasoning"))


def _table(event: dict[str, object], key: str) -> dict[str, float]:
    value = event.get(key)
    return value if isinstance(value, dict) else {}


def _peak_resident(process: psutil.Process) -> int:
    try:
        status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
    except OSError:
        information = process.memory_info()
        return int(getattr(information, "peak_wset", information.rss))
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
