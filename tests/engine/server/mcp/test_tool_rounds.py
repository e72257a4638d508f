"""MCP tools in a chat: real MCP servers over stdio and HTTP, real HTTP, a scripted model."""

import contextlib
import socket
import sys
import threading
import time

import httpx
import pytest
import uvicorn

from tests.support import mcp_tools
from tests.support.mcp_rounds import (
    HEADER_SECRET,
    OWN,
    PATIENCE_S,
    SECRET,
    TOOLS,
    URL_SECRET,
    content_of,
    listed,
    mcp_events,
    near,
    start,
    whole,
)


@pytest.fixture(scope="module")
def remote():
    """A Streamable HTTP server in a thread: its port, and the headers that came."""
    seen = []
    app = mcp_tools.make_server("remote").streamable_http_app()

    async def noting(scope, receive, send):
        if scope["type"] == "http":
            seen.append(dict(scope["headers"]))
        await app(scope, receive, send)

    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(noting, log_config=None, lifespan="on"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    yield listener.getsockname()[1], seen
    server.should_exit = True
    thread.join(PATIENCE_S)
    listener.close()


@pytest.fixture(scope="module")
def server(start_server, remote, marks):
    port, _seen = remote
    servers = {
        "near": near(marks),
        "far away": {
            "url": f"http://127.0.0.1:{port}/mcp?token={URL_SECRET}",
            "headers": {"Authorization": f"Bearer {HEADER_SECRET}"},
        },
        "far from well": {"command": sys.executable, "args": [TOOLS]},
        "broken": {
            "command": sys.executable,
            "args": ["-c", f"import sys; sys.exit('no: {SECRET}')"],
            "env": {"K": SECRET},
        },
        "missing": {"command": "no-such-program-at-all"},
        "off": {"command": "never", "disabled": True},
    }
    return start(start_server, servers)


# -- what is configured --------------------------------------------------------------------------


def test_the_list_names_servers_states_and_tools_and_no_secret(server):
    by_name = {entry["name"]: entry for entry in listed(server)}
    assert by_name["near"]["status"] == by_name["far away"]["status"] == "ready"
    assert (by_name["near"]["transport"], by_name["far away"]["transport"]) == ("stdio", "http")
    assert by_name["broken"]["status"] == by_name["missing"]["status"] == "failed"
    assert "no-such-program-at-all" in by_name["missing"]["error"]
    assert "no: ***" in by_name["broken"]["error"]
    assert by_name["off"]["status"] == "disabled"
    tools = {tool["name"]: tool for tool in by_name["far away"]["tools"]}
    assert tools["far_away__add"]["description"] == "Add two numbers."
    assert not tools["far_away__add"]["needs_consent"]
    assert tools["far_away__write"]["needs_consent"]
    raw = server.http.get("/mcp").text
    for secret in (SECRET, HEADER_SECRET, URL_SECRET, "mcp_tools.py", "TOOL_KEY"):
        assert secret not in raw


def test_posting_to_mcp_is_405(server):
    reply = server.http.post("/mcp", json={})
    assert reply.status_code == 405
    assert reply.json()["error"]["code"] == "method_not_allowed"
    assert "GET" in reply.headers["allow"]


# -- rounds --------------------------------------------------------------------------------------


def test_a_tool_is_run_and_the_answer_goes_on_with_its_result(server):
    body, choice = whole(server, "ADDNEAR")
    assert choice["message"]["content"] == "Let me see.\n\nThe sum is seven."
    assert choice["message"]["reasoning_content"] == "I add."
    assert choice["finish_reason"] == "stop"
    assert "tool_calls" not in choice["message"]
    phases = [event["phase"] for event in body["mcp_events"]]
    assert phases == ["start", "call", "result"]
    called, result = body["mcp_events"][1:]
    assert (called["server"], called["tool"]) == ("near", "add")
    assert called["arguments"] == {"a": 3, "b": 4}
    assert result["content"] == "SUMIS7"
    assert not result["is_error"]
    assert called["id"] == result["id"]
    usage = body["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


def test_streamed_and_whole_answers_with_tools_are_the_same(server):
    events = server.events("ADDNEAR", stratum_mcp=["near"], stream_options={"include_usage": True})
    assert events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert content_of(events) == "Let me see.\n\nThe sum is seven."
    assert [event["phase"] for event in mcp_events(events)] == ["start", "call", "result"]
    carriers = [event for event in events if "mcp_event" in event]
    assert all(event["choices"][0]["delta"] == {} for event in carriers)
    finishes = [
        choice["finish_reason"]
        for event in events[:-1]
        for choice in event["choices"]
        if choice["finish_reason"]
    ]
    assert finishes == ["stop"]
    body, _ = whole(server, "ADDNEAR")
    assert events[-2]["usage"]["completion_tokens"] == body["usage"]["completion_tokens"]
    assert events[-1] == "[DONE]"


def test_a_tool_of_an_http_server_is_run_with_the_configured_headers(server, remote):
    _port, seen = remote
    _, choice = whole(server, "ADDFAR")
    assert choice["message"]["content"] == "The remote sum is nine."
    assert seen[-1][b"authorization"] == f"Bearer {HEADER_SECRET}".encode()


def test_the_configured_environment_reaches_the_program(server):
    _, choice = whole(server, "KEYED")
    assert choice["message"]["content"] == "The key is there."


def test_a_failing_tool_is_a_result_that_says_so(server):
    body, choice = whole(server, "FAILIT")
    assert choice["message"]["content"] == "The tool failed."
    result = body["mcp_events"][-1]
    assert result["is_error"]
    assert result["content"].startswith("error: ")


def test_a_huge_result_is_cut_with_a_note_to_the_model(server):
    body, choice = whole(server, "HUGELY")
    assert choice["message"]["content"] == "That was long."
    text = body["mcp_events"][-1]["content"]
    assert text.startswith("HUGExxx")
    assert text.endswith("[The result was cut: these are its first 1000 of 3000 characters.]")
    assert len(text) < 1100


def test_a_server_that_dies_costs_one_result_and_is_back_at_the_next_request(server):
    for _ in range(2):
        deadline = time.monotonic() + PATIENCE_S
        while True:  # a busy machine may take longer to start it than a request waits
            body = server.chat("CRASHED", stratum_mcp=["far from well"]).json()
            [state] = body["mcp_events"][0]["servers"]
            if state["status"] == "ready":
                break
            assert state["error"] is None
            assert time.monotonic() < deadline
        assert body["choices"][0]["message"]["content"] == "The server died."


def test_rounds_have_a_limit_and_then_the_model_must_answer(server):
    body, choice = whole(server, "ROUNDANDROUND")
    phases = [event["phase"] for event in body["mcp_events"]]
    assert phases == ["start", *(["call", "result"] * 3), "limit"]
    assert choice["message"]["content"] == "Enough."
    assert choice["finish_reason"] == "stop"


def test_a_broken_server_is_named_and_blocks_nothing(server):
    reply = server.chat("ADDNEAR", stratum_mcp=True)
    body = reply.json()
    assert body["choices"][0]["message"]["content"].endswith("The sum is seven.")
    states = {entry["name"]: entry for entry in body["mcp_events"][0]["servers"]}
    assert states["missing"]["status"] == "failed"
    assert states["missing"]["error"]
    assert "off" not in states


# -- the request's own tools ---------------------------------------------------------------------


def test_a_call_of_the_requests_own_tool_ends_the_turn(server):
    _, choice = whole(server, "OWNTOOL", tools=[OWN])
    assert choice["finish_reason"] == "tool_calls"
    [own] = choice["message"]["tool_calls"]
    assert own["function"]["name"] == "get_weather"


def test_beside_an_own_call_ours_is_not_run_and_not_shown_as_a_call(server):
    events = server.events("BOTHTOOLS", tools=[OWN], stratum_mcp=["near"])
    deltas = [
        piece
        for event in events[:-1]
        for choice in event["choices"]
        for piece in choice["delta"].get("tool_calls", [])
    ]
    assert {piece["index"] for piece in deltas} == {0}
    assert deltas[0]["function"]["name"] == "get_weather"
    assert "not run" in mcp_events(events)[-1]["content"]


def test_the_requests_own_tool_wins_a_clash_of_names(server):
    own = {"type": "function", "function": {"name": "near__add", "parameters": {"type": "object"}}}
    body, choice = whole(server, "CLASHING", tools=[own])
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["tool_calls"][0]["function"]["name"] == "near__add"
    assert [event["phase"] for event in body["mcp_events"]] == ["start"]


def test_without_the_field_the_tools_are_invisible(server):
    plain = server.chat("ADDNEAR").json()
    asked = server.chat("ADDNEAR", stratum_mcp=["near"], tool_choice="none").json()
    assert "mcp_events" not in plain
    assert plain["usage"]["prompt_tokens"] < 60 < asked["usage"]["prompt_tokens"]
    off = server.chat("ADDNEAR", stratum_mcp=False).json()
    assert off["usage"]["prompt_tokens"] == plain["usage"]["prompt_tokens"]


def test_an_unknown_server_and_several_choices_are_refused(server):
    reply = server.chat("ADDNEAR", stratum_mcp=["nobody"])
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "stratum_mcp[0]")
    reply = server.chat("ADDNEAR", stratum_mcp=True, n=2)
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "n")


# -- who may -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (None, 200),
        ("own", 200),
        ("https://evil.example", 403),
        ("http://localhost:3000", 403),  # may generate text, but not use tools
        ("app://somewhere", 403),
        ("null", 403),
    ],
)
def test_only_our_own_page_and_programs_may_use_the_tools(server, origin, status):
    headers = {} if origin is None else {"origin": server.url if origin == "own" else origin}
    body = {"messages": [{"role": "user", "content": "OWNTOOL"}], "stratum_mcp": True}
    reply = server.http.post("/v1/chat/completions", json=body, headers=headers)
    assert reply.status_code == status
    if status == 403:
        assert reply.json()["error"]["code"] == "origin_not_allowed"


# -- secrets -------------------------------------------------------------------------------------


def test_the_log_holds_no_secret_argument_or_result(server):
    with contextlib.suppress(httpx.HTTPError):
        server.chat("WRITEIT", stratum_mcp=True)
    log = server.log()
    assert "MCP server missing is left out" in log
    for secret in (SECRET, HEADER_SECRET, URL_SECRET, "SUMIS7", "words", "WRITEIT"):
        assert secret not in log
    assert "Traceback" not in log
