"""The monitor beside the real engine: it shows what is reported, and does nothing unseen."""

import threading

import pytest
from PySide6.QtCore import QEvent, QObject, QTimer
from PySide6.QtWidgets import QApplication

from app.monitor.monitor_view import MonitorView
from app.supervisor.state import EngineState, Phase


@pytest.fixture
def view(qtbot, context):
    view = MonitorView(context)
    qtbot.addWidget(view)
    view.resize(1000, 900)
    yield view
    view.hide()


@pytest.fixture
def engine(supervisor, start_server, config_path):
    server = start_server(None, "--config", str(config_path))
    supervisor.watch(server.url, server.process.pid)
    return server


def active_timers(view):
    return [timer for timer in view.findChildren(QTimer) if timer.isActive()]


def test_nothing_happens_while_the_view_is_hidden(view, qtbot, wait):
    assert not view.sampler.is_running
    view.show()
    with qtbot.waitSignal(view.sampler.sampled, timeout=60_000):
        pass
    assert view.sampler.is_running
    wait(lambda: not view._operations)
    view.hide()
    assert not view.sampler.is_running
    assert active_timers(view) == []
    seen = []
    view.sampler.sampled.connect(seen.append)
    qtbot.wait(1500)
    assert seen == []
    assert [thread for thread in threading.enumerate() if thread.name == "background"] == []
    view.show()
    with qtbot.waitSignal(view.sampler.sampled, timeout=60_000):
        pass


def test_it_shows_what_the_engine_reports(view, engine, supervisor, wait):
    view.show()
    for number in range(2):
        assert engine.chat(f"Hello {number}", max_tokens=8).status_code == 200
    wait(lambda: supervisor.look() and view.recent.rowCount() == 2)
    wait(lambda: view.model_panel.value("requests") != "")
    assert view.now.title.text() == "Ready"
    assert "context of" in view.now.model.text()
    assert view.model_panel.value("generated").startswith(("1", "8", "9"))
    assert view.model_panel.value("warm") != ""
    assert view.model_panel.value("drafts") in ("", view.model_panel.value("drafts"))
    wait(lambda: "experts" in view.model_panel.places.text())
    wait(lambda: all(tile.has_plot for tile in view.tiles.tiles()))
    wait(lambda: "%" in view.tiles.tiles()[1]._value.text())


def test_what_is_not_reported_is_not_shown(view):
    view.show()
    assert view.model_panel.value("drafts") == ""
    assert view.model_panel.value("restarts") == ""
    assert view.table.isHidden()
    assert [tile.title for tile in view.tiles.tiles()] == [
        "Tokens per second",
        "Processor",
        "Memory",
        "Drives",
    ]


def test_a_running_request_is_shown_with_its_figures(view, supervisor, start_server, wait):
    tokens = {"text": "word " * 400, "delay_ms": 100}
    server = start_server({"answers": [{**tokens, "times": 0}]})
    supervisor.watch(server.url, server.process.pid)
    view.show()
    stream = server.raw_chat("slow", stream=True)
    try:
        wait(lambda: supervisor.look().requests and "tokens" in view.now.lines.text())
    finally:
        stream.close()


def test_an_engine_that_has_gone_leaves_no_old_figures(view, engine, supervisor, wait):
    view.show()
    assert engine.chat("Hello", max_tokens=4).status_code == 200
    wait(lambda: supervisor.look() and view.recent.rowCount() == 1)
    supervisor.show(EngineState(phase=Phase.STOPPED))
    wait(lambda: view.recent.rowCount() == 0)
    assert view.now.title.text() == "Stopped"
    assert view.model_panel.value("requests") == ""


def test_a_closer_look_ends_with_an_answer(view, engine, supervisor, wait):
    view.show()
    supervisor.look()
    view.slow.button.click()
    assert not view.slow.button.isEnabled()
    wait(view.slow.button.isEnabled)
    assert view._measured.memory_per_s is None or view._measured.memory_per_s > 0
    assert all("{" not in text for text in view.slow.sentences)


def test_hiding_during_a_closer_look_leaves_the_button_usable(view, engine):
    view.show()
    view.slow.button.click()
    view.hide()
    assert view.slow.button.isEnabled()


def test_another_language_builds_the_view_anew(view, qtbot):
    view.show()
    before = view.now
    QApplication.sendEvent(view, QEvent(QEvent.Type.LanguageChange))
    assert view.now is not before
    qtbot.waitSignal(view.sampler.sampled, timeout=60_000).wait()


def test_showing_a_sample_makes_no_part_of_the_view_anew(view, qtbot, wait):
    view.show()
    samples = []
    view.sampler.sampled.connect(samples.append)
    wait(lambda: samples and all(tile.has_plot for tile in view.tiles.tiles()))
    before = view.findChildren(QObject)
    for _ in range(20):
        view._show_sample(samples[0])
    assert view.findChildren(QObject) == before
