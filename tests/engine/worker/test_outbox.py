"""What the worker says: at once, but for tokens that come faster than anybody reads."""

from __future__ import annotations

import pytest

from engine.worker.messages import Done, Message, PromptProgress, Timings, TokenLogprobs, Tokens
from engine.worker.outbox import HELD_S, Outbox


class Sent:
    """An outbox whose clock stands still, and what left it."""

    def __init__(self) -> None:
        self.now = 100.0
        self.writes: list[tuple[Message, ...]] = []
        self.outbox = Outbox(lambda *messages: self.writes.append(messages), lambda: self.now)


@pytest.fixture
def sent() -> Sent:
    return Sent()


def test_the_first_token_goes_out_at_once_and_quick_ones_after_it_together(sent: Sent) -> None:
    for token_id in range(12):
        sent.outbox.add(Tokens("a", (token_id,)))
        sent.outbox.flush(more_comes=True)
        sent.now += HELD_S / 7.5
    assert sent.writes == [(Tokens("a", (0,)),), (Tokens("a", (1, 2, 3, 4, 5, 6, 7)),)]
    sent.outbox.flush()
    assert sent.writes[2:] == [(Tokens("a", (8, 9, 10, 11)),)]


def test_tokens_of_steps_that_take_more_than_half_of_the_time_never_wait(sent: Sent) -> None:
    for token_id in range(6):
        sent.outbox.add(Tokens("a", (token_id,)))
        sent.outbox.flush(more_comes=True)
        sent.now += (0.51 if token_id < 3 else 1.5) * HELD_S
    assert [write[0] for write in sent.writes] == [Tokens("a", (i,)) for i in range(6)]


def test_a_token_waits_no_longer_than_the_time_when_steps_become_slower(sent: Sent) -> None:
    for step_s in (0.0, 0.1, 0.2, 0.3, 0.3, 0.3, 0.3, 0.3):
        sent.now += step_s * HELD_S
        sent.outbox.add(Tokens("a", (0,)))
        sent.outbox.flush(more_comes=True)
    assert [len(write[0].token_ids) for write in sent.writes] == [1, 4, 3]  # type: ignore[union-attr]


def test_a_token_goes_out_at_once_behind_the_report_that_its_prompt_is_read(sent: Sent) -> None:
    sent.outbox.add(Tokens("b", (7,)))
    sent.outbox.flush()
    sent.outbox.add(Tokens("b", (8,)))
    progress = PromptProgress("a", 9, 9, 0)
    sent.outbox.add(progress)
    sent.outbox.add(Tokens("a", (1,)))
    sent.outbox.flush(more_comes=True)
    assert sent.writes[1:] == [(Tokens("b", (8,)), progress, Tokens("a", (1,)))]


def test_answers_keep_their_tokens_apart_and_their_log_probabilities(sent: Sent) -> None:
    sent.outbox.last_sent_at = sent.now
    sent.outbox.flush(more_comes=True)  # steps take no time
    for step in range(2):
        for name in "ab":
            sent.outbox.add(Tokens(name, (step,), (TokenLogprobs(step, -1.0),)))
        sent.outbox.flush(more_comes=True)
    assert not sent.writes
    sent.outbox.flush()
    both = (TokenLogprobs(0, -1.0), TokenLogprobs(1, -1.0))
    assert sent.writes == [(Tokens("a", (0, 1), both), Tokens("b", (0, 1), both))]


def test_an_end_goes_out_at_once_behind_the_tokens_before_it(sent: Sent) -> None:
    sent.outbox.last_sent_at = sent.now
    done = Done("a", "stop", Timings())
    sent.outbox.add(Tokens("a", (1,)))
    sent.outbox.add(Tokens("b", (7,)))
    sent.outbox.add(done)
    sent.outbox.add(Tokens("b", (8,)))
    sent.outbox.flush(more_comes=True)
    assert sent.writes == [(Tokens("a", (1,)), Tokens("b", (7,)), done, Tokens("b", (8,)))]


def test_nothing_is_sent_where_nothing_is_to_be_said(sent: Sent) -> None:
    sent.outbox.flush()
    assert not sent.writes
