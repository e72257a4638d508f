"""What is put into the store is there: at once, after a restart, after a kill, after a full disk."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from app.history.pending import Content
from app.history.records import (
    Attachment,
    AttachmentKind,
    Conversation,
    Draft,
    MessageState,
    ToolCall,
    ToolState,
    new_id,
)
from app.history.store import KEEP_DELETED_S
from tests.support.history import add_conversation, growing

REPOSITORY = Path(__file__).resolve().parents[3]


def wait_until(condition, timeout_s=60.0):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_was_put_is_seen_at_once_and_after_a_restart(store, open_store):
    conversation, messages = add_conversation(store, "Question?", "Answer.")
    assert list(store.tree(conversation.id)) == messages
    assert store.close()
    again = open_store()
    assert again.conversations() == [conversation]
    assert list(again.tree(conversation.id)) == messages


def test_a_growing_answer_is_whole_wherever_its_parts_are(store):
    conversation, messages = add_conversation(store, "Question?")
    answer = growing(conversation.id, messages[0].id)
    store.put_message(answer)
    for index in range(50):
        store.grow(answer.id, f"word{index} ", "hm " if index < 3 else "")
        if index % 10 == 0:
            assert store.flush()
        seen = store.tree(conversation.id).get(answer.id)
        assert seen.text == "".join(f"word{i} " for i in range(index + 1))
    assert seen.thinking == "hm hm hm "


def test_an_answer_that_was_growing_when_the_app_died_is_unfinished(store, open_store):
    conversation, messages = add_conversation(store, "Question?")
    call = ToolCall("call_1", "files", "read", "files__read", state=ToolState.RUNNING)
    answer = replace(growing(conversation.id, messages[0].id), tool_calls=(call,))
    store.put_message(answer)
    store.grow(answer.id, "It begins", "I think")
    store.close()
    for _ in range(2):  # and stays so
        again = open_store()
        found = again.tree(conversation.id).get(answer.id)
        assert (found.text, found.thinking) == ("It begins", "I think")
        assert found.state is MessageState.UNFINISHED
        assert found.can_continue
        assert found.tool_calls[0].state is ToolState.LOST
        assert found.notes == ("interrupted",)
        again.close()


def test_the_end_of_an_answer_takes_the_place_of_its_parts(store, open_store):
    conversation, messages = add_conversation(store, "Question?")
    answer = growing(conversation.id, messages[0].id)
    store.put_message(answer)
    store.grow(answer.id, "part")
    store.flush()
    store.grow(answer.id, " two")
    store.put_message(replace(answer, text="part two", state=MessageState.COMPLETE))
    store.close()
    again = open_store()
    assert again.tree(conversation.id).get(answer.id).text == "part two"
    assert not again.search("nothing")
    assert [hit.message_id for hit in again.search("part two")] == [answer.id]


def test_a_continued_answer_grows_from_what_it_had(store, open_store):
    conversation, [_, answer] = add_conversation(store, "Question?", "First half")
    store.put_message(replace(answer, state=MessageState.GROWING))
    store.grow(answer.id, ", second half")
    store.close()
    assert open_store().tree(conversation.id).get(answer.id).text == "First half, second half"


WRITER = """
import sys, time
from pathlib import Path
from app.history.store import HistoryStore
from tests.support.history import add_conversation, growing
store = HistoryStore(Path(sys.argv[1]))
conversation, [question] = add_conversation(store, "Question?")
answer = growing(conversation.id, question.id)
store.put_message(answer)
for number in range(10**6):
    store.grow(answer.id, f"{number} ")
    time.sleep(0.001)
"""


@pytest.mark.skipif(os.name == "nt", reason="needs a signal that cannot be caught")
def test_a_killed_writer_loses_nothing_that_was_committed(tmp_path, open_store):
    path = tmp_path / "history.db"
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], cwd=REPOSITORY)
    try:

        def seen():
            if not path.exists():
                return ""
            connection = sqlite3.connect(path)
            try:
                rows = connection.execute("SELECT text FROM pieces ORDER BY seq").fetchall()
            except sqlite3.Error:
                return ""
            finally:
                connection.close()
            return "".join(row[0] for row in rows)

        wait_until(lambda: len(seen()) > 2000)
        before = seen()
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    store = open_store(path)
    [conversation] = store.conversations()
    [question, answer] = list(store.tree(conversation.id))
    assert question.text == "Question?"
    assert answer.state is MessageState.UNFINISHED
    assert answer.text.startswith(before)
    numbers = answer.text.split()
    assert numbers == [str(number) for number in range(len(numbers))]


def fill_disk(store):
    """No page more fits."""
    assert store.flush()
    connection = store._database._writer
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")


def make_room(store):
    store._database._writer.execute("PRAGMA max_page_count = 1000000")


def test_a_full_disk_is_said_once_and_everything_is_saved_when_there_is_room(store, open_store):
    conversation, [question, _] = add_conversation(store, "Question?", "Answer.")
    told = []
    store.on_saving = told.append
    fill_disk(store)
    answer = growing(conversation.id, question.id)
    store.put_message(answer)
    for _ in range(20):
        store.grow(answer.id, "long text " * 1000)
    wait_until(lambda: told)
    assert told[0].code == "history_disk_full"
    assert "full" in told[0].message
    assert not store.is_saved
    # Everything is still there, and goes on.
    store.grow(answer.id, "the end")
    assert store.tree(conversation.id).get(answer.id).text == "long text " * 20_000 + "the end"
    new, _ = add_conversation(store, "Another question on a full disk")
    assert not store.flush(0.5)
    make_room(store)
    assert store.flush(20)
    wait_until(lambda: told[-1] is None)
    assert [problem.code for problem in told if problem] == ["history_disk_full"]
    store.close()
    again = open_store()
    assert again.tree(conversation.id).get(answer.id).text.endswith("the end")
    assert again.conversation(new.id) == new


def test_closing_on_a_full_disk_says_that_not_all_is_saved(store):
    add_conversation(store, "Question?")
    fill_disk(store)
    add_conversation(store, "x" * 100_000)
    assert not store.close(0.5)


def test_a_deleted_conversation_comes_back_until_it_is_purged(store, open_store, monkeypatch):
    conversation, messages = add_conversation(store, "Find the word aardvark")
    store.flush()
    store.delete(conversation.id)
    assert store.conversations() == []
    store.flush()
    assert store.search("aardvark") == []
    store.restore(conversation.id)
    store.flush()
    assert store.conversations() == [conversation]
    assert len(store.search("aardvark")) == 1
    store.delete(conversation.id)
    store.close()
    assert open_store().conversations() == []
    kept = open_store()
    assert list(kept.tree(conversation.id)) == messages
    kept.close()
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + KEEP_DELETED_S + 60)
    later = open_store()
    wait_until(lambda: not list(later.tree(conversation.id)))
    later.flush()
    for table in ("messages", "conversations", "found_messages", "found_titles", "attachments"):
        sql = f"SELECT count(*) FROM {table}"  # noqa: S608  # a fixed list
        count = later._database._writer.execute(sql).fetchone()[0]
        assert count == 0, table


def test_drafts_and_attachments_are_kept(store, open_store):
    picture = Attachment(new_id(), AttachmentKind.PICTURE, "a.png", "image/png", 4)
    file = Attachment(new_id(), AttachmentKind.TEXT, "b.txt", "text/plain", 4, num_tokens=3)
    draft = Draft("not sent \ud800 yet", (picture, file))
    conversation = Conversation(id=new_id(), draft=draft)
    store.put_conversation(conversation)
    store.put_attachment(picture.id, Content(conversation.id, data=b"\x89PNG"))
    store.put_attachment(file.id, Content(conversation.id, text="text"))
    assert store.attachment(picture.id).data == b"\x89PNG"
    store.close()
    again = open_store()
    [found] = again.conversations()
    assert found.draft == replace(draft, text="not sent ? yet")
    assert again.attachment(picture.id) == Content(conversation.id, data=b"\x89PNG")
    assert again.attachment(file.id) == Content(conversation.id, text="text")
    assert again.attachment("unknown") is None


def test_search_finds_titles_texts_and_attached_files(store):
    file = Attachment(new_id(), AttachmentKind.TEXT, "invoice.txt", "text/plain", 4)
    conversation, [question, _] = add_conversation(
        store, "我想了解量子力学", "C++ templates", title="Physics talk"
    )
    store.put_attachment(file.id, Content(conversation.id, text="the total is 42 zorkmids"))
    store.put_message(replace(question, attachments=(file,)))
    add_conversation(store, "C is a letter", title="Other")
    store.flush()
    assert [hit.message_id for hit in store.search("量子")] == [question.id]
    assert [hit.message_id for hit in store.search("zorkmids")] == [question.id]
    assert [hit.message_id for hit in store.search("invoice")] == [question.id]
    [title] = store.search("physic")
    assert title.message_id is None
    assert title.snippet[slice(*title.marks[0])] == "Physic"
    assert len(store.search("c++")) == 1
    assert len(store.search("c")) == 2
    assert store.search("   ") == []


def test_an_emoji_is_found_although_no_index_knows_it(store):
    _, [question] = add_conversation(store, "Good 🎉 news")
    store.flush()
    assert [hit.message_id for hit in store.search("🎉")] == [question.id]


def test_threads_may_use_it_together(store):
    conversation, [question, _] = add_conversation(store, "Question?", "Answer.")
    errors = []

    def work(number):
        try:
            answer = growing(conversation.id, question.id)
            store.put_message(answer)
            for index in range(30):
                store.grow(answer.id, f"{index},")
                store.search(f"{index}")
                assert store.tree(conversation.id).get(answer.id).text.count(",") == index + 1
            store.put_message(replace(answer, text=f"end {number}", state=MessageState.COMPLETE))
        except Exception as error:  # noqa: BLE001  # told below
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert store.flush(30)
    texts = {message.text for message in store.tree(conversation.id)}
    assert {f"end {number}" for number in range(4)} <= texts


def test_a_fault_while_saving_does_not_end_saving(store, monkeypatch):
    add_conversation(store, "Question?")
    store.flush()
    told = []
    store.on_saving = told.append
    real, failures = store._database.write, [RuntimeError("odd")]

    def write(batch):
        if failures:
            raise failures.pop()
        real(batch)

    monkeypatch.setattr(store._database, "write", write)
    add_conversation(store, "Another")
    assert store.flush(20)
    wait_until(lambda: len(told) == 2)
    assert told[1] is None


def test_who_waits_for_saving_has_it_tried_again_at_once(open_store):
    store = open_store(retry_s=600)
    told = []
    store.on_saving = told.append
    add_conversation(store, "Question?")
    fill_disk(store)
    add_conversation(store, "x" * 100_000)
    wait_until(lambda: told)
    make_room(store)
    assert store.flush(20)
    store.close()
