"""What a client wants generated, in terms of no protocol: what each protocol's reader makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.core.config import Effort
from engine.server.tool_fields import ToolUse
from engine.text.output_rules import FREE_TEXT, ResponseFormat
from engine.worker.messages import SamplingParams

Message = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Conversation:
    """What a prompt is made of.

    Attributes:
        messages: OpenAI-shaped (`engine.text.messages`), types checked.
        tools: what is declared, and what of it may be called.
        effort: thinking level.
        preserve_thinking: whether earlier turns keep their thinking; None = as the template does.
        continues: the last message is the assistant's own, and the answer goes on from it.
    """

    messages: tuple[Message, ...]
    tools: ToolUse
    effort: Effort
    preserve_thinking: bool | None = None
    continues: bool = False


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """A checked request in terms of no protocol.

    Attributes:
        model: the name that the client gave; None = none.
        cap: the client's own limit on output tokens; None = what the context leaves.
        budget: most thinking tokens; None = no limit of its own.
        fit_max_tokens: lower a cap that does not fit instead of refusing it.
        choices: answers, one after the other.
        response_format: what form the answer's text must have.
        mcp_servers: configured servers whose tools the model gets; None = not asked for, empty =
            all of them.
    """

    model: str | None
    conversation: Conversation
    sampling: SamplingParams
    stops: tuple[str, ...] = ()
    cap: int | None = None
    budget: int | None = None
    fit_max_tokens: bool = True
    choices: int = 1
    response_format: ResponseFormat = FREE_TEXT
    mcp_servers: tuple[str, ...] | None = None
