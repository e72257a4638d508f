"""An answer during which the server runs MCP tools: generate, run the calls, go on with the results.

Its steps are those of one generation to whoever consumes them: one beginning, one end with the counts
of all rounds, and between them `ToolEvent`s. A place in the queue is held only while the model
generates: a tool that takes a minute, or a question that waits five, holds up nobody else.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING

from engine.server.active import Phase, unless_ended
from engine.server.front import Front
from engine.server.generation import Generation
from engine.server.generation_request import GenerationRequest, Message
from engine.server.mcp.calls import ToolRunner
from engine.server.mcp.turns import Call, Transcript, Turn
from engine.server.prepared import prepare
from engine.server.steps import Began, ChoiceEnd, Delta, GenerationPlan, Step, ToolEvent
from engine.text.output_rules import ANY_TOOL, CallMode, ToolChoice
from engine.worker.messages import Timings

if TYPE_CHECKING:
    from engine.server.mcp.connection import McpConnection
    from engine.server.mcp.servers import McpServers
    from engine.server.mcp.tool_table import McpTool

NO_CALLS = ToolChoice(CallMode.NONE)
DISCONNECTED = "disconnected"
NOT_RUN = "error: not run, because the same turn called a tool of the client"


@dataclasses.dataclass(slots=True)
class _Total:
    """Counts over all rounds."""

    prompt: int = 0
    generated: int = 0
    reasoning: int = 0
    timings: list[Timings] = dataclasses.field(default_factory=list)

    def add(self, end: ChoiceEnd, prompt: int) -> None:
        self.prompt += end.prompt_tokens if end.prompt_tokens is not None else prompt
        self.generated += end.generated
        self.reasoning += end.reasoning
        self.timings.append(end.timings)

    def end(self, last: ChoiceEnd) -> ChoiceEnd:
        """The last round's end with the counts of all."""
        return dataclasses.replace(
            last,
            generated=self.generated,
            reasoning=self.reasoning,
            prompt_tokens=self.prompt,
            timings=Timings(
                prompt_tokens=self.prompt,
                cached_tokens=sum(timing.cached_tokens for timing in self.timings),
                prompt_ms=sum(timing.prompt_ms for timing in self.timings),
                generated_tokens=self.generated,
                generated_ms=sum(timing.generated_ms for timing in self.timings),
                draft_tokens=sum(timing.draft_tokens for timing in self.timings),
                draft_accepted=sum(timing.draft_accepted for timing in self.timings),
            ),
        )


class ToolRounds(Generation):
    """A generation with tools of MCP servers."""

    def __init__(
        self,
        front: Front,
        request_id: str,
        plan: GenerationPlan,
        request: GenerationRequest,
        *,
        chosen: tuple[McpConnection, ...],
        table: dict[str, McpTool],
        servers: McpServers,
        can_ask: bool,
    ) -> None:
        """Enter the queue.

        Raises:
            ApiError: 503 while stopping, 429 when the queue is full.
        """
        super().__init__(front, request_id, "chat", plan)
        self._request = request
        self._chosen = chosen
        self._table = table
        self._runner = ToolRunner(servers, table, self.active, can_ask=can_ask)
        self._max_rounds = servers.settings.max_rounds
        self._seen = Transcript()
        self._total = _Total()
        self._turn = Turn(table.keys(), self._seen)
        self._last = ChoiceEnd(0, "stop", 0, 0, Timings())

    async def _steps(self) -> AsyncGenerator[Step, None]:
        """The steps of all rounds."""
        await unless_ended(self.active, self._front.queue.wait_turn(self.active.ticket))
        for num_rounds in range(self._max_rounds + 1):
            async with aclosing(self._one_turn(is_first=num_rounds == 0)) as steps:
                async for step in steps:
                    yield step
            if not self._wants_tools():
                break
            self._pause()
            async with aclosing(self._runner.run(self._turn.complete_calls)) as events:
                async for event in events:
                    yield event
            is_limit = num_rounds + 1 == self._max_rounds
            if self.active.is_cancelled:
                self._last = dataclasses.replace(self._last, finish="stop", is_cancelled=True)
                self.active.finish = "cancelled"
                break
            if is_limit:
                yield ToolEvent(0, {"phase": "limit", "rounds": self._max_rounds})
            await self._go_on(self._runner.results, calls_allowed=not is_limit)
        end = self._total.end(self._last)
        self.active.timings = end.timings
        self.active.prompt_tokens = self._total.prompt
        self.active.cached_tokens = end.timings.cached_tokens
        yield end

    def close(self) -> None:
        """Give everything back; a second call does nothing."""
        self._runner.close()
        super().close()

    def _started(self) -> ToolEvent:
        servers = [
            {"name": server.name, "status": server.state.value, "error": server.error}
            for server in self._chosen
        ]
        return ToolEvent(0, {"phase": "start", "servers": servers, "tools": len(self._table)})

    async def _one_turn(self, *, is_first: bool) -> AsyncGenerator[Step, None]:
        """The steps of one turn that go to the client."""
        self._turn = turn = Turn(self._table.keys(), self._seen)
        async with aclosing(self._answer(self.plan, 0)) as steps:
            async for step in steps:
                match step:
                    case Began():
                        if is_first:  # clients expect it before all else
                            yield step
                            yield self._started()
                    case Delta():
                        shown = turn.add(step)
                        if shown is not None:
                            yield shown
                    case ChoiceEnd():
                        self._last = step
                        self._total.add(step, len(self.plan.prompt))
                    case _:
                        yield step
        if turn.own_calls:
            for call in turn.complete_calls:
                yield self._runner.result_event(call, NOT_RUN)

    def _wants_tools(self) -> bool:
        """Whether the turn ended with calls for us, and with none for the client."""
        turn, last = self._turn, self._last
        if turn.own_calls or not turn.complete_calls or last.is_cancelled:
            return False
        return last.finish == "tool_calls"

    def _pause(self) -> None:
        """Give the place in the queue to others while tools run."""
        self._front.queue.leave(self.active.ticket)
        self.active.phase = Phase.TOOL_CALL
        self.active.finish = DISCONNECTED  # unless it goes on

    async def _go_on(self, results: Mapping[str, str], *, calls_allowed: bool) -> None:
        """Make the next round's plan, and wait for a turn."""
        self._request = next_request(
            self._request, self._turn, results, self._last, calls_allowed=calls_allowed
        )
        prepared = await asyncio.to_thread(prepare, self._front, self._request)
        self.plan = prepared.plan
        self.active.prompt_tokens = len(prepared.plan.prompt)
        self.active.phase = Phase.WAITING
        self.active.ticket = self._front.queue.enter_again()
        await unless_ended(self.active, self._front.queue.wait_turn(self.active.ticket))


def next_request(
    request: GenerationRequest,
    turn: Turn,
    results: Mapping[str, str],
    end: ChoiceEnd,
    *,
    calls_allowed: bool,
) -> GenerationRequest:
    """The request that goes on after tools have run.

    A forced call is not forced again, and the cap on the output holds for all rounds together.
    """
    conversation = request.conversation
    messages = list(conversation.messages)
    content = "".join(turn.content)
    if conversation.continues:  # the answer went on from the client's beginning of it
        content = f"{messages.pop()['content']}{content}"
    messages += [_assistant(turn, content), *_results(turn.complete_calls, results)]
    tools = conversation.tools
    if not calls_allowed:
        tools = dataclasses.replace(tools, choice=NO_CALLS, specs=())
    elif tools.choice.mode is CallMode.REQUIRED:
        tools = dataclasses.replace(tools, choice=ANY_TOOL)
    cap = request.cap
    return dataclasses.replace(
        request,
        conversation=dataclasses.replace(
            conversation, messages=tuple(messages), tools=tools, continues=False
        ),
        cap=max(1, cap - end.generated) if cap is not None else None,
    )


def _assistant(turn: Turn, content: str) -> Message:
    calls = [
        {
            "id": call.call_id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments_text},
        }
        for call in turn.complete_calls
    ]
    message: dict[str, object] = {"role": "assistant", "content": content, "tool_calls": calls}
    if turn.reasoning:
        message["reasoning_content"] = "".join(turn.reasoning)
    return message


def _results(calls: list[Call], results: Mapping[str, str]) -> list[Message]:
    return [
        {"role": "tool", "tool_call_id": call.call_id, "content": results[call.call_id]}
        for call in calls
    ]
