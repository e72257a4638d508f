"""The chat as people use it, on a real engine."""

import re

from PySide6.QtCore import QLocale, QMimeData, Qt, QUrl
from PySide6.QtGui import QGuiApplication, QImage, QInputMethodEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFileDialog, QLabel, QLineEdit

from app.chat.activity import Phase
from app.chat.view.composer import MessageEdit
from app.chat.view.conversation_model import EntryRole
from app.chat.view.shortcuts import KeyOverview
from app.chat.view.transcript.widgets import Chip, Footer, MessageAction
from app.history.records import MessageState, Problem, Role
from app.i18n.translate import Translations
from engine.core.language import Language


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


# -- asking and stopping -------------------------------------------------------------------------


def test_a_message_is_written_sent_by_enter_and_answered(open_chat, scripted, qtbot, settled):
    view = open_chat(scripted)
    edit = view.pane.composer.edit
    assert edit.hasFocus()
    QTest.keyClicks(edit, "Hello")
    press(edit, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    QTest.keyClicks(edit, "there")
    press(edit, Qt.Key.Key_Return)
    assert edit.toPlainText() == ""
    wait_idle(qtbot, view)
    question, answer = shown(view)
    assert question.text == "Hello\nthere"
    assert answer.text.startswith("# Result")
    assert answer.thinking.startswith("First this.")
    assert view.pane.title.text().startswith("Hello")
    settled(view.pane.transcript)
    footer = [f for f in view.pane.transcript.viewport().findChildren(Footer) if f.isVisible()][-1]
    words = " ".join(label.text() for label in footer.findChildren(QLabel))
    # Of an answer that took too short a time to measure no speed is said.
    assert re.search(r"^(?:[\d.]+ tokens/s  ·  )?context [\d,]+ of 8,192", words)


def test_the_bundled_model_answers(open_chat, bundled, ask):
    view = open_chat(bundled)
    answer = ask(view, "What is 2 + 3?")
    assert answer.state is MessageState.COMPLETE
    assert answer.text or answer.thinking


def test_stop_keeps_what_was_written_and_it_can_be_continued(open_chat, scripted, qtbot):
    view = open_chat(scripted)
    view.pane.composer.put_text("Tell me slowly")
    view.pane.send()
    wait_text(qtbot, view)
    assert view.pane.composer.send_button.accessibleName().startswith("Stop")
    press(view.pane.composer.edit, Qt.Key.Key_Escape)
    wait_idle(qtbot, view)
    stopped = shown(view)[-1]
    assert stopped.state is MessageState.STOPPED
    assert stopped.text
    view.pane.act(MessageAction.CONTINUE, stopped.id)
    controller = view.pane.controller
    qtbot.waitUntil(
        lambda: len(controller.message(stopped.id).text) > len(stopped.text) + 20, timeout=60_000
    )
    view.pane.stop()
    wait_idle(qtbot, view)
    assert shown(view)[-1].text.startswith(stopped.text)


def test_enter_while_an_answer_is_made_keeps_what_is_written(open_chat, scripted, qtbot):
    view = open_chat(scripted)
    view.pane.composer.put_text("Tell me slowly")
    view.pane.send()
    wait_text(qtbot, view)
    QTest.keyClicks(view.pane.composer.edit, "next")
    press(view.pane.composer.edit, Qt.Key.Key_Return)
    assert view.pane.composer.text == "next"
    assert len(shown(view)) == 2
    view.pane.stop()
    wait_idle(qtbot, view)


def test_answer_now_ends_the_thinking(open_chat, scripted, qtbot):
    view = open_chat(scripted)
    view.pane.composer.put_text("think long about it")
    view.pane.send()
    controller = view.pane.controller
    qtbot.waitUntil(lambda: controller.activity.phase is Phase.THINKING, timeout=60_000)
    press(
        view.pane.composer.edit,
        Qt.Key.Key_Return,
        Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier,
    )
    wait_idle(qtbot, view)
    assert "Done early." in shown(view)[-1].text


def test_what_is_shown_while_it_grows_is_what_there_is_in_the_end(open_chat, scripted, ask):
    view = open_chat(scripted)
    view.pane.transcript.show()
    answer = ask(view, "All of it")
    section = view.pane.transcript.section(answer.id)
    text = "".join(row.piece.text for row in section.body_rows() if not row.is_muted)
    assert text == answer.text


def test_a_failed_answer_says_why_and_keeps_its_words(open_chat, scripted, ask):
    view = open_chat(scripted)
    answer = ask(view, "break please")
    assert answer.state is MessageState.UNFINISHED
    assert answer.problem is not None
    labels = [label.text() for label in view.pane.transcript.viewport().findChildren(QLabel)]
    assert any("script says" in text or "fail" in text.lower() for text in labels)


def test_closing_the_window_does_not_stop_an_answer(open_chat, scripted, qtbot):
    view = open_chat(scripted, is_ours=True)
    view.pane.composer.put_text("Tell me slowly")
    view.pane.send()
    wait_text(qtbot, view)
    service, conversation_id = view.service, view.conversation_id
    view.close()
    view.deleteLater()
    QApplication.processEvents()
    controller = service.controller(conversation_id)
    before = len(controller.path()[-1].text)
    qtbot.waitUntil(lambda: len(controller.path()[-1].text) > before + 50, timeout=60_000)
    controller.stop()
    qtbot.waitUntil(lambda: not controller.activity.is_busy, timeout=60_000)


# -- versions ------------------------------------------------------------------------------------


def test_editing_a_question_makes_a_branch_and_both_can_be_read(open_chat, scripted, ask, qtbot):
    view = open_chat(scripted)
    ask(view, "First wording")
    press(view.pane.composer.edit, Qt.Key.Key_Up)
    assert view.pane.composer.is_editing
    assert view.pane.composer.text == "First wording"
    view.pane.composer.edit.setPlainText("Second wording")
    press(view.pane.composer.edit, Qt.Key.Key_Return)
    wait_idle(qtbot, view)
    assert not view.pane.composer.is_editing
    question = shown(view)[0]
    assert question.text == "Second wording"
    section = view.pane.transcript.sections[0]
    assert section.versions.index(question.id) == 1
    view.pane.act(MessageAction.OLDER, question.id)
    assert shown(view)[0].text == "First wording"
    view.pane.act(MessageAction.NEWER, shown(view)[0].id)
    assert shown(view)[0].text == "Second wording"


def test_escape_gives_up_editing_and_brings_the_unsent_text_back(open_chat, scripted, ask):
    view = open_chat(scripted)
    ask(view, "A question")
    QTest.keyClicks(view.pane.composer.edit, "unsent")
    view.pane.edit_last()
    press(view.pane.composer.edit, Qt.Key.Key_Escape)
    assert view.pane.composer.text == "unsent"
    assert view.pane.controller.draft.text == "unsent"


def test_another_answer_stands_beside_the_first(open_chat, scripted, ask, qtbot, settled):
    view = open_chat(scripted)
    first = ask(view, "Again and again")
    ctrl(view.pane.composer.edit, Qt.Key.Key_R)
    wait_idle(qtbot, view)
    second = shown(view)[-1]
    assert second.id != first.id
    assert view.pane.transcript.sections[-1].versions == (first.id, second.id)
    settled(view.pane.transcript)
    labels = [label.text() for label in view.pane.transcript.viewport().findChildren(QLabel)]
    assert "2/2" in labels


def test_a_new_conversation_begins_from_a_message(open_chat, scripted, ask):
    view = open_chat(scripted)
    answer = ask(view, "To be branched")
    before = view.conversation_id
    view.pane.act(MessageAction.BRANCH, answer.id)
    assert view.conversation_id != before
    assert shown(view)[0].text == "To be branched"


# -- the composer --------------------------------------------------------------------------------


def test_unsent_text_is_kept_for_each_conversation(open_chat, scripted, ask):
    view = open_chat(scripted)
    ask(view, "One")
    first = view.conversation_id
    QTest.keyClicks(view.pane.composer.edit, "not sent yet")
    ctrl(view.pane.composer.edit, Qt.Key.Key_N)
    assert view.conversation_id != first
    assert view.pane.composer.text == ""
    view.open(first)
    assert view.pane.composer.text == "not sent yet"


def test_the_composer_grows_with_its_lines_up_to_a_limit(open_chat, scripted):
    view = open_chat(scripted)
    edit = view.pane.composer.edit
    one = edit.height()
    edit.setPlainText("a\nb\nc")
    assert edit.height() > 2.2 * one - 10
    edit.setPlainText("\n" * 100)
    assert edit.height() < 14 * one


def test_enter_accepts_what_an_input_method_composes(qtbot):
    edit = MessageEdit()
    qtbot.addWidget(edit)
    edit.show()
    sent = []
    edit.submitted.connect(lambda: sent.append(edit.toPlainText()))
    QApplication.sendEvent(edit, QInputMethodEvent("zhong", []))
    press(edit, Qt.Key.Key_Return)
    assert sent == []
    commit = QInputMethodEvent("", [])
    commit.setCommitString("中")
    QApplication.sendEvent(edit, commit)
    assert edit.toPlainText().strip() == "中"
    press(edit, Qt.Key.Key_Return)
    assert len(sent) == 1


def test_a_pasted_file_is_attached_with_its_tokens_and_can_be_removed(
    open_chat, scripted, qtbot, tmp_path
):
    view = open_chat(scripted)
    path = tmp_path / "notes ü.txt"
    path.write_text("some words " * 50, encoding="utf-8")
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path))])
    view.pane.composer.edit.insertFromMimeData(data)
    controller = view.pane.controller

    def is_counted():
        attached = controller.draft.attachments
        return bool(attached) and attached[0].num_tokens is not None

    qtbot.waitUntil(is_counted, timeout=60_000)
    (chip,) = [c for c in view.pane.composer.findChildren(Chip) if c.isVisible()]
    assert chip.accessibleName().startswith("notes ü.txt")
    assert "tokens" in chip.accessibleName()
    assert view.pane.composer.send_button.isEnabled()
    view.pane._remove_attachment(controller.draft.attachments[0].id)
    assert controller.draft.attachments == ()
    assert not view.pane.composer.send_button.isEnabled()


def test_a_pasted_picture_is_refused_with_the_reason_without_an_encoder(open_chat, scripted, qtbot):
    view = open_chat(scripted)
    picture = QImage(8, 8, QImage.Format.Format_RGB32)
    picture.fill(Qt.GlobalColor.red)
    data = QMimeData()
    data.setImageData(picture)
    view.pane.composer.edit.insertFromMimeData(data)
    qtbot.waitUntil(view.pane.notice.isVisible, timeout=60_000)
    assert "picture" in view.pane.notice.text.lower() or "image" in view.pane.notice.text.lower()
    assert view.pane.controller.draft.attachments == ()


def test_typing_in_the_transcript_goes_to_the_composer(open_chat, scripted, ask):
    view = open_chat(scripted)
    ask(view, "Hello")
    view.pane.transcript.setFocus()
    QTest.keyClicks(view.pane.transcript, "x")
    assert view.pane.composer.text == "x"
    assert view.pane.composer.edit.hasFocus()


# -- the list ------------------------------------------------------------------------------------


def test_conversations_are_found_by_their_words_also_chinese_ones(open_chat, scripted, ask, qtbot):
    view = open_chat(scripted)
    ask(view, "About zebras in the wild")
    view.new()
    ask(view, "我想学习中文语法")
    ctrl(view.pane.composer.edit, Qt.Key.Key_F)
    field = view.conversations.search
    assert field.hasFocus()
    model = view.conversations.model

    def find(text):
        field.setText(text)
        qtbot.waitUntil(
            lambda: (
                bool(model.entries)
                and all(e.snippet or e.message_id is None for e in model.entries)
                and not view.conversations._timer.isActive()
            ),
            timeout=60_000,
        )
        return [entry.title for entry in model.entries]

    qtbot.waitUntil(lambda: any("中文" in title for title in find("中文")), timeout=60_000)
    qtbot.waitUntil(
        lambda: find("zebra") and all("zebra" in t for t in find("zebra")), timeout=60_000
    )
    hit = next(entry for entry in model.entries if entry.message_id)
    assert "zebra" in hit.snippet
    view.conversations._open(model.index(model.entries.index(hit)))
    assert shown(view)[0].text.startswith("About zebras")
    assert model.index(0).data(EntryRole.ID) == view.conversation_id


def test_a_deleted_conversation_comes_back_by_undo(open_chat, scripted, ask):
    view = open_chat(scripted)
    ask(view, "To be deleted")
    gone = view.conversation_id
    view.conversations.view.setFocus()
    press(view.conversations.view, Qt.Key.Key_Delete)
    assert view.conversation_id != gone
    assert view.conversations.model.row_of(gone) < 0 or gone not in {
        c.id for c in view.service.conversations()
    }
    assert "To be deleted" in view.conversations.notice.text
    view.conversations.notice.button.click()
    assert view.conversation_id == gone
    assert shown(view)[0].text == "To be deleted"


def test_a_conversation_is_renamed_in_the_list(open_chat, scripted, ask, qtbot):
    view = open_chat(scripted)
    ask(view, "Old title")
    qtbot.waitUntil(lambda: view.conversations.view.currentIndex().isValid(), timeout=60_000)
    press(view.pane.composer.edit, Qt.Key.Key_F2)
    editor = next(
        e for e in view.conversations.view.viewport().findChildren(QLineEdit) if e.isVisible()
    )
    editor.setText("New title")
    press(editor, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: view.pane.title.text() == "New title", timeout=60_000)


def test_a_conversation_is_exported_and_imported_again(open_chat, scripted, ask, qtbot, tmp_path):
    view = open_chat(scripted)
    ask(view, "To be kept")
    path = tmp_path / "chat ü.json"
    view.conversations.export_one(view.conversation_id)
    dialog = view.conversations.findChildren(QFileDialog)[-1]
    with qtbot.waitSignal(view.service.transfer_finished, timeout=60_000):
        dialog.fileSelected.emit(str(path))
    dialog.close()
    assert path.exists()
    assert "chat ü.json" in view.conversations.notice.text
    with qtbot.waitSignal(view.service.transfer_finished, timeout=60_000) as caught:
        view.service.import_file(path)
    assert len(caught.args[1]) == 1
    assert len(view.service.conversations()) == 2


# -- settings and keys ---------------------------------------------------------------------------


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


def test_everything_is_there_again_after_a_restart(open_chat, scripted, ask, tmp_path):
    view = open_chat(scripted)
    ask(view, "Remember me")
    view.service.close()
    again = open_chat(scripted)
    assert shown(again)[0].text == "Remember me"
    assert again.pane.last(Role.ASSISTANT).text.startswith("# Result")


def test_another_language_is_spoken_at_once(open_chat, scripted, ask, qtbot):
    view = open_chat(scripted)
    ask(view, "Stay here")
    translations = Translations()
    try:
        translations.speak(Language.CHINESE)
        qtbot.waitUntil(
            lambda: view.pane.composer.edit.placeholderText() == "输入消息", timeout=60_000
        )
        assert shown(view)[0].text == "Stay here"
        ctrl(view.pane.composer.edit, Qt.Key.Key_N)
        assert view.pane.title.text() == "新对话"
    finally:
        translations.speak(Language.ENGLISH)
        QLocale.setDefault(QLocale.c())


def test_a_message_is_deleted_by_its_menu_and_comes_back_by_undo(open_chat, scripted, ask):
    view = open_chat(scripted)
    ask(view, "Hello")
    transcript = view.pane.transcript
    before = shown(view)
    menu = transcript.menu_for(transcript.sections[1], "")
    [entry] = [a for a in menu.actions() if a.text() == "Delete this message"]
    entry.trigger()
    assert [m.text for m in shown(view)] == ["Hello"]
    assert view.pane.notice.text == "The message is deleted."
    view.pane.notice.button.click()
    assert shown(view) == before
    assert not view.pane.notice.isVisible()


def test_whoever_gives_the_chat_the_keyboard_gives_it_to_the_composer(open_chat, scripted, qtbot):
    view = open_chat(scripted)
    view.conversations.search.setFocus()
    view.setFocus()
    assert view.pane.composer.edit.hasFocus()
    view._rebuild()  # another language
    view.conversations.search.setFocus()
    view.setFocus()
    assert view.pane.composer.edit.hasFocus()


def test_what_is_found_while_a_conversation_is_opened_is_said(open_chat, scripted, ask, qtbot):
    # The notice was said first and hidden by the opening (seen 2026-11-30).
    view = open_chat(scripted)
    ask(view, "Hello")
    first = view.conversation_id
    view.new()
    service, real = view.service, view.service.controller

    def damaged(conversation_id):
        values = {"conversations": 1, "messages": 2, "aside": "/damaged.db"}
        service.notice.emit(Problem("history_recovered", "The file was damaged.", values))
        return real(conversation_id)

    service.controller = damaged
    view.open(first)
    qtbot.waitUntil(lambda: "was damaged. 1 conversations with 2" in view.pane.notice.text)
    assert view.pane.notice.isVisible()


def test_that_nothing_can_be_saved_is_said_in_every_conversation(
    open_chat, scripted, ask, monkeypatch
):
    view = open_chat(scripted)
    ask(view, "Hello")
    problem = Problem("history_disk_full", "The disk is full.", {"path": "/d"})
    monkeypatch.setattr(type(view.service), "save_problem", property(lambda _service: problem))
    view.new()
    assert "the disk with /d is full" in view.pane.notice.text
    assert view.pane.notice.isVisible()
