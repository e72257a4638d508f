"""The vocabulary in a GGUF's metadata: read, checked, and mapped to bytes.

Knows the keys `tokenizer.ggml.*` and GPT-2's byte alphabet; knows nothing of merging text. A file
is refused here, with one sentence, before anything is built from its numbers.

Byte-level BPE spells each byte as one printable character: bytes that print stand for themselves,
the other 68 get the characters from U+0100 on (so a blank is `Ġ`, U+0120). Source: the GPT-2
tokenizer's published byte table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn

from engine.core.errors import ModelFileError

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
_TOKEN_TYPES = frozenset({NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE})


def _byte_alphabet() -> dict[str, int]:
    """Character -> byte, for all 256 bytes."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    alphabet = {chr(byte): byte for byte in printable}
    alphabet.update({chr(0x100 + index): byte for index, byte in enumerate(others)})
    return alphabet


BYTE_OF_CHAR = _byte_alphabet()


def refuse(what: str, cause: BaseException | None = None) -> NoReturn:
    """Raise the sentence for a tokenizer that cannot be used; `what` continues "The model file"."""
    raise ModelFileError(
        f"The model file {what}. Download the file again, or choose another model.",
        code="bad_tokenizer",
        params={"detail": what},
    ) from cause


class Vocabulary:
    """The tokens of one file, in id order.

    Attributes:
        tokens: spelling of each id (ordinary tokens in the byte alphabet).
        merges: pairs that BPE joins, the most wanted first.
        eos_id: the file's end-of-text token, if it names one.
        ordinary_ids: spelling -> id of the tokens that text may become.
        special_ids: spelling -> id of the control and user-defined tokens.
    """

    def __init__(
        self,
        tokens: list[str],
        token_types: list[int],
        merges: list[tuple[str, str]],
        eos_id: int | None,
    ) -> None:
        self.tokens = tokens
        self.merges = merges
        self.eos_id = eos_id
        self._types = token_types
        self.ordinary_ids: dict[str, int] = {}
        self.special_ids: dict[str, int] = {}
        for token_id, (token, kind) in enumerate(zip(tokens, token_types, strict=True)):
            if kind == NORMAL:
                self.ordinary_ids[token] = token_id
            elif kind in (CONTROL, USER_DEFINED):
                self.special_ids[token] = token_id
        self._bytes: dict[int, bytes] = {}  # filled as tokens are met

    def is_control(self, token_id: int) -> bool:
        """Whether the token is of the control type."""
        return self._types[token_id] == CONTROL

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes of one token."""
        known = self._bytes.get(token_id)
        if known is None:
            known = self._bytes[token_id] = self._spelled_bytes(token_id)
        return known

    def _spelled_bytes(self, token_id: int) -> bytes:
        token = self.tokens[token_id]
        if self._types[token_id] == NORMAL:
            try:
                return bytes([BYTE_OF_CHAR[char] for char in token])
            except KeyError:
                pass  # not spelled in the alphabet: some files hold plain text here
        return token.encode("utf-8", errors="replace")


def read_vocabulary(metadata: Mapping[str, object]) -> Vocabulary:
    """The checked vocabulary of a file.

    Raises:
        ModelFileError: a key is missing, of the wrong kind, or contradicts another.
    """
    for key, wanted in (("model", "gpt2"), ("pre", "qwen35")):
        found = metadata.get(f"tokenizer.ggml.{key}")
        if found != wanted:
            shown = "none" if found is None else repr(found)[:60]
            refuse(f"needs the tokenizer `{wanted}` under `tokenizer.ggml.{key}`, but has {shown}")
    tokens = _strings(metadata, "tokens")
    types = _integers(metadata, "token_type")
    if not tokens:
        refuse("has an empty vocabulary")
    if len(types) != len(tokens):
        refuse(f"has {len(tokens)} tokens but {len(types)} token types")
    if unknown := set(types) - _TOKEN_TYPES:
        refuse(f"has tokens of the unknown type {min(unknown)}")
    merges = _pairs(_strings(metadata, "merges"))
    vocabulary = Vocabulary(tokens, types, merges, _eos_id(metadata, len(tokens)))
    _check_tokens(vocabulary, types)
    return vocabulary


def _check_tokens(vocabulary: Vocabulary, types: list[int]) -> None:
    """Refuse vocabularies with ambiguous, empty or missing tokens."""
    ordinary, special = vocabulary.ordinary_ids, vocabulary.special_ids
    if "" in special or "" in ordinary:
        refuse("has a token without text")
    if len(ordinary) != types.count(NORMAL):
        refuse("has the same ordinary token twice")
    if len(special) != types.count(CONTROL) + types.count(USER_DEFINED):
        refuse("has the same special token twice")
    # Without a token for each byte some texts would silently lose characters.
    missing = [byte for char, byte in BYTE_OF_CHAR.items() if char not in ordinary]
    if missing:
        refuse(f"has no token for {len(missing)} of the 256 bytes (the first is {min(missing)})")


def _sequence(metadata: Mapping[str, object], key: str) -> Iterable[object]:
    name = f"tokenizer.ggml.{key}"
    value = metadata.get(name)
    if value is None:
        refuse(f"lacks `{name}`")
    if isinstance(value, str | bytes) or not (
        isinstance(value, Sequence) or (hasattr(value, "__iter__") and hasattr(value, "__len__"))
    ):
        refuse(f"has no array under `{name}`")
    return value


def _strings(metadata: Mapping[str, object], key: str) -> list[str]:
    values = list(_sequence(metadata, key))
    strings = [value for value in values if isinstance(value, str)]
    if len(strings) != len(values):
        refuse(f"has values under `tokenizer.ggml.{key}` that are not text")
    try:
        "".join(strings).encode("utf-8")
    except UnicodeEncodeError as error:
        refuse(f"has text under `tokenizer.ggml.{key}` that is not valid UTF-8", error)
    return strings


def _integers(metadata: Mapping[str, object], key: str) -> list[int]:
    try:
        return [int(value) for value in _sequence(metadata, key)]  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError) as error:
        refuse(f"has values under `tokenizer.ggml.{key}` that are not numbers", error)


def _pairs(merges: list[str]) -> list[tuple[str, str]]:
    # The byte alphabet has no blank, so one blank separates exactly two tokens.
    pairs = [merge.split(" ") for merge in merges]
    for index, pair in enumerate(pairs):
        if len(pair) != 2 or not pair[0] or not pair[1]:
            refuse(f"has a merge (number {index}) that does not name two tokens")
    return [(left, right) for left, right in pairs]


def _eos_id(metadata: Mapping[str, object], num_tokens: int) -> int | None:
    value = metadata.get("tokenizer.ggml.eos_token_id")
    if value is None:
        return None
    try:
        eos_id = int(value)  # type: ignore[call-overload]  # the error is the test
    except (TypeError, ValueError, OverflowError) as error:
        refuse("has no number under `tokenizer.ggml.eos_token_id`", error)
    if not 0 <= eos_id < num_tokens:
        refuse(f"names token {eos_id} as its end of text, but has only {num_tokens} tokens")
    return int(eos_id)
