"""Running the calls of one turn: ask where a person must be asked, call, and say what happens.

A failure of any kind is a result that begins with `error:`, so that the model can go on. Calls run one
after the other, in the model's order: they may depend on each other's effects.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from engine.core.strict_json import BadJsonError, parse_json
from engine.server.active import ActiveRequest, unless_ended
from engine.server.mcp.connection import McpFailure
from engine.server.mcp.consent import Verdict
from engine.server.mcp.results import ERROR_PREFIX, result_text
from engine.server.mcp.turns import Call
from engine.server.steps import ToolEvent

if TYPE_CHECKING:
    from engine.server.mcp.servers import McpServers
    from engine.server.mcp.tool_table import McpTool

REFUSALS = {
    Verdict.DENIED: "the person did not allow this call",
    Verdict.UNANSWERED: "nobody answered the question whether this call is allowed",
}
CANNOT_ASK = (
    "this tool may change things, so a person must allow the call, and that can be asked only in a "
    "streamed answer"
)


class ToolRunner:
    """Runs calls for one request.

    Attributes:
        results: the text for the model by call id, of the turn that ran last.
    """

    def __init__(
        self,
        servers: McpServers,
        table: dict[str, McpTool],
        active: ActiveRequest,
        *,
        can_ask: bool,
    ) -> None:
        self.results: dict[str, str] = {}
        self._servers = servers
        self._table = table
        self._active = active  # ending it ends the calls
        self._can_ask = can_ask

    async def run(self, calls: list[Call]) -> AsyncGenerator[ToolEvent, None]:
        """Run the calls of a turn; it ends early when the request is cancelled."""
        self.results = {}
        for call in calls:
            arguments = _read_arguments(call.arguments_text)
            if arguments is None:
                text = ERROR_PREFIX + "the arguments are no JSON object"
                self.results[call.call_id] = text
                yield self.result_event(call, text)
                continue
            verdict: Verdict | None = Verdict.ALLOWED
            if self._servers.needs_consent(self._table[call.name]):
                if self._can_ask:
                    yield self._question(call, arguments)
                verdict = await self._wait_for_answer(call)
            if self._is_cancelled():
                return
            if verdict is Verdict.ALLOWED:
                yield ToolEvent(0, {"phase": "call", **self._about(call), "arguments": arguments})
                text = await self._call(call, arguments)
                if self._is_cancelled():
                    return
            else:
                text = ERROR_PREFIX + (CANNOT_ASK if verdict is None else REFUSALS[verdict])
            self.results[call.call_id] = text
            yield self.result_event(call, text)

    def result_event(self, call: Call, text: str) -> ToolEvent:
        """What the client is told of a result."""
        is_error = text.startswith(ERROR_PREFIX)
        return ToolEvent(
            0, {"phase": "result", **self._about(call), "is_error": is_error, "content": text}
        )

    def close(self) -> None:
        """Forget what is still being asked."""
        self._servers.consents.close(self._active.request_id)

    def _is_cancelled(self) -> bool:
        return self._active.is_cancelled

    def _about(self, call: Call) -> dict[str, object]:
        entry = self._table[call.name]
        server, tool = entry.connection.name, entry.tool.name
        return {"id": call.call_id, "server": server, "tool": tool, "name": call.name}

    def _question(self, call: Call, arguments: dict[str, object]) -> ToolEvent:
        entry = self._table[call.name]
        self._servers.consents.open(
            self._active.request_id, call.call_id, entry.connection.name, entry.tool.name
        )
        about = {
            "phase": "ask",
            "request_id": self._active.request_id,
            **self._about(call),
            "arguments": arguments,
            "timeout_s": self._servers.settings.consent_timeout_s,
        }
        return ToolEvent(0, about)

    async def _wait_for_answer(self, call: Call) -> Verdict | None:
        """The answer; None when nobody can be asked, or the request was cancelled meanwhile."""
        if not self._can_ask:
            return None
        waiting = self._servers.consents.wait(
            self._active.request_id, call.call_id, self._servers.settings.consent_timeout_s
        )
        return await unless_ended(self._active, waiting)

    async def _call(self, call: Call, arguments: dict[str, object]) -> str:
        entry = self._table[call.name]
        try:
            result = await unless_ended(
                self._active, entry.connection.call(entry.tool.name, arguments)
            )
        except McpFailure as error:
            return ERROR_PREFIX + str(error)
        if result is None:
            return ERROR_PREFIX + "cancelled"
        return result_text(result, self._servers.settings.max_result_chars)


def _read_arguments(text: str) -> dict[str, object] | None:
    try:
        value = parse_json(text)
    except BadJsonError:
        return None
    return value if isinstance(value, dict) else None
