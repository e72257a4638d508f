"""The whole way with the bundled model: server, worker, real logits, the openai SDK."""

import threading

import psutil
import pytest

from engine.core.config import BUNDLED_MODEL
from engine.core.gguf_header import read_model_header
from engine.text.tokenizer import Tokenizer

STORY = "Tell me a story about a cat."


@pytest.fixture(scope="module")
def server(start_server):
    flags = ("--context", "2048", "--threads", "1", "--prompt-chunk", "64")
    return start_server(None, *flags, "--repeat-stop-tokens", "0")


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.from_metadata(read_model_header(BUNDLED_MODEL).metadata)


@pytest.fixture(scope="module")
def client(server):
    with server.openai() as client:
        yield client


def ask(client, content=STORY, **fields):
    messages = [{"role": "user", "content": content}]
    fields = {"max_tokens": 60, **fields}
    return client.chat.completions.create(model="m", messages=messages, **fields)


def texts(answer):
    message = answer.choices[0].message
    return getattr(message, "reasoning_content", None) or "", message.content


def streamed_texts(chunks):
    deltas = [choice.delta for chunk in chunks for choice in chunk.choices]
    return tuple(
        "".join(getattr(delta, key, None) or "" for delta in deltas)
        for key in ("reasoning_content", "content")
    )


@pytest.mark.parametrize("effort", ["none", "low", "medium", "high"])
def test_streamed_and_whole_answers_have_equal_texts(client, effort):
    options = {"temperature": 0, "reasoning_effort": effort}
    whole = ask(client, **options)
    chunks = list(ask(client, stream=True, stream_options={"include_usage": True}, **options))
    assert streamed_texts(chunks) == texts(whole)
    assert "".join(texts(whole))
    usage = chunks[-1].usage
    assert usage.prompt_tokens_details.cached_tokens > 0  # it was asked before
    usage.prompt_tokens_details = whole.usage.prompt_tokens_details
    assert usage == whole.usage
    assert (effort == "none") == (whole.usage.completion_tokens_details.reasoning_tokens == 0)


def test_a_seed_reproduces_a_sampled_answer_and_another_one_does_not(client):
    free = {"temperature": 2, "max_tokens": 30, "extra_body": {"top_k": 0}}
    first, again, *others = (ask(client, seed=seed, **free) for seed in (7, 7, 8, 9, 10))
    assert texts(first) == texts(again)
    assert any(texts(other) != texts(first) for other in others)
    assert first.system_fingerprint == others[0].system_fingerprint


def test_two_choices_are_those_of_the_two_seeds(client):
    both = ask(client, n=2, seed=7, max_tokens=20, reasoning_effort="none")
    for choice, seed in zip(both.choices, (7, 8), strict=True):
        alone = ask(client, seed=seed, max_tokens=20, reasoning_effort="none")
        assert choice.message.content == alone.choices[0].message.content


def test_logprobs_of_a_real_model_are_sorted_and_join_to_the_content(client):
    answer = ask(
        client,
        **{"temperature": 0, "presence_penalty": 0, "reasoning_effort": "none"},
        **{"logprobs": True, "top_logprobs": 5, "max_tokens": 12},
    )
    entries = answer.choices[0].logprobs.content
    assert b"".join(bytes(entry.bytes) for entry in entries).decode() == texts(answer)[1]
    for entry in entries:
        tops = [top.logprob for top in entry.top_logprobs]
        assert tops == sorted(tops, reverse=True)
        assert len(tops) == 5
        assert entry.logprob <= 0
        assert entry.logprob == tops[0]  # greedy


def test_a_biased_token_never_occurs(client, tokenizer):
    options = {"temperature": 0, "reasoning_effort": "none", "max_tokens": 8, "logprobs": True}
    entry = ask(client, **options).choices[0].logprobs.content[0]
    token_id = tokenizer.encode(bytes(entry.bytes).decode())[0]
    biased = ask(client, logit_bias={str(token_id): -100}, **options)
    assert entry.token not in [e.token for e in biased.choices[0].logprobs.content]


def test_several_clients_at_once_get_what_each_gets_alone(client):
    contents = ["a cat", "the sea", "a king", "an apple"]
    options = {"temperature": 0, "reasoning_effort": "none", "max_tokens": 30}
    alone = [texts(ask(client, content, **options)) for content in contents]
    together = [None] * len(contents)

    def work(index):
        together[index] = texts(ask(client, contents[index], **options))

    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(contents))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone


def test_a_client_that_goes_away_while_its_prompt_is_read_blocks_nobody(server):
    connection = server.raw_chat("word " * 1500, stream=False)
    server.wait_for(lambda s: s["running"] is not None)
    connection.close()
    server.wait_idle()
    assert server.chat(STORY, max_tokens=4).status_code == 200


def test_a_worker_killed_in_mid_answer_ends_the_stream_with_an_error_event(server, tokenizer):
    never_ends = {str(token_id): -100 for token_id in tokenizer.eos_ids}
    connection = server.raw_chat(STORY, stream=True, logit_bias=never_ends)
    server.wait_for(lambda s: (s["running"] or {}).get("generated", 0) > 3)
    for child in psutil.Process(server.process.pid).children():
        child.kill()
    received = b""
    while part := connection.recv(65536):
        received += part
        if b"[DONE]" in received:
            break
    connection.close()
    assert b'"code":"engine_failed"' in received
    assert server.chat(STORY, max_tokens=4).status_code == 200
