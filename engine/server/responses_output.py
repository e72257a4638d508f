"""The output items of a response: each opens, grows and closes, and says so in events.

    item = MessageItem(output_index)
    item.opening() + item.add("Hel") + item.add("lo") + item.closing(is_complete=True)

An event is a `(name, fields)` pair in OpenAI's order; who sends it adds type and number. Knows one
item at a time: which item comes when is `responses_events`'s business.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from engine.server.front import new_id
from engine.server.responses_custom import CustomInput
from engine.server.responses_sealed import seal
from engine.server.responses_tools import DeclaredTool
from engine.text.events import CallStart

JsonObject = dict[str, object]
OutputEvent = tuple[str, JsonObject]


class OutputItem(ABC):
    """One item of `output`.

    Attributes:
        status: `in_progress`, then `completed` or `incomplete`.
    """

    id_prefix: str

    def __init__(self, output_index: int) -> None:
        self._index = output_index
        self._id = new_id(self.id_prefix)
        self.status = "in_progress"

    @abstractmethod
    def value(self) -> JsonObject:
        """The item with what it holds so far."""

    def opening(self) -> list[OutputEvent]:
        """The events that announce it."""
        added = {"output_index": self._index, "item": self.value()}
        return [("response.output_item.added", added)]

    @abstractmethod
    def add(self, text: str) -> list[OutputEvent]:
        """More of it."""

    def closing(self, *, is_complete: bool) -> list[OutputEvent]:
        """The events that end it."""
        self.status = "completed" if is_complete else "incomplete"
        done = {"output_index": self._index, "item": self.value()}
        return [*self._last_events(), ("response.output_item.done", done)]

    @abstractmethod
    def _last_events(self) -> list[OutputEvent]:
        """What comes before the end of the item itself."""

    def _event(self, name: str, fields: JsonObject) -> OutputEvent:
        return name, {"item_id": self._id, "output_index": self._index, **fields}


class TextItem(OutputItem):
    """An item whose text is its only content part."""

    delta_event: str
    done_event: str

    def __init__(self, output_index: int) -> None:
        super().__init__(output_index)
        self._texts: list[str] = []
        self._has_part = False

    @abstractmethod
    def _part(self) -> JsonObject:
        """The content part."""

    def _extra(self, logprobs: Sequence[JsonObject]) -> JsonObject:  # noqa: ARG002 - for overriding
        """Further fields of an event about the text."""
        return {}

    def _content(self) -> list[JsonObject]:
        return [self._part()] if self._has_part else []

    def opening(self) -> list[OutputEvent]:
        """The item without content, then its empty part: clients index the part."""
        events = super().opening()
        part = self._part_event("response.content_part.added")
        self._has_part = True
        return [*events, part]

    def add(self, text: str) -> list[OutputEvent]:
        """More text."""
        return self._add(text, ())

    def _add(self, text: str, logprobs: Sequence[JsonObject]) -> list[OutputEvent]:
        self._texts.append(text)
        fields = {"content_index": 0, "delta": text, **self._extra(logprobs)}
        return [self._event(self.delta_event, fields)]

    def _part_event(self, name: str) -> OutputEvent:
        return self._event(name, {"content_index": 0, "part": self._part()})

    def _all_logprobs(self) -> Sequence[JsonObject]:
        return ()

    def _last_events(self) -> list[OutputEvent]:
        text = "".join(self._texts)
        fields = {"content_index": 0, "text": text, **self._extra(self._all_logprobs())}
        done = self._event(self.done_event, fields)
        return [done, self._part_event("response.content_part.done")]


class ReasoningItem(TextItem):
    """A stretch of thinking; `seals` adds it once more as the string that stateless clients keep."""

    id_prefix = "rs_"
    delta_event = "response.reasoning_text.delta"
    done_event = "response.reasoning_text.done"

    def __init__(self, output_index: int, *, seals: bool) -> None:
        super().__init__(output_index)
        self._seals = seals

    def value(self) -> JsonObject:
        """The item."""
        item: JsonObject = {"id": self._id, "type": "reasoning", "summary": []}
        item |= {"content": self._content(), "status": self.status}
        if self._seals and self.status != "in_progress":
            item["encrypted_content"] = seal("".join(self._texts))
        return item

    def _part(self) -> JsonObject:
        return {"type": "reasoning_text", "text": "".join(self._texts)}


class MessageItem(TextItem):
    """A stretch of the answer's text."""

    id_prefix = "msg_"
    delta_event = "response.output_text.delta"
    done_event = "response.output_text.done"

    def __init__(self, output_index: int) -> None:
        super().__init__(output_index)
        self._logprobs: list[JsonObject] = []

    def value(self) -> JsonObject:
        """The item."""
        item: JsonObject = {"id": self._id, "type": "message", "status": self.status}
        return {**item, "role": "assistant", "content": self._content()}

    def add_tokens(self, text: str, logprobs: Sequence[JsonObject]) -> list[OutputEvent]:
        """More text with the log-probabilities of its tokens."""
        self._logprobs += logprobs
        return self._add(text, logprobs)

    def _part(self) -> JsonObject:
        text = "".join(self._texts)
        part: JsonObject = {"type": "output_text", "text": text, "annotations": []}
        return {**part, "logprobs": list(self._logprobs)}

    def _extra(self, logprobs: Sequence[JsonObject]) -> JsonObject:
        return {"logprobs": list(logprobs)}

    def _all_logprobs(self) -> Sequence[JsonObject]:
        return self._logprobs


class CallItem(OutputItem):
    """A call of a function."""

    id_prefix = "fc_"
    kind = "function_call"
    text_key = "arguments"
    event_name = "response.function_call_arguments"

    def __init__(self, output_index: int, start: CallStart, tool: DeclaredTool) -> None:
        super().__init__(output_index)
        self._call_id = start.call_id
        self._tool = tool
        self._texts: list[str] = []
        self.is_whole = False

    def value(self) -> JsonObject:
        """The item."""
        item: JsonObject = {"id": self._id, "type": self.kind, "status": self.status}
        item |= {"call_id": self._call_id, "name": self._tool.name}
        if self._tool.namespace is not None:
            item["namespace"] = self._tool.namespace
        return {**item, self.text_key: "".join(self._texts)}

    def add(self, text: str) -> list[OutputEvent]:
        """More of the arguments."""
        if not text:
            return []
        self._texts.append(text)
        return [self._event(f"{self.event_name}.delta", {"delta": text})]

    def end(self) -> list[OutputEvent]:
        """The model has written all of it."""
        self.is_whole = True
        return []

    def _last_events(self) -> list[OutputEvent]:
        if not self.is_whole:  # cut: what there is must not look like arguments to run
            return []
        return [self._event(f"{self.event_name}.done", {self.text_key: "".join(self._texts)})]


class CustomCallItem(CallItem):
    """A call of a custom tool: free text."""

    id_prefix = "ctc_"
    kind = "custom_tool_call"
    text_key = "input"
    event_name = "response.custom_tool_call_input"

    def __init__(self, output_index: int, start: CallStart, tool: DeclaredTool) -> None:
        super().__init__(output_index, start, tool)
        self._input = CustomInput()

    def add(self, text: str) -> list[OutputEvent]:
        """More of the arguments that the text comes in."""
        return super().add(self._input.feed(text))

    def end(self) -> list[OutputEvent]:
        """The model has written all of it."""
        events = super().add(self._input.finish())
        return [*events, *super().end()]

    def closing(self, *, is_complete: bool) -> list[OutputEvent]:
        """The events that end it.

        Half of a function's arguments is no JSON and harms nobody; half of a text could be half a
        shell command, and agents run a call at this event without looking at its status. So a call
        that was cut has no end of its own, and is found only in the whole response.
        """
        events = super().closing(is_complete=is_complete)
        return events if self.is_whole else []
