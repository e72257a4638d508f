"""`engine chat`: a chat in the terminal with a running server, over its HTTP interface alone.

Thinking is shown dimmed before the answer. Ctrl-C ends the answer that is being written; at the
prompt it ends the chat, as do /exit and the end of the input.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, urlsplit

import requests
from rich.console import Console

from engine.commands import Subparsers
from engine.commands.terminal import without_controls
from engine.core.errors import EngineError, InputError, ResourceError

KEY_VARIABLE = "STRATUM_API_KEY"
CONNECT_S = 5.0
# The server sends a keep-alive every few seconds; a longer silence means that it is gone.
SILENCE_S = 120.0
MAX_BODY_BYTES = 1 << 20  # of an error or a model list; ours are a few lines
TEXT_KEYS = ("reasoning_content", "content")
LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "::1"})

HELP = "/clear starts a new conversation, /exit ends the chat, Ctrl-C stops an answer."

# What a model writes must not move the cursor or rename the window.


class ChatError(EngineError):
    """The server refused the request or broke off; the conversation can go on."""

    code = "chat_failed"


@dataclass(slots=True)
class Answer:
    """An answer as far as it has come."""

    reasoning: list[str] = field(default_factory=list)
    content: list[str] = field(default_factory=list)

    def message(self) -> dict[str, str]:
        """The answer as a message of the history; thinking goes back so that its cache holds."""
        message = {"role": "assistant", "content": "".join(self.content)}
        if self.reasoning:
            message["reasoning_content"] = "".join(self.reasoning)
        return message


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "chat",
        help="chat in the terminal with a running server",
        description="Chat in the terminal with a running server. " + HELP,
    )
    parser.add_argument("--url", default="http://127.0.0.1:8080", help="address of the server")
    parser.add_argument("--key", help=f"API key; default: the environment's {KEY_VARIABLE}")
    parser.add_argument("--system", metavar="TEXT", help="instructions for the whole chat")
    parser.add_argument(
        "--effort",
        metavar="LEVEL",
        help="thinking: none, low, medium or high; default: the server's",
    )
    parser.add_argument("--max-tokens", type=int, metavar="N", help="longest answer in tokens")


def run(arguments: argparse.Namespace) -> int:
    """Chat until the input ends; 1 when the last answer failed."""
    client = ChatClient(arguments.url, arguments.key or os.environ.get(KEY_VARIABLE))
    options: dict[str, object] = {}
    if arguments.effort is not None:
        options["reasoning_effort"] = arguments.effort
    if arguments.max_tokens is not None:
        options["max_tokens"] = arguments.max_tokens
    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    is_terminal = sys.stdin.isatty()
    if is_terminal:
        console.print(f"Chat with {client.model()}. {HELP}", style="dim")
    start = [{"role": "system", "content": arguments.system}] if arguments.system else []
    history: list[dict[str, str]] = list(start)
    status = 0
    while True:
        line = _read_line(is_terminal)
        if line is None or line == "/exit":
            return status
        if line == "/clear":
            history = list(start)
        elif line == "/help":
            console.print(HELP, style="dim")
        elif line:
            history.append({"role": "user", "content": line})
            answer = Answer()
            try:
                _show(console, client.stream(history, options), answer)
                status = 0
            except KeyboardInterrupt:
                console.print("\n(stopped)", style="dim")
            except ChatError as error:
                print(f"engine chat: {error.message}", file=sys.stderr)
                status = 1
                answer = Answer()  # half an answer is nothing to go on from
            if answer.content or answer.reasoning:
                history.append(answer.message())
            else:
                history.pop()  # an unanswered question would stand before the next one


class ChatClient:
    """Talks to the server's chat endpoint."""

    def __init__(self, url: str, key: str | None) -> None:
        parts = _split_address(url)
        base = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        self._base = base.removesuffix("/v1") + "/v1"
        self._session = requests.Session()
        # A proxy of the environment does not reach this machine's own servers.
        self._session.trust_env = parts.hostname not in LOOPBACK_NAMES
        if key:
            if not (key.isascii() and key.isprintable()):
                raise InputError("The key holds letters that a key cannot have. Copy it again.")
            self._session.headers["Authorization"] = f"Bearer {key}"

    def model(self) -> str:
        """The name of the served model.

        Raises:
            ResourceError: no server answers.
        """
        try:
            reply = self._session.get(
                f"{self._base}/models", stream=True, timeout=CONNECT_S, allow_redirects=False
            )
        except requests.RequestException as error:
            raise self._no_server(error) from error
        if reply.status_code != 200:
            raise ChatError(_error_sentence(reply))
        try:
            return str(_read_json(reply)["data"][0]["id"])
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            raise ChatError(_not_ours(reply)) from error

    def stream(
        self, messages: list[dict[str, str]], options: dict[str, object]
    ) -> Iterator[dict[str, str]]:
        """The deltas of an answer.

        Raises:
            ResourceError: no server answers.
            ChatError: the server refused, or broke off.
        """
        body = {"messages": messages, "stream": True, **options}
        try:
            reply = self._session.post(
                f"{self._base}/chat/completions",
                json=body,
                stream=True,
                timeout=(CONNECT_S, SILENCE_S),
                allow_redirects=False,  # what is said here goes to no other server
            )
        except requests.RequestException as error:
            raise self._no_server(error) from error
        with reply:  # closing the connection makes the server stop
            kind = reply.headers.get("content-type", "")
            if reply.status_code != 200 or not kind.startswith("text/event-stream"):
                raise ChatError(_error_sentence(reply))
            try:
                yield from _deltas(reply.iter_lines(chunk_size=None))
            except requests.RequestException as error:
                raise ChatError("The connection to the server broke off.") from error

    def _no_server(self, error: requests.RequestException) -> ResourceError:
        return ResourceError(
            f"No server answers at {self._base} ({type(error).__name__}). Start one with "
            "`python -m engine serve`, or give its address with --url.",
            code="no_server",
        )


def _split_address(url: str) -> SplitResult:
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port  # raises for what is no number
    except ValueError:
        parts, port = urlsplit(""), None
    is_name = bool(parts.hostname) and not set(parts.netloc) & set(" @")
    if parts.scheme not in ("http", "https") or not is_name or port == 0:
        raise InputError(
            f"{parts.hostname or url} is no address of a server; it looks like "
            "http://127.0.0.1:8080, without a name or password in it."
        )
    return parts


def _deltas(lines: Iterator[bytes]) -> Iterator[dict[str, str]]:
    for line in lines:
        if not line.startswith(b"data:"):
            continue  # keep-alives and the empty lines between events
        data = line.removeprefix(b"data:").strip()
        if data == b"[DONE]":
            return
        yield from _event_deltas(data)
    raise ChatError("The server ended the answer without its end mark.")


def _event_deltas(data: bytes) -> list[dict[str, str]]:
    """The texts in one event; servers of others may send anything."""
    try:
        chunk = json.loads(data)
        if chunk.get("error"):
            raise ChatError(str(chunk["error"]["message"]))
        return [
            {key: text for key in TEXT_KEYS if isinstance(text := choice["delta"].get(key), str)}
            for choice in chunk["choices"]
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ChatError("The server sends something that is no answer of a chat.") from error


def _show(console: Console, deltas: Iterator[dict[str, str]], answer: Answer) -> None:
    """Print deltas as they come, and keep them."""
    try:
        for delta in deltas:
            reasoning, content = delta.get("reasoning_content"), delta.get("content")
            if reasoning:
                answer.reasoning.append(reasoning)
                console.print(without_controls(reasoning), style="dim", end="")
            if content:
                if answer.reasoning and not answer.content:  # one empty line between the two
                    console.print("" if answer.reasoning[-1].endswith("\n") else "\n")
                answer.content.append(content)
                console.print(without_controls(content), end="")
    finally:
        console.print()


def _read_line(is_terminal: bool) -> str | None:
    """The next line, or None at the end of the input."""
    try:
        return input("> " if is_terminal else "").strip()
    except EOFError:
        return None


def _error_sentence(reply: requests.Response) -> str:
    """Why the server refused; it may be any server, and send pages without end."""
    if reply.status_code == 401:
        return (
            "The API key is missing or wrong. Give it with --key, or in the environment variable "
            f"{KEY_VARIABLE}."
        )
    with contextlib.suppress(ValueError, LookupError, TypeError, RecursionError):
        return str(_read_json(reply)["error"]["message"])
    return _not_ours(reply)


def _not_ours(reply: requests.Response) -> str:
    return f"The server answered with status {reply.status_code}, and not as ours does."


def _read_json(reply: requests.Response) -> dict[str, Any]:
    """The object that a whole answer is.

    Raises:
        ValueError: it is none, or too long.
    """
    body = bytearray()
    try:
        for part in reply.iter_content(MAX_BODY_BYTES):
            body += part
            if len(body) > MAX_BODY_BYTES:
                break
    except requests.RequestException as error:
        raise ValueError("the answer broke off") from error
    value = json.loads(body[:MAX_BODY_BYTES])
    if not isinstance(value, dict):
        raise ValueError("the answer is no object")  # noqa: TRY004  # caught as what it is: bad input
    return value
