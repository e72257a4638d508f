"""The vocabulary as grammars see it: bytes of every token, special tokens apart.

llguidance keeps its own trie of the tokens (0.6 s for 248,320 of them); it is built once per model
and shared by all requests. Special tokens are unreachable for any text: they are allowed by id only.
Text that a grammar leaves no choice about is cut into tokens as the model's tokenizer does it, so
that the model sees what it is used to.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence

from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper

from engine.core import deep_stack
from engine.core.errors import EngineError
from engine.decode.grammar_cursor import ConstraintError
from engine.decode.json_runs import TokenShapes
from engine.ops.token_mask import TokenMask
from engine.text.tokenizer import Tokenizer

logger = logging.getLogger(__name__)

_KEPT_GRAMMARS = 256
_KEPT_TEXTS = 4096  # that a grammar leaves no choice about: keys, names, marks between them
_LONG_TEXT_CHARS = 256  # more than that is not kept
# An object of N optional keys needs some 4 N of these; its masks stay below 0.1 s up to 5000 keys
# (llguidance's own default, 2000, ends at 500). Measured 2026-11-30.
_LIMITS = LLParserLimits(max_items_in_row=20_000)
# A grammar of more characters than this is compiled beside the passes: it may take seconds.
LARGE_GRAMMAR_CHARS = 4096
COMPILE_TIMEOUT_S = 30.0
_NEWLINES = (b"\n", b"\n\n")


class _Source(TokenizerWrapper):
    """What llguidance asks of a tokenizer.

    It asks how text is cut where one text alone may follow, for nearly every such place once and once
    more with its mask: half of what it does about them.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        size = tokenizer.vocab_size
        self.special_token_ids = [i for i in range(size) if not tokenizer.is_ordinary(i)]
        self.tokens = [tokenizer.token_bytes(i) for i in range(size)]
        self.eos_token_id = min(tokenizer.eos_ids)
        self.bos_token_id = None
        self.is_tokenizer_wrapper = True
        self._tokenizer = tokenizer
        self._kept = functools.lru_cache(_KEPT_TEXTS)(self._cut)

    def __call__(self, text: str) -> list[int]:
        return self._cut(text) if len(text) > _LONG_TEXT_CHARS else self._kept(text)

    def _cut(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, normalise=False)


class GrammarVocabulary:
    """A model's vocabulary, ready for grammars.

    Attributes:
        vocab_size: number of tokens; a model's logits may have more.
        tokens: the bytes of each token.
        shapes: what they are in JSON.
        eos_id: the id whose bit in a mask says that the text may end.
        ordinary: the tokens that a text may become.
        special_ids: the others.
        newline_ids: tokens of nothing but one or two newlines, and how many.
        think_id: what opens thinking; -1 = none.
        think_close_id: what ends it; -1 = none.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        source = _Source(tokenizer)
        self.vocab_size = tokenizer.vocab_size
        self.eos_id: int = source.eos_token_id
        self.ordinary = TokenMask.without(self.vocab_size, source.special_token_ids)
        self.special_ids = frozenset(source.special_token_ids)
        self.newline_ids = {
            token_id: len(source.tokens[token_id])
            for text in _NEWLINES
            for token_id in tokenizer.encode(text.decode())
            if source.tokens[token_id] in _NEWLINES
        }
        structure = tokenizer.structure
        self.think_id = -1 if structure.think is None else structure.think
        self.think_close_id = -1 if structure.think_end is None else structure.think_end
        self.tokens = source.tokens
        self._byte_ids = {text[0]: i for i, text in enumerate(source.tokens) if len(text) == 1}
        self.shapes = TokenShapes(source.tokens, source.special_token_ids)
        self._trie = LLTokenizer(source)
        self._matchers: OrderedDict[str, LLMatcher] = OrderedDict()

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, object]) -> GrammarVocabulary:
        """The vocabulary that a GGUF's keys describe.

        Raises:
            ModelFileError: they describe none.
        """
        return cls(Tokenizer.from_metadata(metadata))

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes that a token stands for."""
        return self.tokens[token_id]

    def spelled(self, token_ids: Sequence[int]) -> bytes:
        """The bytes that these tokens stand for."""
        return b"".join(self.tokens[token_id] for token_id in token_ids)

    def byte_ids(self, text: bytes) -> list[int]:
        """Tokens of one byte each that spell this text."""
        return [self._byte_ids[byte] for byte in text]

    def matcher(self, grammar: str) -> LLMatcher:
        """A matcher at the start of this grammar.

        Raises:
            ConstraintError: the grammar cannot be used.
        """
        fresh = self._matchers.get(grammar)
        if fresh is None:
            fresh = self.compiled(grammar)
            self.keep(grammar, fresh)
        else:
            self._matchers.move_to_end(grammar)
        if fresh.is_error():
            # Not the library's reason: it quotes the client's schema.
            logger.info("a grammar of %d characters cannot be used", len(grammar))
            raise ConstraintError(
                "The form that this request asks of the answer cannot be enforced with this model; "
                "simplify its schema."
            )
        return fresh.deep_copy()

    def compiled(self, grammar: str) -> LLMatcher:
        """What a grammar becomes, which may be a matcher that tells an error; for any thread."""
        try:
            return deep_stack.call(
                lambda: LLMatcher(self._trie, grammar, log_level=0, limits=_LIMITS),
                COMPILE_TIMEOUT_S,
            )
        except TimeoutError:
            return LLMatcher(self._trie, "start: (", log_level=0)  # which is none

    def keep(self, grammar: str, matcher: LLMatcher) -> None:
        """Remember what a grammar has become."""
        self._matchers[grammar] = matcher
        if len(self._matchers) > _KEPT_GRAMMARS:
            self._matchers.popitem(last=False)

    def missing(self, grammars: Iterable[str]) -> list[str]:
        """Large grammars among these that are not compiled."""
        return [g for g in grammars if len(g) > LARGE_GRAMMAR_CHARS and g not in self._matchers]


class LazyVocabulary:
    """A vocabulary that a thread makes while the model loads; `get` waits for it."""

    def __init__(self, make: Callable[[], GrammarVocabulary]) -> None:
        self._make = make
        self._made: GrammarVocabulary | None = None
        self._error: EngineError | None = None
        self._thread = threading.Thread(target=self._run, name="grammar vocabulary", daemon=True)
        self._thread.start()

    def get(self) -> GrammarVocabulary:
        """The vocabulary.

        Raises:
            ConstraintError: it could not be made.
        """
        self._thread.join()
        if self._made is None:
            raise ConstraintError(
                "The form of answers cannot be enforced with this model: its vocabulary cannot be "
                "used for that. Ask without tools and response_format."
            ) from self._error
        return self._made

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes that a token stands for; none when the vocabulary could not be made."""
        self._thread.join()
        return b"" if self._made is None else self._made.token_bytes(token_id)

    def _run(self) -> None:
        try:
            self._made = self._make()
        except EngineError as error:
            logger.warning("no grammars with this model: %s", error)
            self._error = error
