"""The list of conversations: found, renamed, deleted, exported, on a real engine."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFileDialog, QLineEdit

from app.chat.view.conversation_model import EntryRole
from tests.app.chat_view.hands import ctrl, press, shown


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
