"""The messages of a chat request, checked (spec/api.md section 5).

Checks types, roles and the matching of tool results, joins text parts, and refuses what the model
cannot read. What a message becomes in the prompt is the business of `engine.text`.
"""

from __future__ import annotations

from engine.server.errors import (
    ApiError,
    invalid_type,
    invalid_value,
    missing,
    unsupported_value,
)
from engine.server.fields import Fields, objects
from engine.server.tool_fields import decode_twice

ROLES = ("system", "developer", "user", "assistant", "tool", "function")
TEXT_PARTS = ("text", "input_text", "output_text")
IMAGE_PARTS = ("image_url", "input_image", "image")
OTHER_PARTS = ("input_audio", "file", "input_file", "video_url")

ChatMessage = dict[str, object]


def read_messages(body: Fields) -> list[ChatMessage]:
    """The messages, with `content` a string and `role` one of system, user, assistant and tool.

    Raises:
        ApiError: 400 with the path of the first problem.
    """
    messages = [_read_message(entry) for entry in objects(message_entries(body), "messages")]
    _check_tool_results(messages)
    return messages


def message_entries(body: Fields) -> list[object]:
    """The entries of `messages`, at least one; also of a list that was encoded twice.

    Raises:
        ApiError: 400.
    """
    if body.get("messages") is None:
        raise missing("messages")
    entries = decode_twice(body, "messages")
    if not entries:
        raise invalid_value("messages", "must hold at least one message")
    return entries


def _read_message(entry: Fields) -> ChatMessage:
    role = entry.required_string("role")
    if role not in ROLES:
        raise invalid_value(entry.at("role"), f"must be one of {', '.join(ROLES)}")
    message: ChatMessage = {"role": role, "content": read_content(entry, "content")}
    if role == "developer":
        message["role"] = "system"
    elif role in ("tool", "function"):
        message["role"] = "tool"
        call_id = entry.string("tool_call_id")
        if call_id is not None:
            message["tool_call_id"] = call_id
    elif role == "assistant":
        reasoning = entry.string(entry.first("reasoning_content", "reasoning"))
        if reasoning is not None:
            message["reasoning_content"] = reasoning
        calls = _read_calls(entry)
        if calls:
            message["tool_calls"] = calls
    return message


def read_content(entry: Fields, key: str) -> str:
    """The text of a field that holds a string or parts; empty when it is absent.

    Raises:
        ApiError: 400 for a part that the model cannot read.
    """
    content, at = entry.get(key), entry.at(key)
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise invalid_type(at, "a string or an array of parts", content)
    return "".join(
        part if isinstance(part, str) else _part_text(Fields.of(part, f"{at}[{index}]"))
        for index, part in enumerate(content)
    )


def _part_text(part: Fields) -> str:
    kind = part.required_string("type")
    if kind in TEXT_PARTS:
        return part.required_string("text")
    if kind == "refusal":
        return part.required_string("refusal")
    if kind in IMAGE_PARTS:
        raise ApiError(
            400,
            "image_unsupported",
            "This model runs without its image encoder, so it cannot see images.",
            param=part.path,
        )
    if kind in OTHER_PARTS:
        raise unsupported_value(part.at("type"), f"{kind} cannot be read by this model")
    raise invalid_value(part.at("type"), f"must be one of {', '.join((*TEXT_PARTS, 'image_url'))}")


def _read_calls(entry: Fields) -> list[dict[str, object]]:
    """Earlier tool calls of the assistant, in the nested OpenAI form."""
    old = entry.table("function_call")
    if old is not None:
        return [_read_call(Fields({"function": old.data}, entry.at("function_call")))]
    calls = entry.array("tool_calls") or []
    return [_read_call(call) for call in objects(calls, entry.at("tool_calls"))]


def _read_call(call: Fields) -> dict[str, object]:
    if call.string("type") not in (None, "function"):
        raise unsupported_value(call.at("type"), "must be function")
    function = call.table("function")
    if function is None:
        raise missing(call.at("function"))
    name = function.required_string("name")
    arguments = function.get("arguments")
    if arguments is not None and not isinstance(arguments, (str, dict)):
        raise invalid_type(function.at("arguments"), "a JSON string or an object", arguments)
    read: dict[str, object] = {
        "type": "function",
        "function": {"name": name, "arguments": arguments if arguments is not None else ""},
    }
    call_id = call.string("id")
    if call_id is not None:
        read["id"] = call_id
    return read


def _check_tool_results(messages: list[ChatMessage]) -> None:
    """Each result must answer a call of the turn before it, unless ids are used nowhere."""
    uses_ids = any("tool_call_id" in message for message in messages) or any(
        "id" in call for message in messages for call in _calls(message)
    )
    if not uses_ids:
        return
    known: set[object] = set()
    for index, message in enumerate(messages):
        if message["role"] == "assistant":
            known = {call.get("id") for call in _calls(message)}
        if message["role"] != "tool":
            continue
        path = f"messages[{index}].tool_call_id"
        call_id = message.get("tool_call_id")
        if call_id is None:
            raise missing(path)
        if call_id not in known:
            raise invalid_value(path, "answers no tool call of the assistant message before it")


def _calls(message: ChatMessage) -> list[dict[str, object]]:
    calls = message.get("tool_calls", [])
    return calls if isinstance(calls, list) else []
