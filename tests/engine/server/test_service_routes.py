"""What a server tells about itself: props, slots, tokens, templates, models, status."""

import json

import pytest

from engine.text.template import ChatTemplate

ROUND_TRIP = "Grüße, 你好世界 🤔👩\u200d💻\r\n\tnaïve — «x»  \n\n<|im_end|>"
HELLO = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module")
def server(start_server):
    answers = [
        {"when": "slow", "text": "Hm.</think>\n\n" + "x " * 400, "delay_ms": 100, "times": 0},
        {"text": "Hm.</think>\n\nYes.", "times": 0},
    ]
    return start_server({"context": 3000, "answers": answers}, "--parallel", "2")


def post(server, path, **body):
    return server.http.post(path, json=body)


def test_tokens_and_back_gives_the_same_text(server):
    ids = post(server, "/tokenize", content=ROUND_TRIP).json()["tokens"]
    assert all(isinstance(token_id, int) for token_id in ids)
    assert post(server, "/detokenize", tokens=ids).json() == {"content": ROUND_TRIP}
    plain = post(server, "/tokenize", content=ROUND_TRIP, parse_special=False).json()["tokens"]
    assert len(plain) > len(ids)  # the tag is no token then
    assert post(server, "/detokenize", tokens=plain).json() == {"content": ROUND_TRIP}
    assert post(server, "/tokenize", content="").json() == {"tokens": []}


def test_pieces_are_text_or_bytes_where_they_are_no_whole_character(server):
    reply = post(server, "/tokenize", content="a🤔", with_pieces=True).json()["tokens"]
    ids = post(server, "/tokenize", content="a🤔").json()["tokens"]
    assert [token["id"] for token in reply] == ids
    data = b"".join(
        piece.encode() if isinstance(piece := token["piece"], str) else bytes(piece)
        for token in reply
    )
    assert data == "a🤔".encode()
    assert any(isinstance(token["piece"], list) for token in reply)


@pytest.mark.parametrize(
    ("path", "body", "code", "param"),
    [
        ("/tokenize", {}, "missing_required_parameter", "content"),
        ("/tokenize", {"content": 5}, "invalid_type", "content"),
        ("/detokenize", {}, "missing_required_parameter", "tokens"),
        ("/detokenize", {"tokens": "x"}, "invalid_type", "tokens"),
        ("/detokenize", {"tokens": [1, -1]}, "invalid_value", "tokens[1]"),
        ("/detokenize", {"tokens": [True]}, "invalid_type", "tokens[0]"),
        ("/apply-template", {}, "missing_required_parameter", "messages"),
        ("/apply-template", {"messages": [{"role": "x"}]}, "invalid_value", "messages[0].role"),
    ],
)
def test_a_bad_body_is_named(server, path, body, code, param):
    reply = post(server, path, **body)
    assert reply.status_code == 400
    error = reply.json()["error"]
    assert (error["code"], error["param"]) == (code, param)


def test_a_template_is_applied_as_it_is_for_a_chat(server):
    applied = post(server, "/apply-template", messages=HELLO).json()
    assert "hello" in applied["prompt"]
    assert applied["prompt"].endswith("<think>\n")
    assert applied["n_tokens"] == server.chat().json()["usage"]["prompt_tokens"]
    continued = [*HELLO, {"role": "assistant", "content": "Well, <think>"}]
    assert (
        post(server, "/apply-template", messages=continued)
        .json()["prompt"]
        .endswith("Well, <think>")
    )


def test_props_tell_the_context_the_defaults_and_the_template(start_server, server):
    props = server.http.get("/props").json()
    settings = props["default_generation_settings"]
    assert settings["n_ctx"] == 3000
    assert settings["params"]["temperature"] == 1.0
    assert settings["params"]["top_p"] == 0.95
    assert settings["params"]["n_predict"] == -1
    assert props["total_slots"] == 2
    assert props["model_path"].endswith(".gguf")
    assert "/" not in props["model_path"]
    ChatTemplate(props["chat_template"])
    assert props["modalities"]["vision"] is False
    assert props["reasoning"] == {"levels": ["none", "low", "medium", "high"], "default": "high"}
    assert props["is_sleeping"] is False
    other = start_server(
        {"answers": []},
        *("--default-reasoning-effort", "none", "--sampling", '{"top_k": 7}'),
    )
    params = other.http.get("/props").json()["default_generation_settings"]["params"]
    assert (params["temperature"], params["presence_penalty"], params["top_k"]) == (0.7, 1.5, 7)


def test_slots_tell_who_runs_and_never_a_text(server):
    server.wait_idle()
    idle = {"n_ctx": 3000, "is_processing": False, "n_past": 0, "request_id": None}
    assert server.http.get("/slots").json() == [{"id": 0, **idle}, {"id": 1, **idle}]
    first, second = (server.raw_chat("slow", stream=True) for _ in range(2))
    server.wait_for(lambda status: sum(r["generated"] > 0 for r in status["requests"]) == 2)
    slots = server.http.get("/slots").json()
    running = {request["request_id"] for request in server.status()["requests"]}
    assert {slot["request_id"] for slot in slots} == running
    assert all(slot["is_processing"] and slot["n_past"] > 0 for slot in slots)
    first.close()
    server.wait_for(lambda status: len(status["requests"]) == 1)
    assert sorted(slot["is_processing"] for slot in server.http.get("/slots").json()) == [
        False,
        True,
    ]
    second.close()
    server.wait_idle()


def test_the_model_list_has_what_both_sdks_and_codex_read(server):
    body = server.http.get("/v1/models?client_version=0.5").json()
    assert body["models"] == []
    assert "models" not in server.http.get("/v1/models").json()
    entry = body["data"][0]
    for key in (
        *("id", "object", "created", "owned_by", "type", "display_name", "created_at"),
        *("lifecycle", "max_input_tokens", "max_tokens", "context_length", "meta", "status"),
        *("architecture", "aliases"),
    ):
        assert key in entry, key
    assert body["first_id"] == body["last_id"] == entry["id"]
    with server.openai() as client:
        assert client.models.retrieve(entry["id"]).id == entry["id"]


def test_the_status_tells_what_goes_on_without_any_text(server):
    status = server.status()
    for key in (
        *("state", "loading", "error", "instance", "loaded", "queued", "running", "last_timings"),
        *("uptime_s", "idle_unload_s", "structured_output", "limits", "auto_load"),
    ):
        assert key in status, key
    assert {"body_mib", "queue_max", "n_ctx"} <= set(status["limits"])
    stream = server.raw_chat("slow", stream=True)
    status = server.wait_for(lambda s: s["state"] == "answering")
    assert set(status["running"]) == {
        *("request_id", "protocol", "prompt_tokens", "prompt_read", "cached_tokens"),
        *("generated", "max_tokens", "elapsed_s", "tokens_per_s"),
    }
    stream.close()
    server.wait_idle()


def test_the_status_remembers_the_last_requests_without_any_text(start_server):
    server = start_server({"answers": [{"text": "Hm.</think>\n\nYes.", "times": 0}]})
    for number in range(22):
        assert server.chat(f"question-{number}").status_code == 200
    recent = server.wait_idle()["recent"]
    assert len(recent) == 20
    assert recent[0]["ended_at"] >= recent[-1]["ended_at"]
    newest = recent[0]
    assert newest["finish"] == "stop"
    assert newest["prompt_tokens"] > 0
    assert newest["generated"] > 0
    assert newest["elapsed_s"] >= newest["first_token_s"] >= newest["waited_s"] >= 0
    assert "question" not in json.dumps(recent)


def test_a_request_that_has_its_turn_is_not_listed_as_waiting_too(start_server):
    answers = [{"text": "Hm.</think>\n\nYes.", "times": 0}]
    loading = {"load": {"delay_ms": 60_000, "steps": 60}, "answers": answers}
    server = start_server(loading, "--parallel", "1", wait=False)
    with server.raw_chat("first", stream=True):
        status = server.wait_for(lambda s: s["running"])
        assert status["state"] == "loading"
        assert (status["queued"], status["waiting"]) == (0, [])
        first_id = status["running"]["request_id"]
        with server.raw_chat("second", stream=True):
            status = server.wait_for(lambda s: s["queued"])
            assert status["running"]["request_id"] == first_id
            (waiting,) = status["waiting"]
            assert waiting["request_id"] != first_id
            assert waiting["position"] == 1


def test_the_root_answers_get_and_head(server):
    for method in ("GET", "HEAD"):
        reply = server.http.request(method, "/")
        assert reply.status_code == 200
    assert reply.content == b""
