"""One file's header: what is read, and what is refused before it is used."""

from __future__ import annotations

import os
import struct
import sys
import tracemalloc
from pathlib import Path

import pytest

from engine.core.errors import ModelFileError
from engine.core.ggml_types import GgmlType
from engine.core.gguf_header import parse_header, read_header
from tests.support.gguf_bytes import (
    ARRAY,
    BOOL,
    F32,
    I16,
    STRING,
    U8,
    U32,
    U64,
    array_key,
    array_value,
    gguf,
    key,
    string,
    tensor,
    u32_key,
)

GOLDEN = Path(__file__).parents[2] / "golden"


def parse(data: bytes):
    return parse_header(data, len(data), "bad.gguf")


def refusal(data: bytes) -> ModelFileError:
    with pytest.raises(ModelFileError) as caught:
        parse(data)
    message = caught.value.message
    assert message.endswith(".")
    assert ". " not in message, "one sentence"
    assert message.isprintable()
    assert "bad.gguf" in message
    return caught.value


@pytest.mark.parametrize("version", [2, 3])
def test_both_versions_are_read(version):
    header = parse(gguf([u32_key("a", 7)], [tensor("t", [4, 3])], data_bytes=48, version=version))
    assert header.version == version
    assert header.metadata == {"a": 7}
    (info,) = header.tensors
    assert (info.name, info.type, info.ne, info.shape) == ("t", GgmlType.F32, (4, 3), (3, 4))
    assert (info.offset, info.num_bytes) == (0, 48)
    assert header.data_start % header.alignment == 0


def test_values_of_every_type_are_read():
    numbers = {"B": 0, "b": 1, "H": 2, "h": 3, "I": 4, "i": 5, "f": 6, "Q": 10, "q": 11, "d": 12}
    keys = [key(code, number, struct.pack("<" + code, 100)) for code, number in numbers.items()]
    keys += [
        array_key(code * 2, number, 2, struct.pack(f"<2{code}", 100, 3))
        for code, number in numbers.items()
    ]
    keys += [key("bool", BOOL, b"\1"), key("text", STRING, string("größe"))]
    keys += [array_key("bools", BOOL, 3, b"\1\0\1")]
    keys += [array_key("texts", STRING, 3, string("") + string("é") + string("x"))]
    keys += [array_key("lists", ARRAY, 2, array_value(U8, 1, b"\5") + array_value(U8, 0))]
    metadata = parse(gguf(keys)).metadata
    for code in numbers:
        assert metadata[code] == 100
        assert list(metadata[code * 2]) == [100, 3]
    assert metadata["bool"] is True
    assert metadata["text"] == "größe"
    assert metadata["bools"] == (True, False, True)
    texts = metadata["texts"]
    assert list(texts) == [texts[0], texts[1], texts[-1]] == texts[:] == ["", "é", "x"]
    assert [list(inner) for inner in metadata["lists"]] == [[5], []]


def test_multipliers_of_the_n_gram_hash_stay_exact_integers():
    multiplier = (1 << 64) - 3
    data = gguf([array_key("m", U64, 1, struct.pack("<Q", multiplier))])
    assert parse(data).metadata["m"][0] == multiplier


def test_an_index_past_a_string_list_raises_index_error():
    texts = parse(gguf([array_key("t", STRING, 1, string("a"))])).metadata["t"]
    for index in (1, -2):
        with pytest.raises(IndexError):
            texts[index]


def test_a_string_of_a_list_that_is_not_utf8_is_refused_when_asked_for():
    elements = string("a") + string(b"\xff\x1b[2J")
    texts = parse(gguf([array_key("t", STRING, 2, elements)])).metadata["t"]
    assert texts[0] == "a"
    for ask in (lambda: texts[1], lambda: list(texts)):
        with pytest.raises(ModelFileError, match="not UTF-8") as caught:
            ask()
        assert caught.value.message.isprintable()


def test_alignment_of_the_file_is_used():
    data = gguf([u32_key("general.alignment", 64)], [tensor("t", [1])], data_bytes=4, alignment=64)
    assert parse(data).data_start % 64 == 0


def test_a_header_without_tensors_may_end_unpadded():
    assert parse(gguf([u32_key("a", 1)])).tensors == ()


HUGE = [1 << 40, 1 << 60, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]


@pytest.mark.parametrize("count", HUGE)
@pytest.mark.parametrize(
    "make",
    [
        lambda count: gguf([u32_key("a", 1)], num_keys=count),
        lambda count: gguf([u32_key("a", 1)], num_tensors=count),
        lambda count: gguf([array_key("a", U8, count, b"x" * 64)]),
        lambda count: gguf([array_key("a", U64, count, b"x" * 64)]),
        lambda count: gguf([array_key("a", BOOL, count, b"x" * 64)]),
        lambda count: gguf([array_key("a", STRING, count, bytes(64))]),
        lambda count: gguf([array_key("a", ARRAY, count, bytes(64))]),
        lambda count: gguf([array_key("a", STRING, 1, struct.pack("<Q", count) + bytes(64))]),
        lambda count: gguf([struct.pack("<Q", count) + bytes(64)]),
        lambda count: gguf([key("a", STRING, struct.pack("<Q", count) + bytes(64))]),
        lambda count: gguf([], [struct.pack("<Q", count) + bytes(64)]),
        lambda count: gguf([], [tensor("t", [count])], data_bytes=64),
        lambda count: gguf([], [tensor("t", [count, count, count, count])], data_bytes=64),
        lambda count: gguf([], [tensor("t", [1, count, 1 << 32])], data_bytes=64),
        lambda count: gguf([], [tensor("t", [4], offset=count & -32)], data_bytes=64),
    ],
)
def test_a_huge_number_is_refused_without_allocating(make, count):
    data = make(count)
    tracemalloc.start()
    try:
        refusal(data)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (gguf(magic=b"GGML"), "not a GGUF file"),
        (b"PK\3\4", "not a GGUF file"),
        (b"GG", "not a GGUF file"),
        (gguf(version=1), "version 1"),
        (gguf(version=4), "version 4"),
        (gguf(version=0), "version 0"),
        (gguf(version=3 << 24), "big-endian"),
        (gguf([u32_key("a", 1), u32_key("a", 2)]), 'metadata key "a" is there twice'),
        (gguf([u32_key("", 1)]), "no name"),
        (gguf([key(b"\xff", U8, b"\0")]), "a metadata key is not UTF-8"),
        (gguf([key("a", STRING, string(b"\xff"))]), 'the value of the key "a" is not UTF-8'),
        (gguf([key("a", 13, bytes(8))]), "unknown value type 13"),
        (gguf([array_key("a", 99, 1, bytes(64))]), "unknown value type 99"),
        (gguf([key("x" * 65_536, U8, b"\0")]), "65535 is the most"),
        (gguf([u32_key("general.alignment", 0)]), "power of two"),
        (gguf([u32_key("general.alignment", 4)]), "power of two"),
        (gguf([u32_key("general.alignment", 48)]), "power of two"),
        (gguf([u32_key("general.alignment", 1 << 31)]), "power of two"),
        (gguf([key("general.alignment", F32, struct.pack("<f", 32))]), "power of two"),
        (gguf([key("general.alignment", BOOL, b"\1")]), "power of two"),
        (gguf([key("general.alignment", STRING, string("32"))]), "which a text or list is not"),
        (gguf([], [tensor("t", [1]), tensor("t", [1], offset=32)], data_bytes=64), "listed twice"),
        (gguf([], [tensor("", [1])], data_bytes=64), "no name"),
        (gguf([], [tensor("t", [])], data_bytes=64), "0 dimensions"),
        (gguf([], [tensor("t", [1] * 5)], data_bytes=64), "5 dimensions"),
        (gguf([], [tensor("t", [0, 4])], data_bytes=64), "length 0"),
        (gguf([], [tensor("t", [4], 4)], data_bytes=64), "format with number 4"),
        (gguf([], [tensor("t", [4], 77)], data_bytes=64), "format with number 77"),
        (gguf([], [tensor("t", [33], 8)], data_bytes=64), "rows of 33 values"),
        (gguf([], [tensor("t", [4], offset=8)], data_bytes=64), "no multiple of 32"),
        (gguf([], [tensor("t", [4], offset=64)], data_bytes=64), "cut off"),
        (gguf([], [tensor("t", [17])], data_bytes=64), "cut off"),
        (
            gguf([], [tensor("a", [9]), tensor("b", [1], offset=32)], data_bytes=64),
            'tensors "a" and "b" overlap',
        ),
    ],
)
def test_what_cannot_be_is_refused_with_one_sentence(data, words):
    assert words in refusal(data).message


def test_lists_inside_lists_are_bounded():
    nested = array_value(U8, 0)
    for _ in range(3):
        nested = array_value(ARRAY, 1, nested)
    parse(gguf([key("a", ARRAY, nested)]))
    refusal(gguf([key("a", ARRAY, array_value(ARRAY, 1, nested))]))
    wide = array_key("a", ARRAY, 65_536, array_value(U8, 0) * 65_536)
    assert "lists inside lists" in refusal(gguf([wide])).message


def test_lists_of_booleans_are_bounded_together():
    half = 1 << 21
    lists = [array_key(name, BOOL, half, bytes(half)) for name in "abc"]
    assert len(parse(gguf(lists[:2])).metadata["b"]) == half
    assert "0 is the most" in refusal(gguf(lists)).message


def test_a_file_cut_at_any_byte_is_refused():
    keys = [u32_key("a", 1), array_key("t", STRING, 2, string("ab") + string("c"))]
    whole = gguf(keys, [tensor("t", [16, 2], 1)], data_bytes=64)
    parse(whole)
    for size in range(len(whole)):
        assert refusal(whole[:size]).exit_status == 2


def test_a_name_in_a_message_cannot_move_the_cursor_or_fill_the_screen():
    name = "\x1b[2J\n" + "x" * 50_000
    message = refusal(gguf([], [tensor(name, [4], 77)], data_bytes=64)).message
    assert "\\x1b" in message
    assert len(message) < 400


def test_tensors_may_be_listed_in_another_order_than_they_lie():
    tensors = [tensor("b", [8], offset=32), tensor("a", [8], offset=0)]
    assert [t.name for t in parse(gguf([], tensors, data_bytes=64)).tensors] == ["b", "a"]


def test_a_header_that_is_only_partly_there_is_not_called_a_cut_off_file():
    data = gguf([u32_key("a", 1), u32_key("b", 1)])
    with pytest.raises(ModelFileError, match="header is longer than"):
        parse_header(data[:-6], len(data), "x.gguf")


def test_a_vocabulary_of_full_size_is_read_by_one_step_for_each_string():
    count = 248_320
    tokens = b"".join(string(f"token{i}") for i in range(count))
    merges = b"".join(string(f"to ken{i}") for i in range(count))
    data = gguf(
        [
            array_key("tokens", STRING, count, tokens),
            array_key("merges", STRING, count, merges),
            array_key("types", U32, count, bytes(4 * count)),
        ]
    )
    metadata = parse(data).metadata
    # Lazy: what was read holds two numbers and two strings of bytes, not half a million strings.
    assert sum(map(sys.getsizeof, [metadata["tokens"]._ends, metadata["tokens"]._data])) < 7_000_000
    assert list(metadata["tokens"])[-1] == metadata["tokens"][count - 1] == f"token{count - 1}"
    assert list(metadata["merges"]) == [f"to ken{i}" for i in range(count)]
    assert len(metadata["types"]) == count


def test_metadata_outlives_the_file(tmp_path):
    path = tmp_path / "a.gguf"
    path.write_bytes(gguf([array_key("t", STRING, 1, string("kept")), array_key("n", I16, 0)]))
    header = read_header(path)
    path.unlink()
    assert list(header.metadata["t"]) == ["kept"]


def test_golden_files_are_read():
    header = read_header(GOLDEN / "full.gguf")
    assert header.metadata["general.architecture"] == "qwen4exp"
    assert len(header.tensors) == 113
    assert len(header.metadata["tokenizer.ggml.tokens"]) == 384


def _file_refusal(path: Path) -> ModelFileError:
    with pytest.raises(ModelFileError) as caught:
        read_header(path)
    assert str(path.name) in caught.value.message
    assert "\n" not in caught.value.message
    return caught.value


def test_a_missing_file_an_empty_file_and_a_folder_are_refused(tmp_path):
    folder = tmp_path / "mit Leerzeichen ü"
    folder.mkdir()
    assert _file_refusal(folder / "no.gguf").code == "file_missing"
    assert _file_refusal(folder).code == "not_a_file"
    (folder / "empty.gguf").touch()
    assert _file_refusal(folder / "empty.gguf").code == "file_empty"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_refused_instead_of_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.gguf")
    assert _file_refusal(tmp_path / "pipe.gguf").code == "not_a_file"


def test_a_file_name_that_no_system_accepts_is_refused(tmp_path):
    with pytest.raises(ModelFileError):
        read_header(tmp_path / "a\0b.gguf")
    with pytest.raises(ModelFileError):
        read_header(tmp_path / ("x" * 5000))
