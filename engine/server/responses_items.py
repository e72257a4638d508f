"""The `input` of a Responses request as chat messages (spec/api.md section 9.2).

An assistant's turn comes as a row of items (reasoning, message, calls), and becomes one message:

    reasoning, message, function_call, function_call, function_call_output, function_call_output
    -> assistant (thinking, text, two calls), tool, tool

System text that stands first is one system message; later system text becomes a user's message in
place (`engine.text.messages`). The server keeps nothing, so items that only refer are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from engine.server.chat_messages import ChatMessage, read_content
from engine.server.errors import (
    invalid_type,
    invalid_value,
    missing,
    shortened,
    unsupported_value,
)
from engine.server.fields import Fields, objects
from engine.server.responses_custom import PARAMETER
from engine.server.responses_sealed import unseal
from engine.server.responses_tools import shown_name

ROLES = ("user", "assistant", "system", "developer")

# Items that cannot be read here, with the reason.
REFUSED = {
    "item_reference": "refers to a stored item, and this server stores nothing: send the item itself "
    "(clients do so when they are told store: false)",
    "compaction": "holds a conversation in a form that only its own server can read",
}


def read_input(body: Fields) -> list[ChatMessage]:
    """The messages: `instructions` and `input`.

    Raises:
        ApiError: 400 with the path of the first problem.
    """
    turns = _Turns()
    instructions = body.string("instructions")
    if instructions:
        turns.add_system(instructions)
    value = body.get("input")
    if value is None:
        raise missing("input")
    if isinstance(value, str):
        turns.add_message("user", value)
        return turns.finish()
    if not isinstance(value, list):
        raise invalid_type("input", "a string or an array of items", value)
    if not value:  # some clients ask so whether anybody answers; it is what an empty string is
        turns.add_message("user", "")
    for item in objects(value, "input"):
        kind = item.string("type") or ("message" if item.get("role") is not None else None)
        if kind is None:
            raise missing(item.at("type"))
        if kind in REFUSED:
            raise unsupported_value(item.at("type"), f"{kind} {REFUSED[kind]}")
        reader = READERS.get(kind)
        if reader is None:
            known = f"cannot be {shortened(kind)}; it must be one of {', '.join(READERS)}"
            raise unsupported_value(item.at("type"), known)
        reader(turns, item)
    return turns.finish()


class _Turns:
    """Collects items into messages."""

    def __init__(self) -> None:
        self._system: list[str] = []
        self._messages: list[ChatMessage] = []
        self._turn: ChatMessage | None = None  # the assistant's, while it may grow
        self._calls: list[dict[str, object]] = []  # of that turn
        self._known_ids: set[str] = set()

    def add_system(self, text: str) -> None:
        """Text of a `system` or `developer` message, or the instructions."""
        if self._messages or self._turn is not None:
            self.add_message("system", text)
        else:
            self._system.append(text)

    def add_message(self, role: str, text: str) -> None:
        """A message that is not the assistant's."""
        self._end_turn()
        self._messages.append({"role": role, "content": text})

    def add_reasoning(self, text: str) -> None:
        """Thinking; it begins a turn."""
        if self._turn is not None and (self._turn["content"] or self._calls):
            self._end_turn()
        turn = self._open_turn()
        turn["reasoning_content"] = str(turn.get("reasoning_content", "")) + text

    def add_text(self, text: str) -> None:
        """Text of the assistant; after a message of its own it is another turn."""
        if self._turn is not None and self._turn["content"] and not self._calls:
            self._end_turn()
        turn = self._open_turn()
        turn["content"] = str(turn["content"]) + text

    def add_call(self, call_id: str, name: str, arguments: object) -> None:
        """A call of the assistant."""
        self._open_turn()
        self._known_ids.add(call_id)
        function = {"name": name, "arguments": arguments}
        self._calls.append({"id": call_id, "type": "function", "function": function})

    def add_result(self, call_id: str, text: str, path: str) -> None:
        """What a call gave."""
        if call_id not in self._known_ids:
            raise invalid_value(path, "answers no call that stands before it in the input")
        self._end_turn()
        self._messages.append({"role": "tool", "content": text, "tool_call_id": call_id})

    def finish(self) -> list[ChatMessage]:
        """All messages."""
        self._end_turn()
        text = "\n\n".join(self._system)
        system: list[ChatMessage] = [{"role": "system", "content": text}] if text else []
        return system + self._messages

    def _open_turn(self) -> ChatMessage:
        if self._turn is None:
            self._turn = {"role": "assistant", "content": ""}
        return self._turn

    def _end_turn(self) -> None:
        if self._turn is None:
            return
        if self._calls:
            self._turn["tool_calls"] = self._calls
        self._messages.append(self._turn)
        self._turn, self._calls = None, []


def _read_message(turns: _Turns, item: Fields) -> None:
    role = item.required_string("role")
    if role not in ROLES:
        raise invalid_value(item.at("role"), f"must be one of {', '.join(ROLES)}")
    text = read_content(item, "content")
    if role == "assistant":
        turns.add_text(text)
    elif role == "user":
        turns.add_message(role, text)
    else:
        turns.add_system(text)


def _read_reasoning(turns: _Turns, item: Fields) -> None:
    """The thinking: `content`, else what we sealed, else another server's summary."""
    sealed = item.string("encrypted_content")
    text = _joined(item, "content", "reasoning_text")
    summary = _joined(item, "summary", "summary_text")
    text = text or (unseal(sealed) if sealed else None) or summary
    if text:
        turns.add_reasoning(text)


def _joined(item: Fields, key: str, kind: str) -> str:
    parts = objects(item.array(key) or [], item.at(key))
    texts: list[str] = []
    for part in parts:
        if part.required_string("type") not in (kind, "text"):
            raise invalid_value(part.at("type"), f"must be {kind}")
        texts.append(part.required_string("text"))
    return "".join(texts) if kind == "reasoning_text" else "\n\n".join(texts)


def _read_function_call(turns: _Turns, item: Fields) -> None:
    arguments = item.get("arguments")
    if arguments is not None and not isinstance(arguments, (str, dict)):
        raise invalid_type(item.at("arguments"), "a JSON string or an object", arguments)
    _add_call(turns, item, "" if arguments is None else arguments)


def _read_custom_call(turns: _Turns, item: Fields) -> None:
    _add_call(turns, item, {PARAMETER: item.required_string("input")})


def _add_call(turns: _Turns, item: Fields, arguments: object) -> None:
    name = shown_name(item.string("namespace"), item.required_string("name"))
    turns.add_call(item.required_string("call_id"), name, arguments)


def _read_result(turns: _Turns, item: Fields) -> None:
    call_id = item.required_string("call_id")
    if item.get("output") is None:
        raise missing(item.at("output"))
    turns.add_result(call_id, read_content(item, "output"), item.at("call_id"))


READERS: Mapping[str, Callable[[_Turns, Fields], None]] = {
    "message": _read_message,
    "reasoning": _read_reasoning,
    "function_call": _read_function_call,
    "function_call_output": _read_result,
    "custom_tool_call": _read_custom_call,
    "custom_tool_call_output": _read_result,
}
