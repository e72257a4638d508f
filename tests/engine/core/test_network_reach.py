from __future__ import annotations

import socket
import ssl
import threading
import urllib.error
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from engine.core.network_reach import HUB, MIRROR, ReachState, ask, endpoints_to_ask, state_of


class Hub(BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        status = int(self.path.strip("/") or "200")
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        pass


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("status", [200, 401, 404, 429, 500])
def test_any_answer_means_that_the_hub_is_reached(hub: str, status: int) -> None:
    found = ask(f"{hub}/{status}", 60)
    assert found.is_reached
    assert found.host == "127.0.0.1"
    assert found.clock_off_s is not None
    assert abs(found.clock_off_s) < 60


def test_a_proxy_that_wants_a_password_is_told_apart(hub: str) -> None:
    assert ask(f"{hub}/407", 60).state is ReachState.PROXY_LOGIN


@pytest.mark.usefixtures("hub")
def test_a_closed_port_is_a_refusal() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        assert ask(f"http://127.0.0.1:{port}", 60).state is ReachState.REFUSED


@pytest.mark.usefixtures("hub")
def test_a_silent_server_is_waited_for_until_the_limit() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        found = ask(f"http://127.0.0.1:{silent.getsockname()[1]}", 0.2)
    assert found.state is ReachState.TIMED_OUT
    assert found.took_s > 0.1


@pytest.mark.usefixtures("hub")
def test_a_server_that_speaks_something_else_is_a_refusal() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"what?\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        found = ask(f"http://127.0.0.1:{server.getsockname()[1]}", 60)
        thread.join()
    assert found.state is ReachState.REFUSED


@pytest.mark.parametrize("url", ["", "huggingface.co", "file:///etc/passwd", "https://"])
def test_an_address_that_is_none_is_not_asked(url: str) -> None:
    assert ask(url, 1).state is ReachState.BAD_ADDRESS


def certificate_error(code: int) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code = code
    return error


@pytest.mark.parametrize(
    ("reason", "state"),
    [
        (socket.gaierror(-2, "Name or service not known"), ReachState.NO_NETWORK),
        (certificate_error(20), ReachState.TLS_INTERCEPTED),
        (certificate_error(19), ReachState.TLS_INTERCEPTED),
        (certificate_error(10), ReachState.CLOCK_WRONG),
        (certificate_error(9), ReachState.CLOCK_WRONG),
        (TimeoutError("timed out"), ReachState.TIMED_OUT),
        (OSError("Tunnel connection failed: 407 Proxy Authentication"), ReachState.PROXY_LOGIN),
        (ConnectionResetError(104, "reset"), ReachState.REFUSED),
    ],
)
def test_a_failed_connection_is_explained(reason: OSError, state: ReachState) -> None:
    assert state_of(reason) is state
    assert state_of(urllib.error.URLError(reason)) is state


def test_the_endpoint_that_is_set_comes_first_and_a_mirror_beside_it() -> None:
    assert endpoints_to_ask({}) == (HUB, MIRROR)
    assert endpoints_to_ask({"HF_ENDPOINT": "https://hub.example/"})[0] == "https://hub.example"
    assert endpoints_to_ask({"HF_ENDPOINT": MIRROR}) == (MIRROR, HUB)
