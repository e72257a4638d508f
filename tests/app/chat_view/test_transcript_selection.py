"""Selecting, copying and links in the transcript."""

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QToolButton

from app.history.records import MessageState
from tests.app.chat_view.transcript_looks import centre, grow, top_of

LONG = "\n\n".join(f"Paragraph {number} " + "with some words " * 12 for number in range(60))
CODE = "Look:\n\n```python\ndef f(x):\n    return x  # same\n```\n\nand done."


def test_the_button_over_code_copies_all_of_it(transcript, fill):
    code = "\n".join(f"line {number}" for number in range(200))
    fill(transcript, ["q", f"```text\n{code}\n```\n"])
    transcript.verticalScrollBar().setValue(0)
    buttons = [
        button
        for button in transcript.viewport().findChildren(QToolButton)
        if button.accessibleName() == "Copy this code" and button.isVisible()
    ]
    assert len(buttons) == 1
    buttons[0].click()
    assert QGuiApplication.clipboard().text() == code


def test_text_is_selected_across_messages_and_copied(transcript, fill):
    fill(transcript, ["My question", "First paragraph.\n\nSecond *paragraph*."])
    question, answer = transcript.sections
    begin = transcript.position_at(centre(transcript, question.body_rows()[0], question, x=0))
    transcript.selection.anchor = begin
    last = answer.body_rows()[-1]
    point = QPoint(790, round(top_of(transcript, answer, last) + 5))
    transcript.selection.cursor = transcript.position_at(point)
    QTest.keyClick(transcript, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    expected = "My question\n\nFirst paragraph.\n\nSecond paragraph."
    assert QGuiApplication.clipboard().text() == expected


def test_the_mouse_selects_within_a_paragraph(transcript, fill):
    fill(transcript, ["q", "alpha beta gamma"])
    answer = transcript.sections[1]
    row = answer.body_rows()[0]
    y = round(top_of(transcript, answer, row) + 6)
    x = round(transcript.column.x)
    view = transcript.viewport()
    QTest.mousePress(view, Qt.MouseButton.LeftButton, pos=QPoint(x + 1, y))
    QTest.mouseMove(view, QPoint(x + 300, y))
    QTest.mouseRelease(view, Qt.MouseButton.LeftButton, pos=QPoint(x + 300, y))
    transcript.copy()
    assert QGuiApplication.clipboard().text() == "alpha beta gamma"
    QTest.mouseDClick(view, Qt.MouseButton.LeftButton, pos=QPoint(x + 8, y))
    assert transcript.selected_text() == "alpha"


def test_all_messages_can_be_selected_even_unseen_ones(transcript, fill):
    texts = [f"text {number}" for number in range(100)]
    fill(transcript, texts)
    QTest.keyClick(transcript, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    transcript.copy()
    assert QGuiApplication.clipboard().text() == "\n\n".join(texts)


def test_a_click_opens_a_link_of_the_web_outside(transcript, fill, monkeypatch):
    opened = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: opened.append(url.toString()))
    fill(transcript, ["q", "[here](https://example.com/x) and [bad](file:///etc/passwd)"])
    answer = transcript.sections[1]
    point = centre(transcript, answer.body_rows()[0], answer, x=10)
    QTest.mouseClick(transcript.viewport(), Qt.MouseButton.LeftButton, pos=point)
    assert opened == ["https://example.com/x"]
    QTest.mouseClick(transcript.viewport(), Qt.MouseButton.LeftButton, pos=point + QPoint(90, 0))
    assert len(opened) == 1


def test_selecting_over_a_link_does_not_open_it(transcript, fill, monkeypatch):
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: pytest.fail(str(url)))
    fill(transcript, ["q", "[a rather long link](https://example.com/x)"])
    answer = transcript.sections[1]
    point = centre(transcript, answer.body_rows()[0], answer, x=4)
    view = transcript.viewport()
    QTest.mousePress(view, Qt.MouseButton.LeftButton, pos=point)
    QTest.mouseMove(view, point + QPoint(60, 0))
    QTest.mouseRelease(view, Qt.MouseButton.LeftButton, pos=point + QPoint(60, 0))
    assert transcript.selected_text()


def test_text_does_not_run_away_while_it_is_selected(transcript, fill, settled):
    messages = fill(transcript, ["q", LONG], state=MessageState.GROWING)
    view, bar = transcript.viewport(), transcript.verticalScrollBar()
    QTest.mousePress(view, Qt.MouseButton.LeftButton, pos=QPoint(100, 200))
    QTest.mouseMove(view, QPoint(250, 260))
    before = bar.value()
    grow(transcript, messages[-1], "\n\nMore." * 30)
    settled(transcript)
    assert bar.value() == before
    QTest.mouseRelease(view, Qt.MouseButton.LeftButton, pos=QPoint(250, 260))
    assert not transcript.is_at_end
    assert transcript.end_button.isVisible()
