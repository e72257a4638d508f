"""What is sent to the engine for an answer: the shown path, the settings, and nothing empty.

    body = request_body(path, settings, facts, contents)

Attachments become text before the person's words, under their names. Pictures that the model cannot see
(another model was chosen meanwhile, or there are too many) become a line that says so. The same path
always gives the same messages, so the engine remembers what it has read.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import fields

from app.chat.activity import ModelFacts
from app.history.pending import Content
from app.history.records import (
    Attachment,
    AttachmentKind,
    ConversationSettings,
    Message,
    Role,
    ToolCall,
    ToolState,
)
from engine.core.config import Effort

JsonObject = dict[str, object]
ContentOf = Callable[[str], Content | None]

# The engine takes no more in one request; the latest ones are sent.
MAX_PICTURES = 32
NOT_ANSWERED = "error: the call was not finished"

# The share of the context that thinking may take up when the person set no limit.
THINKING_SHARE = 4


def request_body(
    path: Sequence[Message],
    settings: ConversationSettings,
    facts: ModelFacts,
    content_of: ContentOf,
    *,
    continues: bool = False,
) -> JsonObject:
    """The body for `/v1/chat/completions`.

    Args:
        path: the conversation up to the message to answer; with `continues` up to the answer to go
            on with.
        settings: of the conversation.
        facts: of the model that will answer.
        content_of: fetches what is inside an attachment.
        continues: the last message is an answer to go on with.
    """
    body: JsonObject = {
        "messages": messages_for(path, settings, facts, content_of, continues=continues),
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_progress": True,
        "timings_per_token": True,
    }
    if settings.uses_tools:
        body["stratum_mcp"] = True
    if settings.effort is not None:
        body["reasoning_effort"] = settings.effort.value
    budget = thinking_budget(settings, facts)
    if budget:
        body["reasoning_budget_tokens"] = budget
    if settings.max_tokens is not None:
        body["max_completion_tokens"] = settings.max_tokens
    for field in fields(settings.sampling):
        value = getattr(settings.sampling, field.name)
        if value is not None:
            body[field.name] = value
    return body


def thinking_budget(settings: ConversationSettings, facts: ModelFacts) -> int:
    """Most thinking tokens of an answer; 0 = no limit, or no thinking."""
    if (settings.effort or facts.default_effort) is Effort.NONE:
        return 0
    if settings.thinking_budget is not None:
        return settings.thinking_budget
    return facts.context_size // THINKING_SHARE


def messages_for(
    path: Sequence[Message],
    settings: ConversationSettings,
    facts: ModelFacts,
    content_of: ContentOf,
    *,
    continues: bool = False,
) -> list[JsonObject]:
    """The conversation in the engine's words. Turns without anything in them are left out."""
    messages: list[JsonObject] = []
    if settings.system_prompt.strip():
        messages.append({"role": "system", "content": settings.system_prompt})
    shown = _shown_pictures(path) if facts.sees_pictures else frozenset()
    for index, message in enumerate(path):
        if message.role is Role.USER:
            if not message.is_empty:
                content = _user_content(message, shown, content_of)
                messages.append({"role": "user", "content": content})
            continue
        is_open = continues and index == len(path) - 1
        if not message.is_empty or is_open:
            messages += _answer_messages(message, is_open=is_open)
    return messages


def _shown_pictures(path: Sequence[Message]) -> frozenset[str]:
    """Ids of the pictures that are sent as pictures: the latest ones."""
    ids = [
        attachment.id
        for message in path
        for attachment in message.attachments
        if attachment.kind is AttachmentKind.PICTURE
    ]
    return frozenset(ids[-MAX_PICTURES:])


def _user_content(
    message: Message, shown: frozenset[str], content_of: ContentOf
) -> str | list[JsonObject]:
    if not message.attachments:
        return message.text
    parts = [_part(attachment, shown, content_of) for attachment in message.attachments]
    if message.text:
        parts.append(_text_part(message.text))
    return parts


def _part(attachment: Attachment, shown: frozenset[str], content_of: ContentOf) -> JsonObject:
    content = content_of(attachment.id)
    if attachment.kind is AttachmentKind.PICTURE:
        if attachment.id in shown and content is not None and content.data is not None:
            encoded = base64.b64encode(content.data).decode("ascii")
            url = f"data:{attachment.media_type};base64,{encoded}"
            return {"type": "image_url", "image_url": {"url": url}}
        return _text_part(f"[A picture was here, {attachment.name}, that you cannot see.]\n\n")
    if content is None or content.text is None:
        return _text_part(f"[The file {attachment.name} was here; its content is lost.]\n\n")
    return _text_part(file_text(attachment.name, content.text))


def file_text(name: str, text: str) -> str:
    """A file as the model reads it."""
    return f"[Begin of file {name}]\n{text}\n[End of file {name}]\n\n"


def _text_part(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def _answer_messages(message: Message, *, is_open: bool) -> list[JsonObject]:
    """An answer, in as many turns as its tool calls make of it."""
    messages: list[JsonObject] = []
    at = 0
    calls = list(message.tool_calls)
    while calls:
        offset = calls[0].text_offset
        turn = [call for call in calls if call.text_offset == offset]
        calls = calls[len(turn) :]
        messages.append(
            {
                "role": "assistant",
                "content": _turn_text(message.text[at:offset], is_first=at == 0),
                "tool_calls": [_call_entry(call) for call in turn],
            }
        )
        messages += [
            {"role": "tool", "tool_call_id": call.id, "content": _result(call)} for call in turn
        ]
        at = offset
    rest = _turn_text(message.text[at:], is_first=at == 0)
    if rest.strip() or (is_open and not messages):
        messages.append({"role": "assistant", "content": rest})
    if message.thinking and messages and not is_open:
        # It makes the prompt's beginning equal to what the engine remembers.
        messages[0]["reasoning_content"] = message.thinking
    return messages


def _turn_text(text: str, *, is_first: bool) -> str:
    """The text of one turn; the engine sets later ones off by a blank line, which is not theirs."""
    return text if is_first else text.removeprefix("\n\n")


def _call_entry(call: ToolCall) -> JsonObject:
    function = {"name": call.name, "arguments": call.arguments or "{}"}
    return {"id": call.id, "type": "function", "function": function}


def _result(call: ToolCall) -> str:
    ended = (ToolState.DONE, ToolState.FAILED, ToolState.REFUSED)
    return call.result if call.state in ended and call.result else NOT_ANSWERED
