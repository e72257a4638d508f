"""`POST /v1/messages` and `count_tokens` over the scripted worker, with Anthropic's own SDK."""

import json
import secrets

import anthropic
import pydantic
import pytest

CALL = "<tool_call>\n<function={}>\n{}</function>\n</tool_call>"
CITY = "<parameter=city>\n{}\n</parameter>\n"
PARIS = CALL.format("get_weather", CITY.format("Paris"))
ROME = CALL.format("get_weather", CITY.format("Rome"))

WEATHER = {
    "name": "get_weather",
    "description": "Current weather",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"],
    },
}
NOW = {"name": "now", "input_schema": {"type": "object", "properties": {}}}
TOOLS = [WEATHER, NOW]
THINK = {"type": "enabled", "budget_tokens": 1024}

# A file of some KB with all that is hard to pass on: quotes, tags of the call format, blanks at the end
# of lines, control characters, letters beyond ASCII.
FILE = "def f():\n\treturn '<parameter=x>\\n\"q\"</parameter> </b>'  \r\n\x01é 😀\n\n" * 60
WRITE = {
    "name": "write",
    "input_schema": {
        "type": "object",
        "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
    },
}

ANSWERS = {
    "BIGFILE": CALL.format("write", f"<parameter=content>\n{FILE}\n</parameter>\n"),
    "SMALLTALK": "Let me see.</think>\n\nGood day to you. 😀",
    "PLAINLY": "No thoughts, an answer.",
    "ENDMARK": "before ENDOFTEXT after",
    "ONECALL": "I need the weather.</think>\n\nI look.\n" + PARIS,
    "TWOCALLS": PARIS + "\n" + ROME,
    "NOARGS": CALL.format("now", ""),
    "ENDLESS": "so it goes, word by word, on and on. " * 40,
    "TITLE": '{"city": "Lübeck", "days": 3}',
    "CACHED": "Again.",
}

STREAMED = ("BIGFILE", "ONECALL")


@pytest.fixture(scope="module")
def server(start_server):
    answers = [{"when": word, "times": 0, "text": text} for word, text in ANSWERS.items()]
    answers[-1]["cached_tokens"] = 7
    for answer in answers:
        if answer["when"] in STREAMED:  # what comes at once is sent as one piece
            answer.update(delay_ms=2, group=4)
    return start_server({"context": 32768, "answers": answers}, "--aliases", "second-name")


@pytest.fixture(scope="module")
def client(server):
    with anthropic.Anthropic(base_url=server.url, api_key="local", max_retries=0) as client:
        yield client


def ask(client, content, **fields):
    messages = fields.pop("messages", [{"role": "user", "content": content}])
    return client.messages.create(model="any", max_tokens=500, messages=messages, **fields)


def post(server, content="PLAINLY", path="/v1/messages", **fields):
    messages = fields.pop("messages", [{"role": "user", "content": content}])
    body = {"max_tokens": 500, "messages": messages, **fields}
    return server.http.post(path, json={key: body[key] for key in body if body[key] is not None})


def events_of(server, content, **fields):
    """The events of a streamed answer, after a check that each is named by its type."""
    reply = post(server, content, stream=True, **fields)
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
    events = []
    for block in reply.text.removesuffix("\n\n").split("\n\n"):
        name, data = block.split("\n")
        events.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {events[-1]['type']}"
    return events


# -- whole and streamed ------------------------------------------------------------------------


def test_an_answer_without_thinking_begins_with_text(client):
    message = ask(client, "PLAINLY")
    assert message.content[0].text == "No thoughts, an answer."
    assert message.stop_reason == "end_turn"
    assert message.stop_sequence is None
    assert message.model == "any"
    assert message.id.startswith("msg_")


def test_enabled_thinking_gives_a_signed_thinking_block_and_then_text(client):
    thinking, text = ask(client, "SMALLTALK", thinking=THINK).content
    assert (thinking.type, thinking.thinking) == ("thinking", "Let me see.")
    assert thinking.signature
    assert text.text == "Good day to you. 😀"


@pytest.mark.parametrize("effort", ["low", "medium", "high", "xhigh", "max"])
def test_adaptive_thinking_takes_every_effort(client, effort):
    message = ask(
        client, "SMALLTALK", thinking={"type": "adaptive"}, output_config={"effort": effort}
    )
    assert [block.type for block in message.content] == ["thinking", "text"]


@pytest.mark.parametrize("signature", ["own", "of another service", None])
def test_a_thinking_block_can_be_sent_back_with_any_signature(client, signature):
    content = [block.to_dict() for block in ask(client, "SMALLTALK", thinking=THINK).content]
    if signature != "own":
        content[0]["signature"] = signature
    messages = [
        {"role": "user", "content": "SMALLTALK"},
        {"role": "assistant", "content": content},
        {"role": "user", "content": "and now PLAINLY"},
    ]
    assert ask(client, "", messages=messages, thinking=THINK).stop_reason == "end_turn"


def test_the_whole_body_has_the_documented_keys_and_headers(server):
    reply = post(server, "PLAINLY", path="/v1/messages?beta=true", seed=5)
    body = reply.json()
    assert set(body) == {
        *("id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage"),
    }
    assert set(body["usage"]) == {
        *("input_tokens", "output_tokens"),
        *("cache_creation_input_tokens", "cache_read_input_tokens"),
    }
    assert body["model"] == "stratum-tiny"
    assert reply.headers["content-type"] == "application/json; charset=utf-8"
    assert reply.headers["request-id"] == reply.headers["x-request-id"]
    assert reply.headers["x-seed"] == "5"


@pytest.mark.parametrize(
    ("content", "thinking"),
    [
        ("SMALLTALK", {"thinking": THINK}),
        ("ONECALL", {"thinking": THINK}),
        ("PLAINLY", {}),
        ("TWOCALLS", {}),
        ("NOARGS", {}),
    ],
)
def test_streamed_and_whole_answers_are_equal(client, content, thinking):
    fields = {"tools": TOOLS, **thinking}
    whole = ask(client, content, **fields)
    messages = [{"role": "user", "content": content}]
    with client.messages.stream(model="any", max_tokens=500, messages=messages, **fields) as stream:
        streamed = stream.get_final_message()

    def comparable(message):
        blocks = [block.to_dict() for block in message.content]
        return [{**block, "id": None} for block in blocks]

    assert comparable(streamed) == comparable(whole)
    assert streamed.stop_reason == whole.stop_reason
    assert streamed.usage.output_tokens == whole.usage.output_tokens
    assert streamed.usage.input_tokens == whole.usage.input_tokens


@pytest.mark.parametrize("content", ["SMALLTALK", "ONECALL"])
def test_the_events_come_in_the_documented_order(server, content):
    events = events_of(server, content, thinking=THINK, tools=TOOLS)
    kinds = [event["type"] for event in events]
    assert kinds[:2] == ["message_start", "ping"]
    assert kinds[-2:] == ["message_delta", "message_stop"]
    assert events[0]["message"]["content"] == []
    assert events[0]["message"]["stop_reason"] is None
    assert events[0]["message"]["usage"]["output_tokens"] == 0
    indexes = [event["index"] for event in events if event["type"] == "content_block_start"]
    assert indexes == list(range(len(indexes)))
    inner = [(event["type"], event["index"]) for event in events[2:-2]]
    assert inner == sorted(inner, key=lambda pair: pair[1])
    for index in indexes:
        steps = [kind for kind, place in inner if place == index]
        assert steps[0] == "content_block_start"
        assert steps[-1] == "content_block_stop"
        assert set(steps[1:-1]) == {"content_block_delta"}
    signatures = [
        event for event in events if event.get("delta", {}).get("type") == "signature_delta"
    ]
    assert [event["index"] for event in signatures] == [0]


def test_usage_of_a_stream_is_that_of_its_start_and_grows(server):
    events = events_of(server, "CACHED")
    start, end = events[0]["message"]["usage"], events[-2]["usage"]
    assert start["cache_read_input_tokens"] == end["cache_read_input_tokens"] == 7
    assert start["input_tokens"] == end["input_tokens"]
    assert end["output_tokens"] > 0


def test_a_stop_sequence_ends_the_answer_and_is_named(client):
    message = ask(client, "ENDMARK", stop_sequences=["OFTEXT", "END"])
    assert message.content[0].text == "before "
    assert message.stop_reason == "stop_sequence"
    assert message.stop_sequence == "END"


def test_a_cap_ends_the_answer_with_max_tokens(client):
    messages = [{"role": "user", "content": "ENDLESS"}]
    message = client.messages.create(model="any", max_tokens=3, messages=messages)
    assert message.stop_reason == "max_tokens"
    assert message.usage.output_tokens == 3


def test_a_cap_that_does_not_fit_is_lowered_and_said(server):
    reply = post(server, "PLAINLY", max_tokens=200_000)
    assert reply.status_code == 200
    assert reply.headers["x-fit-max-tokens"].startswith("requested=200000; used=")


def test_a_prefilled_answer_is_continued(server):
    messages = [
        {"role": "user", "content": "PLAINLY"},
        {"role": "assistant", "content": "It is"},
    ]
    body = post(server, messages=messages, thinking={"type": "adaptive"}).json()
    assert body["content"] == [{"type": "text", "text": "No thoughts, an answer."}]


# -- tools -------------------------------------------------------------------------------------


def test_a_streamed_call_accumulates_its_input(client):
    messages = [{"role": "user", "content": "ONECALL"}]
    with client.messages.stream(
        model="any", max_tokens=500, messages=messages, tools=TOOLS, thinking=THINK
    ) as stream:
        fragments = [event.partial_json for event in stream if event.type == "input_json"]
        message = stream.get_final_message()
    call = message.content[-1]
    assert (call.name, call.input) == ("get_weather", {"city": "Paris"})
    assert json.loads("".join(fragments)) == call.input
    assert len(fragments) > 2  # a long text does not arrive as one lump
    assert call.id.startswith("toolu_")
    assert message.stop_reason == "tool_use"


def test_a_file_in_an_argument_arrives_piece_by_piece_and_exactly(client, server):
    with client.messages.stream(
        model="any",
        max_tokens=30_000,
        messages=[{"role": "user", "content": "BIGFILE"}],
        tools=[WRITE],
    ) as stream:
        fragments = [event.partial_json for event in stream if event.type == "input_json"]
        message = stream.get_final_message()
    assert message.content[0].input == {"content": FILE}
    assert len(fragments) > 50
    whole = post(server, "BIGFILE", tools=[WRITE], max_tokens=30_000).json()
    assert whole["content"][0]["input"] == {"content": FILE}


def test_parallel_calls_have_blocks_and_ids_of_their_own(client):
    first, second = ask(client, "TWOCALLS", tools=TOOLS).content
    assert [first.input, second.input] == [{"city": "Paris"}, {"city": "Rome"}]
    assert first.id != second.id


@pytest.mark.parametrize("kind", ["any", "auto"])
def test_only_one_call_comes_when_parallel_use_is_switched_off(client, kind):
    choice = {"type": kind, "disable_parallel_tool_use": True}
    message = ask(client, "TWOCALLS", tools=TOOLS, tool_choice=choice)
    assert [block.type for block in message.content] == ["tool_use"]
    assert message.stop_reason == "tool_use"


def test_a_cut_call_ends_with_max_tokens(server):
    events = events_of(server, "TWOCALLS", tools=TOOLS, max_tokens=12)
    assert events[-2]["delta"]["stop_reason"] == "max_tokens"
    body = post(server, "TWOCALLS", tools=TOOLS, max_tokens=12).json()
    assert body["stop_reason"] == "max_tokens"
    assert body["content"] == [{"type": "text", "text": ""}]


def test_tools_of_the_service_are_left_out_and_named_in_a_header(server):
    served = {"type": "web_search_20250305", "name": "web_search"}
    for path in ("/v1/messages", "/v1/messages/count_tokens"):
        reply = post(server, tools=[served, NOW], path=path)
        assert reply.headers["x-ignored-tools"] == "web_search_20250305"
        assert "x-ignored-tools" not in post(server, tools=[NOW], path=path).headers


def test_a_tool_loop_goes_on_after_results_in_any_order(client):
    first = ask(client, "TWOCALLS", tools=TOOLS)
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": block.input["city"]}
        for block in first.content
    ]
    failed = {**results[0], "content": [{"type": "text", "text": "no"}], "is_error": True}
    messages = [
        {"role": "user", "content": "the weather"},
        {"role": "assistant", "content": first.content},
        {"role": "user", "content": [results[1], failed, {"type": "text", "text": "PLAINLY"}]},
    ]
    message = ask(client, "", messages=messages, tools=TOOLS)
    assert message.content[0].text == "No thoughts, an answer."
    assert client.messages.count_tokens(model="any", messages=messages, tools=TOOLS)


# -- structured output -------------------------------------------------------------------------


class Trip(pydantic.BaseModel):
    city: str
    days: int


def test_parse_gives_the_model_that_was_asked_for(client):
    messages = [{"role": "user", "content": "TITLE"}]
    message = client.messages.parse(
        model="any", max_tokens=500, messages=messages, output_format=Trip
    )
    assert message.parsed_output == Trip(city="Lübeck", days=3)


def test_a_streamed_answer_is_parsed_too(client):
    messages = [{"role": "user", "content": "TITLE"}]
    with client.messages.stream(
        model="any", max_tokens=500, messages=messages, output_format=Trip
    ) as stream:
        assert stream.get_final_message().parsed_output == Trip(city="Lübeck", days=3)


# -- counting ----------------------------------------------------------------------------------

COUNTED = {
    "plain": {},
    "system": {"system": [{"type": "text", "text": "Be brief."}]},
    "tools": {"tools": TOOLS},
    "thinking": {"thinking": THINK},
    "everything": {
        "system": "Be brief.",
        "tools": TOOLS,
        "tool_choice": {"type": "none"},
        "thinking": {"type": "adaptive"},
    },
}


@pytest.mark.parametrize("fields", COUNTED.values(), ids=COUNTED)
def test_the_count_is_what_the_message_reports(client, fields):
    counted = client.messages.count_tokens(
        model="any", messages=[{"role": "user", "content": "CACHED"}], **fields
    )
    usage = ask(client, "CACHED", **fields).usage
    assert usage.cache_read_input_tokens == 7
    assert counted.input_tokens == usage.input_tokens + usage.cache_read_input_tokens


def test_a_conversation_that_is_too_long_is_counted_all_the_same(server):
    reply = post(server, "word " * 5000, path="/v1/messages/count_tokens", max_tokens=None)
    assert reply.json()["input_tokens"] > 5000


def test_a_billing_line_changes_no_prompt(server, client):
    messages = [{"role": "user", "content": "PLAINLY"}]
    texts = [{"type": "text", "text": "You are an agent."}, {"type": "text", "text": "Be brief."}]
    plain = post(server, path="/v1/messages/count_tokens", system=texts).json()
    for _ in range(3):
        line = f"x-anthropic-billing-header: cc_version=2.1; cch={secrets.token_hex(8)};"
        system = [{"type": "text", "text": line}, *texts]
        counted = client.messages.count_tokens(model="any", system=system, messages=messages)
        assert counted.input_tokens == plain["input_tokens"]


# -- models and headers ------------------------------------------------------------------------


def test_the_sdk_reads_the_model_list(client):
    models = list(client.models.list())
    assert [model.id for model in models] == ["stratum-tiny", "second-name"]


def test_the_beta_part_of_the_sdk_works(client):
    @anthropic.beta_tool
    def get_weather(city: str) -> str:
        """Current weather.

        Args:
            city: its name.
        """
        return f"PLAINLY 12 degrees in {city}"

    runner = client.beta.messages.tool_runner(
        model="any",
        max_tokens=500,
        tools=[get_weather],
        messages=[{"role": "user", "content": "TWOCALLS"}],
        betas=["interleaved-thinking-2025-05-14"],
        max_iterations=2,
    )
    calling, answered = list(runner)
    assert [block.input for block in calling.content] == [{"city": "Paris"}, {"city": "Rome"}]
    assert answered.content[0].text == "No thoughts, an answer."


def test_any_version_and_beta_header_is_accepted_and_none_is_needed(server):
    headers = {"anthropic-version": "1999-01-01", "anthropic-beta": "a,b", "x-api-key": "k"}
    body = {"max_tokens": 5, "messages": [{"role": "user", "content": "PLAINLY"}]}
    assert server.http.post("/v1/messages", json=body, headers=headers).status_code == 200
    assert server.http.post("/v1/v1/messages/", json=body).status_code == 200
