"""What is exported and imported again is the same; what is not ours is refused with a sentence."""

import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.history.errors import ImportRefusedError
from app.history.exchange import add_to_store, export_json, gather, read_json
from app.history.markdown import from_markdown, read_markdown, to_markdown
from app.history.pending import Content
from app.history.records import (
    Attachment,
    AttachmentKind,
    Conversation,
    ConversationSettings,
    Draft,
    Message,
    MessageState,
    MessageStats,
    Problem,
    Role,
    Sampling,
    ToolCall,
    ToolState,
    new_id,
)
from engine.core.config import Effort
from tests.support.history import add_conversation

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
SETTINGS = st.builds(
    ConversationSettings,
    preset=TEXT,
    system_prompt=TEXT,
    effort=st.none() | st.sampled_from(Effort),
    sampling=st.builds(
        Sampling, temperature=st.none() | st.floats(0, 2), seed=st.none() | st.integers(0, 9)
    ),
    thinking_budget=st.none() | st.integers(0, 10**6),
    uses_tools=st.booleans(),
)
CALLS = st.builds(
    ToolCall, TEXT, TEXT, TEXT, TEXT, TEXT, st.sampled_from(ToolState), TEXT, st.integers(0, 50)
)


@st.composite
def conversations(draw):
    conversation_id, ids, messages, contents = new_id(), [], [], {}
    for _ in range(draw(st.integers(0, 6))):
        role = draw(st.sampled_from(Role))
        state = MessageState.COMPLETE
        attachments = ()
        if role is Role.USER and draw(st.booleans()):
            attachment = Attachment(new_id(), AttachmentKind.PICTURE, draw(TEXT), "image/png", 3)
            contents[attachment.id] = Content(conversation_id, data=draw(st.binary(max_size=9)))
            attachments = (attachment,)
        if role is Role.ASSISTANT:
            state = draw(
                st.sampled_from([s for s in MessageState if s is not MessageState.GROWING])
            )
        message = Message(
            id=new_id(),
            conversation_id=conversation_id,
            parent_id=draw(st.sampled_from([None, *ids])),
            role=role,
            text=draw(TEXT),
            thinking=draw(TEXT),
            thinking_s=draw(st.floats(0, 1e6)),
            state=state,
            problem=draw(
                st.none() | st.builds(Problem, TEXT, TEXT, st.dictionaries(TEXT, st.integers(0, 9)))
            ),
            notes=tuple(draw(st.lists(TEXT, max_size=2))),
            tool_calls=tuple(draw(st.lists(CALLS, max_size=2))),
            attachments=attachments,
            stats=draw(st.none() | st.builds(MessageStats, prompt_tokens=st.integers(0, 99))),
        )
        ids.append(message.id)
        messages.append(message)
    conversation = Conversation(
        id=conversation_id,
        title=draw(TEXT),
        has_own_title=draw(st.booleans()),
        active_leaf=draw(st.sampled_from(ids)) if ids else None,
        settings=draw(SETTINGS),
        draft=Draft(draw(TEXT)),
    )
    return conversation, messages, contents


def without_ids(whole):
    """A conversation in terms of places instead of ids."""
    place = {message.id: index for index, message in enumerate(whole.messages)}
    place[None] = None
    data = {content.id: content.data for content in whole.attachments}
    messages = [
        (
            replace(message, id="", conversation_id="", parent_id=None, attachments=()),
            place[message.parent_id],
            [(replace(a, id=""), data[a.id]) for a in message.attachments],
        )
        for message in whole.messages
    ]
    leaf = place[whole.conversation.active_leaf]
    return replace(whole.conversation, id="", active_leaf=None), leaf, messages


@given(st.lists(conversations(), max_size=3))
@settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_json_loses_nothing(store, tmp_path, given_conversations):
    for conversation, messages, contents in given_conversations:
        store.put_conversation(conversation)
        for message in messages:
            store.put_message(message)
        for attachment_id, content in contents.items():
            store.put_attachment(attachment_id, content)
    ids = [conversation.id for conversation, _, _ in given_conversations]
    path = tmp_path / "export.json"
    export_json(store, path, ids)
    imported = [add_to_store(store, whole) for whole in read_json(path)]
    again = tmp_path / "by another program.json"
    again.write_text(json.dumps(json.loads(path.read_bytes())), encoding="utf-8")
    assert read_json(again) == read_json(path)
    assert not set(imported) & set(ids)
    for old, new in zip(ids, imported, strict=True):
        assert without_ids(gather(store, new)) == without_ids(gather(store, old))
    for conversation_id in (*ids, *imported):
        store.purge(conversation_id)


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"{", "not valid JSON"),
        (b"[]", "no conversations of Stratum"),
        (b'{"kind": "other"}', "no conversations of Stratum"),
        (b'{"kind": "stratum-conversations", "format": 99, "conversations": []}', "newer version"),
        (
            b'{"kind": "stratum-conversations", "format": 1, "conversations": [{"conversation": 3}]}',
            "conversations.0.conversation",
        ),
        (b"[" * 100_000, "not valid JSON"),
    ],
)
def test_a_file_that_is_not_ours_is_refused_with_one_sentence(tmp_path, content, part):
    path = tmp_path / "import.json"
    path.write_bytes(content)
    with pytest.raises(ImportRefusedError, match=part) as caught:
        read_json(path)
    assert "import.json" in caught.value.message


def test_unknown_keys_of_a_later_version_are_ignored(store, tmp_path):
    conversation, _ = add_conversation(store, "Question?")
    path = tmp_path / "export.json"
    export_json(store, path, [conversation.id])
    content = json.loads(path.read_text(encoding="utf-8"))
    content["conversations"][0]["messages"][0]["mood"] = "good"
    content["extra"] = 1
    path.write_text(json.dumps(content), encoding="utf-8")
    [whole] = read_json(path)
    assert whole.messages[0].text == "Question?"


MARKDOWN_LINES = st.lists(
    st.sampled_from(
        [
            "",
            "# Heading",
            "## You",
            "</details>",
            "\\</details>",
            "<details><summary>Thinking (3 s)</summary>",
            "<!-- stratum: user 2026-01-01T00:00:00Z -->",
            "\\<!-- stratum: assistant -->",
            "```python",
            "text 中文 *x*",
        ]
    ),
    min_size=1,
    max_size=8,
).map("\n".join).filter(lambda text: text == text.strip("\n") and text != "")  # fmt: skip


@given(st.lists(st.tuples(MARKDOWN_LINES, MARKDOWN_LINES), min_size=1, max_size=4), MARKDOWN_LINES)
@settings(max_examples=200, deadline=None)
def test_markdown_comes_back_as_it_was(turns, system_prompt):
    conversation = Conversation(
        id="c", title="A title", settings=ConversationSettings(system_prompt=system_prompt)
    )
    path = []
    for question, answer in turns:
        path.append(Message(new_id(), "c", None, Role.USER, text=question, created_at=1e9))
        path.append(
            Message(
                new_id(),
                "c",
                None,
                Role.ASSISTANT,
                text=answer,
                thinking=question,
                thinking_s=3.0,
                state=MessageState.CUT,
                created_at=1e9 + 1,
            )
        )
    whole = from_markdown(to_markdown(conversation, path))
    assert whole.conversation.title == "A title"
    assert whole.conversation.settings.system_prompt == system_prompt
    kept = [(m.role, m.text, m.thinking, m.thinking_s, m.state, m.created_at) for m in path]
    found = [
        (m.role, m.text, m.thinking, m.thinking_s, m.state, m.created_at) for m in whole.messages
    ]
    assert found == kept
    assert [m.parent_id for m in whole.messages[1:]] == [m.id for m in whole.messages[:-1]]


def test_any_markdown_becomes_one_message(tmp_path):
    path = tmp_path / "notes.md"
    path.write_text("# My notes\n\nBuy milk.\n", encoding="utf-8")
    whole = read_markdown(path)
    assert whole.conversation.title == "My notes"
    assert [m.text for m in whole.messages] == ["# My notes\n\nBuy milk."]
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ImportRefusedError, match="not UTF-8"):
        read_markdown(path)
