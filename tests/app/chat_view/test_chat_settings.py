"""Settings of a conversation, presets and keys, on a real engine."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QLabel

from app.chat.view.shortcuts import KeyOverview
from tests.app.chat_view.hands import ctrl, press, wait_idle


def test_settings_of_a_conversation_are_kept_and_belong_to_it_alone(open_chat, scripted, qtbot):
    view = open_chat(scripted)
    ctrl(view.pane.composer.edit, Qt.Key.Key_Period)
    panel = view.panel
    assert panel.isVisible()
    panel.system_prompt.setPlainText("Be brief.")
    panel.decimals["temperature"].setValue(0.3)
    panel.seed.setValue(7)
    controller = view.pane.controller
    qtbot.waitUntil(
        lambda: controller.conversation.settings.system_prompt == "Be brief.", timeout=60_000
    )
    settings = controller.conversation.settings
    assert settings.sampling.temperature == 0.3
    assert settings.sampling.top_p is None
    assert settings.sampling.seed == 7
    view.pane.composer.put_text("x")
    view.pane._text_edited("x")
    view.new()
    assert panel.system_prompt.toPlainText() == ""
    assert view.pane.controller.conversation.settings.sampling.temperature is None


def test_settings_typed_a_moment_ago_hold_for_the_message_that_is_sent(open_chat, scripted, qtbot):
    view = open_chat(scripted)
    view.panel.system_prompt.setPlainText("Be brief.")
    view.pane.composer.put_text("Hello")
    view.pane.send()
    assert view.pane.controller.conversation.settings.system_prompt == "Be brief."
    wait_idle(qtbot, view)


def test_a_preset_is_chosen_kept_and_removed(open_chat, scripted):
    view = open_chat(scripted)
    panel = view.panel
    place = panel.preset.findData("precise")
    panel._choose_preset(place)
    settings = view.pane.controller.conversation.settings
    assert (settings.preset, settings.sampling.temperature) == ("precise", 0.6)
    panel.system_prompt.setPlainText("My own")
    panel.flush()
    panel.keep_preset("Mine")
    assert panel.preset.currentText() == "Mine"
    assert panel.remove_button.isEnabled()
    panel.remove_button.click()
    assert panel.preset.findText("Mine") < 0
    assert view.pane.controller.conversation.settings.system_prompt == "My own"


def test_the_overview_lists_every_key_and_no_key_twice(open_chat, scripted):
    view = open_chat(scripted)
    press(view.pane.composer.edit, Qt.Key.Key_F1)
    overview = view.findChildren(KeyOverview)[0]
    words = {label.text() for label in overview.findChildren(QLabel)}
    keys = [key for group in view._groups for key in group.keys]
    assert {key.words for key in keys} <= words
    working = [name for key in keys if key.act is not None for name in key.keys]
    assert len(working) == len(set(working))
    overview.close()


def test_the_last_code_block_is_copied_by_a_key(open_chat, scripted, ask):
    view = open_chat(scripted)
    ask(view, "Code please")
    press(
        view.pane.composer.edit,
        Qt.Key.Key_K,
        Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier,
    )
    assert QGuiApplication.clipboard().text() == "def double(x):\n    return 2 * x"


def test_a_narrow_window_hides_the_list_and_a_key_brings_it(open_chat, scripted):
    view = open_chat(scripted)
    view.resize(520, 700)
    assert not view.conversations.isVisible()
    ctrl(view.pane.composer.edit, Qt.Key.Key_B)
    assert view.conversations.isVisible()
    assert view.pane.width() >= view.pane.minimumWidth() > 200
