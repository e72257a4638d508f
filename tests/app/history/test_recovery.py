"""A damaged file is kept, and what can be read of it comes back."""

import random
import sqlite3
import threading

import pytest

from app.history.opening import FILE_NAME, open_history
from app.history.records import Problem
from app.history.recovery import copy_path, set_aside_and_recover
from app.history.store import HistoryStore
from tests.support.history import add_conversation, growing

PAGE = 4096


@pytest.fixture
def filled(tmp_path):
    """A file of 200 messages in ten conversations; its path, and all texts."""
    path = tmp_path / FILE_NAME
    store = HistoryStore(path)
    texts = set()
    for number in range(10):
        said = [f"message {number}/{index} " + "filling " * 100 for index in range(20)]
        texts.update(said)
        add_conversation(store, *said, title=f"Conversation {number}")
    store.flush()
    store.close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return path, texts


def texts_of(store):
    return {
        message.text
        for conversation in store.conversations()
        for message in store.tree(conversation.id)
    }


def wipe(path, first_page, num_pages):
    with path.open("r+b") as file:
        file.seek(first_page * PAGE)
        file.write(b"\xa5" * (num_pages * PAGE))


@pytest.mark.parametrize("seed", range(6))
def test_pages_that_are_gone_cost_only_what_was_on_them(filled, seed):
    path, texts = filled
    num_pages = path.stat().st_size // PAGE
    # Behind the pages of the schema and the tables' roots, which come first.
    chance = random.Random(seed)  # noqa: S311  # no secret
    wipe(path, chance.randrange(40, num_pages - 4), 3)
    damaged = path.read_bytes()
    problem = set_aside_and_recover(path)
    [aside] = path.parent.glob("history.damaged-*.db")
    assert aside.read_bytes() == damaged
    assert aside.name in problem.message
    store = HistoryStore(path)
    found = texts_of(store)
    assert found <= texts
    assert len(found) >= len(texts) - 60
    assert len(store.conversations()) == 10
    for conversation in store.conversations():
        assert store.tree(conversation.id).path(conversation.active_leaf)
    if found == texts:
        assert problem.code == "history_repaired"
    store.close()


@pytest.mark.parametrize("seed", range(8))
def test_random_damage_never_keeps_the_app_from_opening(filled, seed):
    path, _ = filled
    chance = random.Random(seed)  # noqa: S311  # no secret
    data = bytearray(path.read_bytes())
    for _ in range(chance.choice([1, 20, 400])):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    if seed % 3 == 0:
        del data[chance.randrange(100, len(data)) :]
    path.write_bytes(data)
    opened = open_history(path.parent)
    for conversation in opened.store.conversations():
        opened.store.tree(conversation.id)
    opened.store.search("message")
    conversation, _ = add_conversation(opened.store, "After the damage")
    assert opened.store.flush()
    opened.store.close()
    again = open_history(path.parent)
    assert "After the damage" in texts_of(again.store)
    again.store.close()


def test_a_file_whose_beginning_is_gone_comes_back_from_the_second_copy(filled):
    path, texts = filled
    store = HistoryStore(path)  # makes the copy
    while not copy_path(path).exists():
        store.flush(0.05)
    store.close()
    wipe(path, 0, 3)
    opened = open_history(path.parent)
    [notice] = opened.notices
    assert notice.code == "history_recovered"
    assert texts_of(opened.store) == texts
    opened.store.close()


def test_damage_while_the_app_runs_keeps_what_is_in_memory(filled):
    path, _ = filled
    store = HistoryStore(path)
    told = []
    store.on_notice = told.append
    conversation = store.conversations()[0]
    answer = growing(conversation.id, conversation.active_leaf)
    store.put_message(answer)
    store.grow(answer.id, "before ")
    store.flush()
    wipe(path, 20, path.stat().st_size // PAGE - 20)
    store.grow(answer.id, "after")
    add_conversation(store, "New one", title="New one")
    for known in store.conversations():
        store.tree(known.id)
    assert store.flush(30)
    assert {c.title for c in store.conversations()} >= {"New one", conversation.title}
    store.close()
    again = HistoryStore(path)
    assert "New one" in {c.title for c in again.conversations()}
    assert conversation.title in {c.title for c in again.conversations()}
    again.close()


def test_closing_during_a_repair_writes_the_conversations_that_only_memory_has(filled, monkeypatch):
    path, _ = filled
    store = HistoryStore(path)
    titles = {c.title for c in store.conversations()}
    is_repairing, may_end = threading.Event(), threading.Event()

    def nothing_left(damaged):
        is_repairing.set()
        assert may_end.wait(60)
        damaged.replace(damaged.with_name("aside.db"))
        return Problem("history_recovered", "Nothing could be read.", {})

    monkeypatch.setattr("app.history.database.set_aside_and_recover", nothing_left)
    monkeypatch.setattr(store._database, "_is_sound", lambda: False)
    store._house.join()
    store._house = threading.Thread(target=store._repair, args=(sqlite3.DatabaseError("x"),))
    store._house.start()
    assert is_repairing.wait(60)
    closer = threading.Thread(target=store.close)
    closer.start()
    store._thread.join(60)  # it has ended: whatever is found now must be written by closing
    may_end.set()
    closer.join(60)
    again = HistoryStore(path)
    assert {c.title for c in again.conversations()} == titles
    again.close()


@pytest.mark.parametrize("where", ["id > 100", "true"])
def test_a_damaged_index_is_built_anew(filled, where):
    path, texts = filled
    store = HistoryStore(path)
    connection = sqlite3.connect(path)
    connection.execute(f"UPDATE found_messages_data SET block = x'ff00ff00ff' WHERE {where}")  # noqa: S608  # fixed
    connection.commit()
    connection.close()
    assert len(store.search("message", limit=500)) == 200
    # One that cannot even be dropped takes its file with it, and nothing is lost by that.
    assert len(list(path.parent.glob("history.damaged-*.db"))) == (where == "true")
    assert texts_of(store) == texts
    store.close()


def test_a_recovery_that_fails_puts_the_file_back(filled, monkeypatch):
    path, _ = filled
    wipe(path, 60, 2)
    damaged = path.read_bytes()

    def fail(*_arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("app.history.recovery._rebuild", fail)
    with pytest.raises(OSError, match="No space"):
        set_aside_and_recover(path)
    assert path.read_bytes() == damaged
    assert not list(path.parent.glob("history.damaged-*"))
