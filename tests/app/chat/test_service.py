"""The list, the drafts, files in drafts, search, export and import."""

import json
from dataclasses import replace

import pytest

from app.chat.service import CLOSING_IN_VAIN_S
from app.history.records import AttachmentKind
from tests.app.chat.test_attachments import PNG, make_pdf

ANSWERS = [{"text": "</think>\n\n这是答案。", "times": 0}]


@pytest.fixture(scope="module")
def server(start_server):
    return start_server({"answers": ANSWERS, "context": 32_768})


def test_a_blank_conversation_is_neither_listed_nor_kept(open_chats, server, tmp_path):
    chats = open_chats(server.url)
    service = chats.service
    first = service.new_conversation()
    assert service.new_conversation() == first
    controller = service.controller(first)
    assert service.conversations() == []
    controller.set_draft_text("h")
    assert [c.id for c in service.conversations()] == [first]
    assert service.new_conversation() != first
    controller.set_draft_text("")
    assert service.conversations() == []
    service.close()
    assert open_chats(server.url).service.conversations() == []


def test_conversations_that_nobody_shows_are_let_go(chats):
    import gc  # noqa: PLC0415  # beside its only use

    ids = []
    for number in range(12):
        controller = chats.service.controller(chats.service.new_conversation())
        controller.set_draft_text(f"draft {number}")
        ids.append(controller.conversation.id)
    del controller
    gc.collect()
    assert len(chats.service._controllers) <= 7
    assert [chats.service.controller(i).draft.text for i in ids] == [
        f"draft {number}" for number in range(12)
    ]


def test_the_list_is_sorted_by_the_last_message(chats):
    first, second = chats.new(), None
    chats.ask(first, "One")
    second = chats.new()
    chats.ask(second, "Two")
    assert [c.title for c in chats.service.conversations()] == ["Two", "One"]
    chats.ask(first, "Three")
    assert [c.title for c in chats.service.conversations()] == ["One", "Two"]


def test_deleting_stops_the_answer_and_can_be_undone(chats):
    controller = chats.new()
    chats.ask(controller, "One")
    conversation_id = controller.conversation.id
    chats.service.delete(conversation_id)
    assert chats.service.conversations() == []
    chats.service.restore(conversation_id)
    assert [c.id for c in chats.service.conversations()] == [conversation_id]
    assert chats.service.controller(conversation_id) is controller
    controller.rename("Still whole")
    assert [c.title for c in chats.service.conversations()] == ["Still whole"]


def test_files_in_a_draft_are_read_counted_and_sent(chats, tmp_path):
    controller = chats.new()
    code = tmp_path / "program ü.py"
    code.write_text("print('hello')\n" * 20, encoding="utf-8")
    paper = tmp_path / "paper.pdf"
    paper.write_bytes(make_pdf("A paper about owls"))
    controller.add_file(code)
    controller.add_file(paper)
    chats.wait(lambda: len(controller.draft.attachments) == 2)
    chats.wait(lambda: all(a.num_tokens for a in controller.draft.attachments))
    chats.wait(lambda: controller.send("What is this?"))
    answer = chats.wait_idle(controller)
    [question, _] = controller.path()
    assert {a.name for a in question.attachments} == {"program ü.py", "paper.pdf"}
    assert all(a.kind is AttachmentKind.TEXT for a in question.attachments)
    assert answer.stats.prompt_tokens > sum(a.num_tokens for a in question.attachments)
    assert controller.draft.is_empty
    chats.service._store.flush()
    assert [hit.message_id for hit in chats.service._store.search("owls")] == [question.id]


def test_a_picture_is_refused_with_the_reason(chats, tmp_path):
    controller = chats.new()
    controller.add_picture(PNG)
    chats.wait(lambda: controller.problems)
    assert controller.problems[0].code == "image_unsupported"
    path = tmp_path / "photo.png"
    path.write_bytes(PNG)
    controller.add_file(path)
    chats.wait(lambda: len(controller.problems) == 2)
    assert controller.problems[1].params["name"] == "photo.png"
    assert controller.draft.is_empty


def test_a_picture_is_kept_and_named_when_the_model_sees(chats):
    facts = replace(chats.service.facts, context_size=4096, sees_pictures=True)
    chats.service._engine._take_facts(facts)
    controller = chats.new()
    controller.add_picture(PNG)
    chats.wait(lambda: controller.draft.attachments)
    [picture] = controller.draft.attachments
    assert (picture.kind, picture.name) == (AttachmentKind.PICTURE, "picture.png")
    # The model that answers is another one, without eyes: it is told that there was a picture.
    answer = chats.ask(controller, "What do you see?")
    assert answer.problem is None
    assert controller.path()[0].attachments == (picture,)
    controller.remove_attachment(picture.id)  # it was sent: nothing happens
    assert chats.service._store.attachment(picture.id).data == PNG


def test_an_attachment_can_be_taken_out_again(chats, tmp_path):
    controller = chats.new()
    path = tmp_path / "a.txt"
    path.write_text("text", encoding="utf-8")
    controller.add_file(path)
    chats.wait(lambda: controller.draft.attachments)
    [attachment] = controller.draft.attachments
    controller.remove_attachment(attachment.id)
    assert controller.draft.is_empty
    assert chats.service._store.flush()
    assert chats.service._store.attachment(attachment.id) is None


def test_searching_finds_chinese_words_in_the_background(chats):
    found = []
    chats.service.search_finished.connect(lambda query, hits: found.append((query, hits)))
    controller = chats.new()
    answer = chats.ask(controller, "What is it?")
    chats.service._store.flush()
    chats.service.search("wrong")
    chats.service.search("答案")
    chats.wait(lambda: found)
    [(query, [hit])] = found
    assert query == "答案"
    assert (hit.message_id, hit.conversation_id) == (answer.id, controller.conversation.id)


def test_conversations_go_out_and_come_back(chats, tmp_path):
    done = []
    chats.service.transfer_finished.connect(lambda problem, ids: done.append((problem, ids)))
    controller = chats.new()
    chats.ask(controller, "One")
    chats.ask(controller, "Two")
    chats.service.export_json(tmp_path / "all.json")
    chats.wait(lambda: len(done) == 1)
    chats.service.export_markdown(tmp_path / "one.md", controller.conversation.id)
    chats.wait(lambda: len(done) == 2)
    assert "这是答案。" in (tmp_path / "one.md").read_text(encoding="utf-8")
    chats.service.import_file(tmp_path / "all.json")
    chats.service.import_file(tmp_path / "one.md")
    chats.wait(lambda: len(done) == 4)
    assert all(problem is None for problem, _ in done)
    for _, [conversation_id] in done[2:]:
        copy = chats.service.controller(conversation_id)
        assert [m.text for m in copy.path()] == [m.text for m in controller.path()]
    (tmp_path / "bad.json").write_text(json.dumps([1]), encoding="utf-8")
    chats.service.import_file(tmp_path / "bad.json")
    chats.wait(lambda: len(done) == 5)
    assert done[4][0].code == "import_refused"
    chats.service.export_json(tmp_path / "no such folder" / "x" / "all.json")
    chats.wait(lambda: len(done) == 6)


def test_a_branch_is_a_conversation_of_its_own(chats):
    controller = chats.new()
    chats.ask(controller, "One")
    chats.ask(controller, "Two")
    path = controller.path()
    new_id = chats.service.branch(controller.conversation.id, path[1].id)
    branch = chats.listen(chats.service.controller(new_id))
    assert [m.text for m in branch.path()] == [m.text for m in path[:2]]
    chats.ask(branch, "Three")
    assert len(controller.path()) == 4


def fill_disk(store):
    """Let the store's file grow no more; the connection, with which a test can make room again."""
    assert store.flush()
    connection = store._database._writer
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")
    return connection


def test_a_full_disk_is_said_and_the_answer_is_there(chats):
    store = chats.service._store
    controller = chats.new()
    chats.ask(controller, "One")
    connection = fill_disk(store)
    answer = chats.ask(controller, "Two " + "x" * 6000)
    assert answer.text == "这是答案。"
    chats.wait(lambda: chats.saving)
    assert chats.saving[0].code == "history_disk_full"
    assert chats.service.save_problem is not None
    connection.execute("PRAGMA max_page_count = 100000")
    chats.wait(lambda: chats.saving[-1] is None)
    assert chats.service.is_saved


def test_what_is_not_saved_at_the_end_is_written_elsewhere(
    open_chats, server, tmp_path, monkeypatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    chats = open_chats(server.url)
    controller = chats.new()
    chats.ask(controller, "One")
    fill_disk(chats.service._store)
    chats.ask(controller, "Two " + "x" * 6000)
    rescue = chats.service.close(timeout_s=0.5)
    assert rescue is not None
    again = open_chats(server.url, folder=tmp_path / "another")
    again.service.import_file(rescue)
    again.wait(again.service.conversations)
    copy = again.service.controller(again.service.conversations()[0].id)
    assert copy.path()[-1].text == "这是答案。"
    assert copy.path()[2].text.startswith("Two xxx")


def test_a_disk_that_is_known_to_be_full_holds_nobody_up_at_the_end(
    open_chats, server, tmp_path, monkeypatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    chats = open_chats(server.url)
    controller = chats.new()
    chats.ask(controller, "One")
    store = chats.service._store
    fill_disk(store)
    chats.ask(controller, "Two " + "x" * 6000)
    chats.wait(lambda: chats.service.save_problem is not None)
    waited = []
    really = store.close
    monkeypatch.setattr(store, "close", lambda timeout_s: waited.append(timeout_s) or really(0.2))
    assert chats.service.close() is not None
    assert waited == [CLOSING_IN_VAIN_S]
