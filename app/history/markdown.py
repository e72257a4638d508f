"""The shown path of a conversation as Markdown for people to read, and back.

    # Title

    <!-- stratum: user 2026-11-30T12:00:00Z -->
    ## You

    What is a monad?

    <!-- stratum: assistant 2026-11-30T12:00:04Z -->
    ## Answer

    <details><summary>Thinking (3 s)</summary>

    ...

    </details>

    A monoid in the category of endofunctors.

The comments say where a message begins; a line of a message that looks like one gets a backslash. A
Markdown file without them is imported as one message of the person.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from app.history.errors import ImportRefusedError
from app.history.exchange import WholeConversation
from app.history.records import Conversation, Message, MessageState, Role, new_id
from app.history.titles import title_of

MAX_IMPORT_BYTES = 64 << 20

_MARK = re.compile(r"^<!-- stratum: (user|assistant|system) ?([0-9T:Z-]*) ?([a-z]*) -->$")
_LOOKS_LIKE_MARK = re.compile(r"^\\*<!-- stratum:")
_THINKING_BEGIN = "<details><summary>Thinking"
_THINKING_END = "</details>"
_LOOKS_LIKE_END = re.compile(r"^\\*</details>$")


@dataclass(frozen=True, slots=True)
class Words:
    """What the file says around the messages, in the person's language."""

    you: str = "You"
    answer: str = "Answer"
    system: str = "System prompt"
    thinking: str = "Thinking"
    file: str = "File"
    untitled: str = "Conversation"


def to_markdown(
    conversation: Conversation, path: Sequence[Message], words: Words | None = None
) -> str:
    """The conversation as it is shown."""
    said = words or Words()
    parts = [f"# {conversation.title or said.untitled}\n"]
    prompt = conversation.settings.system_prompt
    if prompt.strip():
        parts.append(f"<!-- stratum: system -->\n## {said.system}\n\n{_guarded(prompt)}\n")
    for message in path:
        when = datetime.datetime.fromtimestamp(message.created_at, datetime.UTC)
        state = "" if message.state is MessageState.COMPLETE else f" {message.state.value}"
        mark = f"<!-- stratum: {message.role.value} {when:%Y-%m-%dT%H:%M:%SZ}{state} -->"
        title = said.answer if message.is_answer else said.you
        body = [f"{mark}\n## {title}\n"]
        body += [f"*{said.file}: {attachment.name}*\n" for attachment in message.attachments]
        if message.thinking.strip():
            summary = f"{_THINKING_BEGIN} ({message.thinking_s:.0f} s)</summary>"
            thinking = _guarded(message.thinking)
            body.append(f"{summary}\n\n{thinking}\n\n{_THINKING_END}\n")
        body.append(_guarded(message.text) + "\n")
        parts.append("\n".join(body))
    return "\n".join(parts)


def _guarded(text: str) -> str:
    """Lines that look like our own marks, told apart by a backslash."""
    return "\n".join(
        "\\" + line if _LOOKS_LIKE_MARK.match(line) or _LOOKS_LIKE_END.match(line) else line
        for line in text.split("\n")
    )


def _unguarded(lines: Sequence[str]) -> str:
    return "\n".join(
        line[1:]
        if line.startswith("\\") and (_LOOKS_LIKE_MARK.match(line) or _LOOKS_LIKE_END.match(line))
        else line
        for line in lines
    )


def read_markdown(path: Path) -> WholeConversation:
    """The conversation of a Markdown file.

    Raises:
        ImportRefusedError: it cannot be read, or is no text.
    """
    try:
        if path.stat().st_size > MAX_IMPORT_BYTES:
            raise _refused(path, "it is larger than 64 MB")
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise _refused(path, error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise _refused(path, "it is not UTF-8 text") from error
    if not text.strip():
        raise _refused(path, "it is empty")
    return from_markdown(text, path.stem)


def _refused(path: Path, reason: str) -> ImportRefusedError:
    return ImportRefusedError(
        f"{path.name} cannot be imported ({reason}). Choose a Markdown file or one that Stratum has "
        "exported.",
        params={"path": str(path), "reason": reason},
    )


def from_markdown(text: str, name: str = "") -> WholeConversation:
    """The conversation of a text."""
    lines = text.split("\n")
    starts = [index for index, line in enumerate(lines) if _MARK.match(line)]
    conversation = Conversation(id=new_id())
    if not starts:
        only = _message(conversation.id, None, Role.USER, text.strip("\n"))
        titled = replace(conversation, title=title_of(text) or name, active_leaf=only.id)
        return WholeConversation(titled, (only,))
    title = next((line[2:].strip() for line in lines[: starts[0]] if line.startswith("# ")), name)
    messages: list[Message] = []
    for start, stop in zip(starts, [*starts[1:], len(lines)], strict=True):
        found = _MARK.match(lines[start])
        if found is None:  # it has just matched
            continue
        body = _body(lines[start + 1 : stop])
        if found[1] == "system":
            settings = replace(conversation.settings, system_prompt=_unguarded(body))
            conversation = replace(conversation, settings=settings)
            continue
        parent_id = messages[-1].id if messages else None
        message = _read_message(conversation.id, parent_id, Role(found[1]), body)
        states = {state.value: state for state in MessageState}
        state = states.get(found[3], MessageState.COMPLETE)
        messages.append(replace(message, created_at=_time(found[2]), state=state))
    leaf = messages[-1].id if messages else None
    when = messages[-1].created_at if messages else conversation.updated_at
    conversation = replace(conversation, title=title, active_leaf=leaf, updated_at=when)
    return WholeConversation(conversation, tuple(messages))


def _body(lines: Sequence[str]) -> list[str]:
    """The lines of a message without its heading and the blank lines that set it off."""
    body = list(lines)
    if body and body[0].startswith("## "):
        del body[0]
    if body and not body[0]:
        del body[0]
    # The file has one blank line after each message, and ends with a line end.
    for _ in range(2):
        if body and not body[-1]:
            del body[-1]
    return body


def _read_message(
    conversation_id: str, parent_id: str | None, role: Role, lines: Sequence[str]
) -> Message:
    if role is Role.ASSISTANT and lines and lines[0].startswith(_THINKING_BEGIN):
        end = next((i for i, line in enumerate(lines) if line == _THINKING_END), None)
        if end is not None:
            thinking = _unguarded(lines[2 : end - 1])
            rest = _unguarded(lines[end + 2 :])
            seconds = re.search(r"\((\d+) s\)", lines[0])
            message = _message(conversation_id, parent_id, role, rest)
            return replace(
                message, thinking=thinking, thinking_s=float(seconds[1]) if seconds else 0.0
            )
    return _message(conversation_id, parent_id, role, _unguarded(lines))


def _message(conversation_id: str, parent_id: str | None, role: Role, text: str) -> Message:
    return Message(new_id(), conversation_id, parent_id, role, text=text)


def _time(text: str) -> float:
    try:
        when = datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ")  # noqa: DTZ007  # given below
    except ValueError:
        return datetime.datetime.now(datetime.UTC).timestamp()
    return when.replace(tzinfo=datetime.UTC).timestamp()
