"""Work off the main thread, and what the main thread hears of it."""

from __future__ import annotations

import threading

import pytest

pytest.importorskip("PySide6.QtCore", exc_type=ImportError)

from PySide6.QtCore import QObject

from app.background import in_background
from engine.core.errors import ResourceError

PATIENCE_MS = 60_000


class Heard:
    def __init__(self):
        self.events = []

    def note(self, kind):
        def take(value):
            assert threading.current_thread() is threading.main_thread()
            self.events.append((kind, value))

        return take

    def run(self, owner, work):
        operation = in_background(
            owner,
            work,
            on_success=self.note("success"),
            on_failure=self.note("failure"),
            on_progress=self.note("progress"),
        )
        operation.finished.connect(lambda: self.events.append(("finished", None)))
        return operation


@pytest.fixture
def heard(qtbot):
    return Heard()


def wait_for_end(qtbot, heard):
    qtbot.waitUntil(lambda: ("finished", None) in heard.events, timeout=PATIENCE_MS)


def test_progress_and_result_come_in_order_on_the_main_thread(qtbot, heard):
    def work(task):
        assert threading.current_thread() is not threading.main_thread()
        for number in range(3):
            task.report(number)
        return "done"

    owner = QObject()
    heard.run(owner, work)
    wait_for_end(qtbot, heard)
    progress = [("progress", number) for number in range(3)]
    assert heard.events == [*progress, ("success", "done"), ("finished", None)]


def test_an_error_with_a_sentence_arrives_as_it_is(qtbot, heard):
    error = ResourceError("The disk is full.", code="disk_full")

    def work(_task):
        raise error

    owner = QObject()
    heard.run(owner, work)
    wait_for_end(qtbot, heard)
    assert heard.events == [("failure", error), ("finished", None)]


def test_a_fault_of_ours_is_logged_and_becomes_a_sentence(qtbot, heard, caplog):
    owner = QObject()
    heard.run(owner, lambda _task: 1 // 0)
    wait_for_end(qtbot, heard)
    kind, error = heard.events[0]
    assert kind == "failure"
    assert error.code == "unexpected"
    assert "ZeroDivisionError" in error.message
    assert "Traceback" in caplog.text
    caplog.clear()


def test_after_a_cancel_only_the_end_is_heard(qtbot, heard):
    begun = threading.Event()

    def work(task):
        begun.set()
        assert task.wait(20)
        task.report("too late")
        task.check()
        return "never"

    owner = QObject()
    operation = heard.run(owner, work)
    assert begun.wait(20)
    operation.cancel()
    assert operation.is_cancelled
    wait_for_end(qtbot, heard)
    assert heard.events == [("finished", None)]


def test_a_result_that_was_cancelled_on_its_way_is_not_heard(qtbot, heard):
    owner = QObject()
    operation = heard.run(owner, lambda _task: "done")
    assert operation.wait(20)  # it lies in the event queue now
    operation.cancel()
    wait_for_end(qtbot, heard)
    assert heard.events == [("finished", None)]


def test_when_the_owner_has_gone_nobody_is_called(qtbot, heard):
    go_on = threading.Event()

    def work(task):
        assert go_on.wait(20)
        task.report("progress")
        return "done"

    owner = QObject()
    operation = heard.run(owner, work)
    thread = operation._thread
    owner.deleteLater()
    with qtbot.waitSignal(owner.destroyed, timeout=PATIENCE_MS):
        pass
    go_on.set()
    thread.join(20)
    assert not thread.is_alive()
    qtbot.wait(50)
    assert heard.events == []
