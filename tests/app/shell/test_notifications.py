"""What is told, and what is not: each kind has its switch, and a person who looks is told nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtWidgets import QApplication, QWidget

from app.context import AppContext
from app.supervisor.state import EngineState, Phase, Reason, ReasonCode
from app.tray.notifications import Notice, NoticeKind

READY = EngineState(Phase.READY, model="tiny", is_loaded=True)
FAILED = EngineState(Phase.FAILED, reason=Reason(ReasonCode.OUT_OF_MEMORY))


@pytest.fixture
def told(context: AppContext, monkeypatch: pytest.MonkeyPatch) -> list[Notice]:
    monkeypatch.setattr(QApplication, "activeWindow", lambda: None)
    notices: list[Notice] = []
    context.notifier.shown.connect(notices.append)
    return notices


@pytest.fixture
def switch(context: AppContext) -> Callable[..., None]:
    def change(**changes: bool) -> None:
        store = context.app_settings
        store.put(store.value.model_copy(update=changes))

    return change


def test_ready_is_told_once_after_loading(context, told):
    context.notifier.state_changed(EngineState(Phase.STARTING))
    context.notifier.state_changed(EngineState(Phase.LOADING))
    context.notifier.state_changed(READY)
    context.notifier.state_changed(EngineState(Phase.BUSY, is_loaded=True))
    context.notifier.state_changed(READY)
    assert [(notice.kind, notice.text) for notice in told] == [
        (NoticeKind.READY, "tiny can be used now.")
    ]


def test_a_failure_is_told_once_with_its_reason(context, told):
    context.notifier.state_changed(FAILED)
    context.notifier.state_changed(FAILED)
    (notice,) = told
    assert notice.kind is NoticeKind.ERROR
    assert notice.text


def test_that_no_model_is_installed_yet_is_no_surprise(context, told):
    reason = Reason(ReasonCode.NO_MODEL)
    context.notifier.state_changed(EngineState(Phase.FAILED, reason=reason))
    assert told == []


def test_a_crash_is_told_while_the_engine_starts_again(context, told):
    reason = Reason(ReasonCode.UNKNOWN, detail="killed")
    context.notifier.state_changed(READY)
    context.notifier.state_changed(EngineState(Phase.STARTING, reason=reason))
    context.notifier.state_changed(EngineState(Phase.LOADING, reason=reason))
    assert [notice.title for notice in told] == ["The model is started again"]


@pytest.mark.parametrize(("seconds", "count"), [(29.9, 0), (30.0, 1)])
def test_only_long_answers_are_told(context, told, seconds, count):
    context.notifier.answer_ended("A question", seconds)
    assert len(told) == count


def test_a_long_title_is_cut(context, told):
    context.notifier.answer_ended("x" * 500, 60)
    assert len(told[0].text) == 60
    assert told[0].text.endswith("…")


def test_each_kind_can_be_switched_off_alone(context, told, switch):
    def all_kinds() -> None:
        context.notifier.state_changed(EngineState(Phase.LOADING))
        context.notifier.state_changed(READY)
        context.notifier.answer_ended("title", 60)
        context.notifier.error("The folder cannot be written.")

    for name, kind in (
        ("notifies_ready", NoticeKind.READY),
        ("notifies_answer", NoticeKind.ANSWER),
        ("notifies_error", NoticeKind.ERROR),
    ):
        switch(**{name: False})
        told.clear()
        all_kinds()
        assert {notice.kind for notice in told} == {
            NoticeKind.READY,
            NoticeKind.ANSWER,
            NoticeKind.ERROR,
        } - {kind}
        switch(**{name: True})


def test_a_person_who_looks_at_the_window_is_told_nothing(context, told, monkeypatch, qtbot):
    window = QWidget()
    qtbot.addWidget(window)
    monkeypatch.setattr(QApplication, "activeWindow", lambda: window)
    context.notifier.answer_ended("title", 60)
    context.notifier.error("Something.")
    assert told == []
