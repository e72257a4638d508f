"""The transcript: what is laid out, where the reader is, what can be selected."""

from dataclasses import replace
from itertools import pairwise

import pytest
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication, QPlainTextEdit, QToolButton
from shiboken6 import Shiboken

from app.chat.activity import Activity, Phase
from app.chat.view.markdown.blocks import Formula
from app.chat.view.transcript.block_views import TextView
from app.chat.view.transcript.code_view import CodeView
from app.chat.view.transcript.formulas import Formulas
from app.chat.view.transcript.rows import WidgetRow
from app.chat.view.transcript.widgets import MessageAction, StatusLine, ThinkingHead, ToolCard
from app.chat.view.words import stats_details, stats_line
from app.history.records import MessageState, MessageStats, Sampling, ToolCall, ToolState
from app.look.look import palette_of
from tests.app.chat_view.transcript_looks import documents, grow, top_of

LONG = "\n\n".join(f"Paragraph {number} " + "with some words " * 12 for number in range(60))
CODE = "Look:\n\n```python\ndef f(x):\n    return x  # same\n```\n\nand done."


def test_of_a_thousand_messages_only_those_that_are_seen_are_laid_out(transcript, fill):
    fill(transcript, ["question", LONG] * 500)
    built = [section for section in transcript.sections if section.is_built]
    assert len(built) <= 4
    assert len(documents(transcript)) < 60


def test_it_opens_at_the_end_and_the_end_is_seen(transcript, fill):
    fill(transcript, ["question", LONG])
    bar = transcript.verticalScrollBar()
    assert bar.value() == bar.maximum() > 0
    assert transcript.is_at_end
    assert not transcript.end_button.isVisible()


def test_what_the_reader_sees_stays_while_an_answer_grows(transcript, fill, settled):
    messages = fill(transcript, ["q", LONG, "q", "Begin."], state=MessageState.GROWING)
    bar = transcript.verticalScrollBar()
    bar.setValue(bar.maximum() // 2)
    settled(transcript)
    before = bar.value()
    picture = transcript.viewport().grab().toImage()
    for _number in range(50):
        grow(transcript, messages[-1], "More text for the answer that grows below.\n\n")
    settled(transcript)
    assert bar.value() == before
    button = transcript.end_button
    assert button.isVisible()
    button.hide()
    assert transcript.viewport().grab().toImage() == picture


def test_who_is_at_the_end_stays_at_the_end(transcript, fill, settled):
    messages = fill(transcript, ["q", "Begin."], state=MessageState.GROWING)
    bar = transcript.verticalScrollBar()
    for _number in range(80):
        grow(transcript, messages[-1], "More text.\n\n")
        settled(transcript)
        assert bar.value() == bar.maximum()
    assert bar.maximum() > 0


def test_the_button_goes_back_to_the_end_and_follows_again(transcript, fill, settled):
    messages = fill(transcript, ["q", LONG], state=MessageState.GROWING)
    bar = transcript.verticalScrollBar()
    bar.setValue(0)
    assert not transcript.is_at_end
    transcript.end_button.click()
    grow(transcript, messages[-1], "\n\nMore.\n\nAnd more.\n\n")
    settled(transcript)
    assert transcript.is_at_end
    assert bar.value() == bar.maximum()
    assert not transcript.end_button.isVisible()


def test_wrong_guesses_above_do_not_move_what_is_read(transcript, fill, settled):
    fill(transcript, ["q", "# H\n\n" + "| a | b |\n|--|--|\n| 1 | 2 |\n\n" * 20 + LONG] * 10)
    bar = transcript.verticalScrollBar()
    bar.setValue(bar.maximum() // 2)
    settled(transcript)
    for _step in range(120):
        section, row, _y = next(
            seen
            for seen in transcript.column.seen(bar.value(), bar.value() + 600)
            if seen[1].is_measured
        )
        before = top_of(transcript, section, row)
        bar.setValue(bar.value() - 37)
        after = top_of(transcript, section, row)
        assert after - before == pytest.approx(37, abs=1.01) or bar.value() == 0


def test_finished_blocks_are_not_laid_out_again_while_the_answer_grows(transcript, fill, settled):
    messages = fill(transcript, ["q", "One.\n\nTwo.\n\nThree"], state=MessageState.GROWING)
    (section,) = [s for s in transcript.sections if s.message.is_answer]
    first = section.body_rows()[0].views[0]
    document = first._document
    for _number in range(20):
        grow(transcript, messages[-1], " more")
        settled(transcript)
    assert section.body_rows()[0].views[0] is first
    assert first._document is document
    assert section.body_rows()[-1].views[0].plain == "Three" + " more" * 20


def test_code_is_not_coloured_before_it_is_complete(transcript, fill, settled):
    messages = fill(transcript, ["q", "```python\ndef f():\n"], state=MessageState.GROWING)
    section = transcript.sections[1]

    def code():
        return next(v for row in section.body_rows() for v in row.views if isinstance(v, CodeView))

    grow(transcript, messages[-1], "    return 1\n")
    settled(transcript)
    assert code().spans == []
    grow(transcript, messages[-1], "```\n\nDone.")
    settled(transcript)
    assert [kind for _begin, _size, kind in code().spans][:2] == ["keyword", "function"]


def test_colours_do_not_change_the_height(transcript, fill):
    fill(transcript, ["q", CODE])
    row = next(r for r in transcript.sections[1].body_rows() if isinstance(r.views[0], CodeView))
    view = row.views[0]
    assert view.spans
    before = view.height
    view.refit(transcript.surroundings)
    assert view.height == before


def test_thinking_is_folded_with_its_time_and_unfolds(transcript, fill, settled):
    fill(transcript, ["q", "Answer."], thinking="Deep *thoughts*.", thinking_s=75.0)
    answer = transcript.sections[1]
    head = next(row for row in answer.rows if isinstance(row, WidgetRow))
    assert isinstance(head.widget, ThinkingHead)
    button = head.widget.findChildren(QToolButton)[0]
    assert button.text() == "Thought for 1 min 15 s"
    assert [row.plain for row in answer.body_rows()] == ["Answer."]
    button.click()
    settled(transcript)
    assert [row.plain for row in answer.body_rows()] == ["Deep thoughts.", "Answer."]
    answer.toggle_thinking()
    settled(transcript)
    assert [row.plain for row in answer.body_rows()] == ["Answer."]


def test_live_thinking_has_a_button_to_answer_now(transcript, fill, qtbot):
    fill(transcript, ["q", ""], thinking="Hm.", state=MessageState.GROWING)
    transcript.show_activity(Activity(Phase.THINKING, "m1", thinking_s=3.2))
    head = next(w for w in transcript.viewport().findChildren(ThinkingHead) if w.isVisible())
    fold, now = head.findChildren(QToolButton)
    assert fold.text() == "Thinking: 3 s"
    with qtbot.waitSignal(transcript.answer_now_wanted):
        now.click()
    transcript.show_activity(Activity(Phase.ANSWERING, "m1", thinking_s=3.2))
    assert not now.isVisible()


def test_the_button_goes_when_the_answer_ends_right_after_its_thinking(transcript, fill):
    # All of it came in one batch, so that nothing was told in between (seen 2026-11-30).
    messages = fill(transcript, ["q", ""], thinking="Hm.", state=MessageState.GROWING)
    transcript.show_activity(Activity(Phase.THINKING, "m1", thinking_s=0.1))
    head = next(w for w in transcript.viewport().findChildren(ThinkingHead) if w.isVisible())
    fold, now = head.findChildren(QToolButton)
    assert now.isVisible()
    ended = replace(messages[1], text="Yes.", state=MessageState.COMPLETE)
    transcript.update_message(ended, ("m1",))
    transcript.show_activity(Activity())
    assert not now.isVisible()
    assert fold.text() == "Thinking"


def test_only_thinking_is_shown_when_there_is_no_answer(transcript, fill):
    fill(transcript, ["q", ""], thinking="All that came.", notes=("ended_in_thinking",))
    assert transcript.sections[1].body_rows()[0].plain == "All that came."


@pytest.mark.parametrize(
    ("activity", "words"),
    [
        (
            Activity(Phase.READING, "m1", prompt_tokens=38_000, prompt_read=12_400),
            "Reading 12,400 of 38,000 tokens",
        ),
        (
            Activity(Phase.WRITING_CALL, "m1", tool="read_file"),
            "Writing a call to read_file (3.2 kB)",
        ),
        (Activity(Phase.ANSWERING, "m1", tokens_per_s=41.27), "Answering  ·  41.3 tokens/s"),
    ],
)
def test_what_happens_now_is_said_below_the_answer(transcript, fill, activity, words):
    call = ToolCall("c1", "files", "read_file", "files__read_file", "x" * 3200, ToolState.WRITING)
    fill(transcript, ["q", "A"], state=MessageState.GROWING, tool_calls=(call,))
    transcript.show_activity(activity)
    line = next(w for w in transcript.viewport().findChildren(StatusLine) if w.isVisible())
    assert line._label.text() == words


def test_a_tool_call_asks_for_consent_with_its_arguments(transcript, fill, qtbot):
    call = ToolCall(
        "c1", "files", "write", "files__write", '{"path":"a"}', ToolState.ASKING, text_offset=3
    )
    fill(transcript, ["q", "One two"], state=MessageState.GROWING, tool_calls=(call,))
    card = next(w for w in transcript.viewport().findChildren(ToolCard) if w.isVisible())
    buttons = {button.text(): button for button in card.findChildren(QToolButton)}
    answers = []
    transcript.tool_answered.connect(lambda *answer: answers.append(answer))
    for name in ("Allow", "Always allow", "Refuse"):
        buttons[name].click()
    assert answers == [("c1", True, False), ("c1", True, True), ("c1", False, False)]
    kinds = [type(row).__name__ for row in transcript.sections[1].rows]
    assert kinds == ["BodyRow", "WidgetRow", "BodyRow", "WidgetRow"]  # the card is in the text


def test_a_tool_call_unfolds_to_arguments_and_result(transcript, fill, settled):
    call = ToolCall(
        "c1", "files", "read", "files__read", '{"path":"a"}', ToolState.DONE, "the result"
    )
    fill(transcript, ["q", "Done."], tool_calls=(call,))
    transcript.sections[1].toggle_tool("c1")
    settled(transcript)
    card = next(w for w in transcript.viewport().findChildren(ToolCard) if w.isVisible())
    texts = [edit.toPlainText() for edit in card.findChildren(QPlainTextEdit)]
    assert texts == ['{\n  "path": "a"\n}', "the result"]


def test_a_long_message_of_the_person_is_folded(transcript, fill, settled):
    fill(transcript, ["word " * 2000, "Yes."])
    question = transcript.sections[0]
    assert sum(len(row.plain) for row in question.body_rows()) < 1500
    question._toggle_text()
    settled(transcript)
    assert sum(len(row.plain) for row in question.body_rows()) > 9000


def test_right_to_left_paragraphs_stand_at_the_right(transcript, fill):
    fill(transcript, ["q", "مرحبا بالعالم\n\nEnglish again"])
    arabic, english = (row.views[0] for row in transcript.sections[1].body_rows())
    assert isinstance(arabic, TextView)
    width = transcript.column.width

    def left_edge(view):
        return view._document.begin().layout().lineAt(0).naturalTextRect().left()

    assert left_edge(arabic) > width / 2
    assert left_edge(english) < 5


def test_a_narrower_window_keeps_the_reader_at_his_place(transcript, fill, settled):
    fill(transcript, ["q", LONG] * 3)
    bar = transcript.verticalScrollBar()
    bar.setValue(bar.maximum() // 2)
    settled(transcript)
    section, row, y = transcript._find_anchor()
    transcript.resize(560, 600)
    settled(transcript)
    assert top_of(transcript, section, row) == pytest.approx(y, abs=2)


def test_what_is_no_longer_seen_is_freed(transcript, fill, settled):
    fill(transcript, ["q", LONG] * 30)
    bar = transcript.verticalScrollBar()
    for _step in range(60):
        bar.setValue(bar.value() - 300)
    settled(transcript)
    assert len(documents(transcript)) < 80
    assert len(transcript.viewport().children()) < 60


def test_other_colours_are_taken_at_once(transcript, fill, settled, qapp):
    fill(transcript, ["q", CODE])
    light = transcript.viewport().grab().toImage().pixelColor(5, 5)
    transcript.setPalette(palette_of(is_dark=True))
    settled(transcript)
    dark = transcript.viewport().grab().toImage().pixelColor(5, 5)
    assert light.lightness() > 200
    assert dark.lightness() < 100
    assert transcript.surroundings.theme.is_dark


def test_a_found_place_is_shown_near_the_top(transcript, fill, settled):
    fill(transcript, ["q", LONG] * 20)
    offset = LONG.index("Paragraph 40 ")
    transcript.show_message("m11", offset)
    settled(transcript)
    section = transcript.section("m11")
    row = next(r for r in section.body_rows() if r.plain.startswith("Paragraph 40 "))
    assert 0 <= top_of(transcript, section, row) < 100


def test_the_keyboard_goes_from_message_to_message_and_acts(transcript, fill, qtbot):
    fill(transcript, ["first question", "An answer.", "second", "Another."])
    transcript.go_to_message(-1)
    transcript.go_to_message(-1)
    assert transcript.current is transcript.sections[2]
    assert transcript.accessibleDescription().startswith("You, 3 of 4")
    transcript.copy()
    assert QGuiApplication.clipboard().text() == "second"
    menu = transcript.menu_for(transcript.current, "")
    with qtbot.waitSignal(transcript.action_wanted) as caught:
        next(a for a in menu.actions() if a.text() == "Edit this message").trigger()
    assert caught.args == [MessageAction.EDIT, "m2"]
    menu.close()


def test_every_button_has_a_name_for_screen_readers(transcript, fill):
    fill(transcript, ["q", CODE], thinking="Hm.")
    for button in transcript.findChildren(QToolButton):
        assert button.text() or button.accessibleName()


def test_a_transcript_that_is_gone_leaves_no_thread_that_draws_formulas(qtbot):
    formulas = Formulas()
    formulas.get(Formula("x^2", is_display=False), 14.0, "#000000")
    thread = formulas._thread
    qtbot.waitUntil(lambda: formulas.is_idle, timeout=60_000)
    assert thread.is_alive()
    Shiboken.delete(formulas)
    thread.join(20)
    assert not thread.is_alive()


def test_formulas_are_drawn_when_they_are_complete(transcript, fill):
    fill(transcript, ["q", "The sum $\\sum_{i=1}^n i$ and\n\n$$\\frac{1}{2}$$\n\nbad $\\foo{$."])
    section = transcript.sections[1]
    text = section.body_rows()[0].views[0]
    assert "\ufffc" in text._document.toPlainText()
    assert text.text(1, text.length).startswith("he sum $\\sum_{i=1}^n i$ and")
    bad = section.body_rows()[-1].views[0]
    assert "\\foo{" in bad._document.toPlainText()
    QApplication.processEvents()


def test_bold_is_bold_while_it_is_being_written_and_nothing_is_left_of_that(
    transcript, fill, settled
):
    messages = fill(transcript, ["q", "A **very impor"], state=MessageState.GROWING)
    section = transcript.sections[1]
    assert section.body_rows()[0].plain == "A very impor"
    grow(transcript, messages[-1], "tant** word, and `co")
    settled(transcript)
    assert section.body_rows()[0].plain == "A very important word, and co"
    ended = replace(
        messages[-1], text="A **very important** word, and `co", state=MessageState.STOPPED
    )
    transcript.update_message(ended, ("m1",))
    settled(transcript)
    assert section.body_rows()[0].plain == "A very important word, and `co"


def test_nothing_is_laid_out_while_nobody_looks(transcript, fill, settled):
    messages = fill(transcript, ["q", "Begin."], state=MessageState.GROWING)
    transcript.hide()
    for _number in range(30):
        grow(transcript, messages[-1], "\n\nMore text.")
    QApplication.processEvents()
    assert not transcript._timer.isActive()
    assert not any(row.is_measured for row in transcript.sections[1].body_rows()[1:])
    transcript.show()
    settled(transcript)
    assert transcript.sections[1].body_rows()[-1].is_laid_out


def test_a_long_streamed_answer_keeps_only_the_parts_in_sight_laid_out(transcript, fill, settled):
    part = (
        "## Part\n\nSome *words* about $x^2$ and `code`.\n\n```python\ndef f(x):\n"
        + "    y = x + 1  # again\n" * 12
        + "    return x\n```\n\n| a | b |\n|---|--:|\n"
        + "| one | 2 |\n" * 8
        + "\n1. first\n2. second\n\n> said\n\n"
    )
    text = part * 40
    messages = fill(transcript, ["q", "Begin.\n\n"], state=MessageState.GROWING)
    for place in range(0, len(text), 400):
        grow(transcript, messages[-1], text[place : place + 400])
        transcript.lay_out()
        transcript.viewport().repaint()
    settled(transcript)
    assert len(documents(transcript)) < 60
    row = transcript.sections[1].body_rows()[-1]
    assert row.is_laid_out


def test_the_details_of_an_answer_name_the_sampling_that_was_used():
    used = Sampling(temperature=0.7, top_p=0.8, top_k=20, min_p=0, presence_penalty=1.5, seed=2**53)
    lines = stats_details(MessageStats(generated_tokens=3, sampling=used)).splitlines()
    said = "Sampling: temperature 0.7, top-p 0.8, top-k 20, presence 1.5, seed 9007199254740992"
    assert lines[-1] == said
    assert "Sampling" not in stats_details(MessageStats(generated_tokens=3))


@pytest.mark.parametrize(
    ("stats", "is_shown"),
    [
        (MessageStats(generated_tokens=3, generated_s=0.001, generated_per_s=3000.0), False),
        (MessageStats(generated_tokens=7, generated_s=2.0, generated_per_s=3.5), False),
        (MessageStats(generated_tokens=90, generated_s=0.1, generated_per_s=900.0), False),
        (MessageStats(generated_tokens=8, generated_s=2.0, generated_per_s=4.0), True),
        (
            MessageStats(generated_tokens=90, generated_per_s=30.0),
            True,
        ),  # stopped: no time is known
    ],
)
def test_of_an_answer_too_short_to_measure_no_speed_is_said(stats, is_shown):
    assert ("tokens/s" in stats_line(stats)) is is_shown
    assert ("tokens/s" in stats_details(stats)) is is_shown


@pytest.mark.parametrize("text", ["Write a long story. " * 160, "Look:\n\n" + "word " * 90])
def test_rows_follow_each_other_without_a_gap_at_every_width(transcript, fill, settled, text):
    """What is below a folded message kept its place when the text above it was wrapped anew."""
    fill(transcript, [text, "answer"])
    size = transcript.size()
    for width in (500, size.width(), 700, 420, size.width()):
        transcript.resize(width, size.height())
        settled(transcript)
        section = transcript.sections[0]
        for above, below in pairwise(section.rows):
            gap = section.tops[below.index] - section.tops[above.index] - above.height
            assert -0.01 <= gap <= transcript.surroundings.theme.em
