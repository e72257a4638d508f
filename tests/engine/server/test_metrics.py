"""The metrics: their text form, and that a server counts."""

import re

import pytest

from engine.server.metrics import Counter, Gauge, Histogram, as_object, exposition

LINE = re.compile(r'llm_[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? [0-9.e+-]+')
NAMES = (
    "prompt_tokens_total",
    "prompt_tokens_cached_total",
    "prompt_seconds_total",
    "generated_tokens_total",
    "generated_seconds_total",
    "requests_total",
    "request_errors_total",
    "queue_rejected_total",
    "draft_tokens_total",
    "draft_accepted_total",
    "tool_call_broken_total",
    "tool_call_stranded_total",
    "loads_total",
    "unloads_total",
    "queue_length",
    "requests_running",
    "tokens_per_second",
    "loaded",
    "context_used_tokens",
    "vram_used_bytes",
    "card_vram_used_bytes",
    "time_to_first_token_seconds",
    "queue_wait_seconds",
)


def test_counters_are_there_from_the_start_unless_they_have_labels():
    plain, labelled = Counter("a_total", "A."), Counter("b_total", "B.", "kind", "end")
    assert exposition([plain, labelled]).splitlines() == [
        "# HELP llm_a_total A.",
        "# TYPE llm_a_total counter",
        "llm_a_total 0",
        "# HELP llm_b_total B.",
        "# TYPE llm_b_total counter",
    ]
    plain.add(1.5)
    labelled.add(1, "x", 'say "hi"\\\n')
    labelled.add(2, "x", 'say "hi"\\\n')
    text = exposition([plain, labelled])
    assert "llm_a_total 1.5\n" in text
    assert 'llm_b_total{kind="x",end="say \\"hi\\"\\\\\\n"} 3\n' in text


def test_a_histogram_is_cumulative_and_an_observation_on_a_bound_counts_below_it():
    histogram = Histogram("wait_seconds", "W.", (0.1, 1))
    for value in (0.1, 0.5, 7):
        histogram.observe(value)
    assert exposition([histogram]).splitlines()[2:] == [
        'llm_wait_seconds_bucket{le="0.1"} 1',
        'llm_wait_seconds_bucket{le="1"} 2',
        'llm_wait_seconds_bucket{le="+Inf"} 3',
        "llm_wait_seconds_sum 7.6",
        "llm_wait_seconds_count 3",
    ]


def test_the_same_as_json():
    gauge, counter = Gauge("g", "G."), Counter("c_total", "C.", "code")
    gauge.value = 2.5
    counter.add(1, "busy")
    assert as_object([gauge, counter]) == {
        "llm_g": 2.5,
        "llm_c_total": [{"code": "busy", "value": 1.0}],
    }


@pytest.fixture(scope="module")
def server(start_server):
    answers = [{"when": "call", "text": "<tool_call>\nbroken", "times": 0}]
    answers.append({"text": "Hm.</think>\n\nYes.", "times": 0, "cached_tokens": 5})
    return start_server({"answers": answers})


def test_every_metric_is_exposed_with_help_and_type(server):
    reply = server.http.get("/metrics")
    assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    lines = reply.text.splitlines()
    for name in NAMES:
        assert any(line.startswith(f"# HELP llm_{name} ") for line in lines), name
        assert any(line.startswith(f"# TYPE llm_{name} ") for line in lines), name
    assert all(LINE.fullmatch(line) for line in lines if not line.startswith("#"))
    assert set(server.http.get("/metrics?format=json").json()) >= {f"llm_{n}" for n in NAMES}


def test_requests_tokens_and_errors_are_counted(server):
    def metrics():
        return server.http.get("/metrics", headers={"accept": "application/json"}).json()

    before = metrics()
    usage = server.chat().json()["usage"]
    assert server.chat(temperature=3).status_code == 400
    after = metrics()

    def grown(name):
        return after[f"llm_{name}"] - before[f"llm_{name}"]

    assert grown("prompt_tokens_total") == usage["prompt_tokens"]
    assert grown("generated_tokens_total") == usage["completion_tokens"]
    assert grown("prompt_tokens_cached_total") == 5
    assert {"protocol": "chat", "finish": "stop", "value": 1} in after["llm_requests_total"]
    assert {"code": "invalid_value", "value": 1} in after["llm_request_errors_total"]
    first_token = after["llm_time_to_first_token_seconds"]
    assert first_token["count"] == first_token["buckets"]["+Inf"] == 1
    assert after["llm_loaded"] == 1
    assert after["llm_requests_running"] == 0
