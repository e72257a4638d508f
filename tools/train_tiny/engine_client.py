"""Answers of a written model file from the real server, over HTTP, greedy."""

import json
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import cast

ROOT = Path(__file__).parents[2]
START_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer."""

    content: str
    reasoning: str
    calls: tuple[tuple[str, str], ...]  # name, arguments as JSON
    finish_reason: str

    def text(self) -> str:
        """Returns everything that was answered on one line, for a list to read."""
        shown = [self.content] if self.content else []
        shown += [f"[call {name} {arguments}]" for name, arguments in self.calls]
        return " ".join(shown).replace("\n", "\\n")


class Engine:
    """A server process with one model; use it in a `with` statement."""

    def __init__(self, model: Path, python: str = sys.executable) -> None:
        """Starts the server on a free port."""
        command = [python, "-m", "engine", "serve", "--port", "0", "--model", str(model.resolve())]
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
        )
        self._url = self._wait_for_address()
        # Nobody reads the log from here on, but a full pipe would stop the server.
        threading.Thread(target=self._drain, daemon=True).start()

    def _drain(self) -> None:
        for _ in self._process.stdout or ():
            pass

    def _wait_for_address(self) -> str:
        said: list[str] = []
        for line in self._process.stdout or ():
            said.append(line)
            found = re.search(r"http://[\w.]+:\d+", line)
            if found:
                self._wait_until_ready(found.group())
                return found.group()
        message = f"The server did not start: {''.join(said)[-2000:]}"
        raise RuntimeError(message)

    def _wait_until_ready(self, url: str) -> None:
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                with urllib.request.urlopen(f"{url}/health", timeout=10):  # noqa: S310 - our own http server
                    return
            except (urllib.error.URLError, ConnectionError):
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)

    def __enter__(self) -> "Engine":
        """Returns itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stops the server."""
        self._process.terminate()
        self._process.wait(30)

    def chat(
        self,
        messages: Sequence[Mapping[str, object]],
        tools: Sequence[Mapping[str, object]] = (),
        effort: str = "none",
        max_tokens: int = 400,
    ) -> Reply:
        """Returns the most probable answer."""
        body: dict[str, object] = {"messages": messages, "temperature": 0, "max_tokens": max_tokens}
        body["reasoning_effort"] = effort
        if tools:
            body["tools"] = tools
        request = urllib.request.Request(  # noqa: S310 - our own http server
            f"{self._url}/v1/chat/completions",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=300) as response:  # noqa: S310
            choice = json.load(response)["choices"][0]
        message = choice["message"]
        calls = tuple(
            (cast("str", c["function"]["name"]), cast("str", c["function"]["arguments"]))
            for c in message.get("tool_calls") or ()
        )
        reasoning = message.get("reasoning_content") or ""
        return Reply(message.get("content") or "", reasoning, calls, choice["finish_reason"])

    def ask(self, question: str, effort: str = "none", max_tokens: int = 400) -> Reply:
        """Returns the answer to one question."""
        return self.chat([{"role": "user", "content": question}], (), effort, max_tokens)
