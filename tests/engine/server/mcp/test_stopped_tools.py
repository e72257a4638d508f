"""Tools that ask first, take too long or are not wanted any more: real servers, a scripted model."""

import pytest

from tests.support.mcp_rounds import (
    answer,
    content_of,
    mcp_events,
    near,
    start,
    streaming,
    until,
    wait_for,
    whole,
)

# What a tool and a person are given by the server whose limits are tested.
TOOL_S = 4
CONSENT_S = 3


@pytest.fixture(scope="module")
def server(start_server, marks):
    return start(start_server, {"near": near(marks)})


@pytest.fixture(scope="module")
def hasty_server(start_server, marks):
    servers = {"near": near(marks)}
    return start(start_server, servers, timeout_s=TOOL_S, consent_timeout_s=CONSENT_S)


# -- consent -------------------------------------------------------------------------------------


def test_a_tool_that_may_change_things_is_asked_about_and_runs_when_allowed(server, marks):
    (marks / "written").unlink(missing_ok=True)
    with streaming(server, "WRITEIT") as (events, _):
        question = until(events, "ask")
        assert (question["server"], question["tool"]) == ("near", "write")
        assert question["arguments"] == {"text": "words"}
        assert not (marks / "written").exists()
        assert server.status()["state"] == "tool_call"
        assert answer(server, question, allow=True).json()["allow"] is True
        assert answer(server, question, allow=True).status_code == 404  # asked and answered
        assert content_of(list(events)) == "It is written."
    assert (marks / "written").exists()


def test_a_denied_call_is_not_run(server, marks):
    (marks / "written").unlink(missing_ok=True)
    with streaming(server, "WRITEIT") as (events, _):
        answer(server, until(events, "ask"), allow=False)
        rest = list(events)
    assert content_of(rest) == "Then not."
    assert mcp_events(rest)[0]["is_error"]
    assert not (marks / "written").exists()


def test_no_answer_means_no(hasty_server, marks):
    (marks / "written").unlink(missing_ok=True)
    events = hasty_server.events("WRITEIT", stratum_mcp=["near"])
    assert content_of(events) == "Nobody was there."
    assert not (marks / "written").exists()


def test_a_whole_answer_cannot_ask_and_does_not_wait(server):
    # Had it waited, the answer would be that nobody was there.
    _, choice = whole(server, "WRITEIT", stratum_mcp=["near"])
    assert choice["message"]["content"] == "I may not ask."


def test_a_consent_must_say_yes_or_no_and_know_its_request(server):
    path = "/v1/requests/req_unknown/mcp_consent"
    reply = server.http.post(path, json={"id": "call_x"})
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "allow")
    assert server.http.post(path, json={"id": "call_x", "allow": True}).status_code == 404
    headers = {"origin": "http://localhost:3000"}
    assert server.http.post(path, json={}, headers=headers).status_code == 403


# -- stopping ------------------------------------------------------------------------------------


def test_a_hanging_tool_is_ended_after_its_time(hasty_server, marks):
    fresh(marks)
    body, choice = whole(hasty_server, "SLOWLY", stratum_mcp=["near"])
    assert choice["message"]["content"] == "The tool was too slow."
    assert f"{TOOL_S} seconds" in body["mcp_events"][-1]["content"]
    wait_for(marks / "slow-cancelled")


def fresh(marks):
    for name in ("slow-began", "slow-cancelled"):
        (marks / name).unlink(missing_ok=True)


def test_cancelling_a_request_ends_its_tool(server, marks):
    fresh(marks)
    with streaming(server, "SLOWLY") as (events, reply):
        until(events, "call")
        wait_for(marks / "slow-began")
        path = f"/v1/requests/{reply.headers['x-request-id']}/cancel"
        assert server.http.post(path).status_code == 200
        rest = list(events)
    assert rest[-1] == "[DONE]"
    assert rest[-2]["choices"][0]["finish_reason"] == "stop"
    wait_for(marks / "slow-cancelled")
    server.wait_idle()


def test_a_client_that_goes_away_ends_its_tool(server, marks):
    fresh(marks)
    connection = server.raw_chat("SLOWLY", stream=True, stratum_mcp=["near"])
    wait_for(marks / "slow-began")
    connection.close()
    wait_for(marks / "slow-cancelled")
    server.wait_for(lambda status: status["state"] == "idle")


def test_a_running_tool_holds_no_place_in_the_queue(server):
    with streaming(server, "WRITEIT") as (events, _):
        question = until(events, "ask")
        status = server.status()
        assert (status["running"], status["queued"]) == (None, 0)
        answer(server, question, allow=False)
        list(events)
