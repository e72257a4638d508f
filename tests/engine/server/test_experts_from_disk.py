"""A real server whose experts come from the disk: what it counts, and a disk that fails under it."""

import json
import os
import sys

import psutil
import pytest

from engine.core.config import BUNDLED_MODEL
from engine.core.gguf_header import read_model_header
from tests.support.experts_last import write_with_experts_last

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="only Linux can wait for pages"
)
CONTROL_TOKEN = 3  # in the file's token types
MODE = ("--context", "512", "--threads", "2", "--expert-look-ahead", "on")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "größer und kürzer.gguf"
    return path, write_with_experts_last(BUNDLED_MODEL, path)


def worker_of(server):
    """The process that computes."""
    (worker,) = psutil.Process(server.process.pid).children()
    return worker.pid


def test_a_disk_that_fails_costs_its_request_an_error_and_the_engine_lives(start_server, model):
    path, cut = model
    content = path.read_bytes()
    server = start_server(None, "--model", str(path), *MODE)
    before = server.chat("hello", max_tokens=8, temperature=0)
    assert before.status_code == 200
    worker = worker_of(server)
    os.truncate(path, cut)
    try:
        reply = server.chat("hello again", max_tokens=4)
        assert reply.status_code >= 500
        message = reply.json()["error"]["message"]
        assert path.name in message
        assert "cannot be read any more" in message
        events = server.events("and streamed", max_tokens=4)
        assert "cannot be read any more" in events[-2]["error"]["message"]
    finally:
        with path.open("r+b") as file:
            file.seek(cut)
            file.write(content[cut:])
    after = server.chat("hello", max_tokens=8, temperature=0)
    assert after.status_code == 200, after.text
    assert after.json()["choices"] == before.json()["choices"]
    assert worker_of(server) == worker
    assert server.status()["restarts"] == 0


def test_a_file_that_is_cut_in_the_middle_of_an_answer_ends_that_answer(start_server, model):
    path, cut = model
    content = path.read_bytes()
    server = start_server(None, "--model", str(path), *MODE, "--context", "4096")
    worker = worker_of(server)
    lines = []
    metadata = read_model_header(path).metadata
    stops = [
        index
        for index, kind in enumerate(metadata["tokenizer.ggml.token_type"])
        if kind == CONTROL_TOKEN
    ]
    body = {  # an answer that ends when its 4,000 tokens are used up
        "messages": [{"role": "user", "content": "write for a long time"}],
        "max_tokens": 4000,
        "stream": True,
        "temperature": 1.0,
        "reasoning_effort": "none",
        "logit_bias": {str(token_id): -100 for token_id in stops},
    }
    try:
        with server.http.stream("POST", "/v1/chat/completions", json=body) as reply:
            for line in reply.iter_lines():
                lines.append(line)
                if len(lines) == 2:
                    os.truncate(path, cut)
        assert any("cannot be read any more" in line for line in lines)
    finally:
        with path.open("r+b") as file:
            file.seek(cut)
            file.write(content[cut:])
    assert server.chat("hello", max_tokens=4).status_code == 200
    assert worker_of(server) == worker


def test_what_was_read_and_waited_for_is_in_timings_and_metrics(start_server, model):
    server = start_server(None, "--model", str(model[0]), *MODE)
    reply = server.chat("hello", max_tokens=6, temperature=0).json()
    experts = reply["timings"]["disk"]["answer"]["experts"]
    assert experts["reads"] + experts["hits"] > 0
    assert experts["waited_ms_per_token"] >= 0
    metrics = server.http.get("/metrics").text
    assert 'llm_disk_hits_total{tier="experts"}' in metrics
    assert 'llm_disk_wait_seconds_total{tier="experts"}' in metrics
    as_json = server.http.get("/metrics", params={"format": "json"}).json()
    (hits,) = [one for one in as_json["llm_disk_hits_total"] if one["tier"] == "experts"]
    assert hits["value"] >= experts["hits"]


def test_without_look_ahead_nothing_is_claimed_of_experts(start_server, model):
    server = start_server(None, "--model", str(model[0]), "--context", "512", "--threads", "2")
    reply = server.chat("hello", max_tokens=6, temperature=0).json()
    for phase in reply["timings"].get("disk", {}).values():
        assert "experts" not in phase
        assert "waited_ms" not in phase.get("pages", {})
    assert 'tier="experts"' not in server.http.get("/metrics").text


def test_counts_are_written_when_the_model_is_unloaded(start_server, model, tmp_path):
    path = tmp_path / "Profil" / "experts.json"
    server = start_server(
        None,
        *("--model", str(model[0]), "--context", "512", "--threads", "2"),
        *("--expert-profile", str(path), "--expert-profile-learn"),
    )
    reply = server.chat("hello", max_tokens=6, temperature=0).json()
    assert not path.exists()
    server.process.terminate()
    server.process.wait(20)
    counts = json.loads(path.read_text(encoding="utf-8"))["counts"]
    usage = reply["usage"]
    least = (
        usage["prompt_tokens"] + usage["completion_tokens"] - 1
    )  # drafts may have been counted too
    assert sum(counts[0]) >= 2 * least
    assert "hello" not in path.read_text(encoding="utf-8")
