"""One MCP server: starting it, its tools, calling them, ending it.

The connection lives in a task of its own, because the `mcp` package's scopes must be left in the task
that entered them. Version negotiation is the package's (`server/discover`, else the handshake).
Errors are sentences that hold no command, argument, variable, header or address.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
import math
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio
import httpx2
from mcp.client import Client, Transport
from mcp.client._transport import TransportStreams
from mcp.client.session import IncomingMessage
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_REQUEST,
    CallToolResult,
    Implementation,
    Tool,
    ToolListChangedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from engine import __version__
from engine.core.config_mcp import McpServerConfig, McpSettings
from engine.server.mcp.liveness import watched
from engine.server.mcp.programs import (
    LastWords,
    ProgramNotFoundError,
    find_program,
    hide_secrets,
    secrets_in,
)

logger = logging.getLogger(__name__)

# A server that has more pages of tools than this is broken.
MAX_PAGES = 20
MAX_ERROR_CHARS = 400
CONNECT_S = 10.0
# What the package answers when a server of the older protocol has forgotten our session.
SESSION_OVER = "Session terminated"
# How long a list of tools may take that is asked for again at a request.
RELIST_S = 5.0
# The package ends a program in steps of two seconds: close its input, ask it, kill it.
CLOSE_S = 8.0


class McpState(enum.StrEnum):
    """What a server is doing; the values are those of `GET /mcp`."""

    DISABLED = "disabled"
    IDLE = "idle"
    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"


class McpFailure(Exception):  # noqa: N818 - an outcome that the model is told about
    """A server or a tool did not do what was asked; the text is a sentence for people."""


class McpConnection:
    """One configured server.

    Attributes:
        name: as configured.
        state, error: how it stands; `error` is a sentence when it failed.
        tools: what it offers, while it is ready.
        is_slow: a start took too long, so nobody should wait for it, or for the next one.
    """

    def __init__(self, name: str, config: McpServerConfig, settings: McpSettings) -> None:
        self.name = name
        self.config = config
        self.state = McpState.DISABLED if config.disabled else McpState.IDLE
        self.error: str | None = None
        self.tools: tuple[Tool, ...] = ()
        self.is_slow = False
        self._settings = settings
        self._secrets = secrets_in(
            [
                *config.env.values(),
                *config.headers.values(),
                *config.args,
                *([config.url] if config.url is not None else []),
            ]
        )
        self._client: Client | None = None
        self._task: asyncio.Task[None] | None = None
        self._settled = asyncio.Event()
        self._end = asyncio.Event()
        self._is_stale = False

    @property
    def transport(self) -> str:
        """`stdio` or `http`."""
        return "stdio" if self.config.url is None else "http"

    def start(self) -> None:
        """Start it in the background, unless it runs, is starting, or is switched off."""
        if self.state in (McpState.DISABLED, McpState.STARTING, McpState.READY):
            return
        self.state, self.error = McpState.STARTING, None
        self._settled.clear()
        self._end.clear()
        self._task = asyncio.create_task(self._live())

    async def settle(self, wait_s: float) -> None:
        """Start it if need be, and wait until it is ready or has failed, but not for long."""
        if self._end.is_set() and self._task is not None:  # the last connection is being closed
            await asyncio.wait({self._task}, timeout=CLOSE_S)
        self.start()
        if self.state is McpState.STARTING:
            try:
                await asyncio.wait_for(self._settled.wait(), wait_s)
            except TimeoutError:
                self.is_slow = True
        elif self.state is McpState.READY:
            await self._refresh()

    async def call(self, tool: str, arguments: Mapping[str, object]) -> CallToolResult:
        """Run a tool; cancelling the caller cancels the tool.

        Raises:
            McpFailure: it could not be run, or took too long.
        """
        client = self._client
        if client is None:
            raise McpFailure(f"The MCP server {self.name} is not running.")
        limit_s = self._settings.timeout_s
        try:
            with anyio.fail_after(limit_s):
                return await client.call_tool(tool, dict(arguments), read_timeout_seconds=limit_s)
        except TimeoutError as error:
            raise McpFailure(f"The tool did not answer in {limit_s:g} seconds.") from error
        except Exception as error:
            if _is_lost(error):
                self._end.set()  # the next use connects again
            raise McpFailure(self._in_words(error)) from error

    async def close(self) -> None:
        """End the server."""
        self._end.set()
        task = self._task
        if task is None or task.done():
            return
        if self.state is McpState.STARTING:
            task.cancel()
        await asyncio.wait({task}, timeout=CLOSE_S)

    async def _live(self) -> None:
        """From start to end; the state says how it went."""
        words = LastWords()
        try:
            with anyio.fail_after(self._settings.start_timeout_s) as limit:
                async with self._open(words) as client:
                    self.tools = await _list_tools(client)
                    limit.deadline = math.inf
                    self._client = client
                    self._is_ready()
                    await self._end.wait()
            self.state = McpState.IDLE  # it ended, or we ended it; the next use starts it again
        except TimeoutError:
            limit_s = self._settings.start_timeout_s
            self.is_slow = True
            self._fail(f"The server was not ready in {limit_s:g} seconds.")
        except ProgramNotFoundError as error:
            self._fail(str(error))
        except Exception as error:  # noqa: BLE001 - another program may fail in any way
            said = await asyncio.to_thread(words.text)
            reason = self._in_words(error)
            self._fail(f"{reason} It said: {said}" if said else reason)
        finally:
            self._client = None
            self.tools = ()
            self._settled.set()
            words.close()

    def _is_ready(self) -> None:
        self.state, self.is_slow, self._is_stale = McpState.READY, False, False
        self._settled.set()
        logger.info("MCP server %s is ready with %d tools", self.name, len(self.tools))

    def _fail(self, reason: str) -> None:
        self.state = McpState.FAILED
        self.error = hide_secrets(reason, self._secrets)[:MAX_ERROR_CHARS]
        logger.warning("MCP server %s is left out: %s", self.name, self.error)

    async def _refresh(self) -> None:
        """Ask for the tools again when they may have changed; the old list holds on failure.

        Servers of the older protocol say when; for those of the newer one the package's cache knows
        how long a list holds.
        """
        client = self._client
        if client is None:
            return
        if self._is_stale or client.protocol_version in MODERN_PROTOCOL_VERSIONS:
            self._is_stale = False
            try:
                with anyio.fail_after(RELIST_S):
                    self.tools = await _list_tools(client)
            except Exception as error:  # noqa: BLE001 - another program may fail in any way
                logger.debug("MCP server %s: %s", self.name, type(error).__name__)

    async def _on_message(self, message: IncomingMessage) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._is_stale = True

    @asynccontextmanager
    async def _open(self, words: LastWords) -> AsyncGenerator[Client, None]:
        async with contextlib.AsyncExitStack() as stack:
            transport = await self._transport(words, stack)
            client = Client(
                transport,
                client_info=Implementation(name="stratum", version=__version__),
                message_handler=self._on_message,
            )
            yield await stack.enter_async_context(client)

    async def _transport(self, words: LastWords, stack: contextlib.AsyncExitStack) -> Transport:
        config = self.config
        kind = (config.type or self.transport).lower().replace("_", "-")
        if kind == "sse":
            raise McpFailure(
                "The transport sse is no longer in use. Configure the server's Streamable HTTP "
                "address with type http."
            )
        if kind not in ("stdio", "http", "streamable-http", "streamablehttp"):
            raise McpFailure(f"The type {kind[:40]} is not known; it must be stdio or http.")
        if config.url is not None:
            return await self._http_transport(config.url, stack)
        if config.command is None:
            raise McpFailure("The entry has neither command nor url; it needs one of them.")
        program = await asyncio.to_thread(find_program, config.command, config.env, config.cwd)
        parameters = StdioServerParameters(
            command=program, args=list(config.args), env=dict(config.env), cwd=config.cwd
        )
        # A program that ends by itself is noticed then, and not at the next call.
        return watched(stdio_client(parameters, errlog=words.writer), self._end.set)

    async def _http_transport(self, url: str, stack: contextlib.AsyncExitStack) -> Transport:
        if not url.startswith(("http://", "https://")):
            raise McpFailure("The url must begin with http:// or https://.")
        timeout = httpx2.Timeout(CONNECT_S, read=max(self._settings.timeout_s, CONNECT_S) + 5)
        http = httpx2.AsyncClient(headers=dict(self.config.headers), timeout=timeout)
        await stack.enter_async_context(http)
        transport: AbstractAsyncContextManager[TransportStreams] = streamable_http_client(
            url, http_client=http
        )
        return transport

    def _in_words(self, error: BaseException) -> str:
        """What went wrong, for people; nothing that is configured is in it."""
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        text = hide_secrets(_reason(error), self._secrets).strip()
        return text if text.endswith((".", "!", "?")) else text + "."


def _reason(error: BaseException) -> str:
    match error:
        case McpFailure():
            return str(error)
        case httpx2.HTTPStatusError():
            return f"The server answered with HTTP {error.response.status_code}"
        case httpx2.TimeoutException():
            return "The server did not answer in time"
        case httpx2.TransportError():
            return "The server cannot be reached at its url"
        case MCPError() if error.code == CONNECTION_CLOSED:
            return "The server has ended, or closed the connection"
        case MCPError():
            return f"The server answered with an error: {error.message[:MAX_ERROR_CHARS]}"
        case OSError():
            return f"The program could not be started: {error.strerror or type(error).__name__}"
        case _:
            return f"The server's answer could not be used ({type(error).__name__})"


def _is_lost(error: Exception) -> bool:
    """Whether the connection, or the server's session, is gone."""
    if isinstance(error, MCPError):
        is_session_over = error.code == INVALID_REQUEST and error.message == SESSION_OVER
        return error.code == CONNECTION_CLOSED or is_session_over
    return isinstance(error, (httpx2.TransportError, anyio.ClosedResourceError))


async def _list_tools(client: Client) -> tuple[Tool, ...]:
    tools: list[Tool] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if cursor is None:
            break
    return tuple(tools)


def quiet_library_logs() -> None:
    """Keep the libraries' own log lines out of ours: they quote messages and addresses."""
    for name in ("mcp", "client", "httpx2", "httpcore2"):  # "client" is the first one's too
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
