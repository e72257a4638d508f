"""Stretches of JSON whose tokens are known to fit without asking the grammar: blanks, text, digits.

    runs = JsonRuns(vocabulary, document_grammar)
    room = runs.room_behind(token_id, before, room, after)   # behind a token that the grammar read
    size = runs.size_of(token_id, after)                     # of the next one; it fits when 0 < size < room

White space between the tokens of a document is one newline with up to `MAX_BLANKS` blanks, or so many
blanks (engine/text/value_grammar.py). In the middle of such a run another blank always fits, and
something else does too. A string's value takes any characters unless its schema lists what it may be
or says more than a length. So once the grammar has read the first characters of one, and nothing that
the schema lists begins like that, all further ones fit up to the smallest `maxLength`. Characters here
are those of ASCII that stand for themselves. A number takes digits behind a digit (not behind a zero that
it begins with) where the schema lists no numbers and sets them no bounds. Schemas with other keywords than those below are asked
about each token.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from engine.decode.json_watch import JsonWatch
from engine.text.value_grammar import DOCUMENT_START, MAX_BLANKS, WHITE_SPACE

AT_START = -1  # in place of a room: directly behind the opening quote of a value
_NO_RUN = 255
_ANY_LENGTH = 1 << 30
_LONGEST = 254  # of a token that is looked at
_DIGITS = frozenset(b"0123456789")
_WHOLE = (b"0", b"-0")  # no digit may follow

_TEXT = re.compile(rb"[ !#-\[\]-~]+")

# Keywords of schemas, and what stands in them: schemas by name, schemas, and nothing of the kind.
_SCHEMAS_BY_NAME = frozenset({"properties", "$defs"})
_SCHEMAS = frozenset({"anyOf", "oneOf", "prefixItems", "items", "additionalProperties"})
_OF_NUMBERS = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
)
_OTHERS = frozenset(
    (
        *("type", "required", "minItems", "maxItems", "minLength", "maxLength", "enum", "const"),
        *("$ref", "title", "description", "default", "examples"),
    )
)
_KNOWN = _SCHEMAS_BY_NAME | _SCHEMAS | _OF_NUMBERS | _OTHERS


class TokenShapes:
    """What the tokens of a vocabulary are in JSON, in a byte for each.

    Attributes:
        blanks: its length where it is blanks and nothing else, or 0.
        digits: its length where it is digits of ASCII and nothing else, or 0.
        texts: its length where all its characters stand for themselves in a string, or 0.
        ends: how many blanks are at its end, behind a newline or something else; 255 = none.
        opens: whether it ends with a quote, and has no backslash.
        starts: its first byte.
    """

    def __init__(self, tokens: Sequence[bytes], special_ids: Iterable[int]) -> None:
        """Look at all of them; special ones are no text, whatever their spelling."""
        texts = [text if len(text) <= _LONGEST else b"" for text in tokens]
        for token_id in special_ids:
            texts[token_id] = b""
        self.blanks = bytes(0 if text.strip(b" ") else len(text) for text in texts)
        self.digits = bytes(len(text) if text.isdigit() else 0 for text in texts)
        self.texts = bytes(len(text) if _TEXT.fullmatch(text) else 0 for text in texts)
        self.ends = bytes(map(_blanks_at_end, texts))
        self.opens = bytes(text.endswith(b'"') and b"\\" not in text for text in texts)
        self.starts = bytes(text[0] if text else 0 for text in texts)


def _blanks_at_end(text: bytes) -> int:
    rest = text.rstrip(b" ")
    return len(text) - len(rest) if len(rest) < len(text) or rest.endswith(b"\n") else _NO_RUN


class JsonRuns:
    """The runs of one document.

    A run is characters that stand for themselves within a string, digits within a number, or blanks.
    """

    def __init__(self, shapes: TokenShapes, grammar: str) -> None:
        """Look at a document's grammar."""
        self._shapes = shapes
        self._values = _values_of(grammar)

    def size_of(self, token_id: int, watch: JsonWatch) -> int:
        """How much of its run a token takes at this place; 0 = it goes on with none."""
        shapes = self._shapes
        if watch.is_in_string:
            return shapes.texts[token_id]
        return (shapes.digits if watch.number else shapes.blanks)[token_id]

    def room_behind(self, token_id: int, before: JsonWatch, room: int, after: JsonWatch) -> int:
        """What fits for sure behind a token that the grammar has read.

        Args:
            token_id: the token.
            before: the place before it.
            room: what fitted at that place.
            after: the place behind it.

        Returns:
            Tokens of the run fit that are smaller than this, and more than one thing may follow;
            0 = nothing is known, `AT_START` = nothing yet.
        """
        shapes, values = self._shapes, self._values
        if values is None:
            return 0
        number = after.number
        if number:
            may_go_on = values.are_numbers_free and number not in _WHOLE and number[-1] in _DIGITS
            return _ANY_LENGTH if may_go_on else 0
        if not after.is_in_string:
            size = shapes.blanks[token_id]
            if size:
                is_begun = room > 0 and not before.number
                return max((room if is_begun else MAX_BLANKS) - size, 0)
            size = shapes.ends[token_id]
            return 0 if size == _NO_RUN else max(MAX_BLANKS - size, 0)
        if after.is_in_key:
            return 0
        size = shapes.texts[token_id]
        if not size:
            return AT_START if shapes.opens[token_id] and not before.is_escaped else 0
        if room == AT_START:
            is_free = shapes.starts[token_id] not in values.listed_starts
            room = values.max_chars if is_free else 0
        return max(room - size, 0)


@dataclass(frozen=True, slots=True)
class _Values:
    """What a schema says of strings and numbers.

    Attributes:
        max_chars: all strings that are not listed may have at least so many characters.
        listed_starts: first bytes of those that are.
        are_numbers_free: whether numbers may have any digits.
    """

    max_chars: int
    listed_starts: frozenset[int]
    are_numbers_free: bool


@functools.lru_cache(maxsize=64)
def _values_of(grammar: str) -> _Values | None:
    """What is known of the values of a document; None = nothing, nor of its blanks."""
    if not grammar.startswith(DOCUMENT_START):
        return None
    schema = json.loads(grammar[len(DOCUMENT_START) :])
    options = schema.pop("x-guidance", {})
    if options.get("whitespace_pattern") != WHITE_SPACE:
        return None
    max_chars, are_numbers_free, starts = _ANY_LENGTH, True, set[int]()
    for node in _nodes(schema):
        if not node.keys() <= _KNOWN:
            return _Values(0, frozenset(), are_numbers_free=False)
        length = node.get("maxLength", _ANY_LENGTH)
        max_chars = min(max_chars, length if isinstance(length, int) else 0)
        for value in _plain_values([node.get("enum"), node.get("const")]):
            if isinstance(value, str):
                starts.add(value.encode("utf-8", "replace")[0] if value else 0)
            elif value is not None:
                are_numbers_free = False
        if node.keys() & _OF_NUMBERS:
            are_numbers_free = False
    return _Values(max_chars, frozenset(starts), are_numbers_free)


def _nodes(schema: object) -> Iterator[Mapping[str, object]]:
    """Every schema within this one, and itself, as far as known keywords lead."""
    stack = [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, list):
            stack.extend(node)
        elif isinstance(node, Mapping):
            yield node
            stack.extend(node.get(key) for key in _SCHEMAS)
            for key in _SCHEMAS_BY_NAME:
                named = node.get(key)
                stack.extend(named.values() if isinstance(named, Mapping) else ())


def _plain_values(value: object) -> Iterator[object]:
    """What a value is made of, without its keys."""
    stack = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, list):
            stack.extend(node)
        elif isinstance(node, Mapping):
            stack.extend(node.values())
        else:
            yield node
