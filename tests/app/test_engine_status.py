"""What the engine says of itself, typed, and read with patience."""

import math

import pytest

from app.engine_status import ServerState, parse_metrics, parse_status

STATUS = {
    "state": "answering",
    "loading": None,
    "error": None,
    "instance": "nonce",
    "model": "stratum-tiny",
    "ops": "host avx512",
    "loaded": True,
    "restarts": 1,
    "queued": 1,
    "waiting": [{"request_id": "b", "position": 1, "waited_s": 0.5}],
    "running": {},
    "requests": [
        {
            "request_id": "a",
            "protocol": "chat",
            "prompt_tokens": 38_000,
            "prompt_read": 12_400,
            "cached_tokens": 100,
            "generated": 7,
            "max_tokens": 100,
            "elapsed_s": 2.5,
            "tokens_per_s": 12.25,
        }
    ],
    "last_timings": {
        "prompt_tokens": 10,
        "cached_tokens": 2,
        "prompt_ms": 100.0,
        "generated_tokens": 21,
        "generated_ms": 2000.0,
        "draft_tokens": 8,
        "draft_accepted": 6,
    },
    "warm": {"sessions": 2, "tokens": 300, "bytes": 4096},
    "uptime_s": 60.5,
    "idle_unload_s": None,
    "structured_output": True,
    "limits": {"body_mib": 64, "queue_max": 16, "parallel": 4, "n_ctx": 32768},
    "auto_load": True,
}


def test_a_status_is_read_whole():
    status = parse_status(STATUS)
    assert status.state is ServerState.ANSWERING
    assert (status.instance, status.model, status.ops) == ("nonce", "stratum-tiny", "host avx512")
    assert status.is_loaded
    assert status.is_working
    (request,) = status.requests
    assert (request.prompt_read, request.prompt_tokens) == (12_400, 38_000)
    assert request.tokens_per_s == 12.25
    assert status.waiting[0].position == 1
    assert status.last_timings.tokens_per_s == 10.0
    assert status.warm.num_bytes == 4096
    assert status.limits.context == 32768
    assert status.idle_unload_s is None
    assert status.raw is STATUS


def test_loading_and_its_failure_are_read():
    loading = {"phase": "weights", "done_bytes": 5, "total_bytes": 10}
    status = parse_status({"state": "loading", "instance": "n", "loading": loading})
    assert (status.loading.phase, status.loading.done_bytes) == ("weights", 5)
    error = {"code": "insufficient_ram", "message": "No.", "params": {"needed": 5, "odd": []}}
    status = parse_status({"state": "failed", "instance": "n", "error": error})
    assert status.failure.code == "insufficient_ram"
    assert status.failure.params == {"needed": 5}


@pytest.mark.parametrize("content", [{}, {"state": "idle"}, {"instance": "n"}, {"state": 1}])
def test_what_is_no_status_is_none(content):
    assert parse_status(content) is None


def test_what_an_engine_does_not_report_is_left_out():
    status = parse_status({"state": "a new word", "instance": "n"})
    assert status.state is ServerState.OTHER
    assert status.requests == ()
    assert status.last_timings is None
    assert status.warm is None
    assert status.limits.parallel is None
    odd = {"state": "idle", "instance": "n", "requests": [1, {}], "warm": 5, "queued": "many"}
    status = parse_status({**odd, "uptime_s": math.nan})
    assert len(status.requests) == 1
    assert status.requests[0].generated == 0
    assert (status.queued, status.uptime_s) == (0, None)


def test_metrics_are_read_by_kind():
    metrics = parse_metrics(
        {
            "llm_loads_total": 3,
            "llm_requests_total": [
                {"protocol": "chat", "finish": "stop", "value": 2},
                {"protocol": "messages", "finish": "stop", "value": 1},
            ],
            "llm_request_errors_total": [],
            "llm_queue_wait_seconds": {
                "count": 4,
                "sum": 1.5,
                "buckets": {"0.1": 2, "+Inf": 4, "1": 3},
            },
            "llm_odd": "text",
        }
    )
    assert metrics.value("loads_total") == 3
    assert metrics.value("vram_used_bytes") is None
    assert metrics.value("odd") is None
    assert metrics.total("requests_total") == 3
    assert metrics.total("request_errors_total") == 0
    assert metrics.total("tool_calls") is None
    waits = metrics.histograms["queue_wait_seconds"]
    assert waits.buckets == ((0.1, 2), (1.0, 3), (math.inf, 4))
    assert waits.quantile(0.5) == 0.1
    assert waits.quantile(0.99) is None
