"""The messages of `/v1/messages`, checked and put into the OpenAI shape that `engine.text` renders.

    user       [tool_result, text]          ->  tool message(s), then a user message
    assistant  [thinking, text, tool_use]   ->  one assistant message with reasoning and calls

Consecutive assistant messages are one turn, as they are for Anthropic. A late system message keeps
its place; `engine.text` makes a user turn of it (spec/tools_format.md, T8).
"""

from __future__ import annotations

from engine.server.anthropic_blocks import (
    BLANK_LINE,
    content_blocks,
    joined,
    text_of,
    unknown_block,
)
from engine.server.chat_messages import ChatMessage, message_entries
from engine.server.errors import invalid_value, missing
from engine.server.fields import Fields, objects

ROLES = ("user", "assistant", "system")
ERROR_PREFIX = "Error: "

# A line at the head of the system prompt with a checksum that changes with every request: it would
# make every prompt new from its first token on (spec/api.md section 8).
BILLING_HEADER = "x-anthropic-billing-header:"


def read_messages(body: Fields) -> list[ChatMessage]:
    """The whole conversation, the system prompt first.

    Raises:
        ApiError: 400 with the path of the first problem.
    """
    entries = message_entries(body)
    messages: list[ChatMessage] = []
    system = read_system(body)
    if system:
        messages.append({"role": "system", "content": system})
    open_calls: set[str] = set()  # ids of the last assistant turn's calls
    for entry in objects(entries, "messages"):
        role = entry.required_string("role")
        if role not in ROLES:
            raise invalid_value(entry.at("role"), f"must be one of {', '.join(ROLES)}")
        if entry.get("content") is None:
            raise missing(entry.at("content"))
        if role == "assistant":
            _add_assistant(messages, _read_assistant(entry))
            open_calls = _call_ids(messages[-1])
        elif role == "user":
            messages += _read_user(entry, open_calls)
        else:
            messages.append({"role": "system", "content": _system_text(entry, "content")})
    return messages


def read_system(body: Fields) -> str:
    """The system prompt: its blocks joined with a blank line, billing headers left out."""
    return _system_text(body, "system")


def _system_text(entry: Fields, key: str) -> str:
    texts: list[str] = []
    for block in content_blocks(entry, key):
        kind = block.required_string("type")
        if kind != "text":
            raise unknown_block(block, kind)
        texts.append(_without_billing(block.required_string("text")))
    return joined(texts, BLANK_LINE)


def _without_billing(text: str) -> str:
    """A system text without the billing line at its start, and without the line break after it."""
    if not text.startswith(BILLING_HEADER):
        return text
    return text.partition("\n")[2].lstrip("\r\n")


def _read_user(entry: Fields, open_calls: set[str]) -> list[ChatMessage]:
    """Tool results first, whatever their place, then the rest as a turn of the user."""
    results: list[ChatMessage] = []
    texts: list[str] = []
    for block in content_blocks(entry):
        kind = block.required_string("type")
        if kind == "tool_result":
            results.append(_read_result(block, open_calls))
        elif kind in ("tool_use", "thinking", "redacted_thinking"):
            raise unknown_block(block, kind)
        else:
            texts.append(_spaced(text_of(block), kind))
    text = "".join(texts)
    if results and not text:
        return results
    return [*results, {"role": "user", "content": text}]


def _spaced(text: str, kind: str) -> str:
    """Text blocks follow each other as they are; other kinds end with a blank line."""
    return text if kind == "text" else text + BLANK_LINE


def _read_result(block: Fields, open_calls: set[str]) -> ChatMessage:
    call_id = block.required_string("tool_use_id")
    if call_id not in open_calls:
        raise invalid_value(
            block.at("tool_use_id"), "answers no tool_use of the assistant message before it"
        )
    text = joined([text_of(part) for part in content_blocks(block)], "\n")
    if block.boolean("is_error"):
        text = ERROR_PREFIX + text
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def _read_assistant(entry: Fields) -> ChatMessage:
    texts: list[str] = []
    thinking: list[str] = []
    calls: list[ChatMessage] = []
    for block in content_blocks(entry):
        kind = block.required_string("type")
        match kind:
            case "thinking":  # its signature may be anyone's: the text is what counts
                thinking.append(block.required_string("thinking"))
            case "redacted_thinking":
                continue
            case "tool_use":
                calls.append(_read_call(block))
            case "tool_result" | "image":
                raise unknown_block(block, kind)
            case _:
                texts.append(_spaced(text_of(block), kind))
    message: ChatMessage = {"role": "assistant", "content": "".join(texts)}
    if thinking:
        message["reasoning_content"] = "".join(thinking)
    if calls:
        message["tool_calls"] = calls
    return message


def _read_call(block: Fields) -> ChatMessage:
    call_id, name = block.required_string("id"), block.required_string("name")
    given = block.table("input")
    arguments = dict(given.data) if given is not None else {}
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _add_assistant(messages: list[ChatMessage], message: ChatMessage) -> None:
    if not messages or messages[-1]["role"] != "assistant":
        messages.append(message)
        return
    last = messages[-1]
    for key in ("reasoning_content", "content"):
        text = f"{last.get(key, '')}{message.get(key, '')}"
        if text or key == "content":
            last[key] = text
    calls = [*_calls(last), *_calls(message)]
    if calls:
        last["tool_calls"] = calls


def _call_ids(message: ChatMessage) -> set[str]:
    return {str(call["id"]) for call in _calls(message)}


def _calls(message: ChatMessage) -> list[ChatMessage]:
    calls = message.get("tool_calls")
    return calls if isinstance(calls, list) else []
