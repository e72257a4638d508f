"""Calls that the model wrote inside thinking that it never closed, and thinking that just stops."""

import json

import anthropic
import pytest

CALL = (
    "<tool_call>\n<function=read>\n<parameter=path>\na.py\n</parameter>\n</function>\n</tool_call>"
)
LIST = "<tool_call>\n<function=list>\n</function>\n</tool_call>"
STRANGE = "<tool_call>\n<function=tool_call>\n</function>\n</tool_call>"
PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
TOOLS = [
    {"type": "function", "function": {"name": "read", "parameters": PATH}},
    {"type": "function", "function": {"name": "list"}},
]


@pytest.fixture(scope="module")
def server(start_server):
    def twice(when, first, second, **more):
        # The second part of an answer is a request of its own for the worker.
        return [{"when": when, "text": first}, {"when": when, "text": second, **more}]

    answers = [
        {"when": "ONE CALL", "text": f"I read it.\n{CALL}", "times": 0},
        {"when": "TWO CALLS", "text": f"I read it.\n{CALL}\n{LIST}\n", "times": 0},
        *twice("AN ENVELOPE", f"So\n{STRANGE}", f"Sorry.\n\n{LIST}"),
        *twice("NO PATH", "So\n<tool_call>\n<function=read>\n</function>\n</tool_call>", CALL),
        *twice("MID THOUGHT", "I wonder whether </thi", "Forty-two."),
        *twice("STILL NOTHING", "Hm", ""),
        *twice("WAITS", "Hm", "word " * 200, delay_ms=50),
        {"when": "CUT", "text": "Hm", "times": 0},
        {"when": "NO CALLS WANTED", "text": f"I read it.\n{CALL}", "times": 0},
    ]
    return start_server({"answers": answers})


def ask(server, content, **fields):
    reply = server.chat(content, tools=TOOLS, **fields).json()
    return reply["choices"][0], reply["usage"], reply["timings"]


def test_a_call_at_the_end_of_thinking_is_delivered(server):
    choice, usage, _ = ask(server, "ONE CALL")
    (call,) = choice["message"]["tool_calls"]
    assert call["function"] == {"name": "read", "arguments": '{"path":"a.py"}'}
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] is None
    assert choice["message"]["reasoning_content"].startswith("I read it.\n")
    assert usage["completion_tokens"] == usage["completion_tokens_details"]["reasoning_tokens"]


def test_it_is_streamed_behind_the_thinking(server):
    events = server.events("TWO CALLS", tools=TOOLS)
    deltas = [event["choices"][0]["delta"] for event in events[:-1]]
    calls = [call for delta in deltas for call in delta.get("tool_calls", [])]
    assert [call["function"]["name"] for call in calls if "id" in call] == ["read", "list"]
    assert events[-2]["choices"][0]["finish_reason"] == "tool_calls"


def test_only_one_is_delivered_where_one_is_wanted(server):
    choice, _, _ = ask(server, "TWO CALLS", parallel_tool_calls=False)
    assert [call["function"]["name"] for call in choice["message"]["tool_calls"]] == ["read"]


def test_anthropics_clients_get_it_too(server):
    tools = [{"name": "read", "input_schema": PATH}]
    with anthropic.Anthropic(base_url=server.url, api_key="local", max_retries=0) as client:
        message = client.messages.create(
            model="m",
            max_tokens=500,
            thinking={"type": "adaptive"},
            messages=[{"role": "user", "content": "ONE CALL"}],
            tools=tools,
        )
    assert [block.type for block in message.content] == ["thinking", "tool_use"]
    assert message.content[1].input == {"path": "a.py"}
    assert message.stop_reason == "tool_use"


def test_clients_of_responses_get_it_too(server):
    tools = [{"type": "function", **tool["function"]} for tool in TOOLS]
    reply = server.http.post("/v1/responses", json={"input": "ONE CALL", "tools": tools}).json()
    assert [item["type"] for item in reply["output"]] == ["reasoning", "function_call"]
    assert json.loads(reply["output"][1]["arguments"]) == {"path": "a.py"}


def test_a_call_of_no_tool_stays_in_the_thinking_and_the_answer_goes_on(server):
    choice, usage, timings = ask(server, "AN ENVELOPE")
    message = choice["message"]
    assert message["reasoning_content"] == f"So\n{STRANGE}"
    assert message["content"] == "Sorry."
    assert [call["function"]["name"] for call in message["tool_calls"]] == ["list"]
    assert choice["finish_reason"] == "tool_calls"
    assert timings["predicted_n"] == usage["completion_tokens"]
    assert timings["prompt_n"] == usage["prompt_tokens"]


def test_a_call_without_what_its_tool_requires_is_asked_for_once_more(server):
    choice, _, _ = ask(server, "NO PATH")
    (call,) = choice["message"]["tool_calls"]
    assert call["function"]["arguments"] == '{"path":"a.py"}'
    assert "<function=read>" in choice["message"]["reasoning_content"]


def test_thinking_that_stops_in_mid_thought_is_closed_and_the_answer_follows(server):
    choice, usage, timings = ask(server, "MID THOUGHT")
    assert choice["message"]["reasoning_content"] == "I wonder whether </thi"
    assert choice["message"]["content"] == "Forty-two."
    assert choice["finish_reason"] == "stop"
    assert timings["predicted_n"] == usage["completion_tokens"]


def test_an_answer_that_is_empty_twice_ends(server):
    choice, _, _ = ask(server, "STILL NOTHING")
    assert choice["message"]["reasoning_content"] == "Hm"
    assert choice["message"]["content"] == ""
    assert choice["finish_reason"] == "stop"


def test_its_second_part_can_be_cancelled(server):
    with server.http.stream(
        "POST",
        "/v1/chat/completions",
        json={
            "messages": [{"role": "user", "content": "WAITS"}],
            "tools": TOOLS,
            "stream": True,
        },
    ) as reply:
        server.wait_for(lambda s: s["state"] == "answering")
        request_id = reply.headers["x-request-id"]
        assert server.http.post(f"/v1/requests/{request_id}/cancel", json={}).status_code == 200
        text = reply.read().decode()
    assert '"finish_reason":"stop"' in text
    assert text.endswith("data: [DONE]\n\n")
    server.wait_idle()


def test_a_cap_that_is_used_up_ends_the_answer_in_the_thinking(server):
    choice, usage, _ = ask(server, "CUT", max_tokens=3)
    assert usage["completion_tokens"] <= 3
    assert choice["message"]["content"] == ""


def test_where_no_call_is_wanted_it_is_talk(server):
    choice, _, _ = ask(server, "NO CALLS WANTED", tool_choice="none")
    assert "tool_calls" not in choice["message"]
    assert CALL in choice["message"]["reasoning_content"]
