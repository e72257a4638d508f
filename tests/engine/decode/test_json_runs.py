"""Blanks and plain text that are taken without asking the grammar, against what it would say."""

import numpy as np
import pytest

from engine.decode.constraint import MAX_UNREAD, AnswerConstraint
from engine.decode.grammar_cursor import GrammarCursor
from engine.decode.json_runs import AT_START, JsonRuns
from engine.decode.json_watch import JsonWatch
from engine.ops.token_mask import TokenMask
from tests.support.held_answers import DOCUMENT, JSON_OBJECT, AnswerBench, json_schema, largest

LISTED = {"enum": ["red", "reddish", 3, {"a": ["blue", {"b": 1}]}, "a b c"]}
SCHEMAS = {
    "any object": None,
    "nested": DOCUMENT,
    "listed": LISTED,
    "short": {"type": "array", "items": {"type": "string", "maxLength": 5, "minLength": 2}},
    "listed or short": {
        "type": "array",
        "items": {"anyOf": [LISTED, {"type": ["string", "null"], "maxLength": 9}]},
    },
    "const": {"const": {"a": [1, 2, "x y z"], "b": {}}},
    "pattern": {"type": "array", "items": {"type": "string", "pattern": "^[a-z ]{1,9}x$"}},
    "format": {"type": "object", "properties": {"on": {"type": "string", "format": "date"}}},
    "joined": {"allOf": [{"type": "array"}, {"items": {"type": "string", "maxLength": 4}}]},
    "referred": {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/t"}, "b": {"$ref": "#/$defs/t"}},
        "required": ["a", "b"],
        "$defs": {"t": {"type": "string", "maxLength": 12}},
    },
    "any keys": {"type": "object", "additionalProperties": {"type": "string", "maxLength": 7}},
    "a string": {"type": "string", "maxLength": 8},
    "numbers": {"type": "array", "minItems": 99, "items": {"type": ["number", "boolean"]}},
    "whole numbers": {"type": "array", "minItems": 99, "items": {"type": "integer"}},
    "bounded": {
        "type": "array",
        "minItems": 99,
        "items": {"type": "number", "minimum": -12, "maximum": 345},
    },
    "some numbers": {"type": "array", "minItems": 99, "items": {"enum": [1, 22, 23, 777, 0.5]}},
}
WITH_TEXT = {"any object", "short", "listed or short", "referred", "any keys", "a string"}
WITH_DIGITS = {"any object", "numbers", "whole numbers"}
WITHOUT_BLANKS = {"a string"}


@pytest.fixture(scope="module")
def bench() -> AnswerBench:
    return AnswerBench()


def wanted(bench: AnswerBench, rng: np.random.Generator) -> np.ndarray:
    """Logits that want marks of JSON, blanks, text and numbers."""
    logits = rng.normal(size=bench.tokenizer.vocab_size).astype(np.float32)
    marks = ('"', '":', '", "', "{", "[", "]", ",", " ", "  ", "\n")
    for text in (*marks, "x", "red", " the", "0", "1", "7", "-", ".", "e"):
        logits[bench.ids(text)[0]] += rng.random() * 9
    return logits


@pytest.mark.parametrize("name", SCHEMAS)
def test_what_fits_without_asking_is_what_the_grammar_allows(bench: AnswerBench, name: str):
    schema, vocabulary = SCHEMAS[name], bench.vocabulary
    start = bench.start(form=JSON_OBJECT if schema is None else json_schema(schema))
    assert start.constraint is not None
    grammar, shapes = start.constraint.document, vocabulary.shapes
    runs, mask = JsonRuns(shapes, grammar), TokenMask(vocabulary.vocab_size)
    rng, counts = np.random.default_rng(len(name)), {"text": 0, "digits": 0, "blanks": 0}
    for _ in range(12):
        matcher, watch, room = vocabulary.matcher(grammar), JsonWatch(), 0
        for _ in range(60):
            matcher.unsafe_compute_mask_ptr(mask.address, mask.num_bytes)
            if room > 0:
                fits = [i for i in range(mask.num_tokens) if 0 < runs.size_of(i, watch) < room]
                assert all(i in mask for i in fits)
                assert not matcher.compute_ff_tokens()
                kind = "text" if watch.is_in_string else "digits" if watch.number else "blanks"
                counts[kind] += bool(fits)
            for token_id in vocabulary.special_ids:
                mask.forbid(token_id)
            logits = mask.applied(wanted(bench, rng))
            token_id = int(logits.argmax())
            after = watch.after(vocabulary.tokens[token_id])
            if matcher.is_stopped() or not np.isfinite(logits[token_id]) or after is None:
                break
            assert matcher.consume_token(token_id)
            watch, room = after, runs.room_behind(token_id, watch, room, after)
    assert (counts["text"] > 0) == (name in WITH_TEXT)
    assert (counts["digits"] > 0) == (name in WITH_DIGITS)
    assert (counts["blanks"] > 0) == (name not in WITHOUT_BLANKS)


def test_text_that_begins_like_a_listed_one_is_asked_about(bench: AnswerBench):
    start = bench.start(form=json_schema(SCHEMAS["listed or short"]))
    assert start.constraint is not None
    runs = JsonRuns(bench.vocabulary.shapes, start.constraint.document)
    in_value, quote = JsonWatch(), JsonWatch()
    assert quote.feed(b"[")
    assert in_value.feed(b'["')
    (opening,) = bench.ids('"')
    assert runs.room_behind(opening, quote, 0, in_value) == AT_START
    for text, room in (("x", 8), ("r", 0), ("b", 0), ("a", 0), ("\n", 0)):
        assert runs.room_behind(bench.ids(text)[0], in_value, AT_START, in_value) == room, text
    assert runs.room_behind(bench.ids("r")[0], in_value, 8, in_value) == 7


def test_keys_and_quotes_behind_a_backslash_begin_no_run(bench: AnswerBench):
    runs = JsonRuns(bench.vocabulary.shapes, 'start: %json {"x-guidance": {}}')
    assert runs.room_behind(bench.ids(" ")[0], JsonWatch(), 0, JsonWatch()) == 0  # other blanks
    start = bench.start(form=JSON_OBJECT)
    assert start.constraint is not None
    runs = JsonRuns(bench.vocabulary.shapes, start.constraint.document)
    (quote,) = bench.ids('"')

    def room_behind_quote(text: bytes) -> int:
        before, after = JsonWatch(), JsonWatch()
        assert before.feed(text)
        assert after.feed(text + b'"')
        return runs.room_behind(quote, before, 0, after)

    assert room_behind_quote(b'{"a":') == AT_START
    assert room_behind_quote(b"{") == 0
    assert room_behind_quote(b'{"a":"\\') == 0


@pytest.mark.parametrize(
    ("text", "may_go_on"),
    [
        ("[1", True),
        ("[-10", True),
        ("[0.0", True),
        ("[1e5", True),
        ("[0", False),
        ("[-0", False),
        ("[-", False),
        ("[1.", False),
        ("[1e", False),
    ],
)
def test_digits_go_on_behind_digits(bench: AnswerBench, text: str, may_go_on: bool):
    start = bench.start(form=JSON_OBJECT)
    assert start.constraint is not None
    runs = JsonRuns(bench.vocabulary.shapes, start.constraint.document)
    before, after = JsonWatch(), JsonWatch()
    assert before.feed(text[:-1].encode())
    assert after.feed(text.encode())
    assert (runs.room_behind(bench.ids(text[-1])[0], before, 0, after) > 0) == may_go_on


def text_of(bench: AnswerBench, constraint: AnswerConstraint, text: str) -> None:
    """Take the tokens of a text as the model's own."""
    for token_id in bench.ids(text):
        logits = np.zeros(bench.tokenizer.vocab_size, np.float32)
        logits[token_id] = 9
        assert constraint.choose(logits, largest, lambda row: largest(row, None)) == token_id


def test_the_grammar_reads_a_run_at_once_and_no_more_than_is_remembered(
    bench: AnswerBench, monkeypatch: pytest.MonkeyPatch
):
    read, asked, together = GrammarCursor.read, [], []

    def counted(self: GrammarCursor, ids: list[int]) -> GrammarCursor | None:
        asked.append(ids)
        return read(self, ids)

    def noted(self: GrammarCursor, ids: list[int]) -> GrammarCursor:
        together.append(len(ids))
        place = read(self, ids)
        assert place is not None
        return place

    monkeypatch.setattr(GrammarCursor, "read", counted)
    monkeypatch.setattr(GrammarCursor, "read_known", noted)
    constraint = bench.constraint(bench.start(form=JSON_OBJECT))
    text_of(bench, constraint, '{"a": "')
    asked.clear()
    words = " one two three four" * 20
    text_of(bench, constraint, words + '"')
    num_tokens = len(bench.ids(words))
    assert max(together) <= MAX_UNREAD
    assert sum(together) + len(asked) == num_tokens + 1
    assert len(asked) < num_tokens / 10


def test_a_run_can_be_taken_back_in_its_middle(bench: AnswerBench):
    constraint = bench.constraint(bench.start(form=JSON_OBJECT))
    text_of(bench, constraint, '{"a": "one two three')
    rest = bench.ids(" and then some")
    text_of(bench, constraint, " and then some")
    constraint.rollback(len(rest) - 1)
    text_of(bench, constraint, ' or", "b"')
    constraint.rollback(len(bench.ids(' or", "b"')))
    text_of(bench, constraint, '", "c": [1, 2')


def test_special_tokens_are_never_part_of_a_run(bench: AnswerBench):
    shapes = bench.vocabulary.shapes
    for token_id in bench.vocabulary.special_ids:
        assert not shapes.texts[token_id]
        assert not shapes.blanks[token_id]
    start = bench.start(form=JSON_OBJECT)
    constraint = bench.constraint(start)
    text_of(bench, constraint, '{"a": "one two')
    stop_id = start.stop_ids[0]
    logits = np.zeros(bench.tokenizer.vocab_size, np.float32)
    logits[stop_id] = 9
    assert constraint.choose(logits, largest, lambda row: largest(row, None)) != stop_id
