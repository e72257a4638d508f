"""When answers end and what is put into them."""

from collections import deque

import pytest

from engine.decode.rules import AnswerRules, ends_inside_character
from engine.worker.messages import SamplingParams, Start


def rules(context: int = 1000, **more: object) -> AnswerRules:
    fields: dict[str, object] = {"max_tokens": 100, "stop_ids": (1, 2)} | more
    start = Start("r", (5,) * 10, sampling=SamplingParams(), **fields)  # type: ignore[arg-type]
    return AnswerRules(start, context)


def reasons(subject: AnswerRules, *token_ids: int) -> list[str | None]:
    return [subject.accept(token_id).reason for token_id in token_ids]


def test_a_stop_id_ends_the_answer_is_sent_and_not_counted():
    subject = rules()
    assert reasons(subject, 7, 2) == [None, "stop"]
    assert subject.num_generated == 1


def test_the_cap_ends_at_its_last_token_and_a_stop_id_comes_before_it():
    assert reasons(rules(max_tokens=2), 7, 8) == [None, "length"]
    assert reasons(rules(max_tokens=1), 1) == ["stop"]


def test_a_full_context_is_told_apart_from_the_cap():
    assert reasons(rules(context=12), 7, 8) == [None, "context"]
    assert reasons(rules(context=12, max_tokens=2), 7, 8) == [None, "length"]


@pytest.mark.parametrize("length", range(2, 9))
def test_a_short_phrase_that_comes_forty_times_ends_as_repeat(length):
    phrase = [*range(100, 100 + length)]
    found = reasons(
        rules(2000, max_tokens=1000, repeat_stop_tokens=256), *[11, 12, 13], *phrase * 50
    )
    assert found.index("repeat") == 3 + 40 * length - 1
    assert reasons(rules(2000, max_tokens=1000, repeat_stop_tokens=0), *phrase * 50) == [None] * (
        50 * length
    )


def test_a_file_of_equal_lines_may_be_written_in_a_call():
    limits = {
        "max_tokens": 3000,
        "repeat_stop_tokens": 256,
        "call_open_id": 90,
        "call_close_id": 91,
    }
    line = [100, 101, 102]
    assert set(reasons(rules(4000, **limits), 90, *line * 250, 91)) == {None}
    found = reasons(rules(4000, **limits), 90, *line * 300)
    assert found.index("repeat") == 1 + 256 * 3 - 1
    outside = reasons(rules(4000, **limits), 90, 5, 91, *line * 50)
    assert outside.index("repeat") == 3 + 40 * 3 - 1


def test_a_long_phrase_or_one_that_is_broken_does_not_end_an_answer():
    assert set(
        reasons(rules(2000, max_tokens=1000, repeat_stop_tokens=256), *[*range(20, 29)] * 50)
    ) == {None}
    broken = ([11, 12] * 39 + [13]) * 5
    assert set(reasons(rules(2000, max_tokens=1000, repeat_stop_tokens=256), *broken)) == {None}


def test_one_token_is_no_phrase_however_often_it_comes():
    found = reasons(rules(2000, max_tokens=1000, repeat_stop_tokens=256), *[7] * 300)
    assert found.index("repeat") == 255


def test_one_token_in_a_row_ends_as_repeat_and_another_in_between_does_not():
    assert reasons(rules(repeat_stop_tokens=3), 7, 7, 8, 7, 7, 7) == [None] * 5 + ["repeat"]
    assert reasons(rules(repeat_stop_tokens=0), *[7] * 50) == [None] * 50


def test_a_forced_stop_id_does_not_end_the_answer():
    assert rules().accept(1, is_forced=True).reason is None


def test_a_stop_in_mid_thought_is_replaced_once():
    subject = rules(think_close_id=9, rescue_ids=(9, 8))
    first = subject.accept(1)
    assert (first.is_kept, first.append, first.reason) == (False, (9, 8), None)
    assert subject.num_generated == 0
    assert subject.accept(1).reason == "stop"


def test_a_stop_after_thinking_ends_the_answer():
    subject = rules(think_close_id=9, rescue_ids=(9, 8))
    assert reasons(subject, 7, 9, 7, 1) == [None, None, None, "stop"]


def test_the_thinking_budget_appends_its_close_exactly_once():
    subject = rules(think_close_id=9, think_budget=3, budget_ids=(8, 9))
    outcomes = [subject.accept(7) for _ in range(3)]
    assert [outcome.append for outcome in outcomes] == [(), (), (8, 9)]
    for token_id in (8, 9):
        assert subject.accept(token_id, is_forced=True).append == ()
    assert subject.accept(7).append == ()


def test_thinking_that_ends_in_time_is_left_alone():
    subject = rules(think_close_id=9, think_budget=3, budget_ids=(8, 9))
    assert [subject.accept(token_id).append for token_id in (7, 9, 7, 7)] == [()] * 4


def test_tool_calls_are_noticed_from_open_to_close():
    subject = rules(call_open_id=20, call_close_id=21)
    seen = []
    for token_id in (7, 20, 7, 21, 7):
        subject.accept(token_id)
        seen.append(subject.is_in_call)
    assert seen == [False, True, True, False, False]


def test_forced_tokens_that_come_too_late_to_close_thinking_are_dropped():
    subject = rules(think_close_id=9)
    forced = deque((8, 9, 10))
    subject.accept(7)
    subject.drop_late(forced)
    assert list(forced) == [8, 9, 10]
    subject.accept(9)  # the model itself
    subject.drop_late(forced)
    assert not forced
    rest = deque((10,))  # what follows the close goes on
    subject.drop_late(rest)
    assert list(rest) == [10]


@pytest.mark.parametrize(
    ("data", "is_inside"),
    [
        (b"", False),
        (b"a", False),
        ("ä".encode()[:1], True),
        ("ä".encode(), False),
        ("你".encode()[:2], True),
        ("😀".encode()[:3], True),
        ("😀".encode(), False),
        ("x😀".encode(), False),
        (b"\xff", False),
        (b"\x80\x80\x80\x80", False),
    ],
)
def test_a_text_ends_inside_a_character_or_not(data, is_inside):
    assert ends_inside_character(data) is is_inside


def test_thinking_ends_at_the_border_of_a_character_when_its_budget_is_used_up():
    emoji = dict(zip((20, 21, 22), (b"\xf0\x9f", b"\x98", b"\x80"), strict=True))
    start = Start(
        *("r", (5,), 100, (1,), SamplingParams()),
        think_close_id=9,
        think_budget=2,
        budget_ids=(8, 9),
    )
    subject = AnswerRules(start, 1000, lambda token_id: emoji.get(token_id, b"x"))
    outcomes = [subject.accept(token_id).append for token_id in (7, 20, 21, 22, 7)]
    assert outcomes == [(), (), (), (8, 9), ()]
    broken = AnswerRules(start, 1000, lambda _: b"\xf0")
    outcomes = [broken.accept(20).append for _ in range(8)]
    assert outcomes.count((8, 9)) == 1  # bytes that never become one do not hold it up for ever
    tight = AnswerRules(start, 6, lambda _: b"\xf0")  # no room to wait
    assert [tight.accept(20).append for _ in range(2)] == [(), (8, 9)]
