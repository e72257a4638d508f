"""What is sent: nothing empty, files under their names, pictures only to models that see."""

import base64

import pytest

from app.chat.activity import ModelFacts
from app.chat.request_body import MAX_PICTURES, messages_for, request_body
from app.history.pending import Content
from app.history.records import (
    Attachment,
    AttachmentKind,
    ConversationSettings,
    Message,
    MessageState,
    Role,
    Sampling,
    ToolCall,
    ToolState,
)
from engine.core.config import Effort

PLAIN = ConversationSettings()
BLIND = ModelFacts("tiny", context_size=8000)
SEEING = ModelFacts("seer", context_size=8000, sees_pictures=True)


def message(text, role=Role.USER, **more):
    return Message(
        id=text or "empty", conversation_id="c", parent_id=None, role=role, text=text, **more
    )


def answer(text, **more):
    return message(text, Role.ASSISTANT, **more)


def no_content(_attachment_id):
    return None


def test_empty_turns_are_left_out():
    path = [
        message("One"),
        answer(" \n", state=MessageState.STOPPED),
        message("Two"),
        answer("", thinking="only thinking"),
        message("Three"),
    ]
    sent = messages_for(path, PLAIN, BLIND, no_content)
    assert [m["content"] for m in sent] == ["One", "Two", "Three"]


def test_the_system_prompt_comes_first_and_thinking_goes_back():
    path = [message("Q"), answer("A", thinking="hm"), message("Q2")]
    settings = ConversationSettings(system_prompt="Be kind.")
    assert messages_for(path, settings, BLIND, no_content) == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Q"},
        {"role": "assistant", "content": "A", "reasoning_content": "hm"},
        {"role": "user", "content": "Q2"},
    ]


def test_an_answer_to_go_on_with_comes_last_even_without_text():
    path = [message("Q"), answer("Half an", thinking="hm")]
    sent = messages_for(path, PLAIN, BLIND, no_content, continues=True)
    assert sent[-1] == {"role": "assistant", "content": "Half an"}
    path = [message("Q"), answer("", thinking="hm")]
    sent = messages_for(path, PLAIN, BLIND, no_content, continues=True)
    assert sent[-1] == {"role": "assistant", "content": ""}


def picture(number):
    return Attachment(f"p{number}", AttachmentKind.PICTURE, f"photo{number}.png", "image/png", 3)


def test_files_and_pictures_come_before_the_words():
    file = Attachment("f", AttachmentKind.TEXT, "a.py", "text/x-python", 8)
    contents = {"f": Content("c", text="print(1)"), "p1": Content("c", data=b"png")}
    path = [message("What?", attachments=(file, picture(1)))]
    [sent] = messages_for(path, PLAIN, SEEING, contents.get)
    url = "data:image/png;base64," + base64.b64encode(b"png").decode()
    assert sent["content"] == [
        {"type": "text", "text": "[Begin of file a.py]\nprint(1)\n[End of file a.py]\n\n"},
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "text", "text": "What?"},
    ]
    [blind] = messages_for(path, PLAIN, BLIND, contents.get)
    assert [part["type"] for part in blind["content"]] == ["text"] * 3
    assert "photo1.png" in blind["content"][1]["text"]
    [lost] = messages_for(path, PLAIN, SEEING, no_content)
    assert "lost" in lost["content"][0]["text"]


def test_of_too_many_pictures_the_latest_are_sent():
    path = [
        message(str(number), attachments=(picture(number),)) for number in range(MAX_PICTURES + 3)
    ]
    sent = messages_for(path, PLAIN, SEEING, lambda _id: Content("c", data=b"x"))
    kinds = [m["content"][0]["type"] for m in sent]
    assert kinds == ["text"] * 3 + ["image_url"] * MAX_PICTURES


def test_tool_calls_become_turns_with_their_results():
    text = "I look.\n\nI look again.\n\nIt is 7."
    calls = (
        ToolCall("c1", "s", "add", "s__add", '{"a": 1}', ToolState.DONE, "3", 7),
        ToolCall("c2", "s", "add", "s__add", '{"a": 2}', ToolState.DONE, "4", 7),
        ToolCall(
            "c3", "s", "add", "s__add", "", ToolState.LOST, "", len("I look.\n\nI look again.")
        ),
    )
    path = [message("Q"), answer(text, tool_calls=calls, thinking="hm"), message("Q2")]
    sent = messages_for(path, PLAIN, BLIND, no_content)
    assert [m["role"] for m in sent] == [
        *("user", "assistant", "tool", "tool", "assistant", "tool", "assistant", "user")
    ]
    assert [m["content"] for m in sent if m["role"] == "assistant"] == [
        *("I look.", "I look again.", "It is 7.")
    ]
    assert [call["id"] for call in sent[1]["tool_calls"]] == ["c1", "c2"]
    assert sent[1]["reasoning_content"] == "hm"
    assert sent[2]["content"] == "3"
    assert sent[5]["content"].startswith("error:")
    assert sent[4]["tool_calls"][0]["function"]["arguments"] == "{}"


@pytest.mark.parametrize(
    ("settings", "budget"),
    [
        (PLAIN, 2000),
        (ConversationSettings(thinking_budget=100), 100),
        (ConversationSettings(thinking_budget=0), None),
        (ConversationSettings(effort=Effort.NONE), None),
    ],
)
def test_thinking_gets_a_quarter_of_the_context(settings, budget):
    body = request_body([message("Q")], settings, BLIND, no_content)
    assert body.get("reasoning_budget_tokens") == budget


def test_only_what_was_chosen_is_sent():
    body = request_body([message("Q")], PLAIN, BLIND, no_content)
    assert set(body) == {
        *("messages", "stream", "stream_options", "return_progress", "timings_per_token"),
        *("stratum_mcp", "reasoning_budget_tokens"),
    }
    settings = ConversationSettings(
        effort=Effort.LOW,
        sampling=Sampling(temperature=0.0, top_k=5, seed=0),
        max_tokens=9,
        uses_tools=False,
    )
    body = request_body([message("Q")], settings, BLIND, no_content)
    assert (body["temperature"], body["top_k"], body["seed"]) == (0.0, 5, 0)
    assert (body["reasoning_effort"], body["max_completion_tokens"]) == ("low", 9)
    assert "stratum_mcp" not in body
    assert "top_p" not in body


def test_a_deleted_message_is_not_sent():
    kept = Attachment("a", AttachmentKind.TEXT, "a.txt", "text/plain", 3)
    gone = message("", state=MessageState.DELETED, attachments=(kept,))
    sent = messages_for([message("One"), gone, message("Two")], PLAIN, BLIND, no_content)
    assert [m["content"] for m in sent] == ["One", "Two"]
