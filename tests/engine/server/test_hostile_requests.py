"""Requests that bend HTTP's rules, sent byte by byte to a real server, and what its log says after."""

import contextlib
import json
import re
import socket
import time

import pytest

from tests.support.routes import ROUTES

KEY = "a-key-of-24-characters-x"
SECRETS = (KEY, "SECRETPROMPT", "SECRETANSWER", "SECRETARGUMENT", "SECRETQUERY", "SECRETCOOKIE")
CALL = "<tool_call>\n<function=look>\n<parameter=word>\nSECRETARGUMENT\n</parameter>\n</function>\n</tool_call>"
ANSWERS = [
    {"when": "use the tool", "times": 0, "text": f"Hm.</think>\n\n{CALL}"},
    {"when": "fail", "times": 0, "text": "SECRETANSWER", "fault": {"kind": "error", "after": 1}},
    {"times": 0, "text": "Hm SECRETANSWER.</think>\n\nThe SECRETANSWER."},
]
BODY = b'{"messages":[{"role":"user","content":"SECRETPROMPT"}]}'
POST = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
)
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
CHUNKS = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
HIDDEN = b"GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n"
CLOSE = b"Connection: close\r\n\r\n"
GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture(scope="module")
def server(start_server):
    return start_server({"context": 4096, "answers": ANSWERS}, "--max-body-mib", "1")


def statuses(server, raw, *, ends=False, timeout_s=90.0):
    """The statuses of all answers on one connection, and whether the server closed it."""
    answer = b""
    with server.raw(b"") as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(raw)
        connection.settimeout(timeout_s)
        if ends:
            connection.shutdown(socket.SHUT_WR)
        try:
            while part := connection.recv(65536):
                answer += part
        except TimeoutError:
            return re.findall(rb"HTTP/1.1 (\d+)", answer), False
        except ConnectionError:
            pass
    assert b"Traceback" not in answer
    return re.findall(rb"HTTP/1.1 (\d+)", answer), True


@pytest.mark.parametrize(
    "raw",
    [
        POST + LENGTH + CHUNKED + b"\r\n" + CHUNKS + HIDDEN,
        POST + CHUNKED + b"Content-Length: 4\r\n\r\n" + CHUNKS + HIDDEN,
        POST + CHUNKED + b"Content-Length: 0\r\n\r\n" + CHUNKS + HIDDEN,
        POST + LENGTH + b"Content-Length: 4\r\n\r\n" + BODY + HIDDEN,
        POST + b"Content-Length: 4, %d\r\n\r\n" % len(BODY) + BODY + HIDDEN,
        POST + b"Content-Length: +4\r\n\r\n" + BODY,
        POST + b"Content-Length: -1\r\n\r\n" + BODY,
        POST + b"Content-Length: 0x10\r\n\r\n" + BODY,
        POST + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n" + BODY,
        POST + b"Transfer-Encoding: identity\r\n\r\n" + BODY,
        POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + CHUNKS,
        POST + b"Transfer-Encoding: xchunked\r\n\r\n" + CHUNKS,
        POST + b"Transfer-Encoding : chunked\r\n\r\n" + CHUNKS,
        POST + CHUNKED + CHUNKED + b"\r\n" + CHUNKS,
        POST + CHUNKED + b"\r\nzz\r\n" + BODY,
        POST + CHUNKED + b"\r\n-5\r\n" + BODY,
        GET + b"X-A: a\0b\r\n\r\n",
        GET + b"Host: localhost\r\n\r\n",
        b"GET /health HTTP/1.1\r\n\r\n",
        b"GET /health HTTP/1.0\r\n\r\n",
        b"GET /health\r\n\r\n",
        "GET /ü HTTP/1.1\r\nHost: localhost\r\n\r\n".encode(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"a" * 200 + b"\r\n\r\n",
    ],
)
def test_a_request_that_can_be_read_in_two_ways_is_refused_once_and_hides_nothing(server, raw):
    found, is_closed = statuses(server, raw)
    assert found == [b"400"]
    assert is_closed


@pytest.mark.parametrize(
    "head",
    [
        GET + b"X: " + b"a" * 40_000 + b"\r\n\r\n",
        GET + b"".join(b"X-%d: a\r\n" % number for number in range(6000)) + b"\r\n",
        b"GET /health?" + b"a" * 40_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        GET + b"X: " + b"a" * 400_000,
        POST + CHUNKED + b"\r\n" + b"5;" + b"a" * 600_000,
    ],
)
def test_headers_beyond_their_limit_are_refused(server, head):
    found, _ = statuses(server, head, timeout_s=1)
    assert found in ([b"400"], [])  # none: closed while the rest was still being sent
    assert server.http.get("/health").status_code == 200


def test_a_body_that_ends_early_is_a_client_that_left(server):
    found, is_closed = statuses(server, POST + b"Content-Length: 500\r\n\r\n" + BODY, ends=True)
    assert found == []
    assert is_closed
    server.wait_idle()


@pytest.mark.parametrize("size", [b"FFFFFFFFFFFFFFFFFFFF", b"%x" % (1 << 40)])
def test_a_chunk_that_claims_a_size_gets_no_memory_for_it(server, size):
    raw = POST + CHUNKED + CLOSE + size + b"\r\n" + b"x" * (2 << 20)
    found, _ = statuses(server, raw, timeout_s=3)
    assert found in ([b"413"], [])


def test_a_body_of_very_many_tiny_chunks_is_one_body_under_one_limit(server):
    tiny = b"".join(b"1\r\n%c\r\n" % byte for byte in BODY) + b"0\r\n\r\n"
    assert statuses(server, POST + CHUNKED + CLOSE + tiny)[0] == [b"200"]
    pieces = b"".join(b"5\r\n     \r\n" for _ in range(60_000))  # as from a JSON writer's pieces
    last = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
    assert statuses(server, POST + CHUNKED + CLOSE + pieces + last)[0] == [b"200"]
    endless = POST + CHUNKED + CLOSE + b"1\r\nx\r\n" * (1 << 20)
    assert statuses(server, endless) in (([b"400"], True), ([], True))


@pytest.mark.parametrize("target", ["http://evil.example/status", "evil.example:443", "*"])
def test_targets_of_proxies_are_nothing_here(server, target):
    head = f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    assert statuses(server, head.encode())[0] == [b"404"]


def test_an_upgrade_is_not_taken(server):
    upgrade = b"Connection: Upgrade, close\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n"
    assert statuses(server, GET + upgrade) == ([b"200"], True)


def test_beyond_128_connections_new_ones_are_closed_and_places_become_free_again(start_server):
    server = start_server({"answers": ANSWERS})
    server.http.close()
    server.http = server.http.__class__(base_url=server.url, timeout=90, trust_env=False)
    connections = []
    try:
        connections += [server.raw(b"") for _ in range(128)]
        connections[-1].sendall(GET + b"\r\n")
        assert connections[-1].recv(15) == b"HTTP/1.1 200 OK"
        for _ in range(12):
            connections.append(server.raw(b""))
            with contextlib.suppress(ConnectionError):
                connections[-1].sendall(GET + b"\r\n")
                assert connections[-1].recv(15) == b""
    finally:
        for connection in connections:
            connection.close()
    deadline = time.monotonic() + 90
    while statuses(server, GET + b"Connection: close\r\n\r\n")[0] != [b"200"]:
        assert time.monotonic() < deadline


def test_logs_have_no_key_prompt_answer_argument_query_or_cookie(start_server):
    environment = {"STRATUM_API_KEYS": KEY}
    server = start_server({"answers": ANSWERS}, environment=environment)
    server.key = KEY
    parameters = {"type": "object", "properties": {"word": {"type": "string"}}}
    look = {"name": "look", "description": "SECRETPROMPT", "parameters": parameters}
    keyed = {"authorization": f"Bearer {KEY}", "cookie": "a=SECRETCOOKIE"}
    texts = ["SECRETPROMPT", "SECRETPROMPT use the tool", "SECRETPROMPT fail"]
    for text in texts:
        message = [{"role": "user", "content": text}]
        for path, body in [
            ("/v1/chat/completions", {"tools": [{"type": "function", "function": look}]}),
            ("/v1/messages", {"max_tokens": 99, "tools": [{"name": "look", "input_schema": {}}]}),
            ("/v1/responses", {"input": text, "tools": [{"type": "function", **look}]}),
            ("/v1/completions", {"prompt": text}),
            ("/tokenize", {"content": text}),
            ("/apply-template", {}),
        ]:
            for stream in (False, True) if text == texts[0] else (True,):
                whole = {"messages": message, "stream": stream, **body}
                url = f"{path}?q=SECRETQUERY"
                server.http.post(url, json=whole, headers=keyed)
                server.http.post(url, json=whole, headers={"x-api-key": "SECRETCOOKIE" + KEY})
                server.http.post(url, content=BODY[:-1], headers={**keyed, "x-api-key": KEY})
    for route in ROUTES:
        server.http.get(f"{route.path}?q=SECRETQUERY", headers=keyed)
    log = server.log()
    assert log.count("chat prompt=") >= 4
    for secret in SECRETS:
        assert secret not in log
    assert "Traceback" not in log
    status = json.dumps([server.http.get(p, headers=keyed).text for p in ("/status", "/metrics")])
    assert not [secret for secret in SECRETS if secret in status]
