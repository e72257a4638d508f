r"""The form of a call, from its opening token to its closing one (spec/tools_format.md, section 3).

    <tool_call> \n<function=NAME>\n  ( <parameter=NAME>\n VALUE \n</parameter>\n )*  </function>\n </tool_call>

No single grammar describes it: parameters come in any order, none twice, the required ones all, and
raw text may be anything. So a call is a chain of small grammars, each made from what has been seen so
far, with raw values between them. Where a raw value ends, the parser's own reader decides; text that
stands in the same token behind that end is read by the next grammar byte by byte.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from engine.decode.grammar_cursor import GrammarCursor
from engine.decode.grammar_vocabulary import GrammarVocabulary
from engine.decode.json_watch import JsonWatch
from engine.decode.positions import Allowed, Position
from engine.text.events import ToolSpec
from engine.text.tool_table import NameSet, ToolTable
from engine.text.value_reader import (
    FUNCTION_CLOSE,
    FUNCTION_OPEN,
    PARAMETER_OPEN,
    ValueEnd,
    ValueReader,
)
from engine.worker.messages import ToolRule

LINE_END = ">\n"
HEAD = "\n" + FUNCTION_OPEN
_NEWLINE = 'start: "\\n"'


class CallPosition(Position):
    """A place in a call, which can also be moved by text that is only a part of a token."""

    def after_text(self, text: bytes) -> Position | None:
        """Where this text leads; None when it must not come."""


class CallForm:
    """The calls that some tools allow."""

    def __init__(
        self,
        tools: Sequence[ToolRule],
        vocabulary: GrammarVocabulary,
        close_id: int,
        after_call: Callable[[], Position],
    ) -> None:
        """Describe calls.

        Args:
            tools: which may be called.
            vocabulary: the model's.
            close_id: the token that ends a call.
            after_call: gives the position behind a complete call.
        """
        self.vocabulary = vocabulary
        self.close_id = close_id
        self.after_call = after_call
        self.raw = Allowed(fixed=vocabulary.ordinary)
        self.close = Allowed(ids=(close_id,))
        self._tools = {tool.name: tool for tool in tools}
        self._table: ToolTable | None = None

    @property
    def table(self) -> ToolTable:
        """The tools as the parser's reader knows them."""
        if self._table is None:
            self._table = ToolTable(
                [
                    ToolSpec(tool.name, {"properties": {p.name: {} for p in tool.parameters}})
                    for tool in self._tools.values()
                ]
            )
        return self._table

    def start(self) -> CallPosition:
        """Behind the opening token."""
        grammar = f"start: {_words(HEAD)} {_choice(self._tools)} {_words(LINE_END)}"

        def named(text: bytes) -> CallPosition:
            name = text.decode()[len(HEAD) : -len(LINE_END)]
            return _Arguments(self, self._tools[name]).between()

        return self.words(grammar, named)

    def words(
        self, grammar: str, then: Callable[[bytes], CallPosition], watch: JsonWatch | None = None
    ) -> CallPosition:
        """At the start of a grammar, behind which `then` gives the next position."""
        cursor = GrammarCursor(self.vocabulary.matcher(grammar))
        return _Words(self.vocabulary, cursor, then, watch)


@dataclass(frozen=True, slots=True, eq=False)
class _Arguments:
    """The parameters of a call under way, between two of them."""

    form: CallForm
    tool: ToolRule
    seen: frozenset[str] = frozenset()

    @property
    def remaining(self) -> list[str]:
        return [p.name for p in self.tool.parameters if p.name not in self.seen]

    @property
    def may_close(self) -> bool:
        return all(p.name in self.seen for p in self.tool.parameters if p.is_required)

    def between(self) -> CallPosition:
        """At the start of a line, where a parameter or the function's end may follow."""
        ways: list[str] = []
        if self.remaining:
            ways.append(f"{_words(PARAMETER_OPEN)} {_choice(self.remaining)} {_words(LINE_END)}")
        if self.may_close:
            ways.append(_words(FUNCTION_CLOSE + "\n"))

        def opened(text: bytes) -> CallPosition:
            line = text.decode()
            if line.startswith(FUNCTION_CLOSE):
                return _Close(self.form)
            return self.value(line[len(PARAMETER_OPEN) : -len(LINE_END)])

        return self.form.words(f"start: {' | '.join(ways)}", opened)

    def value(self, name: str) -> CallPosition:
        """At the start of a parameter's value."""
        rule = next(p for p in self.tool.parameters if p.name == name)
        after = _Arguments(self.form, self.tool, self.seen | {name})
        if rule.grammar:
            watch = JsonWatch() if "%json" in rule.grammar else None
            return self.form.words(rule.grammar, lambda _: after.between(), watch)
        names = NameSet(p.name for p in self.tool.parameters)
        return _Raw(after, ValueReader(names, self.form.table))

    def name_line(self) -> CallPosition | None:
        """Behind "<parameter=", where a name must follow."""
        if not self.remaining:
            return None
        grammar = f"start: {_choice(self.remaining)} {_words(LINE_END)}"
        return self.form.words(grammar, lambda text: self.value(text.decode()[: -len(LINE_END)]))

    def value_of(self, name: str) -> CallPosition | None:
        """Behind "<parameter=NAME>", where the line must end."""
        if name not in self.remaining:
            return None
        return self.form.words(_NEWLINE, lambda _: self.value(name))

    def closing(self) -> CallPosition | None:
        """Behind "</function>"."""
        if not self.may_close:
            return None
        return self.form.words(_NEWLINE, lambda _: _Close(self.form))


@dataclass(frozen=True, slots=True, eq=False)
class _Words(CallPosition):
    """Within text that a grammar describes."""

    vocabulary: GrammarVocabulary
    cursor: GrammarCursor
    then: Callable[[bytes], CallPosition]
    watch: JsonWatch | None
    text: bytes = b""  # so far, unless it is JSON

    is_strict = True

    def allowed(self) -> Allowed:
        return Allowed(self.cursor)

    def forced(self) -> list[int]:
        return self.cursor.forced()

    def after(self, token_id: int) -> Position | None:
        return self._moved([token_id], self.vocabulary.token_bytes(token_id))

    def after_all(self, token_id: int) -> Position | None:
        return None if self.watch is None else replace(self, watch=None).after(token_id)

    def after_text(self, text: bytes) -> Position | None:
        position: CallPosition | None = self
        for i in range(len(text)):
            if not isinstance(position, _Words):
                return None if position is None else position.after_text(text[i:])
            byte = text[i : i + 1]
            position = position._moved(self.vocabulary.byte_ids(byte), byte)
        return position

    def _moved(self, token_ids: list[int], text: bytes) -> CallPosition | None:
        cursor = self.cursor.read(token_ids)
        if cursor is None:
            return None
        watch = self.watch
        if watch is not None:
            watch, text = watch.after(self.vocabulary.spelled(token_ids)), b""
            if watch is None:
                return None
        text = self.text + text
        if cursor.is_done:
            return self.then(text)
        return _Words(self.vocabulary, cursor, self.then, watch, text)


@dataclass(frozen=True, slots=True, eq=False)
class _Raw(CallPosition):
    """Within a raw value. Everything may come but special tokens and an end that is too early."""

    arguments: _Arguments  # as they will be when this value has ended
    reader: ValueReader
    undecoded: bytes = b""  # the start of a character

    def allowed(self) -> Allowed:
        return self.arguments.form.raw

    def after(self, token_id: int) -> Position | None:
        return self.after_text(self.arguments.form.vocabulary.token_bytes(token_id))

    def after_text(self, text: bytes) -> Position | None:
        whole = self.undecoded + text
        decoded, num_decoded = codecs.utf_8_decode(whole, "replace", False)
        reader = self.reader.copy()
        stop = reader.feed(decoded, 0)
        reader.take()
        if reader.end is None:
            if not self._may_go_on(reader.after_close):
                return None
            return _Raw(self.arguments, reader, whole[num_decoded:])
        rest = decoded[stop:].encode() + whole[num_decoded:]
        position = self._after_end(reader)
        return position.after_text(rest) if position is not None and rest else position

    def _may_go_on(self, tag: str | None) -> bool:
        """Whether this start of a tag behind "</parameter>" may become a tag that is in order."""
        if not tag or len(tag) < 2:
            return True
        if tag.startswith("</"):
            return self.arguments.may_close
        return PARAMETER_OPEN.startswith(tag) and bool(self.arguments.remaining)

    def _after_end(self, reader: ValueReader) -> CallPosition | None:
        match reader.end:
            case ValueEnd.PARAMETER_OPEN:
                return self.arguments.name_line()
            case ValueEnd.DECLARED_PARAMETER:
                return self.arguments.value_of(reader.name)
            case ValueEnd.FUNCTION_CLOSE:
                return self.arguments.closing()
            case _:
                return None


@dataclass(frozen=True, slots=True, eq=False)
class _Close(CallPosition):
    """Behind the function's end."""

    form: CallForm

    def allowed(self) -> Allowed:
        return self.form.close

    def after(self, token_id: int) -> Position | None:
        return self.form.after_call() if token_id == self.form.close_id else None

    def after_text(self, text: bytes) -> Position | None:
        return self if not text else None


def _words(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _choice(names: Sequence[str] | dict[str, ToolRule]) -> str:
    return "(" + " | ".join(_words(name) for name in names) + ")"
