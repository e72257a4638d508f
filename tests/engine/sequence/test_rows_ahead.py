from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

from engine.sequence.pass_parts import Part
from engine.sequence.rows_ahead import RowsAhead
from engine.sequence.running_request import RunningRequest


class Reader:
    """Notes what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[list[int], list[int]]] = []

    def expect(self, token_ids: Sequence[int], previous: Sequence[int]) -> None:
        self.asked.append((list(token_ids), list(previous)))


def request(tokens: Sequence[int], length: int) -> RunningRequest:
    state = SimpleNamespace(length=length)
    pending = len(tokens) - length
    made = SimpleNamespace(tokens=list(tokens), state=state, num_pending=pending)
    return cast("RunningRequest", made)


def test_the_next_token_and_its_drafts_are_announced_behind_what_came_before():
    reader = Reader()
    ahead = RowsAhead(reader)
    ahead.window(request(range(100, 121), 20))
    ahead.window(request(range(100, 121), 20), (7, 8))
    before = list(range(112, 120))
    assert reader.asked == [([120], before), ([120, 7, 8], before)]


def test_a_prompts_next_chunk_is_announced_and_nothing_behind_its_end():
    reader = Reader()
    ahead = RowsAhead(reader)
    long, short = request(range(1000), 0), request(range(300), 0)
    ahead.prompts([Part(long, 256), Part(short, 300)], 256)
    assert reader.asked == [(list(range(256, 512)), list(range(248, 256)))]
    ahead.prompts([Part(request(range(300), 128), 64)], 256)
    assert reader.asked[1] == (list(range(192, 300)), list(range(184, 192)))


def test_a_sequences_beginning_has_nothing_before_it():
    reader = Reader()
    RowsAhead(reader).window(request([5], 0))
    assert reader.asked == [([5], [])]


def test_without_a_reader_nothing_happens():
    ahead = RowsAhead(None)
    ahead.window(request([5], 0), (1,))
    ahead.prompts([Part(request(range(10), 0), 5)], 5)
