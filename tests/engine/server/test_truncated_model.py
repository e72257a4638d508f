"""A model file that is cut short while the server runs on it."""

import os
import shutil

import pytest

from engine.core.config import BUNDLED_MODEL

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows keeps mapped files from being cut")


@pytest.fixture
def model(tmp_path):
    return shutil.copy(BUNDLED_MODEL, tmp_path / "größer und kürzer.gguf")


@pytest.fixture
def server(start_server, model):
    return start_server(None, "--model", str(model), "--context", "512", "--threads", "2")


def test_the_front_names_the_reason_and_refuses_what_comes_next_in_words(server, model):
    assert server.chat("hello", max_tokens=4).status_code == 200
    os.truncate(model, 4096)
    reply = server.chat("hello again", max_tokens=4)
    assert reply.status_code == 503
    message = reply.json()["error"]["message"]
    assert "could not read its model file any more" in message
    later = server.chat("and again", max_tokens=4)
    assert later.status_code == 503
    assert model.name in later.json()["error"]["message"]
    assert server.status()["state"] == "failed"
    shutil.copy(BUNDLED_MODEL, model)  # mended: the next request loads it again
    for _ in range(3):
        mended = server.chat("hello", max_tokens=4)
        if mended.status_code == 200:
            break
    assert mended.status_code == 200, mended.text


def test_a_stream_ends_with_the_reason(server, model):
    os.truncate(model, 4096)
    events = server.events("hello", max_tokens=4)
    assert events[-1] == "[DONE]"
    assert "could not read its model file any more" in events[-2]["error"]["message"]
