"""Streaming text: whole characters only, the same text as decoding at once, constant state."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.errors import InputError
from engine.text.detokenizer import StreamingDetokenizer
from tests.support.golden_tokenizer import golden_tokenizer

GOLDEN = Path(__file__).parents[2] / "golden"
TOKENIZER = golden_tokenizer("full")


def stream(ids: list[int]) -> list[str]:
    detokenizer = StreamingDetokenizer(TOKENIZER)
    return [*(detokenizer.push(token_id) for token_id in ids), detokenizer.flush()]


def test_an_emoji_arrives_whole_with_its_last_byte():
    ids = TOKENIZER.encode("😀")
    assert len(ids) == 4
    assert stream(ids) == ["", "", "", "😀", ""]


def test_an_unfinished_character_becomes_one_replacement_character():
    assert stream(TOKENIZER.encode("😀")[:3]) == ["", "", "", "\ufffd"]


def test_bytes_that_are_no_character_become_replacement_characters():
    byte = {TOKENIZER.token_bytes(i): i for i in range(256)}
    assert "".join(
        stream([byte[b"\xff"], byte[b"a"], byte[b"\x80"], byte[b"\xc3"], byte[b"("]])
    ) == ("\ufffda\ufffd\ufffd(")


def test_control_tokens_are_silent_and_user_defined_ones_are_text():
    ids = TOKENIZER.encode("<think>a<|im_end|>", parse_special=True)
    assert stream(ids) == ["<think>", "a", "", ""]
    shown = StreamingDetokenizer(TOKENIZER, show_control=True)
    assert "".join(map(shown.push, ids)) == "<think>a<|im_end|>"


def test_an_unknown_id_is_refused():
    with pytest.raises(InputError, match="Token 384 does not exist"):
        StreamingDetokenizer(TOKENIZER).push(384)


def test_after_a_flush_the_next_answer_starts_clean():
    detokenizer = StreamingDetokenizer(TOKENIZER)
    detokenizer.push(TOKENIZER.encode("😀")[0])
    assert detokenizer.flush() == "\ufffd"
    assert detokenizer.flush() == ""
    assert detokenizer.push(TOKENIZER.encode("a")[0]) == "a"


@given(st.lists(st.integers(0, TOKENIZER.vocab_size - 1), max_size=60))
@settings(max_examples=200, deadline=None)
def test_any_ids_stream_to_what_they_decode_to(ids):
    assert "".join(stream(ids)) == TOKENIZER.decode(ids)


@given(st.lists(st.lists(st.integers(0, TOKENIZER.vocab_size - 1), max_size=6), max_size=6))
@settings(max_examples=200, deadline=None)
def test_tokens_that_come_together_give_what_they_give_one_by_one(groups):
    alone, together = StreamingDetokenizer(TOKENIZER), StreamingDetokenizer(TOKENIZER)
    for ids in groups:
        assert together.push_all(ids) == "".join(map(alone.push, ids))
    assert together.flush() == alone.flush()


@given(st.text(max_size=40))
@settings(max_examples=200, deadline=None)
def test_any_text_streams_in_whole_characters(text):
    pieces = stream(TOKENIZER.encode(text, normalise=False))
    assert "".join(pieces) == text
    assert "\ufffd" not in pieces or "\ufffd" in text


def test_the_state_stays_small_over_a_hundred_thousand_tokens():
    detokenizer = StreamingDetokenizer(TOKENIZER)
    ids = TOKENIZER.encode("ab 😀ł")
    for step in range(100_000):
        detokenizer.push(ids[step % len(ids)])
        # No list of ids, no text so far: nothing that a later token could have to go through.
        assert len(detokenizer._decoder.getstate()[0]) <= 3
    assert set(vars(detokenizer)) == {"_tokenizer", "_show_control", "_decoder"}
