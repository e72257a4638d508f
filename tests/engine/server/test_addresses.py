"""Models and their names, health, and addresses that are wrong or nearly right."""

import json

import anthropic
import openai
import pytest


@pytest.fixture(scope="module")
def server(start_server):
    answers = [{"times": 0, "text": "Let me see.</think>\n\nGood day to you."}]
    script = {"context": 1024, "answers": answers}
    return start_server(script, "--aliases", "second-name,org/third")


@pytest.fixture(scope="module")
def client(server):
    with server.openai() as client:
        yield client


def test_any_model_name_is_served_and_echoed(client):
    messages = [{"role": "user", "content": "SMALLTALK"}]
    answer = client.chat.completions.create(model="gpt-unknown", messages=messages)
    assert answer.model == "gpt-unknown"


def test_models_are_listed_and_retrieved_by_both_sdks(client, server):
    names = [model.id for model in client.models.list()]
    assert names[1:] == ["second-name", "org/third"]
    assert client.models.retrieve("org/third").id == "org/third"
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("nope")
    assert caught.value.code == "model_not_found"
    with anthropic.Anthropic(base_url=server.url, api_key="local") as other:
        assert [model.id for model in other.models.list()] == names
    body = server.http.get("/v1/models?client_version=1").json()
    assert body["models"] == []
    assert body["data"][0]["context_length"] == 1024


def test_health_status_and_root_answer(server):
    assert server.chat("SMALLTALK").status_code == 200
    server.wait_idle()
    assert server.http.get("/health").json() == {"status": "ok", "loaded": True}
    status = server.http.get("/v1/status").json()
    assert status["state"] == "idle"
    assert status["limits"]["n_ctx"] == 1024
    assert server.http.head("/").status_code == 200
    assert "SMALLTALK" not in json.dumps(status)


@pytest.mark.parametrize("path", ["/v1/models/", "/v1/v1/models", "/v1/models?beta=true"])
def test_small_mistakes_in_base_urls_are_tolerated(server, path):
    assert server.http.get(path).status_code == 200


def test_a_base_url_without_v1_is_told_what_is_missing(server):
    with (
        openai.OpenAI(base_url=server.url, api_key="local", max_retries=0) as client,
        pytest.raises(openai.NotFoundError, match=r"it is at /v1/chat/completions\. Put /v1 at"),
    ):
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}])


def test_unknown_paths_and_wrong_methods_have_the_error_shape(server):
    missing = server.http.get("/v2/nothing")
    assert missing.status_code == 404
    assert missing.json()["error"] == {
        "message": "There is nothing at this address.",
        "type": "not_found_error",
        "param": None,
        "code": "not_found",
    }
    wrong = server.http.get("/v1/chat/completions")
    assert wrong.status_code == 405
    assert wrong.headers["allow"] == "POST"
    assert wrong.json()["error"]["code"] == "method_not_allowed"
    assert server.http.get("/docs").status_code == 404
    assert server.http.get("/openapi.json").status_code == 404
