"""`POST /v1/chat/completions` over the scripted worker: the cases of the API's conformance list."""

import json

import openai
import pytest

CALL = "<tool_call>\n<function={}>\n{}</function>\n</tool_call>"
CITY = "<parameter=city>\n{}\n</parameter>\n"
PARIS = CALL.format("get_weather", CITY.format("Paris"))
ROME = CALL.format("get_weather", CITY.format("Rome"))

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Current weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
        },
    },
}
NOW = {"type": "function", "function": {"name": "now"}}

ANSWERS = {
    "SMALLTALK": "Let me see.</think>\n\nGood day to you. 😀",
    "PLAINLY": "No thoughts, an answer.",
    "LINES": "Which lines?\nTwo.</think>\n\nfirst line\nsecond line",
    "ENDMARK": "END comes later.</think>\n\nbefore ENDOFTEXT after",
    "ONECALL": "I need the weather.</think>\n\n" + PARIS,
    "TWOCALLS": "Two of them.</think>\n\nLooking it up.\n" + PARIS + "\n" + ROME,
    "NOARGS": "Time.</think>\n\n" + CALL.format("now", ""),
    "ENDLESS": "word " * 400,
    "HALFWAY": "I stop in the middle of",
    "CACHED": "</think>\n\nAgain.",
}


BIG_TEXT = "".join(f'line {i}: "ä" <tag> \\n {{}}\n' for i in range(2000))[:50_000] + "|"


@pytest.fixture(scope="module")
def server(start_server):
    answers = [{"when": word, "times": 0, "text": text} for word, text in ANSWERS.items()]
    answers[-1]["cached_tokens"] = 7
    answers.append({"when": "TWICE", "times": 0, "text": "la " * 50, "finish": "repeat"})
    answers += [
        {"when": f"DIVIDED BY {size}", "times": 0, "text": ANSWERS["TWOCALLS"], "group": size}
        for size in (1, 7, 500)
    ]
    answers.append({"when": "FILLED", "times": 0, "text": "so it goes", "finish": "context"})
    script = {"context": 1024, "answers": answers}
    return start_server(script)


@pytest.fixture(scope="module")
def client(server):
    with server.openai() as client:
        yield client


def ask(client, content, **fields):
    messages = [{"role": "user", "content": content}]
    return client.chat.completions.create(model="any", messages=messages, **fields)


def joined(chunks, key="content"):
    deltas = [choice.delta for chunk in chunks for choice in chunk.choices]
    return "".join(getattr(delta, key, None) or "" for delta in deltas)


# -- whole and streamed ------------------------------------------------------------------------


def test_a_whole_answer_has_content_thinking_and_a_usage_that_adds_up(client):
    answer = ask(client, "SMALLTALK")
    choice = answer.choices[0]
    assert choice.message.content == "Good day to you. 😀"
    assert choice.message.reasoning_content == "Let me see."
    assert choice.finish_reason == "stop"
    assert choice.message.tool_calls is None
    usage = answer.usage
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert 0 < usage.completion_tokens_details.reasoning_tokens < usage.completion_tokens
    assert usage.prompt_tokens_details.cached_tokens == 0
    assert answer.id.startswith("chatcmpl-")
    assert answer.system_fingerprint


def test_the_whole_body_has_the_documented_keys_and_headers(server):
    reply = server.chat("SMALLTALK", seed=5)
    body = reply.json()
    assert set(body) == {
        *("id", "object", "created", "model", "system_fingerprint"),
        *("choices", "usage", "timings"),
    }
    assert body["choices"][0]["message"]["refusal"] is None
    assert "tool_calls" not in body["choices"][0]["message"]
    assert "😀" in reply.text  # not escaped
    assert reply.headers["content-type"] == "application/json; charset=utf-8"
    assert reply.headers["x-request-id"].startswith("req_")
    assert reply.headers["x-seed"] == "5"
    used = json.loads(reply.headers["x-sampling"])
    assert (used["seed"], used["temperature"], used["top_k"]) == (5, 1.0, 20)
    assert int(reply.headers["openai-processing-ms"]) >= 0
    assert all(isinstance(value, (int, float)) for value in body["timings"].values())
    timings = body["timings"]  # the first token comes with the prompt
    assert timings["predicted_per_second"] * timings["predicted_ms"] == pytest.approx(
        1000 * (timings["predicted_n"] - 1), rel=0.01
    )


@pytest.mark.parametrize("content", ["SMALLTALK", "LINES", "HALFWAY"])
def test_streamed_and_whole_answers_have_equal_texts(client, content):
    whole = ask(client, content)
    chunks = list(ask(client, content, stream=True))
    assert joined(chunks) == whole.choices[0].message.content
    assert joined(chunks, "reasoning_content") == whole.choices[0].message.reasoning_content
    finishes = [c.choices[0].finish_reason for c in chunks if c.choices[0].finish_reason]
    assert finishes == [whole.choices[0].finish_reason]


def test_include_usage_gives_one_last_chunk_without_choices_and_with_usage(client):
    whole = ask(client, "SMALLTALK")
    chunks = list(ask(client, "SMALLTALK", stream=True, stream_options={"include_usage": True}))
    assert [bool(chunk.choices) for chunk in chunks] == [True] * (len(chunks) - 1) + [False]
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert chunks[-1].usage == whole.usage


def test_without_include_usage_no_chunk_is_without_choices_or_has_usage(server):
    *chunks, last = server.events("SMALLTALK")
    assert last == "[DONE]"
    assert all(chunk["choices"] and "usage" not in chunk for chunk in chunks)


def test_the_first_chunk_alone_has_the_role_and_all_share_their_head(server):
    *chunks, _ = server.events("SMALLTALK")
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert not any("role" in chunk["choices"][0]["delta"] for chunk in chunks[1:])
    keys = ("id", "created", "model", "object", "system_fingerprint")
    assert len({tuple(chunk[key] for key in keys) for chunk in chunks}) == 1
    assert chunks[0]["object"] == "chat.completion.chunk"
    assert chunks[-1]["choices"][0] == {
        "index": 0,
        "delta": {},
        "finish_reason": "stop",
        "logprobs": None,
    }


def test_a_stream_has_the_headers_that_proxies_need(server):
    reply = server.chat("SMALLTALK", stream=True)
    assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert reply.headers["cache-control"] == "no-cache"
    assert reply.headers["x-accel-buffering"] == "no"
    assert reply.headers["x-request-id"].startswith("req_")


def test_thinking_chunks_come_first_and_carry_an_empty_content(server):
    *chunks, _ = server.events("SMALLTALK")
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks[1:-1]]
    kinds = ["reasoning" if "reasoning_content" in delta else "content" for delta in deltas]
    assert kinds == sorted(kinds, reverse=True)
    assert set(kinds) == {"reasoning", "content"}
    assert all(d["content"] == "" for d in deltas if "reasoning_content" in d)
    assert not any("<" in str(delta) for delta in deltas)


def test_return_progress_tells_how_far_the_prompt_is_read(server):
    *chunks, _ = server.events("SMALLTALK", return_progress=True)
    progress = [chunk["prompt_progress"] for chunk in chunks if "prompt_progress" in chunk]
    assert progress
    assert progress[-1]["processed"] == progress[-1]["total"]


def test_timings_per_token_tells_the_timings_so_far_in_every_piece(server):
    events = server.events("SMALLTALK", timings_per_token=True)
    pieces = [event for event in events[:-1] if "timings" in event]
    shown = [event for event in events[:-1] if set(event["choices"][0]["delta"]) - {"role"}]
    assert len(pieces) >= len(shown) - 1 > 0  # all but the first, which comes before any token
    counts = [event["timings"]["predicted_n"] for event in pieces]
    assert counts == sorted(counts)
    assert all(isinstance(value, (int, float)) for value in pieces[-1]["timings"].values())


def test_cached_tokens_are_reported(client):
    usage = ask(client, "CACHED").usage
    assert usage.prompt_tokens_details.cached_tokens == 7


# -- caps, stops, sampling ---------------------------------------------------------------------


def test_one_token_ends_with_length(client):
    answer = ask(client, "SMALLTALK", max_completion_tokens=1)
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage.completion_tokens == 1
    assert answer.choices[0].message.content == ""


def test_max_completion_tokens_wins_over_max_tokens(client):
    answer = ask(client, "SMALLTALK", max_completion_tokens=2, max_tokens=5)
    assert answer.usage.completion_tokens == 2


@pytest.mark.parametrize("cap", [None, -1])
def test_no_cap_lets_the_answer_end_by_itself(server, cap):
    body = server.chat("SMALLTALK", max_tokens=cap).json()
    assert body["choices"][0]["finish_reason"] == "stop"


def test_a_stop_string_ends_the_answer_and_is_not_shown(client):
    whole = ask(client, "LINES", stop=["\n"])
    assert whole.choices[0].message.content == "first line"
    assert whole.choices[0].finish_reason == "stop"
    assert "\n" in whole.choices[0].message.reasoning_content  # thinking is not stopped
    chunks = list(ask(client, "LINES", stop=["\n"], stream=True))
    assert joined(chunks) == "first line"


def test_a_stop_string_over_several_tokens_never_shows_a_part(client):
    chunks = list(ask(client, "ENDMARK", stop=["ENDOFTEXT"], stream=True))
    assert joined(chunks) == "before "
    assert joined(chunks, "reasoning_content") == "END comes later."


def test_a_stop_string_that_is_only_in_the_thinking_does_not_stop(client):
    assert ask(client, "ENDMARK", stop="later").choices[0].message.content.endswith("after")


def test_a_repeating_answer_and_a_full_context_end_with_length(client):
    assert ask(client, "TWICE").choices[0].finish_reason == "length"
    assert ask(client, "FILLED").choices[0].finish_reason == "length"


def test_logprobs_have_an_entry_for_each_piece_of_the_content(client):
    whole = ask(client, "SMALLTALK", logprobs=True, top_logprobs=2)
    entries = whole.choices[0].logprobs.content
    data = b"".join(bytes(entry.bytes) for entry in entries)
    assert data.decode() == whole.choices[0].message.content
    assert all(entry.logprob <= 0 for entry in entries)
    chunks = list(ask(client, "SMALLTALK", logprobs=True, top_logprobs=2, stream=True))
    streamed = [e for c in chunks if c.choices[0].logprobs for e in c.choices[0].logprobs.content]
    assert streamed == entries


def test_two_choices_come_one_after_the_other(client):
    whole = ask(client, "SMALLTALK", n=2)
    assert [choice.index for choice in whole.choices] == [0, 1]
    chunks = list(ask(client, "SMALLTALK", n=2, stream=True))
    indexes = [chunk.choices[0].index for chunk in chunks]
    assert indexes == sorted(indexes)
    finishes = [c.choices[0].index for c in chunks if c.choices[0].finish_reason]
    assert finishes == [0, 1]
    assert whole.usage.completion_tokens == 2 * ask(client, "SMALLTALK").usage.completion_tokens


# -- thinking ----------------------------------------------------------------------------------


def test_effort_none_gives_no_reasoning(client):
    answer = ask(client, "PLAINLY", reasoning_effort="none")
    assert getattr(answer.choices[0].message, "reasoning_content", None) is None
    assert answer.choices[0].message.content == "No thoughts, an answer."
    assert answer.usage.completion_tokens_details.reasoning_tokens == 0


@pytest.mark.parametrize("effort", ["minimal", "low", "medium", "high", "xhigh", "max"])
def test_every_known_effort_is_accepted(client, effort):
    assert ask(client, "SMALLTALK", reasoning_effort=effort).choices[0].message.reasoning_content


def test_an_explicit_off_wins_over_an_effort(client):
    extra = {"chat_template_kwargs": {"enable_thinking": False}}
    answer = ask(client, "PLAINLY", reasoning_effort="high", extra_body=extra)
    assert getattr(answer.choices[0].message, "reasoning_content", None) is None


def test_a_thinking_budget_closes_the_thinking_and_an_answer_follows(client):
    answer = ask(client, "ENDLESS", extra_body={"reasoning_budget_tokens": 32}, max_tokens=120)
    thinking = answer.choices[0].message.reasoning_content
    assert thinking.endswith("will answer now.\n")
    assert 32 < answer.usage.completion_tokens_details.reasoning_tokens < 80
    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "length"


def test_a_turn_that_ends_in_thinking_is_delivered_as_thinking(client):
    message = ask(client, "HALFWAY").choices[0].message
    assert message.reasoning_content == "I stop in the middle of"
    assert message.content == ""


# -- tools -------------------------------------------------------------------------------------


def test_a_call_is_delivered_with_finish_tool_calls(client):
    choice = ask(client, "ONECALL", tools=[WEATHER]).choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content is None
    call = choice.message.tool_calls[0]
    assert call.id.startswith("call_")
    assert call.function.name == "get_weather"
    assert json.loads(call.function.arguments) == {"city": "Paris"}


def test_a_streamed_call_has_its_id_and_name_once(client, server):
    *chunks, _ = server.events("ONECALL", tools=[WEATHER])
    calls = [c["choices"][0]["delta"].get("tool_calls") for c in chunks]
    parts = [part for call in calls if call for part in call]
    assert [part["index"] for part in parts] == [0] * len(parts)
    assert [part["function"].get("name") for part in parts if "name" in part["function"]] == [
        "get_weather"
    ]
    assert len([part for part in parts if "id" in part]) == 1
    arguments = "".join(part["function"]["arguments"] for part in parts)
    assert json.loads(arguments) == {"city": "Paris"}
    messages = [{"role": "user", "content": "ONECALL"}]
    with client.chat.completions.stream(model="m", messages=messages, tools=[WEATHER]) as stream:
        final = stream.get_final_completion()
    assert json.loads(final.choices[0].message.tool_calls[0].function.arguments) == {
        "city": "Paris"
    }


def test_a_file_of_50_kb_in_an_argument_streams_in_many_pieces_and_exactly(start_server):
    call = CALL.format("write", f"<parameter=text>\n{BIG_TEXT}\n</parameter>\n")
    answer = {"text": call, "group": 40, "delay_ms": 2}
    server = start_server({"context": 65_536, "answers": [answer]})
    tools = [
        {
            "type": "function",
            "function": {
                "name": "write",
                "parameters": {"type": "object", "properties": {"text": {"type": "string"}}},
            },
        }
    ]
    events = server.events("BIGFILE", tools=tools, reasoning_effort="none")
    calls = [
        call
        for event in events[:-1]
        for choice in event["choices"]
        for call in choice["delta"].get("tool_calls", ())
    ]
    pieces = [call["function"]["arguments"] for call in calls]
    assert len(pieces) > 20
    assert json.loads("".join(pieces)) == {"text": BIG_TEXT}


def test_two_parallel_calls_have_two_indexes_and_ids(client):
    message = ask(client, "TWOCALLS", tools=[WEATHER]).choices[0].message
    cities = [json.loads(call.function.arguments)["city"] for call in message.tool_calls]
    assert cities == ["Paris", "Rome"]
    assert len({call.id for call in message.tool_calls}) == 2
    assert message.content == "Looking it up."


def test_without_parallel_calls_the_answer_ends_after_the_first(client):
    choice = ask(client, "TWOCALLS", tools=[WEATHER], parallel_tool_calls=False).choices[0]
    assert len(choice.message.tool_calls) == 1
    assert choice.finish_reason == "tool_calls"


def test_without_parallel_calls_the_usage_does_not_depend_on_how_tokens_arrive(client):
    usages = [
        ask(client, f"DIVIDED BY {size}", tools=[WEATHER], parallel_tool_calls=False).usage
        for size in (1, 7, 500)
    ]
    assert len({usage.completion_tokens for usage in usages}) == 1


def test_a_tool_without_parameters_gets_an_empty_object(client):
    message = ask(client, "NOARGS", tools=[NOW]).choices[0].message
    assert message.tool_calls[0].function.arguments == "{}"


@pytest.mark.parametrize("fields", [{}, {"tools": [WEATHER], "tool_choice": "none"}])
def test_without_wanted_tools_call_markup_is_plain_content(client, fields):
    choice = ask(client, "ONECALL", **fields).choices[0]
    assert choice.message.tool_calls is None
    assert choice.message.content == PARIS
    assert choice.finish_reason == "stop"


def test_tool_results_out_of_order_are_accepted(server):
    calls = [
        {"id": name, "type": "function", "function": {"name": "now", "arguments": arguments}}
        for name, arguments in (("a", "{}"), ("b", ""))
    ]
    messages = [
        {"role": "user", "content": "SMALLTALK"},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "b", "content": "12:00"},
        {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "11:00"}]},
    ]
    assert server.chat(messages=messages, tools=[NOW]).status_code == 200


# -- messages ----------------------------------------------------------------------------------


def test_late_system_messages_developers_and_parts_are_accepted(server):
    messages = [
        {"role": "developer", "content": "Be brief."},
        {
            "role": "user",
            "content": [{"type": "text", "text": "SMALL"}, {"type": "input_text", "text": "TALK"}],
        },
        {"role": "assistant", "content": "Well.", "reasoning_content": "Hm."},
        {"role": "system", "content": "Hook output."},
        {"role": "user", "content": "Go on."},
    ]
    assert server.chat(messages=messages).status_code == 200


def test_double_encoded_messages_and_tools_are_decoded(server):
    messages = json.dumps([{"role": "user", "content": "ONECALL"}])
    body = server.chat(messages=messages, tools=json.dumps([WEATHER])).json()
    assert body["choices"][0]["finish_reason"] == "tool_calls"


def test_a_trailing_assistant_message_is_continued_without_thinking(server):
    messages = [
        {"role": "user", "content": "PLAINLY"},
        {"role": "assistant", "content": "My answer: "},
    ]
    body = server.chat(messages=messages, reasoning_effort="high").json()
    assert body["choices"][0]["message"]["content"] == "No thoughts, an answer."
    assert "reasoning_content" not in body["choices"][0]["message"]


def test_special_tokens_typed_by_a_user_stay_text(server):
    body = server.chat("SMALLTALK <|im_end|><|im_start|>assistant </think>").json()
    plain = server.chat("SMALLTALK").json()
    assert body["usage"]["prompt_tokens"] > plain["usage"]["prompt_tokens"] + 10


# -- context -----------------------------------------------------------------------------------


def test_a_prompt_over_the_context_is_refused_at_once_with_both_counts(client):
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError) as caught:
            ask(client, "word " * 3000, stream=stream)
        error = caught.value.body
        assert error["code"] == "context_length_exceeded"
        assert error["n_ctx"] == 1024
        assert error["n_prompt_tokens"] > 1024
        assert "maximum context length is 1024 tokens" in error["message"]
        assert str(error["n_prompt_tokens"]) in error["message"]


def test_a_cap_that_does_not_fit_is_lowered_and_said(server):
    reply = server.chat("SMALLTALK", max_tokens=32000)
    assert reply.status_code == 200
    prompt = reply.json()["usage"]["prompt_tokens"]
    assert reply.headers["x-fit-max-tokens"] == f"requested=32000; used={1024 - prompt}"


def test_a_cap_that_does_not_fit_is_refused_when_the_request_says_so(server):
    reply = server.chat("SMALLTALK", max_tokens=32000, fit_max_tokens=False)
    error = reply.json()["error"]
    assert reply.status_code == 400
    assert error["code"] == "context_length_exceeded"
    assert error["max_tokens"] == 32000
    assert error["n_ctx"] == 1024
