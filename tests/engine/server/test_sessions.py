"""Conversations stay warm: real server, real worker, the bundled model, the SDKs."""

import threading

import anthropic
import pytest

SYSTEM = "You answer in short sentences and you like the sea. " * 12
GREEDY = {"temperature": 0, "max_tokens": 24}


@pytest.fixture(scope="module")
def server(start_server):
    return start_server(None, "--context", "4096", "--threads", "1")


@pytest.fixture(scope="module")
def without(start_server):
    flags = ("--context", "4096", "--threads", "1", "--session-cache-mib", "0")
    return start_server(None, *flags)


def ask(server, messages, **fields):
    reply = server.chat(messages=messages, **{**GREEDY, **fields})
    assert reply.status_code == 200, reply.text
    return reply.json()


def cached(answer):
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def covered(answer):
    """Tokens after this turn that the next one need not read: all but the one sampled last."""
    return answer["usage"]["prompt_tokens"] + answer["usage"]["completion_tokens"] - 1


def opening(text, system=SYSTEM):
    return [{"role": "system", "content": system}, {"role": "user", "content": text}]


def back(answer, *, keep_thinking=True):
    """The answer as a client sends it back."""
    message = answer["choices"][0]["message"]
    kept = {"role": "assistant", "content": message["content"]}
    if keep_thinking and message.get("reasoning_content"):
        kept["reasoning_content"] = message["reasoning_content"]
    if message.get("tool_calls"):
        kept["tool_calls"] = message["tool_calls"]
    return kept


@pytest.mark.parametrize("effort", ["none", "high"])
def test_two_conversations_alternate_and_read_only_what_is_new(server, without, effort):
    chats = [opening(f"Tell me about cats, {effort}."), opening(f"What is a boat, {effort}?")]
    known = [0, 0]
    for turn in range(5):
        for index, messages in enumerate(chats):
            answer = ask(server, messages, reasoning_effort=effort)
            cold = ask(without, messages, reasoning_effort=effort)
            assert answer["choices"][0]["message"] == cold["choices"][0]["message"]
            assert cached(cold) == 0
            if turn:
                assert cached(answer) >= known[index]
            known[index] = covered(answer)
            messages += [back(answer), {"role": "user", "content": f"Go on, part {turn}."}]


def test_a_new_chat_reads_the_shared_system_turn_not_again(server):
    first = ask(server, opening("One.", SYSTEM + "Shared."), reasoning_effort="none")
    second = ask(server, opening("Two, please.", SYSTEM + "Shared."), reasoning_effort="none")
    assert cached(second) >= first["usage"]["prompt_tokens"] - 20


def test_the_same_request_twice_gives_the_same_text_and_is_cached(server):
    messages = opening("Say it twice.")
    once, twice = (ask(server, messages, reasoning_effort="medium") for _ in range(2))
    assert once["choices"][0]["message"] == twice["choices"][0]["message"]
    assert cached(twice) >= once["usage"]["prompt_tokens"] - 8


def test_thinking_that_comes_back_or_is_dropped_finds_the_deepest_common_beginning(server):
    messages = opening("Think about two and two.")
    first = ask(server, messages, reasoning_effort="high", max_tokens=200)
    turn = {"role": "user", "content": "And three?"}
    kept = ask(server, [*messages, back(first), turn], reasoning_effort="high")
    assert cached(kept) >= covered(first) - 1
    dropped = ask(
        server, [*messages, back(first, keep_thinking=False), turn], reasoning_effort="high"
    )
    prompt_tokens = first["usage"]["prompt_tokens"]
    assert prompt_tokens - 8 <= cached(dropped) <= prompt_tokens
    not_preserved = ask(
        server,
        [*messages, back(first), turn],
        reasoning_effort="high",
        chat_template_kwargs={"preserve_thinking": False},
    )
    assert prompt_tokens - 8 <= cached(not_preserved) <= prompt_tokens


def test_switching_the_thinking_level_keeps_both_branches_warm(server):
    messages = opening("Which level is this?")
    prompts = {}
    for effort in ("high", "none", "high", "none"):
        answer = ask(server, messages, reasoning_effort=effort)
        seen = effort in prompts
        prompts[effort] = answer["usage"]["prompt_tokens"]
        if seen:
            assert cached(answer) >= prompts[effort] - 8
    # the level's sentence stands at the very start: nothing of one branch serves the other
    assert prompts["high"] != prompts["none"]


def test_an_edited_answer_is_what_the_client_says(server, without):
    messages = opening("Name an animal.")
    first = ask(server, messages, reasoning_effort="none")
    for content in ("A  quite other answer.", first["choices"][0]["message"]["content"] + " x"):
        edited = [
            *messages,
            {"role": "assistant", "content": content},
            {"role": "user", "content": "Why?"},
        ]
        warm, cold = (ask(s, edited, reasoning_effort="none") for s in (server, without))
        assert warm["usage"]["prompt_tokens"] == cold["usage"]["prompt_tokens"]
        assert warm["choices"][0]["message"] == cold["choices"][0]["message"]
        # An answer that ended by itself was read whole: the token sampled last was its end.
        assert cached(warm) <= covered(first) + 1


def test_an_answer_that_was_begun_by_the_client_comes_back_whole(server):
    begun = {"role": "assistant", "content": "Once upon a"}
    messages = opening("Tell a story.")
    first = ask(server, [*messages, begun])
    whole = begun["content"] + first["choices"][0]["message"]["content"]
    turn = {"role": "user", "content": "And then?"}
    second = ask(
        server,
        [*messages, {"role": "assistant", "content": whole}, turn],
        reasoning_effort="none",
    )
    assert cached(second) >= covered(first)


def test_tool_calls_that_come_back_do_not_lose_the_conversation(server):
    tool = {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {
                "type": "object",
                "properties": {"city": {"enum": ["Rome", "Oslo"]}, "days": {"enum": [1, 3]}},
                "required": ["city", "days"],
            },
        },
    }
    fields = {"tools": [tool], "reasoning_effort": "none"}
    messages = opening("The weather in Rome for 3 days?")
    first = ask(server, messages, tool_choice="required", **{**fields, "max_tokens": 120})
    call = first["choices"][0]["message"]["tool_calls"][0]
    messages += [
        back(first),
        {"role": "tool", "tool_call_id": call["id"], "content": "sunny"},
    ]
    second = ask(server, messages, **fields)
    assert cached(second) >= covered(first) - 1


def test_several_choices_read_the_prompt_once(server):
    answer = ask(server, opening("Choose."), n=3, temperature=1, seed=3, reasoning_effort="none")
    assert len(answer["choices"]) == 3
    again = ask(server, opening("Choose."), reasoning_effort="none")
    assert cached(again) >= again["usage"]["prompt_tokens"] - 8


def test_a_long_prefix_twice_is_cached_with_the_openai_sdk(server):
    text = "a line of a long report about ships and the weather\n" * 150
    prompts = [f"{text}What does it say, {word}?" for word in ("first", "second")]
    counts = []
    with server.openai() as client:
        for prompt in prompts:
            answer = client.chat.completions.create(
                model="m",
                messages=[{"role": "user", "content": prompt}],
                max_tokens=2,
                reasoning_effort="none",
            )
            counts.append(answer.usage.prompt_tokens_details.cached_tokens)
    assert counts[0] == 0
    assert counts[1] > 1000


def test_claude_codes_billing_line_does_not_spoil_the_cache_with_the_anthropic_sdk(server):
    with anthropic.Anthropic(base_url=server.url, api_key="local", max_retries=0) as client:
        usages = []
        for number in range(3):
            answer = client.messages.create(
                model="claude",
                max_tokens=8,
                system=[
                    {"type": "text", "text": f"x-anthropic-billing-header: cch={number * 7919:x};"},
                    {"type": "text", "text": SYSTEM + "You are an agent."},
                ],
                messages=[{"role": "user", "content": "hello"}],
            )
            usages.append(answer.usage)
    for usage in usages[1:]:
        total = usage.input_tokens + usage.cache_read_input_tokens
        assert usage.cache_read_input_tokens > 0.9 * total


def test_the_responses_protocol_tells_what_was_cached_with_the_openai_sdk(server):
    with server.openai() as client:
        first, second = (
            client.responses.create(
                model="m", input="Tell me of the sea.", instructions=SYSTEM, max_output_tokens=8
            ).usage
            for _ in range(2)
        )
    assert second.input_tokens == first.input_tokens
    assert second.input_tokens_details.cached_tokens >= first.input_tokens - 8


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_conversations_of_20000_tokens_alternate(start_server):
    flags = ("--context", "24576", "--threads", "1")
    warm_server = start_server(None, *flags)
    cold_server = start_server(None, *flags, "--session-cache-mib", "0")
    for one in (warm_server, cold_server):
        one.http.timeout = 300
    line = "in the year {} a ship with {} men went from the north to the south of the sea\n"
    chats = [
        opening("".join(line.format(year, men) for year in range(800)) + "Well?", f"No. {men}.")
        for men in (12, 34)
    ]
    known = [0, 0]
    for turn in range(5):
        for index, messages in enumerate(chats):
            answer = ask(warm_server, messages, reasoning_effort="none")
            assert answer["usage"]["prompt_tokens"] > 18_000
            if turn:
                assert cached(answer) >= known[index]
            if turn in {0, 4}:
                cold = ask(cold_server, messages, reasoning_effort="none")
                assert answer["choices"][0]["message"] == cold["choices"][0]["message"]
            known[index] = covered(answer)
            # A question that the model knows: at a loss it may write a control token,
            # and that token's text, sent back, is read as other tokens.
            messages += [back(answer), {"role": "user", "content": "Who are you?"}]


def test_a_cancelled_prompt_goes_on_where_it_was_left(server):
    text = "so many words that reading them takes a good while and longer " * 250
    body = {"messages": [{"role": "user", "content": text}], **GREEDY, "reasoning_effort": "none"}
    connection = server.raw_chat(text, stream=True, **GREEDY, reasoning_effort="none")
    status = server.wait_for(lambda s: s["running"] and s["running"]["prompt_read"] >= 256)
    assert status["running"]["prompt_read"] < status["running"]["prompt_tokens"]
    connection.close()
    server.wait_idle()
    answer = server.http.post("/v1/chat/completions", json=body).json()
    assert 256 <= cached(answer) < answer["usage"]["prompt_tokens"] - 100


def test_a_small_budget_keeps_the_newest_and_never_fails(start_server):
    server = start_server(
        None, "--context", "1024", "--threads", "1", "--session-cache-mib", "2", "--parallel", "1"
    )
    chats = [opening(f"Conversation {number}.", f"You are number {number}.") for number in range(8)]
    for messages in chats:
        answer = ask(server, messages, reasoning_effort="none")
        messages += [back(answer), {"role": "user", "content": "Go on."}]
    newest = ask(server, chats[-1], reasoning_effort="none")
    assert cached(newest) > 0
    oldest = ask(server, chats[0], reasoning_effort="none")
    assert cached(oldest) == 0
    warm = server.status()["warm"]
    assert 0 < warm["sessions"] < 8


def test_requests_at_once_get_what_they_get_alone(server, without):
    chats = [opening(f"Number {number} is a nice number.") for number in range(6)]
    answers = {}

    def run(index):
        answers[index] = ask(server, chats[index], reasoning_effort="none")

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(chats))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for index, messages in enumerate(chats):
        alone = ask(without, messages, reasoning_effort="none")
        assert answers[index]["choices"][0]["message"] == alone["choices"][0]["message"]


def test_figures_are_shown_without_a_word_of_the_conversations(server):
    ask(server, opening("A word: zanzibar."), reasoning_effort="none")
    warm = server.status()["warm"]
    assert warm["sessions"] >= 1
    assert warm["tokens"] > 100
    assert warm["bytes"] > 1_000_000
    metrics = server.http.get("/metrics").text
    assert f"llm_sessions_warm {warm['sessions']}" in metrics
    assert "zanzibar" not in metrics
    assert "zanzibar" not in server.http.get("/status").text
