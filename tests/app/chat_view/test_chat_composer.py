"""Writing a message, with files and pictures, on a real engine."""

from PySide6.QtCore import QMimeData, Qt, QUrl
from PySide6.QtGui import QImage, QInputMethodEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.chat.view.composer import MessageEdit
from app.chat.view.transcript.widgets import Chip
from tests.app.chat_view.hands import ctrl, press


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
