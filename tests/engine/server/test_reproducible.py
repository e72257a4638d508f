"""What an answer depends on: nothing but its request. Not on warm states, drafts, threads or company."""

import threading

import pytest

STORY = "The river is cold and the house is small. What does the word {} mean to {} people? "


@pytest.fixture(scope="module")
def servers(start_server):
    flags = ("--context", "4096", "--reproducible")
    warm = start_server(None, *flags, "--threads", "1")
    plain = (
        "--no-spec-lookup",
        "--spec-mtp",
        "0",
        "--session-cache-mib",
        "0",
        "--prompt-chunk",
        "64",
    )
    return warm, start_server(None, *flags, "--threads", "2", *plain)


def answer(server, messages):
    """The text, and each token with its exact log probability."""
    reply = server.chat(
        messages=messages,
        **{"temperature": 0, "max_tokens": 24, "reasoning_effort": "none"},
        **{"logprobs": True, "top_logprobs": 3},
    ).json()
    choice = reply["choices"][0]
    return choice["message"]["content"], choice["logprobs"]["content"], reply["usage"]


def test_the_same_request_gets_the_same_bits_whatever_else_the_server_does(servers):
    warm, plain = servers
    is_over = threading.Event()

    def keep_busy():
        number = 0
        while not is_over.is_set():
            number += 1
            warm.chat(STORY.format("honey", number) * (number % 5 + 1), max_tokens=20)

    company = threading.Thread(target=keep_busy)
    company.start()
    try:
        for word in ("river", "house"):
            messages = [{"role": "user", "content": STORY.format(word, "old") * 12}]
            for _ in range(3):
                text, tokens, usage = answer(warm, messages)
                assert (text, tokens) == answer(warm, messages)[:2]
                assert (text, tokens) == answer(plain, messages)[:2]
                messages.append({"role": "assistant", "content": text})
                messages.append({"role": "user", "content": STORY.format(word, "two")})
            assert usage["prompt_tokens_details"]["cached_tokens"] > 200
    finally:
        is_over.set()
        company.join()
