"""`/v1/completions` with the OpenAI SDK: a scripted worker, and the bundled model."""

import openai
import pytest

TEXT = "\n<think>it is\n</think>\n\nParis, and <tool_call>not</tool_call> Rome."


@pytest.fixture(scope="module")
def server(start_server):
    return start_server({"context": 1000, "answers": [{"text": TEXT, "times": 0}]})


@pytest.fixture(scope="module")
def real(start_server):
    return start_server(None)


def complete(server, **fields):
    fields = {"model": "m", "prompt": "The capital of France is", "max_tokens": 100, **fields}
    return server.openai().completions.create(**fields)


def test_the_text_comes_raw_and_whole_and_streamed_alike(server):
    whole = complete(server)
    assert whole.object == "text_completion"
    assert whole.id.startswith("cmpl-")
    assert whole.system_fingerprint == "fp_scripted"
    choice = whole.choices[0]
    assert (choice.text, choice.finish_reason, choice.logprobs) == (TEXT, "stop", None)
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens
    chunks = list(complete(server, stream=True, stream_options={"include_usage": True}))
    assert "".join(chunk.choices[0].text for chunk in chunks[:-1]) == TEXT
    assert [chunk.choices[0].finish_reason for chunk in chunks[:-1]][-1] == "stop"
    assert chunks[-1].choices == []
    assert chunks[-1].usage == whole.usage
    assert all(chunk.usage is None for chunk in chunks[:-1])
    plain = list(complete(server, stream=True))
    assert all(chunk.choices for chunk in plain)


def test_a_prompt_is_text_with_special_tokens_or_ids_or_one_of_these_in_a_list(server):
    text = "<|im_start|>user\nhello"
    ids = server.http.post("/tokenize", json={"content": text}).json()["tokens"]
    counts = {
        complete(server, prompt=prompt).usage.prompt_tokens for prompt in (text, [text], ids, [ids])
    }
    assert counts == {len(ids)}


def test_sixteen_tokens_are_the_default_and_a_stop_string_ends_the_text(server):
    body = {"prompt": "x"}
    reply = server.http.post("/v1/completions", json=body).json()
    assert reply["usage"]["completion_tokens"] == 16
    assert reply["choices"][0]["finish_reason"] == "length"
    stopped = complete(server, stop=["and"]).choices[0]
    assert (stopped.text, stopped.finish_reason) == (TEXT.partition("and")[0], "stop")


def test_several_choices_follow_each_other(server):
    assert [choice.index for choice in complete(server, n=2).choices] == [0, 1]
    finishes = [
        chunk.choices[0].index
        for chunk in complete(server, n=2, stream=True)
        if chunk.choices[0].finish_reason
    ]
    assert finishes == [0, 1]


def test_logprobs_have_the_old_shape(server):
    logprobs = complete(server, logprobs=3).choices[0].logprobs
    assert "".join(logprobs.tokens) == TEXT
    assert logprobs.token_logprobs == [-0.5] * len(logprobs.tokens)
    assert {len(top) for top in logprobs.top_logprobs} == {3}
    assert logprobs.text_offset == [
        len("".join(logprobs.tokens[:index])) for index in range(len(logprobs.tokens))
    ]
    streamed = [
        token
        for chunk in complete(server, logprobs=0, stream=True)
        for token in chunk.choices[0].logprobs.tokens
    ]
    assert streamed == logprobs.tokens


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"prompt": None}, "missing_required_parameter", "prompt"),
        ({"prompt": 5}, "invalid_type", "prompt"),
        ({"prompt": ""}, "invalid_value", "prompt"),
        ({"prompt": []}, "invalid_value", "prompt"),
        ({"prompt": ["a", "b"]}, "unsupported_value", "prompt"),
        ({"prompt": [[1], [2]]}, "unsupported_value", "prompt"),
        ({"prompt": [1, 10_000_000]}, "invalid_value", "prompt[1]"),
        ({"prompt": [[1, "x"]]}, "invalid_type", "prompt[0][1]"),
        ({"echo": True}, "unsupported_parameter", "echo"),
        ({"suffix": "x"}, "unsupported_parameter", "suffix"),
        ({"best_of": 2}, "unsupported_value", "best_of"),
        ({"logprobs": 6}, "invalid_value", "logprobs"),
        ({"max_tokens": 0}, "invalid_value", "max_tokens"),
        ({"n": 5}, "invalid_value", "n"),
        ({"response_format": {"type": "json_object"}}, "unsupported_parameter", "response_format"),
        ({"guided_regex": "a+"}, "unsupported_parameter", "guided_regex"),
        ({"structured_outputs": {"regex": "a+"}}, "unsupported_parameter", "structured_outputs"),
    ],
)
def test_a_bad_field_is_named(server, fields, code, param):
    reply = server.http.post("/v1/completions", json={"prompt": "x", **fields})
    assert reply.status_code == 400
    error = reply.json()["error"]
    assert (error["code"], error["param"]) == (code, param)


def test_a_prompt_over_the_context_is_refused_with_both_counts(server):
    with pytest.raises(openai.BadRequestError) as caught:
        complete(server, prompt=[5] * 1000)
    assert caught.value.code == "context_length_exceeded"
    assert "maximum context length is 1000 tokens" in caught.value.message
    assert caught.value.body["n_prompt_tokens"] == 1000


def test_the_bundled_model_goes_on_with_a_text(real):
    whole = complete(real, temperature=0, max_tokens=8)
    assert whole.choices[0].text
    chunks = list(complete(real, temperature=0, max_tokens=8, stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks) == whole.choices[0].text
