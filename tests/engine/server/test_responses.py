"""`POST /v1/responses` over the scripted worker, with the real SDK: conformance cases 56 to 62."""

import json

import openai
import pydantic
import pytest

from tests.support import responses_stream

CALL = "<tool_call>\n<function={}>\n{}</function>\n</tool_call>"
CITY = "<parameter=city>\n{}\n</parameter>\n"
BIG_TEXT = "".join(f'line {number} "x"\n' for number in range(1200))
PATCH_TEXT = '*** Begin Patch\n+ "é" \\ \t😀\n*** End Patch'

WEATHER = {
    "type": "function",
    "name": "get_weather",
    "strict": False,
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}
NOW = {"type": "function", "name": "now", "parameters": None, "strict": None}
GIT = {
    "type": "namespace",
    "name": "git",
    "description": "A repository.",
    "tools": [
        {
            "type": "function",
            "name": "log",
            "parameters": {"type": "object", "properties": {"count": {"type": "integer"}}},
        }
    ],
}
PATCH = {"type": "custom", "name": "apply_patch", "description": "Edits files."}
TOOLS = [WEATHER, NOW, GIT, PATCH]

ANSWERS = {
    "SMALLTALK": "Let me see.</think>\n\nGood day to you. 😀",
    "PLAINLY": "No thoughts, an answer.",
    "ONECALL": "Weather.</think>\n\n" + CALL.format("get_weather", CITY.format("Paris")),
    "TWOCALLS": "Two.</think>\n\nLooking it up.\n"
    + CALL.format("get_weather", CITY.format("Paris"))
    + "\n"
    + CALL.format("get_weather", CITY.format("Rome"))
    + "\nWait for it.",
    "NOARGS": "Time.</think>\n\n" + CALL.format("now", ""),
    "SPACED": "Log.</think>\n\n" + CALL.format("git.log", "<parameter=count>\n3\n</parameter>\n"),
    "FREETEXT": "Edit.</think>\n\n"
    + CALL.format("apply_patch", f"<parameter=input>\n{PATCH_TEXT}\n</parameter>\n"),
    "BIGFILE": "Echo.</think>\n\n" + CALL.format("get_weather", CITY.format(BIG_TEXT)),
    "AGAIN": "Hm.</think>\n\nSome text, <think>more thoughts</think>and more text.",
    "OBJECT": 'Json.</think>\n\n{"name": "Ada", "age": 36}',
    "ENDLESS": "word " * 400,
    "NOTHING": "",
    "CUTCALL": "C.</think>\n\n<tool_call>\n<function=get_weather>\n<parameter=city>\nPar",
    "CUTTEXT": "C.</think>\n\n<tool_call>\n<function=apply_patch>\n<parameter=input>\nrm -rf /",
    "CACHED": "</think>\n\nAgain.",
}


@pytest.fixture(scope="module")
def server(start_server):
    answers = [{"when": word, "times": 0, "text": text} for word, text in ANSWERS.items()]
    answers[-1]["cached_tokens"] = 7
    for answer in answers:
        if answer["when"].startswith("CUT"):
            answer["finish"] = "length"
        # What comes at once is sent at once, so what must be seen streaming takes its time.
        if answer["when"] == "BIGFILE":
            answer |= {"group": 16, "delay_ms": 2}
        if answer["when"] == "FREETEXT":
            answer["delay_ms"] = 3
    return start_server({"context": 32768, "answers": answers})


@pytest.fixture(scope="module")
def client(server):
    with server.openai() as client:
        yield client


def ask(client, content, **fields):
    return client.responses.create(model="any", input=content, **fields)


def post(server, content, **fields):
    return server.http.post("/v1/responses", json={"input": content, **fields})


def events(server, content, **fields):
    reply = post(server, content, stream=True, **fields)
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
    return responses_stream.parse(reply.text)


def kinds(response):
    return [item.type for item in response.output]


# -- whole and streamed ------------------------------------------------------------------------


def test_a_whole_answer_has_text_thinking_ids_and_a_usage_that_adds_up(client):
    answer = ask(client, "SMALLTALK")
    assert answer.output_text == "Good day to you. 😀"
    assert answer.id.startswith("resp_")
    assert answer.status == "completed"
    assert answer.model == "any"
    assert kinds(answer) == ["reasoning", "message"]
    thought, message = answer.output
    assert thought.id.startswith("rs_")
    assert thought.summary == []
    assert thought.content[0].text == "Let me see."
    assert thought.encrypted_content is None
    assert message.id.startswith("msg_")
    usage = answer.usage
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens
    assert 0 < usage.output_tokens_details.reasoning_tokens < usage.output_tokens
    assert usage.input_tokens_details.cache_write_tokens == 0
    assert answer.error is None
    assert answer.incomplete_details is None


def test_the_cached_part_of_the_input_is_told(client):
    assert ask(client, "CACHED").usage.input_tokens_details.cached_tokens == 7


@pytest.mark.parametrize("word", sorted(ANSWERS.keys() - {"BIGFILE"}))
def test_the_events_of_every_kind_of_answer_are_in_order_and_add_up(server, word):
    final = responses_stream.check_order(events(server, word, tools=TOOLS, seed=1))
    whole = post(server, word, tools=TOOLS, seed=1).json()
    hidden = ("id", "call_id")
    strip = [
        [{k: v for k, v in item.items() if k not in hidden} for item in answer["output"]]
        for answer in (final, whole)
    ]
    assert strip[0] == strip[1]
    assert final["usage"] == whole["usage"]
    assert final["status"] == whole["status"]
    assert final["tools"] == whole["tools"] == TOOLS


def test_the_sdks_stream_helper_gives_the_whole_answer(client):
    for word in ("SMALLTALK", "ONECALL", "TWOCALLS", "FREETEXT", "NOTHING"):
        with client.responses.stream(model="m", input=word, tools=TOOLS) as stream:
            texts = [e.delta for e in stream if e.type == "response.output_text.delta"]
            final = stream.get_final_response()
        assert "".join(texts) == final.output_text
        assert final.output_text == ask(client, word, tools=TOOLS).output_text


def test_thinking_can_be_switched_off(client):
    answer = ask(client, "PLAINLY", reasoning={"effort": "none"})
    assert kinds(answer) == ["message"]
    assert answer.usage.output_tokens_details.reasoning_tokens == 0
    assert answer.reasoning.effort == "none"


def test_thinking_comes_before_the_text_and_no_tag_shows(server):
    seen = events(server, "AGAIN")
    deltas = [event["type"].split(".")[1] for event in seen if "delta" in event]
    order = [kind for i, kind in enumerate(deltas) if i == 0 or deltas[i - 1] != kind]
    assert order == ["reasoning_text", "output_text", "reasoning_text", "output_text"]
    assert "think>" not in json.dumps(seen[:-1])


def test_an_answer_without_anything_is_complete_and_empty(client):
    answer = ask(client, "NOTHING", reasoning={"effort": "none"})
    assert answer.status == "completed"
    assert answer.output_text == ""


def test_log_probabilities_stand_in_deltas_and_parts(server, client):
    wish = ["message.output_text.logprobs"]
    answer = ask(client, "SMALLTALK", include=wish, top_logprobs=2)
    part = answer.output[1].content[0]
    joined = b"".join(bytes(entry.bytes) for entry in part.logprobs)
    assert joined.decode() == answer.output_text
    assert all(len(entry.top_logprobs) == 2 for entry in part.logprobs)
    seen = events(server, "SMALLTALK", include=wish, top_logprobs=2)
    deltas = [e for e in seen if e["type"] == "response.output_text.delta"]
    assert sum(len(e["logprobs"]) for e in deltas) == len(part.logprobs)


# -- the end of an answer ----------------------------------------------------------------------


def test_an_answer_that_was_cut_is_incomplete(client, server):
    answer = ask(client, "ENDLESS", max_output_tokens=1)
    assert answer.status == "incomplete"
    assert answer.incomplete_details.reason == "max_output_tokens"
    assert answer.usage.output_tokens == 1
    assert answer.max_output_tokens == 1
    seen = events(server, "ENDLESS", max_output_tokens=1)
    assert seen[-1]["type"] == "response.incomplete"
    assert seen[-1]["response"]["output"][0]["status"] == "incomplete"


def test_a_cap_that_does_not_fit_is_lowered_and_told(server):
    reply = post(server, "SMALLTALK", max_output_tokens=40_000)
    assert reply.status_code == 200
    used = int(reply.headers["x-fit-max-tokens"].rpartition("used=")[2])
    assert reply.json()["max_output_tokens"] == used < 32_768
    refused = post(server, "SMALLTALK", max_output_tokens=40_000, fit_max_tokens=False)
    assert refused.status_code == 400
    error = refused.json()["error"]
    assert error["code"] == "context_length_exceeded"
    assert error["max_tokens"] == 40_000


@pytest.mark.parametrize("stream", [False, True])
def test_an_input_over_the_context_is_refused_before_the_stream(server, stream):
    reply = post(server, "word " * 40_000, stream=stream)
    assert reply.status_code == 400
    error = reply.json()["error"]
    assert error["code"] == "context_length_exceeded"
    assert error["param"] == "input"
    assert "maximum context length is 32768 tokens" in error["message"]
    assert error["n_prompt_tokens"] > error["n_ctx"] == 32_768


# -- tools -------------------------------------------------------------------------------------


def test_a_function_call_and_its_replay(client):
    answer = ask(client, "ONECALL", tools=TOOLS)
    assert kinds(answer) == ["reasoning", "function_call"]
    call = answer.output[1]
    assert call.id.startswith("fc_")
    assert call.call_id.startswith("call_")
    assert (call.name, json.loads(call.arguments)) == ("get_weather", {"city": "Paris"})
    assert call.namespace is None
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "sun"}
    turn = [{"role": "user", "content": "weather?"}, *answer.output, result]
    again = client.responses.create(
        model="m", input=[*turn, {"role": "user", "content": "SMALLTALK"}], tools=TOOLS
    )
    assert again.output_text == "Good day to you. 😀"


def test_two_calls_and_the_text_around_them_are_items_in_order(client):
    answer = ask(client, "TWOCALLS", tools=TOOLS)
    assert kinds(answer) == ["reasoning", "message", "function_call", "function_call", "message"]
    first, second = answer.output[2:4]
    assert first.call_id != second.call_id
    assert [json.loads(call.arguments)["city"] for call in (first, second)] == ["Paris", "Rome"]
    assert answer.output_text == "Looking it up.Wait for it."


def test_one_call_is_all_when_parallel_calls_are_not_wanted(client):
    answer = ask(client, "TWOCALLS", tools=TOOLS, parallel_tool_calls=False)
    assert kinds(answer).count("function_call") == 1
    assert answer.parallel_tool_calls is False


def test_a_call_without_parameters_has_an_empty_object(client):
    assert ask(client, "NOARGS", tools=TOOLS).output[1].arguments == "{}"


def test_a_namespace_comes_back_beside_the_name(client):
    call = ask(client, "SPACED", tools=TOOLS).output[1]
    assert (call.namespace, call.name) == ("git", "log")
    assert json.loads(call.arguments) == {"count": 3}


def test_a_custom_tools_text_streams_and_comes_back_as_it_was_written(server, client):
    call = ask(client, "FREETEXT", tools=TOOLS).output[1]
    assert call.type == "custom_tool_call"
    assert (call.name, call.input) == ("apply_patch", PATCH_TEXT)
    seen = events(server, "FREETEXT", tools=TOOLS)
    assert sum(e["type"] == "response.custom_tool_call_input.delta" for e in seen) > 5


def test_a_large_argument_streams_in_many_pieces(server):
    seen = events(server, "BIGFILE", tools=TOOLS)
    pieces = [e["delta"] for e in seen if e["type"] == "response.function_call_arguments.delta"]
    assert len(pieces) > 50
    assert json.loads("".join(pieces))["city"] == BIG_TEXT


def test_without_tools_the_markup_of_a_call_is_text(client):
    answer = ask(client, "ONECALL")
    assert "<function=get_weather>" in answer.output_text
    assert kinds(answer) == ["reasoning", "message"]
    assert kinds(ask(client, "ONECALL", tools=TOOLS, tool_choice="none")) == kinds(answer)


def test_a_call_that_was_cut_is_incomplete_and_is_never_announced_as_whole(server):
    seen = events(server, "CUTCALL", tools=TOOLS)
    names = [event["type"] for event in seen]
    assert "response.function_call_arguments.done" not in names
    call = seen[-1]["response"]["output"][1]
    assert call["status"] == "incomplete"
    assert call["arguments"] == '{"city":"Par'
    assert seen[-1]["type"] == "response.incomplete"


def test_half_of_a_custom_call_is_never_handed_over_as_an_item(server):
    seen = events(server, "CUTTEXT", tools=TOOLS)
    done = [e["item"]["type"] for e in seen if e["type"] == "response.output_item.done"]
    assert done == ["reasoning"]
    call = seen[-1]["response"]["output"][1]
    assert (call["status"], call["input"]) == ("incomplete", "rm -rf /")


def test_hosted_tools_are_left_out_and_named_in_a_header(server):
    hosted = [{"type": "web_search"}, {"type": "local_shell"}, {"type": "web_search"}]
    reply = post(server, "SMALLTALK", tools=[*hosted, WEATHER])
    assert reply.status_code == 200
    assert reply.headers["x-ignored-tools"] == "web_search, local_shell"
    assert reply.json()["tools"] == [WEATHER]


# -- structured output -------------------------------------------------------------------------


class Person(pydantic.BaseModel):
    name: str
    age: int


def test_the_sdk_parses_an_answer_into_a_model(client):
    parsed = client.responses.parse(model="m", input="OBJECT", text_format=Person)
    assert parsed.output_parsed == Person(name="Ada", age=36)
    assert parsed.text.format.type == "json_schema"
    with client.responses.stream(model="m", input="OBJECT", text_format=Person) as stream:
        list(stream)
        assert stream.get_final_response().output_parsed == Person(name="Ada", age=36)


# -- agents ------------------------------------------------------------------------------------


def test_thinking_comes_back_sealed_and_is_read_again(client, server):
    answer = ask(client, "SMALLTALK", include=["reasoning.encrypted_content"], store=False)
    sealed = answer.output[0].encrypted_content
    assert sealed
    assert "Let me see" not in sealed
    item = {"type": "reasoning", "summary": []}

    def count(*thoughts):
        turn = [{"role": "user", "content": "hi"}, *thoughts]
        items = [*turn, {"role": "assistant", "content": "Yes."}, {"role": "user", "content": "?"}]
        return client.responses.input_tokens.count(model="m", input=items).input_tokens

    open_text = count({**item, "content": [{"type": "reasoning_text", "text": "Let me see."}]})
    assert count({**item, "encrypted_content": sealed}) == open_text > count()


def test_a_body_like_that_of_an_agent_is_answered(server):
    body = {
        "model": "qwen3.8-flash-next",
        "instructions": "You are an agent.",
        "input": [
            {
                "type": "message",
                "role": "developer",
                "content": [{"type": "input_text", "text": "Rules."}],
            },
            {
                "type": "message",
                "id": "msg_0",
                "role": "user",
                "content": [{"type": "input_text", "text": "SMALLTALK"}],
            },
            {"type": "reasoning", "id": "rs_0", "summary": [], "encrypted_content": "gAAAA"},
            {
                "type": "function_call",
                "name": "log",
                "namespace": "git",
                "call_id": "c1",
                "arguments": "{not json",
            },
            {
                "type": "function_call_output",
                "call_id": "c1",
                "output": [{"type": "input_text", "text": "failed"}],
            },
            {
                "type": "message",
                "role": "developer",
                "content": [{"type": "input_text", "text": "New rules."}],
            },
        ],
        "tools": [*TOOLS, {"type": "web_search", "external_web_access": True}],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "reasoning": {"summary": "auto"},
        "store": False,
        "stream": True,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "k",
        "client_metadata": {"a": "b"},
        "text": {"verbosity": "low"},
    }
    reply = server.http.post("/v1/responses", json=body)
    assert reply.status_code == 200, reply.text
    final = responses_stream.check_order(responses_stream.parse(reply.text))
    assert final["status"] == "completed"
    assert final["prompt_cache_key"] == "k"
    assert final["output"][0]["encrypted_content"]


# -- around it ---------------------------------------------------------------------------------


def test_the_count_of_the_input_is_that_of_the_answers_usage(client):
    options = {"model": "m", "input": "SMALLTALK", "tools": TOOLS, "instructions": "Be brief."}
    count = client.responses.input_tokens.count(**options)
    assert count.object == "response.input_tokens"
    assert count.input_tokens == client.responses.create(**options).usage.input_tokens


def test_an_input_of_any_length_is_counted(server):
    reply = server.http.post("/v1/responses/input_tokens", json={"input": "word " * 40_000})
    assert reply.json()["input_tokens"] > 40_000


def test_stored_responses_are_never_found(client, server):
    with pytest.raises(openai.NotFoundError) as caught:
        client.responses.retrieve("resp_1")
    assert caught.value.code == "not_found"
    for send in (
        lambda: client.responses.delete("resp_1"),
        lambda: client.responses.cancel("resp_1"),
        lambda: client.responses.input_items.list("resp_1"),
    ):
        with pytest.raises(openai.NotFoundError):
            send()
    reply = server.http.put("/v1/responses/resp_1", json={})
    assert reply.status_code == 405


def test_a_reference_to_an_earlier_response_is_refused(client):
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, "hi", previous_response_id="resp_1")
    assert caught.value.param == "previous_response_id"
    assert "stateless" in caught.value.message


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"{", "invalid_json"),
        (b"", "invalid_json"),
        (b"[]", "invalid_type"),
        (b'{"input": NaN}', "invalid_json"),
        (b'{"input": "\xff"}', "invalid_json"),
        (b"{}", "missing_required_parameter"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/responses", "/v1/responses/input_tokens"])
def test_a_body_that_is_no_request_is_refused_in_one_sentence(server, path, raw, code):
    reply = server.http.post(path, content=raw, headers={"content-type": "application/json"})
    assert reply.status_code == 400
    assert reply.json()["error"]["code"] == code


def test_a_conversation_without_a_user_is_refused_under_the_name_of_the_input(server):
    reply = post(server, [{"role": "developer", "content": "Rules."}])
    assert reply.status_code == 400
    error = reply.json()["error"]
    assert (error["code"], error["param"]) == ("template_error", "input")
