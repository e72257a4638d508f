"""What a conversation consists of, as plain data.

A conversation is a tree of messages: editing a question or asking for another answer makes a sibling,
and nothing is overwritten. `Conversation.active_leaf` names the end of the path that is shown. Ids are
made here and not by the database, so a conversation goes on in memory while the disk is full.
"""

from __future__ import annotations

import enum
import secrets
import time
from dataclasses import dataclass, field

from engine.core.config import Effort


def new_id() -> str:
    """A new id of a conversation, a message or an attachment."""
    return secrets.token_hex(16)


class Role(enum.StrEnum):
    """Who wrote a message."""

    USER = "user"
    ASSISTANT = "assistant"


class MessageState(enum.StrEnum):
    """How far a message is. All of the person's own messages are complete."""

    GROWING = "growing"  # being written now, or waiting for the engine
    COMPLETE = "complete"
    STOPPED = "stopped"  # the person stopped it
    CUT = "cut"  # the cap, the context or the repetition guard ended it
    UNFINISHED = "unfinished"  # the engine or the app ended in the middle, or the request failed
    DELETED = "deleted"  # by the person; only its place in the tree is left


class ToolState(enum.StrEnum):
    """How far a tool call is."""

    WRITING = "writing"  # the model is still writing the arguments
    ASKING = "asking"  # the person must allow or refuse it
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    REFUSED = "refused"
    LOST = "lost"  # the answer ended before the call did


class AttachmentKind(enum.StrEnum):
    """What an attachment is for the model."""

    TEXT = "text"  # sent as text, under its file name
    PICTURE = "picture"


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling values of a conversation; None leaves the engine's default (the model card's)."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class ConversationSettings:
    """What holds for all answers of a conversation from now on.

    Attributes:
        preset: id of the preset that the values came from; they may have been changed since.
        system_prompt: the first message of each request; empty = none.
        effort: thinking level; None = the engine's default.
        sampling: see `Sampling`.
        thinking_budget: most thinking tokens; None = a quarter of the context, 0 = no limit.
        max_tokens: longest answer in tokens, thinking included; None = what the context allows.
        uses_tools: the engine's configured MCP servers may be used.
    """

    preset: str = "balanced"
    system_prompt: str = ""
    effort: Effort | None = None
    sampling: Sampling = Sampling()
    thinking_budget: int | None = None
    max_tokens: int | None = None
    uses_tools: bool = True


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file or picture beside a message; its content is fetched from the store when needed.

    Attributes:
        name: file name without its folder.
        media_type: such as `text/x-python` or `image/png`.
        size_bytes: of the original file.
        num_tokens: what its text costs; None until the engine has counted it, and for pictures.
        note: code of something the person should know, such as `pdf_pages_without_text`; or empty.
    """

    id: str
    kind: AttachmentKind
    name: str
    media_type: str
    size_bytes: int
    num_tokens: int | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool within an answer.

    Attributes:
        id: of the call, unique within the answer.
        server: name of the MCP server; empty for a tool of nobody.
        tool: name that the server gives it.
        name: name that the model used.
        arguments: JSON text; what has been written so far while `WRITING`.
        result: what the tool said; empty before.
        text_offset: characters of the answer's text that came before the call.
        asked_at: when the person was asked (Unix time); 0 if not.
        answer_by_s: seconds from then after which no answer means no.
    """

    id: str
    server: str
    tool: str
    name: str
    arguments: str = ""
    state: ToolState = ToolState.RUNNING
    result: str = ""
    text_offset: int = 0
    asked_at: float = 0.0
    answer_by_s: float = 0.0


@dataclass(frozen=True, slots=True)
class MessageStats:
    """What the engine measured for an answer; a continued answer has the sums.

    Attributes:
        prompt_tokens: all tokens of the prompt, those included that were remembered.
        cached_tokens: remembered ones, which were not read again.
        generated_tokens: thinking and answer.
        thinking_tokens: thinking alone.
        prompt_s: time to read the rest of the prompt.
        generated_s: time to write.
        prompt_per_s: prompt tokens read in a second.
        generated_per_s: tokens written in a second.
        draft_tokens: drafts that were offered.
        draft_accepted: drafts that were right.
        context_used: tokens that the conversation took up at the end of this answer; less than the
            sum of the above when tools were called, for each call reads the prompt again.
        context_size: of the model at that time; 0 = unknown.
        model: that answered.
        effort: thinking level that was used; empty = the engine's default.
        sampling: the values that were used, as the engine told them; of an older answer unknown.
    """

    prompt_tokens: int = 0
    cached_tokens: int = 0
    generated_tokens: int = 0
    thinking_tokens: int = 0
    prompt_s: float = 0.0
    generated_s: float = 0.0
    prompt_per_s: float = 0.0
    generated_per_s: float = 0.0
    draft_tokens: int = 0
    draft_accepted: int = 0
    context_used: int = 0
    context_size: int = 0
    model: str = ""
    effort: str = ""
    sampling: Sampling = Sampling()


@dataclass(frozen=True, slots=True)
class Problem:
    """Something to tell the person: a code to translate by, its values, and the English sentence."""

    code: str
    message: str
    params: dict[str, str | int | float | bool | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the tree.

    Attributes:
        parent_id: the message that it answers or follows; None at the root.
        text: the answer, or what the person wrote.
        thinking: of an answer; never searched, folded in the view.
        thinking_s: how long the thinking took.
        state: see `MessageState`.
        problem: why it is unfinished, if the engine or the network said so.
        notes: codes of remarks: `ended_in_thinking` (there is no answer, only thinking),
            `out_of_context`, `repeat` (it went round in circles), `tool_limit`, `interrupted`
            (the app ended in the middle of it).
        tool_calls: in their order.
        attachments: of a message of the person.
        stats: None before the answer has ended.
    """

    id: str
    conversation_id: str
    parent_id: str | None
    role: Role
    text: str = ""
    thinking: str = ""
    thinking_s: float = 0.0
    state: MessageState = MessageState.COMPLETE
    problem: Problem | None = None
    notes: tuple[str, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    stats: MessageStats | None = None
    created_at: float = field(default_factory=time.time)

    @property
    def is_answer(self) -> bool:
        """Whether the model wrote it."""
        return self.role is Role.ASSISTANT

    @property
    def is_deleted(self) -> bool:
        """Whether the person deleted it."""
        return self.state is MessageState.DELETED

    @property
    def can_continue(self) -> bool:
        """Whether asking to go on with it makes sense."""
        ended = (MessageState.STOPPED, MessageState.CUT, MessageState.UNFINISHED)
        return self.is_answer and self.state in ended

    @property
    def is_empty(self) -> bool:
        """Whether it has nothing to send: such turns teach the model to answer empty."""
        return self.is_deleted or not (self.text.strip() or self.attachments or self.tool_calls)


@dataclass(frozen=True, slots=True)
class Draft:
    """What was written but not sent yet; kept per conversation."""

    text: str = ""
    attachments: tuple[Attachment, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to keep."""
        return not (self.text or self.attachments)


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation without its messages.

    Attributes:
        title: from the first line of the first message, unless the person gave one.
        has_own_title: the person gave it; it is not changed any more.
        active_leaf: id of the last message of the shown path; None = no message.
        draft: what the person has not sent yet.
        updated_at: when a message was added last; the list is sorted by it.
        deleted_at: when it was deleted; None = it was not.
    """

    id: str
    title: str = ""
    has_own_title: bool = False
    active_leaf: str | None = None
    settings: ConversationSettings = ConversationSettings()
    draft: Draft = Draft()
    created_at: float = field(default_factory=time.time)
    updated_at: float = field(default_factory=time.time)
    deleted_at: float | None = None


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A conversation or a message that matches a search.

    Attributes:
        message_id: None when the title matches.
        snippet: a piece of the text around the first match, on one line.
        marks: (begin, end) of the matches within the snippet.
        text_offset: where in the message's text the first match begins.
    """

    conversation_id: str
    message_id: str | None
    title: str
    snippet: str
    marks: tuple[tuple[int, int], ...] = ()
    text_offset: int = 0
    when: float = 0.0
