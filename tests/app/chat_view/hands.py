"""What a person does in the chat and waits for, for the tests of this folder."""

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest


def press(widget, key, modifier=Qt.KeyboardModifier.NoModifier):
    QTest.keyClick(widget, key, modifier)


def ctrl(widget, key):
    press(widget, key, Qt.KeyboardModifier.ControlModifier)


def shown(view):
    return [section.message for section in view.pane.transcript.sections]


def wait_idle(qtbot, view):
    qtbot.waitUntil(lambda: not view.pane.controller.activity.is_busy, timeout=60_000)


def wait_text(qtbot, view, chars=10):
    """Until some of the answer has arrived."""
    controller = view.pane.controller
    qtbot.waitUntil(
        lambda: controller.path()[-1].is_answer and len(controller.path()[-1].text) > chars,
        timeout=60_000,
    )
