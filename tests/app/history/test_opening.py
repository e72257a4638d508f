"""Whatever is found where the history should be, the app can chat, and nothing is overwritten."""

import os
import sqlite3

import pytest

from app.history.errors import HistoryTooNewError
from app.history.opening import FILE_NAME, open_history
from app.history.schema import FORMAT, connect, prepare
from app.history.store import HistoryStore
from tests.support.history import add_conversation


def test_a_new_folder_gets_a_history_without_a_word(tmp_path):
    opened = open_history(tmp_path / "new" / "data")
    assert opened.notices == ()
    assert opened.store.conversations() == []
    opened.store.close()


def test_a_newer_history_is_left_as_it_is_and_today_goes_elsewhere(tmp_path):
    store = HistoryStore(tmp_path / FILE_NAME)
    add_conversation(store, "From the future")
    store.close()
    connection = sqlite3.connect(tmp_path / FILE_NAME)
    connection.execute(f"PRAGMA user_version = {FORMAT + 1}")
    connection.close()
    before = (tmp_path / FILE_NAME).read_bytes()

    opened = open_history(tmp_path)
    [notice] = opened.notices
    assert notice.code == "history_too_new"
    assert "newer version" in notice.message
    assert str(opened.store.path) in notice.message
    conversation, _ = add_conversation(opened.store, "Today")
    opened.store.close()
    assert (tmp_path / FILE_NAME).read_bytes() == before
    again = open_history(tmp_path)
    assert again.store.conversations() == [conversation]
    again.store.close()


def test_a_file_that_is_no_database_is_set_aside(tmp_path):
    (tmp_path / FILE_NAME).write_bytes(b"My diary, not a database.\n" * 500)
    opened = open_history(tmp_path)
    [notice] = opened.notices
    assert notice.code == "history_recovered"
    conversation, _ = add_conversation(opened.store, "New")
    opened.store.close()
    [aside] = tmp_path.glob("history.damaged-*.db")
    assert aside.name in notice.message
    assert aside.read_bytes().startswith(b"My diary")
    again = open_history(tmp_path)
    assert again.notices == ()
    assert again.store.conversations() == [conversation]
    again.store.close()


@pytest.mark.skipif(os.name == "nt", reason="folders cannot be protected by their mode")
def test_a_folder_that_cannot_be_written_is_said_and_chat_goes_on(tmp_path, monkeypatch):
    folder = tmp_path / "file, not a folder"
    folder.write_text("x")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    opened = open_history(folder)
    [notice] = opened.notices
    assert notice.code == "history_not_opened"
    assert str(opened.store.path) in notice.message
    add_conversation(opened.store, "Still here")
    assert opened.store.flush()
    opened.store.close()


def test_an_older_format_is_migrated_after_a_copy_was_made(tmp_path):
    path = tmp_path / FILE_NAME
    connection = connect(path)
    prepare(connection, path)
    connection.execute(
        "INSERT INTO conversations VALUES(1, 'a', 'Old', 0, NULL, '{}', '{}', 1, 1, NULL)"
    )

    def add_colour(database):
        database.execute("ALTER TABLE conversations ADD COLUMN colour TEXT")

    prepare(connection, path, newest=FORMAT + 1, migrations={FORMAT: add_colour})
    assert connection.execute("PRAGMA user_version").fetchone()[0] == FORMAT + 1
    assert connection.execute("SELECT title, colour FROM conversations").fetchone() == ("Old", None)
    connection.close()
    copy = sqlite3.connect(tmp_path / (FILE_NAME + ".bak"))
    assert copy.execute("PRAGMA user_version").fetchone()[0] == FORMAT
    assert copy.execute("SELECT title FROM conversations").fetchone() == ("Old",)
    copy.close()


def test_a_migration_that_fails_changes_nothing(tmp_path):
    path = tmp_path / FILE_NAME
    connection = connect(path)
    prepare(connection, path)

    def fail(database):
        database.execute("ALTER TABLE conversations ADD COLUMN colour TEXT")
        raise RuntimeError("half way")

    with pytest.raises(RuntimeError):
        prepare(connection, path, newest=FORMAT + 1, migrations={FORMAT: fail})
    assert connection.execute("PRAGMA user_version").fetchone()[0] == FORMAT
    columns = [row[1] for row in connection.execute("PRAGMA table_info(conversations)")]
    assert "colour" not in columns
    with pytest.raises(HistoryTooNewError):
        prepare(connection, path, newest=FORMAT - 1)
    connection.close()
