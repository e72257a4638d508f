"""OpenAI-shaped messages, brought into the form that chat templates expect.

Input: plain dicts whose types the server has checked already. Output: new dicts; the input is left
as it is, and normalising twice changes nothing more. The rules are those of
spec/tools_format.md: T7 (reasoning), T8 (system messages), T10 (tool results), section 3 (arguments
of earlier calls). This module knows nothing of templates or tokens.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from engine.core.errors import InputError
from engine.core.strict_json import BadJsonError, parse_json

logger = logging.getLogger(__name__)

Message = dict[str, object]

_ROLES = ("system", "user", "assistant", "tool")
_TEXT_PARTS = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}
_KEPT_KEYS = ("name", "tool_call_id")


def normalise_messages(messages: Sequence[Mapping[str, object]]) -> list[Message]:
    """The conversation as templates expect it.

    * `developer` is `system`; system messages that stand first are one, with a blank line between
      them. A later one becomes a user turn in place (merging it upward would change the prompt's
      start, and with it the prefix cache).
    * A turn of the assistant in which nothing was said, thought or called is left out.
    * Text parts are joined; other parts (images) are kept, and then the content stays a list.
    * `reasoning_content`, `reasoning` and thinking parts become `reasoning_content`.
    * Arguments of earlier calls become mappings.
    * Results of calls stand in the order of the calls.

    Raises:
        InputError: (code `template_error`) an unknown role, or no message of the user.
    """
    normalised: list[Message] = []
    has_user = False
    for message in messages:
        role = "system" if message.get("role") == "developer" else message.get("role")
        if role not in _ROLES:
            raise InputError(
                f"A message has the unknown role {str(role)[:40]!r}. Use system, user, assistant "
                "or tool.",
                code="template_error",
                params={"role": str(role)[:40]},
            )
        has_user = has_user or role == "user"
        is_leading = all(earlier["role"] == "system" for earlier in normalised)
        read = _normalise(message, "user" if role == "system" and not is_leading else str(role))
        if role == "system" and normalised and is_leading:
            normalised[0]["content"] = _joined(normalised[0]["content"], read["content"])
        elif role != "assistant" or _says_anything(read):
            normalised.append(read)
    if not has_user:
        raise InputError(
            "The conversation has no message of the user. Add one with the role `user`.",
            code="template_error",
        )
    _order_results(normalised)
    return normalised


def _normalise(message: Mapping[str, object], role: str) -> Message:
    content, thinking = _content(message.get("content"))
    result: Message = {"role": role, "content": content}
    result.update({key: message[key] for key in _KEPT_KEYS if message.get(key) is not None})
    if role == "assistant":
        candidates = (message.get("reasoning_content"), message.get("reasoning"), thinking)
        reasoning = next((text for text in candidates if text and isinstance(text, str)), "")
        if reasoning:
            result["reasoning_content"] = reasoning
        calls = message.get("tool_calls")
        if isinstance(calls, list | tuple) and calls:
            result["tool_calls"] = [_call(call) for call in calls if isinstance(call, Mapping)]
    return result


def _joined(first: object, second: object) -> str | list[Message]:
    """Two contents as one, with a blank line between their texts."""
    if isinstance(first, str) and isinstance(second, str):
        return "\n\n".join(text for text in (first, second) if text)
    parts: list[Message] = []
    for content in (first, second):
        parts += content if isinstance(content, list) else _text_part([str(content)])
    return parts


def _says_anything(answer: Message) -> bool:
    content = answer["content"]
    is_blank = isinstance(content, str) and not content.strip()
    return not is_blank or "reasoning_content" in answer or "tool_calls" in answer


def _content(content: object) -> tuple[str | list[Message], str]:
    """The content with its text parts joined, and the text of its thinking parts."""
    if content is None:
        return "", ""
    if not isinstance(content, list | tuple):
        return str(content), ""
    parts: list[Message] = []
    texts: list[str] = []  # of the text parts since the last other part
    thinking: list[str] = []
    for item in content:
        part = item if isinstance(item, Mapping) else {"type": "text", "text": item}
        kind = part.get("type")
        if kind == "thinking":
            thinking.append(str(part.get("thinking") or ""))
        elif isinstance(kind, str) and kind in _TEXT_PARTS:
            texts.append(str(part.get(_TEXT_PARTS[kind]) or ""))
        else:
            parts += [*_text_part(texts), dict(part)]
            texts = []
    if parts:
        return parts + _text_part(texts), "".join(thinking)
    return "".join(texts), "".join(thinking)


def _text_part(texts: list[str]) -> list[Message]:
    return [{"type": "text", "text": "".join(texts)}] if texts else []


def _call(call: Mapping[str, object]) -> Message:
    function = call.get("function")
    function = function if isinstance(function, Mapping) else {}
    arguments = _arguments(function.get("arguments"))
    return {**call, "function": {**function, "arguments": arguments}}


def _arguments(arguments: object) -> Message:
    """Arguments as a mapping; what cannot be decoded is kept as text under `arguments`.

    One bad call in the history must not make every later request fail.
    """
    if isinstance(arguments, Mapping):
        return dict(arguments)
    if arguments is None or (isinstance(arguments, str) and not arguments.strip()):
        return {}
    try:
        decoded = parse_json(str(arguments), first_wins=True)  # T14
    except BadJsonError:
        decoded = arguments
    if decoded is None:
        return {}
    if isinstance(decoded, dict):
        return decoded
    logger.warning("an earlier tool call has arguments that are no JSON object; kept as text")
    return {"arguments": str(arguments)}


def _order_results(messages: list[Message]) -> None:
    """Put each run of tool results into the order of the calls that they answer (T10).

    Results without a known id keep their places; the others are sorted among the rest.
    """
    order: dict[str, int] = {}
    start = 0
    while start < len(messages):
        message = messages[start]
        if message["role"] != "tool":
            if message["role"] == "assistant":
                order = _call_order(message)
            start += 1
            continue
        stop = start
        while stop < len(messages) and messages[stop]["role"] == "tool":
            stop += 1
        places = [
            index
            for index in range(start, stop)
            if str(messages[index].get("tool_call_id", "")) in order
        ]
        results = sorted(
            (messages[index] for index in places), key=lambda m: order[str(m["tool_call_id"])]
        )
        for index, result in zip(places, results, strict=True):
            messages[index] = result
        start = stop


def _call_order(message: Message) -> dict[str, int]:
    calls = message.get("tool_calls")
    order: dict[str, int] = {}
    for index, call in enumerate(calls if isinstance(calls, list) else []):
        if isinstance(call.get("id"), str):
            order.setdefault(call["id"], index)
    return order
