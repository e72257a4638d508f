"""Loading, unloading, and what is done before and after, on a real server with a scripted worker."""

import json
import sys
import threading
import time

import httpx
import pytest

HELLO = {
    "answers": [
        {"when": "slow", "text": "x" * 50, "delay_ms": 50, "times": 0},
        # A minute and more, so that it ends by what a test does and not by itself.
        {"when": "endless", "text": "to and fro " * 500, "delay_ms": 50, "times": 0},
        {"text": "Hm.</think>\n\nYes.", "times": 0},
    ]
}


def post(server, path, body=None, **headers):
    return server.http.post(path, json={} if body is None else body, headers=headers)


def test_unload_and_load_on_request_are_idempotent(start_server):
    server = start_server(HELLO)
    for path, status, state in (
        ("/unload", "unloaded", "unloaded"),
        ("/v1/unload", "unloaded", "unloaded"),
        ("/load", "loaded", "idle"),
        ("/v1/load", "loaded", "idle"),
    ):
        reply = post(server, path)
        assert (reply.status_code, reply.json()) == (200, {"status": status})
        assert server.status()["state"] == state
    assert post(server, "/load", {"model": server.status()["model"]}).status_code == 200
    unknown = post(server, "/unload", {"model": "other"})
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "model_not_found")


def test_service_routes_answer_while_unloaded_and_do_not_load(start_server):
    server = start_server(HELLO)
    post(server, "/unload")
    assert server.http.get("/health").json() == {"status": "ok", "loaded": False}
    for path in ("/props", "/slots", "/metrics", "/v1/models", "/status"):
        assert server.http.get(path).status_code == 200, path
    for path, body in (
        ("/tokenize", {"content": "hello"}),
        ("/detokenize", {"tokens": [1, 2]}),
        ("/apply-template", {"messages": [{"role": "user", "content": "hello"}]}),
    ):
        assert post(server, path, body).status_code == 200, path
    assert server.http.get("/v1/models").json()["data"][0]["status"] == {"value": "unloaded"}
    assert server.http.get("/props").json()["is_sleeping"] is True
    assert server.status()["state"] == "unloaded"


def test_a_request_loads_an_unloaded_model(start_server):
    server = start_server(HELLO)
    post(server, "/unload")
    assert server.chat().json()["choices"][0]["message"]["content"] == "Yes."
    assert server.status()["loaded"]


def test_a_busy_model_is_not_unloaded(start_server):
    server = start_server(HELLO)
    post(server, "/unload")
    running = server.raw_chat("endless", stream=True)
    server.wait_for(lambda status: status["running"])
    reply = post(server, "/unload")
    assert (reply.status_code, reply.json()["error"]["code"]) == (409, "busy")
    assert reply.headers["x-should-retry"] == "false"
    running.close()
    server.wait_idle()
    assert post(server, "/unload").status_code == 200


def test_an_idle_model_is_unloaded_and_loaded_by_the_next_request(start_server):
    server = start_server(HELLO, "--idle-unload-s", "0.4")
    assert server.status()["idle_unload_s"] == 0.4
    assert server.chat().status_code == 200
    server.wait_for(lambda status: status["state"] == "unloaded")
    assert server.http.get("/health").json() == {"status": "ok", "loaded": False}
    before = server.http.get("/metrics?format=json").json()
    assert server.chat().status_code == 200
    after = server.http.get("/metrics?format=json").json()
    assert after["llm_loads_total"] == before["llm_loads_total"] + 1
    assert before["llm_unloads_total"] >= 1


def test_a_running_answer_is_not_idle(start_server):
    server = start_server(HELLO, "--idle-unload-s", "0.3")
    assert server.chat("slow").status_code == 200  # takes longer than that


def test_lazy_loading_waits_for_the_first_request(start_server):
    server = start_server(HELLO, "--lazy-load", wait=False)
    time.sleep(0.2)
    assert server.status()["state"] == "unloaded"
    assert server.chat().status_code == 200
    assert server.status()["state"] == "idle"


@pytest.fixture
def program(tmp_path):
    """A program that notes that it ran, and ends as its argument says."""
    path = tmp_path / "ran before ü.py"
    path.write_text(
        "import pathlib, sys, time\n"
        "with pathlib.Path(sys.argv[1]).open('a') as log: log.write('ran\\n')\n"
        "time.sleep(float(sys.argv[3]))\n"
        "sys.exit(int(sys.argv[2]))\n",
        encoding="utf-8",
    )
    return path


def config_file(tmp_path, program, status=0, seconds=0, **fields):
    log = tmp_path / "log.txt"
    command = [sys.executable, str(program), str(log), str(status), str(seconds)]
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"format": 1, "before_load": command, **fields}), encoding="utf-8")
    return path, log


def test_a_program_runs_before_each_load(start_server, program, tmp_path):
    path, log = config_file(tmp_path, program)
    server = start_server(HELLO, "--config", str(path))
    assert server.chat().status_code == 200
    assert log.read_text().count("ran") == 1
    post(server, "/unload")
    post(server, "/load")
    assert log.read_text().count("ran") == 2


@pytest.mark.parametrize(
    ("status", "seconds", "limit_s", "words"),
    [(3, 0, 90, "ended with exit status 3"), (0, 600, 0.3, "took longer than 0.3 seconds")],
)
def test_a_program_that_fails_or_hangs_is_named_and_nothing_is_loaded(
    start_server, program, tmp_path, status, seconds, limit_s, words
):
    path, _ = config_file(tmp_path, program, status, seconds, before_load_timeout_s=limit_s)
    server = start_server(HELLO, "--config", str(path), "--lazy-load", wait=False)
    error = server.chat().json()["error"]
    assert error["code"] == "load_failed"
    assert words in error["message"]
    assert server.status()["error"]["code"] == "before_load_failed"
    assert post(server, "/load").status_code == 503


def test_loading_waits_for_every_request_and_none_is_lost_while_unloading(start_server):
    server = start_server(HELLO)
    statuses = []

    def chat():
        statuses.append(server.chat().status_code)

    for _ in range(3):
        post(server, "/unload")
        threads = [threading.Thread(target=chat) for _ in range(4)]
        for thread in threads:
            thread.start()
        post(server, "/unload")  # 409 or in the middle of it
        for thread in threads:
            thread.join()
    assert statuses == [200] * 12


NVML = """
from pathlib import Path
from types import SimpleNamespace

def nvmlInit(): pass
def nvmlShutdown(): pass
def nvmlDeviceGetCount(): return 2
def nvmlDeviceGetHandleByIndex(index): return index
def nvmlDeviceGetName(handle):
    if handle == 1:
        raise RuntimeError("not supported")
    return b"Card A"
def nvmlDeviceGetMemoryInfo(handle):
    free_mib = int(Path(__file__).with_name("free.txt").read_text())
    return SimpleNamespace(free=free_mib << 20, used=(100 + handle) << 20)
"""


def test_a_card_that_others_use_delays_the_load_until_there_is_room(start_server, tmp_path):
    (tmp_path / "pynvml.py").write_text(NVML, encoding="utf-8")  # NVIDIA's library of two cards
    free = tmp_path / "free.txt"
    free.write_text("400")
    server = start_server(
        HELLO,
        *("--lazy-load", "--min-free-vram-mib", "1000"),
        environment={"PYTHONPATH": str(tmp_path)},
        wait=False,
    )
    for reply in (server.chat(), post(server, "/load")):
        assert reply.status_code == 503
        assert reply.json()["error"]["code"] == "insufficient_vram"
        assert "800 MiB free; 1000 MiB are wanted" in reply.json()["error"]["message"]
        assert 0 < int(reply.headers["retry-after"]) <= 60
    assert server.http.get("/health").json() == {"status": "ok", "loaded": False}
    assert server.status()["error"]["code"] == "insufficient_vram"
    metrics = server.http.get("/metrics?format=json").json()
    assert metrics["llm_vram_used_bytes"] == 201 << 20
    assert metrics["llm_card_vram_used_bytes"] == [
        {"card": "0", "name": "Card A", "value": 100 << 20},
        {"card": "1", "name": "", "value": 101 << 20},
    ]
    each = 'llm_card_vram_used_bytes{{card="{}",name="{}"}} {}\n'
    text = server.http.get("/metrics").text
    assert each.format(0, "Card A", 100 << 20) + each.format(1, "", 101 << 20) in text
    free.write_text("500")
    assert server.chat().status_code == 200


def test_a_load_that_is_overtaken_by_an_unload_is_a_conflict_and_no_failure(start_server):
    server = start_server({**HELLO, "load": {"delay_ms": 5000, "steps": 5}}, "--lazy-load")
    replies = []

    def load():
        replies.append(httpx.post(server.url + "/load", json={}, timeout=90, trust_env=False))

    thread = threading.Thread(target=load)
    thread.start()
    server.wait_for(lambda status: status["state"] == "loading")
    assert post(server, "/unload").json() == {"status": "unloaded"}
    thread.join()
    assert replies[0].status_code == 409
    assert replies[0].json()["error"]["code"] == "busy"
    assert post(server, "/load").status_code == 200
