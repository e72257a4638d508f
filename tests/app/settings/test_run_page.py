"""The editor of the run config as a person meets it."""

import json

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLineEdit

from app.settings.hub import Hub
from app.settings.run_page import RunPage
from app.supervisor.state import EngineState, Phase


@pytest.fixture
def page(qtbot, context):
    page = RunPage(Hub(context))
    qtbot.addWidget(page)
    page.resize(900, 700)
    page.show()
    page.enter()
    return page


def type_into(page, key, text):
    line = page.rows[key].editor.focus_widget()
    line.clear()
    QTest.keyClicks(line, text)


def test_a_typed_value_is_checked_saved_and_undone(page, config_path, wait):
    assert not page.save.isEnabled()
    type_into(page, "port", "8123")
    assert page.save.isEnabled()
    page.save.click()
    assert json.loads(config_path.read_text("utf-8"))["port"] == 8123
    assert page.notice.text == "Saved."
    assert not page.save.isEnabled()
    page.undo.click()
    assert "port" not in json.loads(config_path.read_text("utf-8"))
    assert page.rows["port"].editor.focus_widget().text() == ""


def test_a_bad_value_is_said_beside_it_and_cannot_be_saved(page, wait):
    type_into(page, "threads", "many")
    wait(lambda: not page.rows["threads"].problem.isHidden())
    assert page.rows["threads"].problem.text() == "It must be a whole number from 0 to 1024."
    assert not page.save.isEnabled()
    page.discard.click()
    assert page.rows["threads"].problem.isHidden()
    assert page.rows["threads"].editor.focus_widget().text() == ""


def test_switches_choices_and_lists_are_edited_too(page, config_path):
    page.rows["lock_memory"].editor.box.click()
    choice = page.rows["default_reasoning_effort"].editor.box
    choice.setCurrentIndex(choice.findData("low"))
    choice.activated.emit(choice.currentIndex())
    page.rows["allowed_hosts"].editor.text.setPlainText("my-pc.lan\n\nother.lan")
    page.save.click()
    saved = json.loads(config_path.read_text("utf-8"))
    assert saved["lock_memory"] is True
    assert saved["default_reasoning_effort"] == "low"
    assert saved["allowed_hosts"] == ["my-pc.lan", "other.lan"]


def test_the_search_finds_keys_labels_and_descriptions(page):
    page.search.setText("cors")
    shown = [key for key, row in page.rows.items() if not row.isHidden()]
    assert shown == ["cors_origins"]
    page.search.setText("kv CACHE")
    assert "kv_type" in [key for key, row in page.rows.items() if not row.isHidden()]
    page.search.setText("no such words")
    assert not page.nothing.isHidden()
    page.search.clear()
    assert all(not row.isHidden() for row in page.rows.values())


def test_auto_is_shown_with_what_it_comes_to_here(page, wait):
    line = page.rows["context"].editor.focus_widget()
    wait(lambda: line.placeholderText() == "auto: 32768")
    assert "Here “auto” is 32768." in page.rows["context"].hint.text()
    assert "stratum-tiny.gguf" in page.rows["model"].hint.text()
    assert page.rows["model_id"].editor.focus_widget().text() == "tiny"
    assert page.rows["session_cache_mib"].editor.focus_widget().placeholderText() != "auto"


def test_every_key_says_when_it_takes_effect_and_which_wait(page, supervisor, config_path):
    assert all("Needs a restart." in row.hint.text() for row in page.rows.values())
    supervisor.show(EngineState(phase=Phase.STARTING))
    supervisor.show(EngineState(phase=Phase.READY, base_url="http://127.0.0.1:1"))
    type_into(page, "threads", "2")
    page.save.click()
    assert page.notice.text.startswith("Saved. It takes effect")
    assert not page.rows["threads"].state.isHidden()
    assert page.rows["port"].state.isHidden()
    supervisor.show(EngineState(phase=Phase.STARTING))
    supervisor.show(EngineState(phase=Phase.READY, base_url="http://127.0.0.1:1"))
    assert page.rows["threads"].state.isHidden()


def test_a_secret_is_hidden_until_it_is_asked_for(page):
    line = page.rows["upstream_key"].editor.focus_widget()
    assert line.echoMode() == QLineEdit.EchoMode.Password


def test_everything_can_be_reached_by_the_keyboard_and_has_a_name(page):
    for row in page.rows.values():
        target = row.editor.focus_widget()
        assert target.focusPolicy() & Qt.FocusPolicy.TabFocus
        assert target.accessibleName()


def test_a_broken_file_is_said_and_nothing_can_be_edited(page, config_path):
    config_path.write_text("{", encoding="utf-8")
    page.enter()
    assert "not valid JSON" in page.notice.text
    assert not page.rows["port"].isEnabled()
