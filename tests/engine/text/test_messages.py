"""Messages as clients send them, brought into the templates' form."""

from __future__ import annotations

import copy
import logging

import pytest

from engine.core.errors import InputError
from engine.text.messages import normalise_messages

USER = {"role": "user", "content": "hi"}


def call(call_id: object, arguments: object = "{}", name: str = "f") -> dict[str, object]:
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def result(call_id: str | None, content: str) -> dict[str, object]:
    message: dict[str, object] = {"role": "tool", "content": content}
    return message if call_id is None else {**message, "tool_call_id": call_id}


def arguments_of(arguments: object) -> object:
    messages = [USER, {"role": "assistant", "content": None, "tool_calls": [call("a", arguments)]}]
    return normalise_messages(messages)[1]["tool_calls"][0]["function"]["arguments"]


def test_developer_is_system_and_a_late_system_message_is_a_user_turn_in_place():
    messages = [
        {"role": "developer", "content": "first"},
        USER,
        {"role": "developer", "content": "late"},
        {"role": "system", "content": "later"},
    ]
    assert normalise_messages(messages) == [
        {"role": "system", "content": "first"},
        USER,
        {"role": "user", "content": "late"},
        {"role": "user", "content": "later"},
    ]


def test_system_messages_that_stand_first_are_one():
    messages = [
        {"role": "system", "content": "You help."},
        {"role": "system", "content": ""},
        {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
        USER,
    ]
    joined = {"role": "system", "content": "You help.\n\nBe brief."}
    assert normalise_messages(messages) == [joined, USER]
    picture = {"role": "system", "content": [{"type": "image"}]}
    (system, _) = normalise_messages([joined, picture, USER])
    assert system["content"] == [{"type": "text", "text": joined["content"]}, {"type": "image"}]


def test_an_empty_turn_of_the_assistant_is_left_out():
    empty = ({"role": "assistant", "content": text} for text in (None, "", " \n", []))
    assert normalise_messages([USER, *empty, USER]) == [USER, USER]
    thought = {"role": "assistant", "content": "", "reasoning_content": "Hm."}
    called = {"role": "assistant", "content": None, "tool_calls": [call("a")]}
    assert len(normalise_messages([USER, thought, called])) == 3


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{"role": "system", "content": "only"}],
        [{"role": "system", "content": "a"}, {"role": "developer", "content": "late"}],
        [{"role": "assistant", "content": "a"}, {"role": "tool", "content": "b"}],
    ],
)
def test_a_conversation_without_the_user_is_refused(messages):
    with pytest.raises(InputError, match="no message of the user") as caught:
        normalise_messages(messages)
    assert caught.value.code == "template_error"


@pytest.mark.parametrize("role", ["boss", "", None, 3, ["user"], {"role": "user"}])
def test_an_unknown_role_is_refused(role):
    with pytest.raises(InputError, match="unknown role") as caught:
        normalise_messages([{"role": role, "content": "x"}, USER])
    assert caught.value.code == "template_error"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"reasoning_content": "r"}, "r"),
        ({"reasoning": "r"}, "r"),
        ({"reasoning_content": "r", "reasoning": "other"}, "r"),
        ({"reasoning_content": "", "reasoning": "r"}, "r"),
        ({"content": [{"type": "thinking", "thinking": "r"}, {"type": "text", "text": "a"}]}, "r"),
        ({"reasoning_content": None}, None),
        ({"reasoning": {"effort": "low"}}, None),
        ({}, None),
    ],
)
def test_all_spellings_of_reasoning_become_one(fields, expected):
    message = normalise_messages([USER, {"role": "assistant", "content": "a", **fields}])[1]
    assert message.get("reasoning_content") == expected
    assert message["content"] == "a"
    assert "reasoning" not in message


def test_reasoning_of_a_user_is_dropped():
    assert normalise_messages([{**USER, "reasoning_content": "x"}]) == [USER]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, ""),
        ("", ""),
        ([], ""),
        ("a", "a"),
        ([{"type": "text", "text": "a"}, {"type": "input_text", "text": "b"}], "ab"),
        ([{"type": "refusal", "refusal": "no"}], "no"),
        (["a", {"type": "text", "text": None}], "a"),
        ([{"type": ["text"]}], [{"type": ["text"]}]),
        (
            [
                {"type": "text", "text": "a"},
                {"type": "text", "text": "b"},
                {"type": "image_url", "image_url": {"url": "u"}},
                {"type": "text", "text": "c"},
            ],
            [
                {"type": "text", "text": "ab"},
                {"type": "image_url", "image_url": {"url": "u"}},
                {"type": "text", "text": "c"},
            ],
        ),
    ],
)
def test_text_parts_are_joined_and_images_are_kept(content, expected):
    assert normalise_messages([{"role": "user", "content": content}])[0]["content"] == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"a": 1, "b": [true, null, "ł"]}', {"a": 1, "b": [True, None, "ł"]}),
        ({"a": 1}, {"a": 1}),
        ("", {}),
        (" \n", {}),
        (None, {}),
        ("null", {}),
        ('{"a": 1, "a": 2}', {"a": 1}),
        ('{"b": 1, "a": {"z": 1, "y": 2}}', {"b": 1, "a": {"z": 1, "y": 2}}),
    ],
)
def test_arguments_become_mappings(arguments, expected, caplog):
    assert arguments_of(arguments) == expected
    assert list(arguments_of(arguments) or {}) == list(expected)
    assert not caplog.records


@pytest.mark.parametrize(
    "arguments",
    [
        "{",
        '{"a": 1',
        "[1, 2]",
        '"text"',
        "7",
        "{'a': 1}",
        "[" * 100_000,
        '{"a": ' + "1" * 5000 + "}",
    ],
)
def test_arguments_that_are_no_object_are_kept_as_text_with_a_warning(arguments, caplog):
    with caplog.at_level(logging.WARNING):
        assert arguments_of(arguments) == {"arguments": arguments}
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert arguments not in record.getMessage()  # a log never holds chat text


def test_results_are_put_into_the_order_of_the_calls():
    messages = [
        USER,
        {"role": "assistant", "content": "", "tool_calls": [call("a"), call("b"), call("c")]},
        result("c", "3"),
        result("a", "1"),
        result("b", "2"),
        {"role": "assistant", "content": "", "tool_calls": [call("d"), call("e")]},
        result("e", "5"),
        result("d", "4"),
        USER,
    ]
    contents = [m["content"] for m in normalise_messages(messages) if m["role"] == "tool"]
    assert contents == ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (["a", "b"], ["a", "b"]),
        (["b", None, "a"], ["a", None, "b"]),
        (["x", "b", "a"], ["x", "a", "b"]),
        (["b", "a", "b"], ["a", "b", "b"]),
        ([None, None], [None, None]),
        (["b"], ["b"]),
    ],
)
def test_results_without_a_known_call_keep_their_places(ids, expected):
    messages = [
        USER,
        {"role": "assistant", "content": "", "tool_calls": [call("a"), call("b"), call(None)]},
        *(result(call_id, str(call_id)) for call_id in ids),
    ]
    ordered = [m.get("tool_call_id") for m in normalise_messages(messages)[2:]]
    assert ordered == expected


def test_results_of_a_conversation_without_calls_stay():
    messages = [USER, result("b", "2"), result("a", "1")]
    assert [m["content"] for m in normalise_messages(messages)[1:]] == ["2", "1"]


def test_the_input_stays_as_it_is_and_normalising_twice_changes_nothing():
    messages = [
        {"role": "developer", "content": [{"type": "text", "text": "s"}]},
        USER,
        {"role": "system", "content": "late"},
        {
            "role": "assistant",
            "content": None,
            "reasoning": "r",
            "tool_calls": [call("a", '{"x": 1}')],
        },
        result("a", "1"),
        {
            "role": "user",
            "content": [{"type": "text", "text": "t"}, {"type": "image"}],
            "name": "n",
        },
    ]
    before = copy.deepcopy(messages)
    once = normalise_messages(messages)
    assert messages == before
    assert normalise_messages(once) == once
    once[5]["content"][0]["text"] = "changed"
    assert messages == before
