"""The tokenizer against the golden samples, the reference library, and hostile metadata."""

from __future__ import annotations

import json
import time
import unicodedata
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.errors import InputError, ModelFileError
from engine.text import tokenizer as tokenizer_module
from engine.text.tokenizer import PRE_TOKENIZER_REGEX, Tokenizer
from engine.text.vocabulary import BYTE_OF_CHAR
from tests.support.golden_tokenizer import tokenizer_metadata

GOLDEN = Path(__file__).parents[2] / "golden"
NAMES = ("full", "nople", "odd")
SPECIALS = ["<|im_end|>", "<|im_start|>", "<tool_call>", "</think>", "<|image_pad|>"]


METADATA = {name: tokenizer_metadata(name) for name in NAMES}
TOKENIZERS = {name: Tokenizer.from_metadata(METADATA[name]) for name in NAMES}
FULL = TOKENIZERS["full"]

# Texts in which plain characters, structure and everything awkward meet.
awkward = st.lists(
    st.one_of(
        st.sampled_from([*SPECIALS, "<|im_", "end|>", "<thi", "nk>", "\r\n", "\n\n", "  ", "\t"]),
        st.sampled_from(
            ["e\u0301", "नमस्ते", "你好\uff0c世界", "😀", "👩‍👩‍👧", "12345", "it's they'LL"]
        ),
        st.text(max_size=8),
    ),
    max_size=12,
).map("".join)


def reference(metadata: dict[str, object]) -> tokenizers.Tokenizer:
    """The library used as its own documentation says, special tokens included."""
    tokens, types = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.token_type"]
    merges = [tuple(merge.split(" ")) for merge in metadata["tokenizer.ggml.merges"]]
    model = tokenizers.models.BPE(
        vocab={token: index for index, token in enumerate(tokens)}, merges=merges
    )
    hf = tokenizers.Tokenizer(model)
    hf.normalizer = tokenizers.normalizers.NFC()
    hf.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
        [
            tokenizers.pre_tokenizers.Split(tokenizers.Regex(PRE_TOKENIZER_REGEX), "isolated"),
            tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    for token, kind in zip(tokens, types, strict=True):
        if kind in (3, 4):
            added = tokenizers.AddedToken(token, special=kind == 3, normalized=False)
            (hf.add_special_tokens if kind == 3 else hf.add_tokens)([added])
    return hf


REFERENCE = reference(METADATA["full"])


@pytest.mark.parametrize("name", NAMES)
def test_the_golden_samples_have_the_golden_ids(name):
    # The samples were made without normalisation: one holds a decomposed letter.
    samples = json.loads(str(np.load(GOLDEN / f"{name}.npz")["tok_json"]))
    assert len(samples) == 8
    for sample in samples:
        ids = TOKENIZERS[name].encode(sample["text"], parse_special=True, normalise=False)
        assert ids == sample["ids"], sample["text"]
        assert TOKENIZERS[name].decode(ids, skip_control=False) == sample["text"]


def test_decomposed_letters_are_composed_first():
    assert FULL.encode("cafe\u0301") == FULL.encode("caf\u00e9")
    assert FULL.encode("cafe\u0301", normalise=False) != FULL.encode("caf\u00e9")


@pytest.mark.parametrize(
    "text",
    [
        "0 12 345 6789 3.14159 1,000,000 ٣٤٥ Ⅷ ½",
        "汉字\uff0c日本語のテキスト。 한국어",
        "😀👍🏽👩‍👩‍👧🇵🇱 emoji",
        "def f(x):\n    return {'a': [x**2, -1]}  # comment\n\n\tif x >= 0x1F: pass",
        "a    b\t\tc \n \n  d   ",
        "line\r\nline\r\n\r\nend\r",
        "किताब ใครๆ ñandú Ω≠ω",
        " ",
        "\n",
        "",
        "\u00a0\u2003\u3000x",
        "\x00\x01\x7f\ufeff",
        "don't WE'LL i'M y'all'd've",
        "<|im_start|>system\n<think>\n\n</think><tool_call><|im_end|>",
    ],
)
def test_texts_of_all_kinds_have_the_reference_ids_and_come_back(text):
    ids = FULL.encode(text, parse_special=True)
    assert ids == REFERENCE.encode(text, add_special_tokens=False).ids
    assert FULL.decode(ids, skip_control=False) == unicodedata.normalize("NFC", text)


@given(awkward)
@settings(max_examples=200, deadline=None)
def test_any_text_has_the_reference_ids(text):
    expected = REFERENCE.encode(text, add_special_tokens=False).ids
    assert FULL.encode(text, parse_special=True) == expected


@given(awkward)
@settings(max_examples=200, deadline=None)
def test_any_text_comes_back_and_never_holds_a_special_token(text):
    ids = FULL.encode(text, normalise=False)
    assert FULL.decode(ids, skip_control=False) == text
    special = {FULL.special_id(spelling) for spelling in METADATA["full"]["tokenizer.ggml.tokens"]}
    assert not special & set(ids)


@given(awkward)
@settings(max_examples=150, deadline=None)
def test_cutting_a_long_text_does_not_change_its_ids(text):
    text = text + " x1 y\n" + text
    whole = FULL.encode(text)
    with mock.patch.object(tokenizer_module, "PIECE_CHARS", 3):
        assert FULL.encode(text) == whole


def test_the_longer_of_two_special_tokens_is_meant():
    metadata = dict(METADATA["full"])
    metadata["tokenizer.ggml.tokens"] = [*metadata["tokenizer.ggml.tokens"], "<think>er"]
    metadata["tokenizer.ggml.token_type"] = [*metadata["tokenizer.ggml.token_type"], 4]
    longer = Tokenizer.from_metadata(metadata)
    assert longer.encode("<think>er", parse_special=True) == [384]
    assert longer.encode("<think>e", parse_special=True)[0] == 382


def test_half_of_a_surrogate_pair_counts_as_a_replacement_character():
    assert FULL.encode("a\ud83dz") == FULL.encode("a\ufffdz")
    assert FULL.encode("\ud83d", parse_special=True) == FULL.encode("\ufffd")


def test_the_structure_tokens_are_found_by_their_spelling():
    assert FULL.structure.think == FULL.special_id("<think>") == 382
    assert FULL.structure.tool_call_end == 381
    assert FULL.eos_ids == {374, 376}
    assert FULL.is_control(376)
    assert not FULL.is_control(382)
    assert FULL.special_id("hello") is None
    assert FULL.vocab_size == 384


def test_bytes_and_texts_of_tokens():
    (space_t,) = [i for i in range(384) if FULL.token_bytes(i) == b" t"]
    assert FULL.token_text(space_t) == " t"
    assert FULL.token_bytes(382) == b"<think>"
    assert {FULL.token_bytes(i) for i in range(256)} == {bytes([byte]) for byte in range(256)}
    assert FULL.token_text(172) == "\ufffd"


@pytest.mark.parametrize("token_id", [-1, 384, 10**12])
def test_an_unknown_id_is_refused(token_id):
    with pytest.raises(InputError, match="the vocabulary has 384 tokens"):
        FULL.token_bytes(token_id)
    with pytest.raises(InputError):
        FULL.decode([token_id])


def test_decode_leaves_out_control_tokens_but_shows_user_defined_ones():
    ids = FULL.encode("<|im_start|>hi<think><|im_end|>", parse_special=True)
    assert FULL.decode(ids) == "hi<think>"


@pytest.mark.parametrize("text", ["a", " ", "\n ", "!", "1", "a\u0301\u0316"])
def test_a_long_run_takes_linear_time(text):
    started = time.process_time()
    assert len(FULL.encode(text * (300_000 // len(text)))) > 100_000
    # Measured: 0.2 to 0.5 s. Quadratic merging (or sorting of marks) would take minutes.
    assert time.process_time() - started < 60


def test_millions_of_blanks_are_refused_with_one_sentence():
    # The regex library would panic at about ten million.
    with pytest.raises(InputError, match="3000000 blanks in a row"):
        FULL.encode("x" + " " * 3_000_000)


@pytest.mark.slow
def test_a_vocabulary_of_248_000_tokens_is_built():
    letters = list(BYTE_OF_CHAR)
    tokens, merges = list(letters), []
    for left in range(256):
        for right in range(256):
            tokens.append(letters[left] + letters[right])
            merges.append(f"{letters[left]} {letters[right]}")
    index = 256
    while len(tokens) < 248_000:
        for right in ("a", "b", "c"):
            tokens.append(tokens[index] + right)
            merges.append(f"{tokens[index]} {right}")
        index += 1
    # three letters can be reached by one path only here, but repeats must go
    unique = dict(zip(tokens[256:], merges, strict=True))
    tokens = [*letters, *unique]
    metadata = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen35",
        "tokenizer.ggml.tokens": [*tokens, "<|im_end|>"],
        "tokenizer.ggml.token_type": [1] * len(tokens) + [3],
        "tokenizer.ggml.merges": list(unique.values()),
    }
    built = Tokenizer.from_metadata(metadata)
    assert built.vocab_size > 200_000
    assert built.decode(built.encode("abc abc")) == "abc abc"


def change(key: str, value: object) -> dict[str, object]:
    metadata = dict(METADATA["full"])
    if value is None:
        del metadata[f"tokenizer.ggml.{key}"]
    else:
        metadata[f"tokenizer.ggml.{key}"] = value
    return metadata


def with_token(index: int, token: object) -> list[object]:
    tokens = list(METADATA["full"]["tokenizer.ggml.tokens"])
    tokens[index] = token
    return tokens


TYPES = METADATA["full"]["tokenizer.ggml.token_type"]
MERGES = METADATA["full"]["tokenizer.ggml.merges"]


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("model", None, "has none"),
        ("model", "llama", "'llama'"),
        ("model", 7, "has 7"),
        ("pre", "default", "'default'"),
        ("tokens", None, "lacks `tokenizer.ggml.tokens`"),
        ("tokens", [], "empty vocabulary"),
        ("tokens", "abc", "no array"),
        ("tokens", 12, "no array"),
        ("tokens", ["a", "b"], "2 tokens but 384"),
        ("tokens", with_token(3, 5), "not text"),
        ("tokens", with_token(3, b"x"), "not text"),
        ("tokens", with_token(3, "\ud800"), "not valid UTF-8"),
        ("tokens", with_token(3, ""), "without text"),
        ("tokens", with_token(300, "!"), "same ordinary token twice"),
        ("tokens", with_token(375, "<|im_end|>"), "same special token twice"),
        ("tokens", with_token(375, "<" * 129), "special token of more than 128"),
        ("tokens", with_token(0, "zz"), "no token for 1 of the 256 bytes (the first is 33)"),
        ("token_type", None, "lacks `tokenizer.ggml.token_type`"),
        ("token_type", TYPES[:-1], "384 tokens but 383"),
        ("token_type", [9, *TYPES[1:]], "unknown type 9"),
        ("token_type", ["x", *TYPES[1:]], "not numbers"),
        ("token_type", [5] * 384, "no token for 256"),
        ("merges", None, "lacks `tokenizer.ggml.merges`"),
        ("merges", [*MERGES, "a"], "number 118"),
        ("merges", [*MERGES, "a b c"], "does not name two"),
        ("merges", [*MERGES, " b"], "does not name two"),
        ("merges", [*MERGES, "zq b"], "needs 'zq'"),
        ("merges", [*MERGES, "z z"], "needs 'zz'"),
        ("merges", [*MERGES, "< think>"], "needs 'think>'"),
        ("merges", [3], "not text"),
        ("eos_token_id", 384, "names token 384"),
        ("eos_token_id", -1, "names token -1"),
        ("eos_token_id", "x", "no number"),
    ],
)
def test_bad_metadata_is_refused_with_one_sentence(key, value, words):
    with pytest.raises(ModelFileError) as caught:
        Tokenizer.from_metadata(change(key, value))
    assert words in str(caught.value)
    assert str(caught.value).startswith("The model file ")
    assert "\n" not in str(caught.value)


def test_a_vocabulary_of_special_tokens_alone_is_refused():
    tokens = [*METADATA["full"]["tokenizer.ggml.tokens"], *(f"<{i}>" for i in range(5000))]
    metadata = change("tokens", tokens)
    metadata["tokenizer.ggml.token_type"] = [*TYPES, *[4] * 5000]
    with pytest.raises(ModelFileError, match="special tokens; at most 1024"):
        Tokenizer.from_metadata(metadata)


def test_a_vocabulary_without_any_end_of_text_is_refused():
    tokens = with_token(374, "<a>")
    tokens[376] = "<b>"
    metadata = change("tokens", tokens)
    del metadata["tokenizer.ggml.eos_token_id"]
    with pytest.raises(ModelFileError, match="no token that ends a turn"):
        Tokenizer.from_metadata(metadata)


def test_no_text_can_merge_into_a_special_token():
    # A file whose merges spell a special token is refused, since its merges name that token.
    metadata = change("tokens", [*METADATA["full"]["tokenizer.ggml.tokens"], "zz"])
    metadata["tokenizer.ggml.token_type"] = [*TYPES, 3]
    metadata["tokenizer.ggml.merges"] = [*MERGES, "z z"]
    with pytest.raises(ModelFileError, match="not among its ordinary tokens"):
        Tokenizer.from_metadata(metadata)


class LazyStrings:
    """A sequence that makes its strings when asked, as a mapped file does."""

    def __init__(self, strings: list[str]) -> None:
        self._bytes = [string.encode() for string in strings]

    def __len__(self) -> int:
        return len(self._bytes)

    def __iter__(self):
        return (string.decode() for string in self._bytes)


def test_lazy_sequences_and_numpy_numbers_are_accepted():
    metadata = change("tokens", LazyStrings(METADATA["full"]["tokenizer.ggml.tokens"]))
    metadata["tokenizer.ggml.merges"] = LazyStrings(MERGES)
    metadata["tokenizer.ggml.token_type"] = np.array(TYPES, dtype=np.int32)
    metadata["tokenizer.ggml.eos_token_id"] = np.uint32(376)
    assert Tokenizer.from_metadata(metadata).encode("hello world") == FULL.encode("hello world")
