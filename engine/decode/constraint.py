"""Holds one answer to its form while tokens are chosen (spec/tools_format.md, section 4).

    constraint = AnswerConstraint(start, vocabulary)
    token_id = constraint.choose(logits, sampler.sample)    # masks, samples, moves on
    constraint.take_forced()                                # a token that needs no logits
    constraint.advance(forced_id)                           # for a token that was not chosen
    constraint.rollback(2)                                  # the last two tokens do not count

Thinking is never touched, nor is free text before a call. From a call's token on, and in an answer
that must be JSON, grammars say which tokens may come; `call_form` knows how a call is divided into
grammars and raw text. What no grammar can say (a key twice, a raw value that ends too early) is
found when it has been drawn, and the draw is repeated without that token.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from engine.decode.call_form import CallForm
from engine.decode.grammar_cursor import GrammarCursor
from engine.decode.grammar_vocabulary import GrammarVocabulary
from engine.decode.json_runs import JsonRuns
from engine.decode.json_watch import JsonWatch
from engine.decode.positions import EVERYTHING, Allowed, Position
from engine.decode.sampling import BadLogitsError
from engine.ops.best_logits import RowLogits
from engine.ops.token_mask import TokenMask
from engine.worker.messages import Start

logger = logging.getLogger(__name__)

Sample = Callable[[RowLogits, TokenMask | None], int]
AnyMask = Callable[[RowLogits], int | None]

MAX_REDRAWS = 64  # of one token; then what was drawn first is taken, and the watch on it ends
MAX_NEWLINES = 2  # between thinking, calls and a document
HISTORY = 64  # tokens that can be taken back
MAX_UNREAD = 32  # tokens that a grammar reads at once because they were known to fit


class AnswerConstraint:
    """One answer's form.

    Attributes:
        num_redrawn: tokens that were drawn and could not be taken.
    """

    def __init__(self, start: Start, vocabulary: GrammarVocabulary) -> None:
        """Begin at the end of the prompt.

        Raises:
            ConstraintError: the grammars cannot be used with this model.
        """
        self.num_redrawn = 0
        self._vocabulary = vocabulary
        self._mask = TokenMask(vocabulary.vocab_size)
        self._forced: list[int] = []  # that must come, the next one last
        self._has_choice = False  # known: nothing must come here
        self._history: deque[Position] = deque(maxlen=HISTORY)
        self._form = _Form(start, vocabulary)
        self._position = self._form.start()
        self._num_ids = vocabulary.vocab_size
        self._special_ids = self._form.special_ids

    def choose(self, logits: RowLogits, sample: Sample, any_mask: AnyMask | None = None) -> int:
        """The next token, which becomes part of the answer.

        Args:
            logits: of the row, not changed.
            sample: chooses a token from logits, and from a mask's tokens alone where there is one.
            any_mask: what `sample` would choose with every mask that allows it, where it can say so:
                then the grammar is asked about that token alone, which is far quicker than a mask.

        Raises:
            ConstraintError: the grammar's limits were exceeded.
            BadLogitsError: from `sample`.
        """
        position = self._position
        if position.is_strict:
            if not self._has_choice:
                forced_id = self.take_forced()
                if forced_id is not None:
                    return forced_id
            if any_mask is not None and not self._forced:
                token_id = any_mask(logits)
                after = None if token_id is None else self._unmasked(position, token_id)
                if token_id is not None and after is not None:
                    self._history.append(position)
                    self._position = after
                    self._has_choice = False
                    return token_id
        allowed = position.allowed()
        mask = None if allowed is EVERYTHING else self._mask_of(allowed)
        token_id = sample(logits, mask)
        after = position.after(token_id)
        if after is None and mask is not None:
            return self._redraw(logits, sample, token_id, mask)
        self._move(after or _LEFT)
        return token_id

    def take_forced(self) -> int | None:
        """The only token that may come next, which becomes part of the answer; None = there are more."""
        if self._has_choice:
            return None
        forced, position = self._forced, self._position
        if not forced:
            forced = position.forced()
            if not forced:
                self._has_choice = True
                return None
            forced.reverse()
            self._forced = forced
        after = position.after(forced[-1])
        if after is None:  # what no grammar can say speaks against it
            return None
        self._history.append(position)
        self._position = after
        return forced.pop()

    def advance(self, token_id: int) -> None:
        """A token that was not chosen here became part of the answer."""
        position = self._position.after(token_id)
        if position is None:
            logger.warning(
                "a forced token does not fit an answer's form, which is free from now on"
            )
            position = _LEFT
        self._move(position)

    def rollback(self, num_tokens: int) -> None:
        """Take back the last tokens.

        Raises:
            ValueError: so many are not remembered.
        """
        if num_tokens > len(self._history):
            raise ValueError(f"cannot take back {num_tokens} of {len(self._history)} tokens")
        self._forced = []
        self._has_choice = False
        for _ in range(num_tokens):
            self._position = self._history.pop()

    def _redraw(self, logits: RowLogits, sample: Sample, first_id: int, mask: TokenMask) -> int:
        """Draw again without what was drawn; when nothing else can come, the first one does."""
        refused_id = first_id
        for _ in range(MAX_REDRAWS):
            self.num_redrawn += 1
            mask.forbid(refused_id)
            try:
                token_id = sample(logits, mask)
            except BadLogitsError:  # the first draw had no fault: no token is left
                break
            position = self._position.after(token_id)
            if position is not None:
                self._move(position)
                return token_id
            refused_id = token_id
        position = self._position.after_all(first_id)
        if position is None:
            logger.warning("an answer's form could not be kept")
        self._move(position or _LEFT)
        return first_id

    def _unmasked(self, position: Position, token_id: int) -> Position | None:
        """Where a token leads that was drawn without a mask; None where a mask must decide."""
        # No grammar can be asked about special tokens, and logits may go on behind the vocabulary.
        if token_id in self._special_ids or token_id >= self._num_ids:
            return None
        return position.after(token_id)

    def _move(self, position: Position) -> None:
        if self._forced:
            self._forced = []
        self._has_choice = False
        self._history.append(self._position)
        self._position = position

    def _mask_of(self, allowed: Allowed) -> TokenMask:
        """The tokens that may come; the next call overwrites it."""
        mask, cursor = self._mask, allowed.cursor
        if cursor is not None:
            cursor.write_mask(mask)
            if self._vocabulary.eos_id in mask:  # the text may end here
                for token_id in self._form.stop_ids:
                    mask.allow(token_id)
        elif allowed.fixed is not None:
            mask.copy_from(allowed.fixed)
        else:
            mask.clear()
        for token_id in allowed.ids:
            mask.allow(token_id)
        return mask


class _Form:
    """The parts of one answer, and how they follow each other."""

    def __init__(self, start: Start, vocabulary: GrammarVocabulary) -> None:
        rules = start.constraint
        if rules is None:
            raise ValueError("the request has no constraint")
        self.vocabulary = vocabulary
        self.tokens = vocabulary.tokens
        self.stop_ids = start.stop_ids
        self.special_ids = vocabulary.special_ids.union(start.stop_ids)
        self.starts_in_thinking = start.think_close_id >= 0
        self.think_close_id = vocabulary.think_close_id
        if self.starts_in_thinking:
            self.think_close_id = start.think_close_id
        self.call_open_id = start.call_open_id
        has_tokens = start.call_open_id >= 0 and start.call_close_id >= 0
        self.has_calls = rules.calls != "banned" and has_tokens
        self.is_parallel = rules.is_parallel
        self.is_free = rules.calls != "required" and not rules.document
        self.document: GrammarCursor | None = None
        if rules.document:
            self.document = GrammarCursor(vocabulary.matcher(rules.document))
        self.runs = JsonRuns(vocabulary.shapes, rules.document)
        self.calls = CallForm(
            rules.tools, vocabulary, start.call_close_id, lambda: _AfterCall(self)
        )
        self.free = EVERYTHING
        if not self.has_calls and start.call_open_id >= 0:
            without_calls = TokenMask.without(vocabulary.vocab_size, [start.call_open_id])
            self.free = Allowed(fixed=without_calls)

    def start(self) -> Position:
        """Behind the prompt."""
        if self.starts_in_thinking:
            return _Thinking(self)
        # The prompt ends with the blank line behind thinking that is switched off.
        return _Free(self) if self.is_free else _Opening(self, MAX_NEWLINES)

    def answer(self) -> Position:
        """Behind thinking."""
        return _Free(self) if self.is_free else _Opening(self)

    def separators(self, num_newlines: int) -> list[int]:
        """Tokens of newlines that may still come."""
        room = MAX_NEWLINES - num_newlines
        return [i for i, count in self.vocabulary.newline_ids.items() if count <= room]


@dataclass(frozen=True, slots=True, eq=False)
class _Thinking(Position):
    """Within thinking, which is free."""

    form: _Form

    def allowed(self) -> Allowed:
        return EVERYTHING

    def after(self, token_id: int) -> Position:
        return self.form.answer() if token_id == self.form.think_close_id else self


@dataclass(frozen=True, slots=True, eq=False)
class _Free(Position):
    """In an answer's text, where a call may begin."""

    form: _Form

    def allowed(self) -> Allowed:
        return self.form.free

    def after(self, token_id: int) -> Position:
        form = self.form
        if token_id == form.call_open_id and form.has_calls:
            return form.calls.start()
        if token_id == form.vocabulary.think_id and form.think_close_id >= 0:
            return _Thinking(form)
        return self


@dataclass(frozen=True, slots=True, eq=False)
class _Opening(Position):
    """Before the first call, or the document."""

    form: _Form
    num_newlines: int = 0

    def allowed(self) -> Allowed:
        form = self.form
        calls = [form.call_open_id] if form.has_calls else []
        return Allowed(form.document, (*calls, *form.separators(self.num_newlines)))

    def after(self, token_id: int) -> Position | None:
        form = self.form
        if token_id == form.call_open_id and form.has_calls:
            return form.calls.start()
        count = form.vocabulary.newline_ids.get(token_id)
        if count is not None:
            return _Opening(form, self.num_newlines + count)
        if form.document is None:
            return None
        return _Document(form, form.document, JsonWatch()).after(token_id)


@dataclass(slots=True, eq=False)  # made for each token: freezing takes three times as long
class _Document(Position):
    """In an answer that is one JSON value."""

    form: _Form
    cursor: GrammarCursor
    watch: JsonWatch | None
    room: int = 0  # tokens of less fit for sure (`JsonRuns`)
    unread: tuple[int, ...] = ()  # of those, which the cursor has not read yet

    is_strict = True

    def allowed(self) -> Allowed:
        return Allowed(self._caught_up())

    def _caught_up(self) -> GrammarCursor:
        """The cursor at this place."""
        if self.unread:
            self.cursor, self.unread = self.cursor.read_known(list(self.unread)), ()
        return self.cursor

    def forced(self) -> list[int]:
        return [] if self.room > 0 else self.cursor.forced()

    def after(self, token_id: int) -> Position | None:
        form, watch, room = self.form, self.watch, self.room
        if room > 0 and watch is not None:
            size = form.runs.size_of(token_id, watch)
            if 0 < size < room and len(self.unread) < MAX_UNREAD:
                watch, unread = watch.after(form.tokens[token_id]), (*self.unread, token_id)
                if watch is None:
                    return None
                return _Document(form, self.cursor, watch, room - size, unread)
        if token_id in form.stop_ids:
            return _Ended(form)
        cursor = (self._caught_up() if self.unread else self.cursor).read([token_id])
        if cursor is None:
            return None
        if watch is None:
            return _Ended(form) if cursor.is_done else _Document(form, cursor, None)
        after = watch.after(form.tokens[token_id])
        if after is None:
            return None
        # Nothing is done within an object or array, and not asking is quicker.
        if not after.stack and cursor.is_done:
            return _Ended(form)
        room = form.runs.room_behind(token_id, watch, room, after)
        return _Document(form, cursor, after, room)

    def after_all(self, token_id: int) -> Position | None:
        # Behind a comma every key may be there already: one that comes twice is better than no JSON.
        return None if self.watch is None else replace(self, watch=None, room=0).after(token_id)


@dataclass(frozen=True, slots=True, eq=False)
class _AfterCall(Position):
    """Behind a complete call: another one, or the turn's end."""

    form: _Form
    num_newlines: int = 0

    def allowed(self) -> Allowed:
        form = self.form
        if not form.is_parallel:
            return Allowed(ids=form.stop_ids)
        separators = form.separators(self.num_newlines)
        return Allowed(ids=(*form.stop_ids, form.call_open_id, *separators))

    def after(self, token_id: int) -> Position | None:
        form = self.form
        if token_id in form.stop_ids:
            return _Ended(form)
        if not form.is_parallel:
            return None
        count = form.vocabulary.newline_ids.get(token_id)
        if count is not None:
            return _AfterCall(form, self.num_newlines + count)
        return form.calls.start() if token_id == form.call_open_id else None


@dataclass(frozen=True, slots=True, eq=False)
class _Ended(Position):
    """Behind everything: only the turn's end may follow."""

    form: _Form

    def allowed(self) -> Allowed:
        return Allowed(ids=self.form.stop_ids)

    def after(self, token_id: int) -> Position | None:
        return self if token_id in self.form.stop_ids else None


class _Left(Position):
    """Something else was forced: nothing is enforced any more."""

    def allowed(self) -> Allowed:
        return EVERYTHING

    def after(self, token_id: int) -> Position:  # noqa: ARG002  # every token leads here
        return self


_LEFT = _Left()
