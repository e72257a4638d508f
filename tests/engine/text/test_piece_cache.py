from __future__ import annotations

from engine.text.piece_cache import LEAST_CHARS, PieceCache

LONG = "a" * LEAST_CHARS


class Encoder:
    def __init__(self) -> None:
        self.asked: list[str] = []

    def encode(self, text: str) -> list[int]:
        self.asked.append(text)
        return [ord(char) for char in text]


def test_a_text_is_encoded_once_and_comes_back_the_same():
    encoder = Encoder()
    cache = PieceCache(encoder.encode)
    wanted = encoder.encode(LONG + "ü\ud800")
    first = cache.encode(LONG + "ü\ud800")
    first.append(1)  # the caller's own
    assert cache.encode(LONG + "ü\ud800") == wanted
    assert len(encoder.asked) == 2


def test_short_texts_are_encoded_each_time():
    encoder = Encoder()
    cache = PieceCache(encoder.encode)
    assert cache.encode("hello") == cache.encode("hello") == encoder.encode("hello")
    assert len(encoder.asked) == 3


def test_the_longest_unused_texts_are_given_up():
    encoder = Encoder()
    cache = PieceCache(encoder.encode, most_ids=3 * (LEAST_CHARS + 64) + 10)
    for char in "abcadae":  # a stays in use
        cache.encode(char * LEAST_CHARS)
    del encoder.asked[:]
    for char in "aeb":
        cache.encode(char * LEAST_CHARS)
    assert [text[0] for text in encoder.asked] == ["b"]
    cache.encode("f" * 1000)  # more than all that may be kept
    assert cache.encode("a" * LEAST_CHARS)
    assert [text[0] for text in encoder.asked] == ["b", "f"]
