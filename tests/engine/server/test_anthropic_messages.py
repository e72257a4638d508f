"""Anthropic messages in the shape that the template renders, and what is refused, without a server."""

import pytest

from engine.server.anthropic_messages import read_messages
from engine.server.errors import ApiError
from engine.server.fields import Fields

USER = {"role": "user", "content": "hello"}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}}
CALLING = {"role": "assistant", "content": [CALL]}


def read(*messages, system=None):
    return read_messages(Fields({"messages": list(messages), "system": system}))


def user(*blocks):
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks):
    return {"role": "assistant", "content": list(blocks)}


def text(content):
    return {"type": "text", "text": content}


def result(content=None, call_id="toolu_1", **fields):
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **fields}


# -- system ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("system", "expected"),
    [
        ("Be brief.", "Be brief."),
        ([text("One."), text("Two.")], "One.\n\nTwo."),
        ([text("x-anthropic-billing-header: cch=1;"), text("Two.")], "Two."),
        ("x-anthropic-billing-header: cch=1;\nTwo.", "Two."),
        ("x-anthropic-billing-header: cch=1;\r\n\r\nTwo.", "Two."),
        ([text("x-anthropic-billing-header: cch=1;\nTwo.")], "Two."),
        (
            "The line x-anthropic-billing-header: is no header here.",
            "The line x-anthropic-billing-header: is no header here.",
        ),
    ],
)
def test_the_system_prompt_is_its_blocks_without_billing_lines(system, expected):
    assert read(USER, system=system)[0] == {"role": "system", "content": expected}


@pytest.mark.parametrize("system", [None, "", [], "x-anthropic-billing-header: cch=1;"])
def test_an_empty_system_prompt_is_no_message(system):
    assert read(USER, system=system) == [USER]


def test_a_late_system_message_keeps_its_place():
    late = {"role": "system", "content": [text("A hook "), text("says so.")]}
    roles = [message["role"] for message in read(USER, late, USER, system="Be brief.")]
    assert roles == ["system", "user", "system", "user"]
    assert read(USER, late)[1]["content"] == "A hook \n\nsays so."


# -- assistant turns ---------------------------------------------------------------------------


def test_thinking_text_and_calls_become_one_message():
    blocks = [
        {"type": "thinking", "thinking": "Hm.", "signature": "of another service"},
        {"type": "redacted_thinking", "data": "opaque"},
        text("I look."),
        CALL,
    ]
    assert read(USER, assistant(*blocks))[1] == {
        "role": "assistant",
        "content": "I look.",
        "reasoning_content": "Hm.",
        "tool_calls": [
            {"id": "toolu_1", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}
        ],
    }


def test_thinking_needs_no_signature():
    turn = read(USER, assistant({"type": "thinking", "thinking": "Hm."}, text("Yes.")))[1]
    assert turn["reasoning_content"] == "Hm."


def test_consecutive_assistant_messages_are_one_turn():
    second = {**CALL, "id": "toolu_2"}
    turns = read(
        USER,
        assistant(text("I "), CALL),
        assistant(text("look."), second),
        user(result("b", "toolu_2"), result("a")),
    )
    assert [turn["role"] for turn in turns] == ["user", "assistant", "tool", "tool"]
    assert turns[1]["content"] == "I look."
    assert [call["id"] for call in turns[1]["tool_calls"]] == ["toolu_1", "toolu_2"]


def test_an_input_that_is_null_is_a_call_without_arguments():
    call = read(USER, assistant({**CALL, "input": None}))[1]["tool_calls"][0]
    assert call["function"]["arguments"] == {}


# -- tool results ------------------------------------------------------------------------------


def test_results_come_before_the_text_of_their_message():
    turns = read(USER, CALLING, user(text("and now?"), result("12 degrees")))
    assert turns[2:] == [
        {"role": "tool", "tool_call_id": "toolu_1", "content": "12 degrees"},
        {"role": "user", "content": "and now?"},
    ]


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (result("plain"), "plain"),
        (result(), ""),
        (result([text("one"), text("two")]), "one\ntwo"),
        (result("no such file", is_error=True), "Error: no such file"),
        (result("fine", is_error=False), "fine"),
        (result([{"type": "tool_reference", "tool_name": "g"}]), "g"),
        (
            result(
                [
                    {
                        "type": "search_result",
                        "title": "T",
                        "source": "S",
                        "content": [text("found")],
                    }
                ]
            ),
            "T\nS\n\nfound",
        ),
    ],
)
def test_a_result_is_read_as_text(block, expected):
    assert read(USER, CALLING, user(block))[2]["content"] == expected


def test_a_late_system_message_may_stand_between_a_call_and_its_result():
    late = {"role": "system", "content": "a hook"}
    assert read(USER, CALLING, late, user(result("ok")))[3]["content"] == "ok"


@pytest.mark.parametrize(
    "messages",
    [
        [USER, user(result("x"))],
        [USER, CALLING, user(result("x", "toolu_2"))],
        [USER, CALLING, user(result("x")), assistant(text("ok")), user(result("x"))],
    ],
)
def test_a_result_without_its_call_is_refused(messages):
    with pytest.raises(ApiError) as caught:
        read(*messages)
    assert caught.value.status == 400
    assert caught.value.param.endswith("content[0].tool_use_id")


# -- other blocks ------------------------------------------------------------------------------


def test_documents_are_read_as_text_with_title_and_context():
    source = {"type": "text", "media_type": "text/plain", "data": "the body"}
    document = {"type": "document", "title": "A", "context": "B", "source": source}
    assert read(user(document, text("Sum up.")))[0]["content"] == "A\n\nB\n\nthe body\n\nSum up."
    parts = {"type": "content", "content": [text("one"), text("two")]}
    assert read(user({"type": "document", "source": parts}))[0]["content"] == "one\n\ntwo\n\n"


def test_server_tools_of_another_service_are_read_as_text_without_their_opaque_parts():
    found = [{"type": "web_search_result", "url": "u", "title": "ü", "encrypted_content": "x"}]
    turn = read(
        USER,
        assistant(
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}},
            {"type": "web_search_tool_result", "tool_use_id": "s", "content": found},
            text("Found."),
        ),
    )[1]
    assert turn["content"] == (
        '[web_search: {"query":"q"}]\n\n'
        '[web_search_tool_result: [{"type":"web_search_result","url":"u","title":"ü"}]]\n\nFound.'
    )
    assert "tool_calls" not in turn


def test_messages_that_were_encoded_twice_are_read():
    body = Fields({"messages": '[{"role": "user", "content": "hello"}]'})
    assert read_messages(body) == [USER]


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
LINKED = {"type": "image", "source": {"type": "url", "url": "http://example.org/a.png"}}
PDF = {"type": "base64", "media_type": "application/pdf", "data": "AA=="}


@pytest.mark.parametrize("image", [IMAGE, LINKED])
@pytest.mark.parametrize("wrap", [user, lambda image: user(result([text("see"), image]))])
def test_an_image_is_refused_and_never_dropped(image, wrap):
    with pytest.raises(ApiError) as caught:
        read(USER, CALLING, wrap(image))
    assert caught.value.code == "image_unsupported"


MALFORMED = {
    "messages[0].role": [{"role": "tool", "content": "x"}, {"content": "x"}, {"role": 5}],
    "messages[0]": ["hello", None],
    "messages[0].content": [{"role": "user"}, {"role": "user", "content": 5}],
    "messages[0].content[0]": [user("x"), user(5)],
    "messages[0].content[0].type": [
        user({}),
        user({"type": 5}),
        user({"type": "hologram"}),
        user(CALL),
        user({"type": "thinking", "thinking": "x"}),
        {"role": "system", "content": [IMAGE]},
        assistant(IMAGE),
        assistant(result("x")),
    ],
    "messages[0].content[0].text": [user({"type": "text"}), user(text(5)), assistant(text(None))],
    "messages[0].content[0].source": [user({"type": "image"}), user({"type": "document"})],
    "messages[0].content[0].source.type": [
        user({"type": "image", "source": {}}),
        user({"type": "image", "source": {"type": "file", "file_id": "f"}}),
        user({"type": "document", "source": PDF}),
        user({"type": "document", "source": {"type": "url", "url": "http://example.org"}}),
    ],
    "messages[0].content[0].source.data": [
        user({"type": "image", "source": {"type": "base64", "media_type": "image/png"}}),
        user({"type": "document", "source": {"type": "text", "data": ["x"]}}),
    ],
    "messages[0].content[0].source.url": [
        user({"type": "image", "source": {"type": "url", "url": 1}})
    ],
    "messages[0].content[0].thinking": [assistant({"type": "thinking"})],
    "messages[0].content[0].id": [assistant({**CALL, "id": None}), assistant({**CALL, "id": 7})],
    "messages[0].content[0].name": [
        assistant({**CALL, "name": None}),
        assistant({"type": "server_tool_use", "input": {}}),
    ],
    "messages[0].content[0].input": [
        assistant({**CALL, "input": "{}"}),
        assistant({"type": "server_tool_use", "name": "w", "input": []}),
    ],
    "messages[0].content[0].tool_use_id": [user({"type": "tool_result"})],
    "messages[0].content[0].tool_name": [user({"type": "tool_reference"})],
}


@pytest.mark.parametrize(
    ("path", "message"), [(path, entry) for path in MALFORMED for entry in MALFORMED[path]]
)
def test_a_malformed_message_is_refused_by_its_path(path, message):
    with pytest.raises(ApiError) as caught:
        read(message)
    assert (caught.value.status, caught.value.param) == (400, path)
    assert path in caught.value.message


@pytest.mark.parametrize(
    ("block", "path"),
    [
        (result([text(5)]), "content[0].content[0].text"),
        (result([{"type": "hologram"}]), "content[0].content[0].type"),
        (result(5), "content[0].content"),
        (result("x", is_error="yes"), "content[0].is_error"),
    ],
)
def test_a_malformed_result_is_refused_by_its_path(block, path):
    with pytest.raises(ApiError) as caught:
        read(USER, CALLING, user(block))
    assert caught.value.param == f"messages[2].{path}"


@pytest.mark.parametrize("system", [5, [5], [{"type": "image"}], [{"type": "text"}]])
def test_a_malformed_system_prompt_is_refused(system):
    with pytest.raises(ApiError) as caught:
        read(USER, system=system)
    assert caught.value.param.startswith("system")
