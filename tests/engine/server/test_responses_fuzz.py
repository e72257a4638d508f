"""Bodies of the Responses API in which anything may stand anywhere."""

import copy
import random

from engine.core.config import RunConfig
from engine.server.errors import ApiError
from engine.server.responses_request import read_responses_request
from engine.server.responses_sealed import seal
from tests.support.spoilt_bodies import spoilt

FUNCTION = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}
INNER = [{"type": "function", "name": "log", "strict": True}, {"type": "custom", "name": "apply"}]
NAMESPACE = {"type": "namespace", "name": "git", "description": "A repository.", "tools": INNER}
GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}
PATCH = {"type": "custom", "name": "patch", "description": "Edits.", "format": GRAMMAR}
USER = {"role": "user", "content": "hello"}
CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "fine"}

EVERYTHING = {
    "model": "m",
    "instructions": "Be brief.",
    "input": [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "a"}]},
        {**USER, "id": "msg_1", "status": "completed"},
        {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "s"}],
            "content": [{"type": "reasoning_text", "text": "r"}],
            "encrypted_content": seal("r"),
        },
        {"role": "assistant", "content": [{"type": "output_text", "text": "b"}]},
        {**CALL, "namespace": "git"},
        {**RESULT, "output": [{"type": "input_text", "text": "c"}]},
        {"type": "custom_tool_call", "call_id": "c2", "name": "patch", "input": "x"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": "done"},
    ],
    "tools": [FUNCTION, NAMESPACE, PATCH, {"type": "web_search"}],
    "tool_choice": {
        "type": "allowed_tools",
        "mode": "auto",
        "tools": [{"type": "function", "name": "f"}, {"type": "web_search"}],
    },
    "parallel_tool_calls": True,
    "max_output_tokens": 5,
    "reasoning": {"effort": "low", "summary": "auto"},
    "text": {
        "format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}
    },
    "include": ["reasoning.encrypted_content"],
    "temperature": 1,
    "top_logprobs": 2,
    "stop": ["x"],
    "metadata": {"a": "b"},
    "store": False,
    "stream": True,
}
VALUES = [None, True, False, 0, -1, 1e9, 1.5, "", "x", "function", "ü\ud800", [], [None], [[]], {}]
VALUES += [{"type": None}, {"type": "message"}, {"": 1}, [{"type": "function_call"}], "x" * 2000]


def test_whatever_stands_in_a_body_it_is_read_or_refused_with_a_sentence():
    read_responses_request(copy.deepcopy(EVERYTHING), RunConfig(), 1000)
    chance = random.Random(5)  # noqa: S311 - dice of a test
    refusals = []
    for _ in range(1500):
        body = spoilt(chance, EVERYTHING, VALUES)
        try:
            read_responses_request(body, RunConfig(), 1000)
        except ApiError as error:
            refusals.append(error)
    assert 500 < len(refusals) < 1500
    for error in refusals:
        assert error.status == 400
        assert error.param
        assert len(error.message) < 500
