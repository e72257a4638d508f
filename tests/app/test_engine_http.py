"""Requests to an engine: a small server of the test's own says what comes back."""

from __future__ import annotations

import http.server
import json
import socket
import threading

import pytest
import requests

from app.engine_http import EngineAddress, EngineHttp, EngineHttpError


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.seen.append((self.client_address, dict(self.headers), b""))
        self._answer()

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((self.client_address, dict(self.headers), body))
        self._answer()

    def _answer(self):
        status, body = self.server.answers[self.path]
        self.send_response(status)
        if self.path == "/cut":
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"5\r\nhello\r\n")
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.seen, server.answers = [], {"/ok": (200, b'{"a": 1}')}
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def client(server):
    client = EngineHttp(EngineAddress(f"http://127.0.0.1:{server.server_port}", "secret-key"))
    yield client
    client.close()


def test_a_connection_is_kept_and_the_key_is_sent(server, client):
    assert client.get("/ok") == {"a": 1}
    assert client.post("/ok", {"text": "grüße"}) == {"a": 1}
    (first, headers, _), (second, _, body) = server.seen
    assert first == second  # the same connection
    assert headers["Authorization"] == "Bearer secret-key"
    assert json.loads(body) == {"text": "grüße"}


def test_threads_share_no_connection_at_the_same_time(server, client):
    results = []
    threads = [threading.Thread(target=lambda: results.append(client.get("/ok"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [{"a": 1}] * 8


@pytest.mark.parametrize(
    ("status", "body", "code", "message"),
    [
        (
            409,
            {"error": {"message": "A request runs.", "type": "x", "param": None, "code": "busy"}},
            "busy",
            "A request runs.",
        ),
        (
            400,
            {"type": "error", "error": {"type": "invalid_request_error", "message": "No."}},
            "invalid_request_error",
            "No.",
        ),
        (502, "a proxy's page", "engine_http", "502"),
        (500, {"error": "text"}, "engine_http", "500"),
    ],
)
def test_an_error_comes_with_its_code_whatever_its_shape(
    server, client, status, body, code, message
):
    server.answers["/x"] = (status, json.dumps(body).encode())
    with pytest.raises(EngineHttpError) as caught:
        client.get("/x")
    assert (caught.value.status, caught.value.code) == (status, code)
    assert message in caught.value.message


def test_further_keys_of_an_error_are_its_values(server, client):
    error = {"message": "too long", "code": "context_length_exceeded", "n_ctx": 4096, "o": {}}
    server.answers["/x"] = (400, json.dumps({"error": error}).encode())
    with pytest.raises(EngineHttpError) as caught:
        client.post("/x")
    assert caught.value.params == {"n_ctx": 4096, "status": 400}


@pytest.mark.parametrize("body", [b"hello", b"[1]", b"\xff", b""])
def test_what_is_no_object_is_not_an_engine(server, client, body):
    server.answers["/x"] = (200, body)
    with pytest.raises(EngineHttpError) as caught:
        client.get("/x")
    assert caught.value.code == "not_an_engine"


def test_without_an_engine_and_without_an_answer_there_are_codes(server, client):
    with pytest.raises(EngineHttpError) as caught:
        EngineHttp().get("/ok")
    assert caught.value.code == "engine_not_running"
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        port = silent.getsockname()[1]
        other = EngineHttp(EngineAddress(f"http://127.0.0.1:{port}"))
        with pytest.raises(EngineHttpError) as caught:
            other.get("/ok")
        assert caught.value.code == "engine_unreachable"
        silent.listen()
        with pytest.raises(EngineHttpError) as caught:
            other.get("/ok", read_timeout_s=0.1)
        assert caught.value.code == "engine_timeout"


def test_a_stream_that_breaks_says_so(server, client):
    server.answers["/cut"] = (200, b"")
    got = []

    def read():
        with client.stream("/cut", {}) as response:
            got.extend(response.iter_content(None))

    with pytest.raises(EngineHttpError) as caught:
        read()
    assert got == [b"hello"]
    assert caught.value.code == "engine_cut_off"


def test_the_address_may_change_while_it_is_used(server, client):
    client.get("/ok")
    address = client.address
    client.address = None
    with pytest.raises(EngineHttpError):
        client.get("/ok")
    client.address = EngineAddress(address.base_url)
    client.get("/ok")
    assert "Authorization" not in server.seen[-1][1]


def test_no_proxy_of_the_environment_is_asked(server, client, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert client.get("/ok") == {"a": 1}


def test_connections_to_an_engine_that_ended_are_closed(server, client, monkeypatch):
    closed = []
    close = requests.Session.close
    monkeypatch.setattr(
        requests.Session, "close", lambda session: (closed.append(session), close(session))
    )
    client.get("/ok")
    here = client.address
    client.address = EngineAddress(here.base_url, "another-key")
    assert closed == []  # the same engine
    client.address = None
    assert len(closed) == 1
    client.address = here
    with client.stream("/ok", {}) as response:
        client.address = EngineAddress("http://127.0.0.1:9")
        assert len(closed) == 1  # it is in use
        assert response.json() == {"a": 1}
    assert len(closed) == 2
