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
        if self._position.is_strict:
            quick_id = self.take_forced()
            if quick_id is None and any_mask is not None and not self._forced:
                quick_id = self._unmasked(any_mask(logits))
            if quick_id is not None:
                return quick_id
        allowed = self._position.allowed()
        mask = None if allowed is EVERYTHING else self._mask_of(allowed)
        token_id = sample(logits, mask)
        position = self._position.after(token_id)
        if position is None and mask is not None:
            return self._redraw(logits, sample, token_id, mask)
        self._move(position or _LEFT)
        return token_id

    def take_forced(self) -> int | None:
        """The only token that may come next, which becomes part of the answer; None = there are more."""
        if self._has_choice:
            return None
        if not self._forced:
            forced = self._position.forced()
            if not forced:
                self._has_choice = True
                return None
            self._forced = forced[::-1]
        position = self._position.after(self._forced[-1])
        if position is None:  # what no grammar can say speaks against it
            return None
        token_id = self._forced[-1]
        forced = self._forced[:-1]
        self._move(position)
        self._forced = forced
        return token_id

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

    def _unmasked(self, token_id: int | None) -> int | None:
        """Take a token that needs no mask if it is allowed; None where the mask must decide."""
        if token_id is None or token_id >= self._vocabulary.vocab_size:
            return None
        if token_id in self._form.special_ids:  # no grammar can be asked about these
            return None
        position = self._position.after(token_id)
        if position is None:
            return None
        self._move(position)
        return token_id

    def _move(self, position: Position) -> None:
        if self._forced:
            self._forced = []
        self._has_choice = False
        self._history.append(self._position)
        self._position = position

    def _mask_of(self, allowed: Allowed) -> TokenMask:
        """The tokens that may come; the next call overwrites it."""
        mask = self._mask
        if allowed.fixed is not None:
            mask.copy_from(allowed.fixed)
        elif allowed.cursor is None:
            mask.clear()
        else:
            allowed.cursor.write_mask(mask)
            if self._vocabulary.eos_id in mask:  # the text may end here
                for token_id in self._form.stop_ids:
                    mask.allow(token_id)
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

    is_strict = True

    def allowed(self) -> Allowed:
        return Allowed(self.cursor)

    def forced(self) -> list[int]:
        return self.cursor.forced()

    def after(self, token_id: int) -> Position | None:
        form, watch = self.form, self.watch
        if token_id in form.stop_ids:
            return _Ended(form)
        cursor = self.cursor.read([token_id])
        if cursor is None:
            return None
        if watch is not None:
            watch = watch.after(form.vocabulary.token_bytes(token_id))
            if watch is None:
                return None
        return _Ended(form) if cursor.is_done else _Document(form, cursor, watch)

    def after_all(self, token_id: int) -> Position | None:
        # Behind a comma every key may be there already: one that comes twice is better than no JSON.
        return None if self.watch is None else replace(self, watch=None).after(token_id)


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
