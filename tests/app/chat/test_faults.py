"""An engine that is away, loading, crashing, killed; a service that is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from app.chat.activity import Phase, Wait
from app.chat.link import EngineLink
from app.engine_http import EngineAddress
from app.history.opening import open_history
from app.history.records import MessageState, Problem

REPOSITORY = Path(__file__).resolve().parents[3]
LONG = "".join(f"word{number} " for number in range(20_000))


def slow(**more):
    return {"text": "</think>\n\n" + LONG, "delay_ms": 5, "times": 0, **more}


@pytest.fixture(scope="module")
def crashing(start_server):
    # A model that is started again has forgotten how often it gave an answer.
    answers = [
        slow(when="word0 word1", text="All is well."),
        slow(when="CRASHING", fault={"kind": "crash", "after": 40}),
        slow(when="ALWAYS", fault={"kind": "error"}),
        slow(when="ONCE", fault={"kind": "error"}, times=1),
        {"text": "</think>\n\nAll is well.", "times": 0},
    ]
    return start_server({"answers": answers})


def test_a_model_that_crashes_in_mid_answer_leaves_what_had_come(open_chats, crashing):
    chats = open_chats(crashing.url)
    controller = chats.new()
    answer = chats.ask(controller, "CRASHING")
    assert answer.state is MessageState.UNFINISHED
    assert answer.text.startswith("word0 word1 ")
    assert answer.problem.code == "engine_failed"
    assert answer.stats.generated_tokens > 0
    # The engine starts its model again, and the answer goes on.
    assert controller.continue_answer(answer.id)
    longer = chats.wait_idle(controller)
    assert longer.state is MessageState.COMPLETE
    assert longer.problem is None
    assert longer.text == answer.text + "All is well."


def test_an_engine_that_fails_before_the_first_word_is_asked_again(open_chats, crashing):
    chats = open_chats(crashing.url)
    controller = chats.new()
    answer = chats.ask(controller, "ONCE")
    assert (answer.state, answer.text) == (MessageState.COMPLETE, "All is well.")
    waits = {a.wait for a in controller.heard["activities"]}
    assert Wait.RESTARTING in waits


def test_an_engine_that_always_fails_is_not_asked_for_ever(open_chats, crashing):
    chats = open_chats(crashing.url)
    answer = chats.ask(chats.new(), "ALWAYS")
    assert (answer.state, answer.text) == (MessageState.UNFINISHED, "")
    assert answer.problem.code == "engine_failed"


@pytest.mark.skipif(os.name == "nt", reason="needs a signal that cannot be caught")
def test_an_engine_that_is_killed_leaves_what_had_come(open_chats, start_server):
    server = start_server({"answers": [slow()]})
    chats = open_chats(server.url)
    controller = chats.new()
    controller.send("Tell me")
    chats.wait(lambda: len(controller.heard["text"]) > 30)
    server.process.send_signal(signal.SIGKILL)
    answer = chats.wait_idle(controller)
    server.process.wait()
    assert answer.state is MessageState.UNFINISHED
    assert answer.problem.code == "engine_cut_off"
    assert LONG.startswith(answer.text)
    assert len(answer.text) >= len(controller.heard["text"]) > 30
    server.process.stdout.close()
    server.http.close()
    server.stop = lambda: 0  # it has ended, and not cleanly


def test_an_engine_that_is_not_there_is_waited_for(open_chats, start_server):
    server = start_server({"answers": [{"text": "</think>\n\nHere I am."}]})
    chats = open_chats()
    chats.service.set_link(EngineLink(can_answer=False, wait=Wait.STARTING))
    controller = chats.new()
    controller.send("Hello")
    assert controller.activity.phase is Phase.WAITING_FOR_ENGINE
    assert controller.activity.wait is Wait.STARTING
    chats.service.set_link(EngineLink(can_answer=False, wait=Wait.LOADING, load_share=0.5))
    chats.wait(lambda: controller.activity.wait is Wait.LOADING)
    assert controller.activity.load_share == 0.5
    chats.service._engine.http.address = EngineAddress(server.url)
    chats.service.set_link(EngineLink(generation="new"))
    assert chats.wait_idle(controller).text == "Here I am."
    assert chats.service.facts.context_size > 0


def test_an_engine_that_cannot_start_is_told_with_its_reason(open_chats):
    chats = open_chats()
    chats.service.set_link(EngineLink(can_answer=False, wait=Wait.STARTING))
    controller = chats.new()
    controller.send("Hello")
    problem = Problem("engine_port_in_use", "The port 8080 is in use.", {"port": 8080})
    chats.service.set_link(EngineLink(can_answer=False, wait=Wait.STOPPED, problem=problem))
    answer = chats.wait_idle(controller)
    assert answer.state is MessageState.UNFINISHED
    assert answer.problem == problem


def test_waiting_can_be_stopped(open_chats):
    chats = open_chats()
    chats.service.set_link(EngineLink(can_answer=False, wait=Wait.STOPPED))
    controller = chats.new()
    controller.send("Hello")
    controller.stop()
    answer = chats.wait_idle(controller)
    assert answer.state is MessageState.STOPPED
    assert controller.path()[0].text == "Hello"


def test_a_model_that_loads_is_waited_for_by_the_request(open_chats, start_server):
    script = {
        "load": {"delay_ms": 1500, "steps": 10},
        "answers": [{"text": "</think>\n\nLoaded."}],
    }
    server = start_server(script, wait=False)
    chats = open_chats(server.url)
    controller = chats.new()
    assert chats.ask(controller, "Hello").text == "Loaded."


def test_a_model_that_cannot_be_loaded_is_told(open_chats, start_server):
    script = {"load": {"fail_code": "out_of_memory", "fail_message": "There is too little memory."}}
    server = start_server(script, wait=False)
    chats = open_chats(server.url)
    answer = chats.ask(chats.new(), "Hello")
    assert answer.state is MessageState.UNFINISHED
    assert answer.problem.code == "load_failed"
    assert "memory" in answer.problem.message


def test_a_full_queue_is_waited_for(open_chats, start_server):
    script = {"parallel": 1, "answers": [slow(when="FIRST"), {"text": "</think>\n\nMy turn."}]}
    server = start_server(script, "--queue-max", "0", "--parallel", "1")
    chats = open_chats(server.url)
    first, second = chats.new(), None
    first.send("FIRST")
    chats.wait(lambda: first.heard["text"])
    second = chats.new()
    second.send("Second")
    chats.wait(lambda: second.activity.wait is Wait.BUSY)
    first.stop()
    assert chats.wait_idle(second).text == "My turn."


APP = """
import sys
from pathlib import Path
from PySide6.QtCore import QCoreApplication
from app.chat.service import ChatService
from app.engine_http import EngineAddress, EngineHttp
application = QCoreApplication([])
service = ChatService(Path(sys.argv[1]), EngineHttp(EngineAddress(sys.argv[2])))
controller = service.controller(service.new_conversation())
controller.text_arrived.connect(lambda _id, text: print(text, end="", flush=True))
controller.send("Tell me")
application.exec()
"""


@pytest.mark.skipif(os.name == "nt", reason="needs a signal that cannot be caught")
def test_an_app_that_is_killed_in_mid_answer_keeps_what_had_come(start_server, tmp_path):
    server = start_server({"answers": [slow()]})
    folder = tmp_path / "data"
    process = subprocess.Popen(
        [sys.executable, "-c", APP, str(folder), server.url],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
    )
    shown = process.stdout.read(200)
    # Shown a second ago is saved; the clock of a busy machine is given some more.
    deadline = time.monotonic() + 90
    while saved_chars(folder) < len(shown):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    opened = open_history(folder)
    [conversation] = opened.store.conversations()
    [question, answer] = opened.store.tree(conversation.id).path(conversation.active_leaf)
    opened.store.close()
    assert question.text == "Tell me"
    assert answer.state is MessageState.UNFINISHED
    assert answer.text.startswith(shown.decode())
    assert LONG.startswith(answer.text)
    assert conversation.title == "Tell me"
    server.wait_idle()  # it noticed that nobody listens


def saved_chars(folder):
    import sqlite3  # noqa: PLC0415  # beside its only use

    connection = sqlite3.connect(folder / "history.db")
    try:
        return connection.execute("SELECT coalesce(sum(length(text)), 0) FROM pieces").fetchone()[0]
    except sqlite3.Error:
        return 0
    finally:
        connection.close()
