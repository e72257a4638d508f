"""Bodies of `/v1/messages` in which anything may stand anywhere."""

import copy
import random

import pytest

from engine.core.config import BUNDLED_MODEL, RunConfig
from engine.core.errors import EngineError
from engine.core.gguf_header import read_model_header
from engine.server.anthropic_request import read_messages_request
from engine.server.errors import ApiError
from engine.text.prompt import ChatFormat
from tests.support.spoilt_bodies import spoilt

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
CALL = {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": "1"}}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
TEXT = {"type": "text", "text": "hello", "cache_control": {"type": "ephemeral"}}
FOUND = [{"type": "web_search_result", "url": "u", "title": "t", "encrypted_content": "e"}]

EVERYTHING = {
    "model": "m",
    "max_tokens": 5,
    "system": [{"type": "text", "text": "x-anthropic-billing-header: cch=1;"}, TEXT],
    "messages": [
        {"role": "user", "content": "hello"},
        {"role": "system", "content": [TEXT]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "redacted_thinking", "data": "d"},
                {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"q": 1}},
                {"type": "web_search_tool_result", "tool_use_id": "s1", "content": FOUND},
                TEXT,
                CALL,
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": [TEXT], "is_error": True},
                {"type": "document", "title": "d", "source": {"type": "text", "data": "x"}},
                {"type": "document", "source": {"type": "content", "content": [TEXT]}},
                {"type": "search_result", "title": "a", "source": "b", "content": [TEXT]},
                TEXT,
            ],
        },
    ],
    "tools": [
        {"name": "f", "description": "d", "input_schema": SCHEMA, "strict": True},
        {"type": "web_search_20250305", "name": "web_search"},
    ],
    "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": True},
    "thinking": {"type": "enabled", "budget_tokens": 1024},
    "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": SCHEMA}},
    "stop_sequences": ["x"],
    "temperature": 1,
    "top_p": 0.5,
    "top_k": 5,
    "metadata": {"user_id": "u"},
    "mcp_servers": [],
    "stream": True,
}
VALUES = [None, True, False, 0, -1, 1e9, 1.5, "", "x", "text", "ü\ud800", [], [None], [[]], {}]
VALUES += [{"type": None}, TEXT, IMAGE, {"": 1}, [CALL], "x" * 2000, {"type": "tool_result"}]


@pytest.fixture(scope="module")
def chat():
    return ChatFormat.from_metadata(read_model_header(BUNDLED_MODEL).metadata, "the model")


def test_whatever_stands_in_a_body_it_is_rendered_or_refused_with_a_sentence(chat):
    read_messages_request(copy.deepcopy(EVERYTHING), RunConfig(), 1000)
    chance = random.Random(7)  # noqa: S311 - dice of a test
    refusals, num_rendered, codes = [], 0, set()
    for _ in range(1500):
        try:
            request = read_messages_request(
                spoilt(chance, EVERYTHING, VALUES), RunConfig(), 1000
            ).generation
        except ApiError as error:
            refusals.append(error)
            continue
        conversation = request.conversation
        messages = conversation.messages[: -1 if conversation.continues else None]
        try:
            chat.prompt(messages, conversation.tools.rendered or None)
            num_rendered += 1
        except EngineError as error:
            codes.add(error.code)
    assert 500 < len(refusals) < 1300
    assert num_rendered > 200
    assert codes <= {"template_error"}  # such as: no message of the user
    for error in refusals:
        assert error.status == 400
        assert error.param
        assert len(error.message) < 500
        assert error.message.endswith(".")
