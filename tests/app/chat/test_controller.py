"""Asking, stopping, continuing, branching: with the real server and a scripted model."""

import json
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from app.chat.activity import Phase
from app.history.records import MessageState, Role, Sampling
from engine.core.config import Effort

LONG = "".join(f"word{number} " for number in range(400))

ANSWERS = [
    {"when": "SLOWLY", "text": "</think>\n\n" + LONG, "delay_ms": 15, "times": 0},
    {"when": "THINKLONG", "text": "hm " * 3000 + "</think>\n\nDone.", "delay_ms": 10, "times": 0,
     "after_force": "\n\nNow answered."},
    {"when": "READING", "text": "</think>\n\nRead.", "prompt_delay_ms": 4500, "prompt_steps": 45,
     "times": 0},
    {"when": "READFOREVER", "text": "</think>\n\nRead.", "prompt_delay_ms": 600_000,
     "prompt_steps": 600, "times": 1},
    {"when": "ONLYTHINK", "text": "I wonder about", "times": 1},
    {"when": "ONLYTHINK", "text": "The answer after all.", "times": 1},
    {"when": "CUTSHORT", "text": "</think>\n\nAs far as", "finish": "length", "times": 1},
    {"when": "EMPTY", "text": "</think>\n\n", "times": 1},
    {"when": "ONCE", "text": "</think>\n\nFirst.", "times": 1},
    {"when": "ONCE", "text": "</think>\n\nSecond.", "times": 1},
    {"when": "TWICE", "text": "</think>\n\nOne.", "times": 1},
    {"when": "TWICE", "text": "</think>\n\nTwo.", "times": 1},
    {"when": "FAILING", "text": "</think>\n\nThis far and no further, it says.", "times": 1,
     "fault": {"kind": "error", "after": 6}},
    {"text": "Let me think.</think>\n\nThe answer is 42.", "times": 0},
]  # fmt: skip


@pytest.fixture(scope="module")
def server(start_server):
    return start_server({"answers": ANSWERS, "context": 8192})


def test_a_question_is_answered_with_thinking_and_figures(chats):
    controller = chats.new()
    answer = chats.ask(controller, "What is it?\nTell me.")
    assert (answer.text, answer.thinking) == ("The answer is 42.", "Let me think.")
    assert answer.state is MessageState.COMPLETE
    assert controller.heard["text"] == answer.text
    assert controller.heard["thinking"] == answer.thinking
    stats = answer.stats
    assert stats.prompt_tokens > 5
    assert stats.generated_tokens > stats.thinking_tokens > 0
    assert stats.context_used == stats.prompt_tokens + stats.generated_tokens
    assert stats.context_size == 8192
    assert stats.model
    assert stats.effort == "high"
    [listed] = chats.service.conversations()
    assert listed.title == "What is it?"
    assert chats.ended == [(listed.id, answer.id, pytest.approx(0, abs=600))]
    assert controller.activity.phase is Phase.IDLE


def test_everything_is_there_after_a_restart(open_chats, server, tmp_path):
    chats = open_chats(server.url)
    controller = chats.new(system_prompt="Be brief.", effort=Effort.LOW)
    chats.ask(controller, "What is it?")
    controller.set_draft_text("half a thou")
    conversation, path = controller.conversation, controller.path()
    assert chats.service.close() is None
    again = open_chats(server.url)
    found = again.service.controller(conversation.id)
    assert found.conversation == conversation
    assert found.draft.text == "half a thou"
    assert found.path() == path


def test_stop_reaches_the_engine_and_keeps_what_was_written(chats, server):
    controller = chats.new()
    controller.send("SLOWLY please")
    chats.wait(lambda: len(controller.heard["text"]) > 50)
    controller.stop()
    answer = chats.wait_idle(controller)
    assert answer.state is MessageState.STOPPED
    assert answer.text.startswith("word0 word1 ")
    assert LONG.startswith(answer.text)
    assert answer.stats.generated_tokens > 0
    server.wait_idle()


def test_stop_while_the_prompt_is_read_frees_the_engine(chats, server):
    controller = chats.new()
    controller.send("READFOREVER")
    chats.wait(lambda: controller.activity.prompt_tokens > 0)
    assert controller.activity.phase is Phase.READING
    controller.stop()
    answer = chats.wait_idle(controller)
    assert (answer.state, answer.text) == (MessageState.STOPPED, "")
    server.wait_idle()
    # An empty turn is not sent again.
    assert chats.ask(controller, "And now?").text == "The answer is 42."


def test_stop_at_once_after_sending_stops_too(chats, server):
    controller = chats.new()
    controller.send("SLOWLY please")
    controller.stop()
    assert chats.wait_idle(controller).state is MessageState.STOPPED
    server.wait_idle()


def test_reading_the_prompt_is_told_in_steps(chats):
    controller = chats.new()
    chats.ask(controller, "READING " + "long " * 200)
    reading = [a for a in controller.heard["activities"] if a.phase is Phase.READING]
    steps = [a.prompt_read for a in reading if a.prompt_tokens]
    assert len(set(steps)) > 3
    assert steps == sorted(steps)
    assert max(steps) <= reading[-1].prompt_tokens
    assert any(a.prompt_per_s > 0 for a in reading)


def test_the_end_of_the_app_ends_an_answer_at_once_and_keeps_it(open_chats, server):
    chats = open_chats(server.url)
    controller = chats.new()
    controller.send("SLOWLY please")
    chats.wait(lambda: len(controller.heard["text"]) > 50)
    assert chats.service.close() is None
    assert not controller.is_busy
    server.wait_idle()
    found = open_chats(server.url).service.controller(controller.conversation.id).path()[-1]
    assert found.state is MessageState.STOPPED
    assert found.text.startswith(controller.heard["text"][:50])
    assert LONG.startswith(found.text)


def test_the_phases_follow_each_other(chats):
    controller = chats.new()
    controller.send("THINKLONG")
    chats.wait_phase(controller, "thinking")
    assert controller.activity.can_answer_now
    controller.answer_now()
    answer = chats.wait_idle(controller)
    assert answer.text == "Now answered."
    assert answer.thinking.startswith("hm")
    assert len(answer.thinking) < len("hm " * 3000)
    assert answer.thinking_s > 0
    order = ["queued", "reading", "thinking", "answering", "idle"]
    assert [p for p in controller.heard["phases"] if p in order] == [
        p for p in order if p in controller.heard["phases"]
    ]


def test_answer_now_before_the_engine_has_the_request_holds(chats):
    controller = chats.new()
    controller.send("THINKLONG")
    controller.answer_now()
    answer = chats.wait_idle(controller)
    assert answer.text == "Now answered."


def test_a_stopped_answer_goes_on_where_it_was(chats):
    controller = chats.new()
    controller.send("SLOWLY please")
    chats.wait(lambda: len(controller.heard["text"]) > 20)
    controller.stop()
    stopped = chats.wait_idle(controller)
    generated = stopped.stats.generated_tokens
    assert controller.continue_answer(stopped.id)
    chats.wait(lambda: len(controller.message(stopped.id).text) > len(stopped.text) + 20)
    controller.stop()
    answer = chats.wait_idle(controller)
    assert answer.id == stopped.id
    assert answer.text.startswith(stopped.text)
    # The scripted model begins its text anew, whatever it is to go on from.
    assert answer.text[len(stopped.text) :].lstrip().startswith("word0 word1")
    assert answer.stats.generated_tokens > generated
    assert controller.siblings(answer.id) == (answer.id,)


def test_an_answer_that_was_cut_can_be_continued(chats):
    controller = chats.new()
    answer = chats.ask(controller, "CUTSHORT")
    assert answer.state is MessageState.CUT
    assert answer.can_continue
    assert controller.continue_answer(answer.id)
    answer = chats.wait_idle(controller)
    assert answer.text.startswith("As far as")
    assert answer.state is MessageState.COMPLETE
    assert not controller.continue_answer(answer.id)
    assert controller.problems[-1].code == "cannot_continue"


def test_an_answer_that_ended_in_its_thinking_is_asked_for_once_more(chats):
    controller = chats.new()
    answer = chats.ask(controller, "ONLYTHINK")
    assert answer.thinking == "I wonder about"
    assert answer.text == "The answer after all."
    assert answer.state is MessageState.COMPLETE
    assert answer.notes == ()


def test_an_empty_answer_is_left_out_of_what_is_sent(chats):
    controller = chats.new()
    answer = chats.ask(controller, "EMPTY")
    assert answer.text.strip() == ""
    assert chats.ask(controller, "Again").text == "The answer is 42."


def test_another_answer_stands_beside_the_first(chats):
    controller = chats.new()
    first = chats.ask(controller, "ONCE")
    assert controller.regenerate(first.id)
    second = chats.wait_idle(controller)
    assert (first.text, second.text) == ("First.", "Second.")
    assert controller.siblings(second.id) == (first.id, second.id)
    controller.show_version(first.id)
    assert controller.path()[-1].id == first.id
    more = chats.ask(controller, "Go on")
    controller.show_version(second.id)
    assert controller.path()[-1].id == second.id
    controller.show_version(first.id)
    assert controller.path()[-1].id == more.id


def test_an_edited_question_stands_beside_the_old_one(chats):
    controller = chats.new()
    chats.ask(controller, "First question")
    [question, old_answer] = controller.path()
    assert controller.edit(question.id, "Better question")
    chats.wait_idle(controller)
    [edited, new_answer] = controller.path()
    assert (edited.text, edited.role) == ("Better question", Role.USER)
    assert controller.siblings(edited.id) == (question.id, edited.id)
    assert new_answer.id != old_answer.id
    assert controller.edit(new_answer.id, "What I would have said")
    assert controller.path()[-1].text == "What I would have said"
    assert controller.message(new_answer.id).text == "The answer is 42."


def test_one_thing_at_a_time(chats):
    controller = chats.new()
    assert not controller.send("   ")
    controller.send("SLOWLY please")
    answer_id = controller.path()[-1].id
    assert not controller.send("more")
    assert controller.draft.text == "more"
    assert not controller.regenerate(answer_id)
    assert not controller.edit(answer_id, "x")
    codes = [problem.code for problem in controller.problems]
    assert codes == ["nothing_to_send", *["answer_running"] * 3]
    controller.stop()
    chats.wait_idle(controller)


def test_an_error_in_the_middle_leaves_an_unfinished_answer(chats):
    controller = chats.new()
    answer = chats.ask(controller, "FAILING")
    assert answer.state is MessageState.UNFINISHED
    assert answer.text.startswith("This")
    assert answer.problem.code == "engine_failed"
    assert answer.problem.message
    assert answer.can_continue


def test_a_conversation_that_is_too_long_says_both_numbers(chats):
    controller = chats.new()
    answer = chats.ask(controller, "word " * 9000)
    assert answer.state is MessageState.UNFINISHED
    assert answer.problem.code == "context_length_exceeded"
    assert answer.problem.params["n_ctx"] == 8192
    assert answer.problem.params["n_prompt_tokens"] >= 8192


def test_a_value_that_the_engine_refuses_is_told_by_its_code(chats):
    controller = chats.new()
    sampling = replace(controller.conversation.settings.sampling, temperature=5.0)
    controller.set_settings(replace(controller.conversation.settings, sampling=sampling))
    answer = chats.ask(controller, "Hello")
    assert answer.problem.code == "invalid_value"
    assert answer.problem.params["param"] == "temperature"


def test_two_conversations_are_answered_together(chats):
    first, second = chats.new(), chats.new()
    first.send("SLOWLY one")
    second = chats.new()
    second.send("SLOWLY two")
    assert chats.service.num_busy == 2
    chats.wait(lambda: first.heard["text"] and second.heard["text"])
    assert chats.service.is_busy(first.conversation.id)
    first.stop()
    second.stop()
    chats.wait(lambda: chats.service.num_busy == 0)


def test_an_answer_goes_on_when_nobody_looks(open_chats, server):
    chats = open_chats(server.url)
    controller = chats.new()
    conversation_id = controller.conversation.id
    controller.send("ONLY ME")
    del controller
    chats.wait(lambda: chats.ended)
    assert chats.service.controller(conversation_id).path()[-1].text == "The answer is 42."


def test_renaming_and_the_first_line(chats):
    controller = chats.new()
    chats.ask(controller, "# Title *here*\nmore")
    assert controller.conversation.title == "Title *here"
    controller.rename("  My own \n title ")
    assert controller.conversation.title == "My own title"
    chats.ask(controller, "Second message")
    assert controller.conversation.title == "My own title"
    controller.rename("")
    assert controller.conversation.title == "Title *here"


def test_what_is_sent_is_what_the_settings_say(chats, server):
    controller = chats.new(system_prompt="You are terse.", effort=Effort.NONE, max_tokens=3)
    answer = chats.ask(controller, "Hello")
    assert answer.thinking == ""
    assert answer.state is MessageState.CUT
    assert answer.stats.effort == "none"
    assert answer.stats.generated_tokens == 3


def test_the_log_of_the_engine_has_no_word_of_it(chats, server):
    chats.ask(chats.new(), "aardvark secret")
    assert "aardvark" not in server.log()
    assert json.dumps("aardvark") not in server.log()


# -- deleting a message --------------------------------------------------------------------------


def texts(controller):
    return [message.text for message in controller.path()]


def test_a_deleted_message_is_gone_and_what_follows_stays(open_chats, server, tmp_path):
    chats = open_chats(server.url)
    controller = chats.new()
    chats.ask(controller, "My secret is BLUEBIRD")
    chats.ask(controller, "And what now?")
    assert controller.delete_message(controller.path()[0].id)
    assert texts(controller) == ["The answer is 42.", "And what now?", "The answer is 42."]
    # Its words are no title, and are not kept in the file either.
    assert controller.conversation.title == "The answer is 42."
    chats.ask(controller, "Third")
    conversation_id = controller.conversation.id
    assert chats.service.close() is None
    with closing(sqlite3.connect(tmp_path / "data ü" / "history.db")) as connection:
        assert "BLUEBIRD" not in str(connection.execute("SELECT * FROM messages").fetchall())
    again = open_chats(server.url)
    found = again.service.controller(conversation_id)
    assert texts(found)[:2] == ["The answer is 42.", "And what now?"]
    again.service.search("BLUEBIRD")
    results = []
    again.service.search_finished.connect(lambda _query, hits: results.append(hits))
    again.wait(lambda: results)
    assert results == [[]]


def test_the_latest_deleted_message_can_be_brought_back(chats):
    controller = chats.new()
    chats.ask(controller, "What is it?")
    before = controller.path()
    controller.delete_message(before[0].id)
    assert len(controller.path()) == 1
    controller.undo_delete()
    assert controller.path() == before
    assert controller.conversation.title == "What is it?"
    # What was said meanwhile stays.
    controller.delete_message(before[1].id)
    chats.ask(controller, "Meanwhile")
    controller.undo_delete()
    assert texts(controller) == [
        *("What is it?", "The answer is 42."),
        *("Meanwhile", "The answer is 42."),
    ]
    controller.undo_delete()  # only once
    assert len(controller.path()) == 4


def test_where_the_last_message_has_versions_another_one_is_shown(chats):
    controller = chats.new()
    first = chats.ask(controller, "TWICE only")
    controller.regenerate(first.id)
    second = chats.wait_idle(controller)
    controller.delete_message(second.id)
    assert controller.path()[-1].id == first.id
    assert controller.siblings(first.id) == (first.id,)
    controller.undo_delete()
    assert controller.path()[-1].id == second.id
    controller.delete_message(second.id)
    controller.delete_message(first.id)
    assert texts(controller) == ["TWICE only"]
    controller.regenerate(controller.path()[0].id)
    assert chats.wait_idle(controller).text == "The answer is 42."


def test_nothing_is_deleted_while_an_answer_is_made(chats):
    controller = chats.new()
    controller.send("SLOWLY please")
    assert not controller.delete_message(controller.path()[0].id)
    assert controller.problems[-1].code == "answer_running"
    controller.stop()
    chats.wait_idle(controller)
    assert len(controller.path()) == 2


def test_what_is_in_a_deleted_messages_files_goes_when_it_cannot_come_back(chats, tmp_path):
    controller = chats.new()
    file = tmp_path / "notes.txt"
    file.write_text("secret words", "utf-8")
    controller.add_file(file)
    chats.wait(lambda: controller.draft.attachments)
    chats.ask(controller, "Read this")
    question = controller.path()[0]
    [attachment] = question.attachments
    store = chats.service._store
    controller.delete_message(question.id)
    assert store.attachment(attachment.id) is not None
    controller.undo_delete()
    assert controller.path()[0].attachments == (attachment,)
    controller.delete_message(question.id)
    controller.delete_message(controller.path()[0].id)
    chats.wait(lambda: store.attachment(attachment.id) is None)


# -- what an answer was made with ----------------------------------------------------------------


def test_an_answer_knows_the_sampling_that_was_really_used(chats):
    controller = chats.new(sampling=Sampling(top_k=7, seed=11), effort=Effort.NONE)
    used = chats.ask(controller, "What is it?").stats.sampling
    # What nobody chose is the model card's, which depends on the thinking.
    assert (used.top_k, used.seed, used.temperature, used.presence_penalty) == (7, 11, 0.7, 1.5)
    controller.set_settings(replace(controller.conversation.settings, effort=Effort.HIGH))
    assert chats.ask(controller, "And now?").stats.sampling.temperature == 1.0
    assert controller.path()[1].stats.sampling == used


def test_an_answer_that_went_in_circles_says_so(open_chats, start_server):
    going_round = {"text": "</think>\n\n" + "no " * 400, "times": 0}
    server = start_server(
        {"answers": [going_round], "context": 8192}, "--repeat-stop-tokens", "256"
    )
    controller = (chats := open_chats(server.url)).new()
    answer = chats.ask(controller, "Go")
    assert answer.state is MessageState.CUT
    assert answer.notes == ("repeat",)
    assert 100 < len(answer.text) < 1200
