"""The model's tokenizer, built from the metadata of its GGUF file.

Byte-level BPE (`tokenizer.ggml.model` = `gpt2`) with the family's pre-tokeniser
(`tokenizer.ggml.pre` = `qwen35`): spec/qwen4exp.md, section 10. The merging itself is done by the
`tokenizers` package; this module checks the metadata, decides what may become a special token, and
turns ids back into bytes. It knows nothing of messages, templates or streams.

Two kinds of tokens are kept apart from the start:

* ordinary tokens (type 1) are the vocabulary of the BPE model;
* special tokens (type 3, control; type 4, user defined) are *not* in it, so that no text whatever
  can merge into one. Only `encode(..., parse_special=True)` and the template's own text (prompt.py)
  look for them, by their exact spelling (spec/tools_format.md, T1 and T2).

    >>> tokenizer.encode("<|im_end|>")                       # what a person typed: plain pieces
    [27, 91, 318, 62, 408, 91, 29]
    >>> tokenizer.encode("<|im_end|>", parse_special=True)   # what a template wrote
    [376]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NoReturn

import tokenizers
from tokenizers import models, normalizers, pre_tokenizers

from engine.core.errors import InputError
from engine.text.vocabulary import Vocabulary, read_vocabulary, refuse

# spec/qwen4exp.md, section 10. Marks belong to letters, digits stand alone.
PRE_TOKENIZER_REGEX = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

# Long texts are encoded in pieces of about this size, which bounds the memory for offsets (about
# 150 bytes per token inside the library).
PIECE_CHARS = 100_000
# A place where the pre-tokeniser splits whatever stands around it: an ASCII letter or digit before
# white space (no piece continues over it, and the regex looks back nowhere).
_PIECE_END = re.compile(r"[A-Za-z0-9](?=[ \t\r\n])")

# The regex engine gives up (and panics) on a run of about 10 million blanks; measured 2026-11-30.
MAX_BLANK_RUN = 2_000_000
_BLANKS = re.compile(r"\s+")
_SURROGATES = re.compile("[\ud800-\udfff]")

# NFC joins at most three characters into one (a Hangul syllable of three letters).
MAX_NFC_SHRINK = 3

# The special tokens are found by one alternation, so they are limited far above any real model
# (about 280 tokens of up to 20 characters).
MAX_SPECIAL_TOKENS = 1024
MAX_SPECIAL_CHARS = 128


@dataclass(frozen=True, slots=True)
class StructureIds:
    """Ids of the tokens that carry structure; None where the vocabulary lacks the token."""

    think: int | None
    think_end: int | None
    tool_call: int | None
    tool_call_end: int | None
    im_start: int | None
    im_end: int | None
    endoftext: int | None


class Tokenizer:
    """Text to token ids and back, for one vocabulary.

    Attributes:
        vocab_size: number of tokens, special and unused ones included.
        eos_ids: tokens that end a turn: the file's end-of-text token, `<|im_end|>` and
            `<|endoftext|>`, as far as the vocabulary has them.
        structure: ids of the thinking, tool-call and turn tokens.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._special_ids: dict[str, int] = vocabulary.special_ids
        if len(self._special_ids) > MAX_SPECIAL_TOKENS:
            refuse(
                f"declares {len(self._special_ids)} special tokens; at most {MAX_SPECIAL_TOKENS} "
                "are accepted"
            )
        if any(len(spelling) > MAX_SPECIAL_CHARS for spelling in self._special_ids):
            refuse(f"declares a special token of more than {MAX_SPECIAL_CHARS} characters")
        # Longest first: where one special token begins another, the longer one is meant.
        spellings = sorted(self._special_ids, key=len, reverse=True)
        self._special_regex = re.compile("|".join(map(re.escape, spellings)) or r"(?!)")
        self._bpe = _build_bpe(vocabulary)
        self._normaliser = normalizers.NFC()
        self.vocab_size = len(vocabulary.tokens)
        # In the byte alphabet a character is a byte; a token covers no more characters than that.
        self._longest_token_chars = max(map(len, vocabulary.tokens), default=1)
        self.structure = StructureIds(
            think=self.special_id("<think>"),
            think_end=self.special_id("</think>"),
            tool_call=self.special_id("<tool_call>"),
            tool_call_end=self.special_id("</tool_call>"),
            im_start=self.special_id("<|im_start|>"),
            im_end=self.special_id("<|im_end|>"),
            endoftext=self.special_id("<|endoftext|>"),
        )
        ends = (vocabulary.eos_id, self.structure.im_end, self.structure.endoftext)
        self.eos_ids = frozenset(token_id for token_id in ends if token_id is not None)
        if not self.eos_ids:
            refuse("names no token that ends a turn (`tokenizer.ggml.eos_token_id`)")

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, object]) -> Tokenizer:
        """The tokenizer that a GGUF's `tokenizer.ggml.*` keys describe.

        Args:
            metadata: the file's keys; arrays may be any sequences, lazily read ones too.

        Raises:
            ModelFileError: a key is missing, of the wrong kind, or contradicts another.
        """
        return cls(read_vocabulary(metadata))

    def encode(
        self, text: str, *, parse_special: bool = False, normalise: bool = True
    ) -> list[int]:
        """The token ids of `text`.

        Args:
            text: any string; lone surrogates count as U+FFFD.
            parse_special: whether special tokens are recognised by their spelling. False for
                everything that people, tools and models wrote (T2): then no special id appears.
            normalise: bring the text to NFC first, as the reference tokenizer does.

        Raises:
            InputError: the text holds more than two million blanks in a row.
        """
        if not parse_special:
            return self._encode_ordinary(text, normalise=normalise)
        ids: list[int] = []
        for piece, special in self.split_special(text):
            if special is None:
                ids += self._encode_ordinary(piece, normalise=normalise)
            else:
                ids.append(special)
        return ids

    def least_tokens(self, num_chars: int) -> int:
        """How many tokens a text of this length has at the least, whatever it says.

        A cheap answer to "can this fit at all" before millions of characters are merged.
        """
        return num_chars // (MAX_NFC_SHRINK * self._longest_token_chars)

    def split_special(self, text: str) -> Iterator[tuple[str, int | None]]:
        """`text` cut at its special tokens: (piece, None) for text, (spelling, id) for a token."""
        start = 0
        for match in self._special_regex.finditer(text):
            if match.start() > start:
                yield text[start : match.start()], None
            yield match.group(), self._special_ids[match.group()]
            start = match.end()
        if start < len(text):
            yield text[start:], None

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes that this token stands for (special tokens: their spelling in UTF-8).

        Raises:
            InputError: the vocabulary has no such id.
        """
        return self._vocabulary.token_bytes(self._checked(token_id))

    def token_text(self, token_id: int) -> str:
        """The token's bytes as text; bytes that are no whole character show as U+FFFD."""
        return self.token_bytes(token_id).decode("utf-8", errors="replace")

    def is_control(self, token_id: int) -> bool:
        """Whether the token is never shown (type 3; `<think>` and `<tool_call>` are type 4)."""
        return self._vocabulary.is_control(self._checked(token_id))

    def is_ordinary(self, token_id: int) -> bool:
        """Whether text may become this token: it is neither special nor unused."""
        spelling = self._vocabulary.tokens[self._checked(token_id)]
        return self._vocabulary.ordinary_ids.get(spelling) == token_id

    def special_id(self, text: str) -> int | None:
        """The id of the special token with exactly this spelling, None if there is none."""
        return self._special_ids.get(text)

    def decode(self, ids: Iterable[int], *, skip_control: bool = True) -> str:
        """The text of `ids`; broken UTF-8 becomes U+FFFD, control tokens are left out."""
        return b"".join(
            self.token_bytes(token_id)
            for token_id in ids
            if not (skip_control and self.is_control(token_id))
        ).decode("utf-8", errors="replace")

    def _checked(self, token_id: int) -> int:
        if not 0 <= token_id < self.vocab_size:
            raise InputError(
                f"Token {token_id} does not exist: the vocabulary has {self.vocab_size} tokens.",
                code="unknown_token",
                params={"token_id": token_id, "vocab_size": self.vocab_size},
            )
        return token_id

    def _encode_ordinary(self, text: str, *, normalise: bool) -> list[int]:
        if not text.isascii():
            # JSON lets clients send half of a surrogate pair; no UTF-8 exists for it.
            text = _SURROGATES.sub("\ufffd", text)
            if normalise:
                # Not unicodedata.normalize: it sorts runs of marks by insertion, in quadratic time
                # (1.2 s for 40,000 of them; this one 2 ms).
                text = self._normaliser.normalize_str(text)
        _refuse_blank_runs(text)
        if len(text) <= PIECE_CHARS:
            return self._merge(text)
        ids: list[int] = []
        for piece in _pieces(text):
            ids += self._merge(piece)
        return ids

    def _merge(self, text: str) -> list[int]:
        ids: list[int] = self._bpe.encode(text, add_special_tokens=False).ids
        return ids


def _build_bpe(vocabulary: Vocabulary) -> tokenizers.Tokenizer:
    """The library's BPE over the ordinary tokens alone."""
    try:
        model = models.BPE(vocab=vocabulary.ordinary_ids, merges=vocabulary.merges)
        bpe = tokenizers.Tokenizer(model)
    except Exception as error:  # noqa: BLE001 - the library raises bare Exception for bad merges
        _refuse_merges(vocabulary, error)
    except BaseException as error:
        # A panic of the Rust side arrives as a BaseException of a class that cannot be imported.
        if type(error).__name__ != "PanicException":
            raise
        _refuse_merges(vocabulary, error)
    split = pre_tokenizers.Split(tokenizers.Regex(PRE_TOKENIZER_REGEX), behavior="isolated")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    bpe.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
    return bpe


def _refuse_merges(vocabulary: Vocabulary, cause: BaseException) -> NoReturn:
    """Find the merge that the library refused, and say which it was."""
    known = vocabulary.ordinary_ids
    for index, (left, right) in enumerate(vocabulary.merges):
        for token in (left, right, left + right):
            if token not in known:
                refuse(
                    f"has a merge (number {index}) that needs {token[:40]!r}, which is not among "
                    "its ordinary tokens",
                    cause,
                )
    refuse(f"has a vocabulary that the tokenizer library refuses ({str(cause)[:100]})", cause)


def _refuse_blank_runs(text: str) -> None:
    if len(text) <= MAX_BLANK_RUN:
        return
    longest = max((m.end() - m.start() for m in _BLANKS.finditer(text)), default=0)
    if longest > MAX_BLANK_RUN:
        raise InputError(
            f"The text holds {longest} blanks in a row; at most {MAX_BLANK_RUN} can be tokenized. "
            "Shorten the run.",
            code="text_too_long",
            params={"blanks": longest, "limit": MAX_BLANK_RUN},
        )


def _pieces(text: str) -> Iterator[str]:
    """`text` cut where the pre-tokeniser would cut anyway, so that the ids stay the same."""
    start = 0
    while len(text) - start > PIECE_CHARS:
        match = _PIECE_END.search(text, start + PIECE_CHARS)
        if match is None:
            break
        yield text[start : match.end()]
        start = match.end()
    yield text[start:]
