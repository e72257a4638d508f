"""The stop-string matcher, against plain searching."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text.stops import StopMatcher


def run(stops: list[str], pieces: list[str]) -> tuple[str, str | None]:
    matcher = StopMatcher(stops)
    text = ""
    for piece in pieces:
        safe, stopped = matcher.push(piece)
        text += safe
        if stopped is not None:
            assert matcher.push("more") == ("", None)
            return text, stopped
    return text + matcher.flush(), None


def search(stops: list[str], text: str) -> tuple[str, str | None]:
    """The stop that ends first, and the longest of those; by trying every position."""
    for end in range(1, len(text) + 1):
        found = [stop for stop in stops if stop and text[:end].endswith(stop)]
        if found:
            longest = max(found, key=len)
            return text[: end - len(longest)], longest
    return text, None


@pytest.mark.parametrize(
    ("stops", "text", "expected"),
    [
        ([], "abc", ("abc", None)),
        ([""], "abc", ("abc", None)),
        (["END"], "a END b", ("a ", "END")),
        (["END"], "a EN", ("a EN", None)),
        (["END"], "a ENEND", ("a EN", "END")),
        (["aab"], "aaaab", ("aa", "aab")),
        (["abab", "bac"], "ababac", ("", "abab")),
        (["abcd", "bc"], "xabcd", ("xa", "bc")),
        (["bc", "abc"], "xabc", ("x", "abc")),
        (["\n\n", "é😀"], "a\né😀", ("a\n", "é😀")),
        (["]", "^", "-", "\\"], "a-b", ("a", "-")),
        (["a", "a"], "ba", ("b", "a")),
    ],
)
def test_a_stop_is_found_in_every_division(
    stops: list[str], text: str, expected: tuple[str, str | None]
) -> None:
    for size in (1, 2, 7, 100):
        pieces = [text[start : start + size] for start in range(0, len(text), size)]
        assert run(stops, pieces) == expected


@given(
    st.lists(st.text("ab", max_size=5), max_size=4),
    st.lists(st.text("abc", max_size=6), max_size=12),
)
def test_any_text_in_any_division_gives_what_searching_gives(
    stops: list[str], pieces: list[str]
) -> None:
    assert run(stops, pieces) == search(stops, "".join(pieces))


def test_only_a_possible_start_of_a_stop_is_held_back() -> None:
    matcher = StopMatcher(["STOP"])
    assert matcher.push("a ST") == ("a ", None)
    assert matcher.push("x S") == ("STx ", None)
    assert matcher.flush() == "S"
    assert matcher.push("TOP") == ("TOP", None)  # a flush starts afresh


def test_a_step_costs_the_same_however_much_is_held() -> None:
    least_s = []
    for held in (16, 1024):
        stops = ["a" * (held - 1) + chr(ord("b") + number) for number in range(16)]
        matcher = StopMatcher(stops)
        seconds = []
        for _ in range(4):
            started = time.process_time()
            for _ in range(10_000):
                matcher.push("a")
            seconds.append(time.process_time() - started)
        assert matcher.push("c") == ("", stops[1])
        least_s.append(min(seconds))
    assert least_s[1] < 16 * least_s[0]  # 64 times, if a step looked at all that is held
