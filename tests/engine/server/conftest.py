"""A real server process on a free port, for the tests of this folder."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import openai
import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
READY = re.compile(r"ready at http://[^ ]*:(\d+)")
# Longer than a busy machine takes for anything: what is waited for is named, never how fast it is.
PATIENCE_S = 240.0


class RunningServer:
    """One `engine serve` process."""

    def __init__(self, process, port, log_path):
        self.process = process
        self.port = port
        self.log_path = log_path
        self.home = log_path.parent / "home"
        self.key = "none"
        self.url = f"http://127.0.0.1:{port}"
        self.http = httpx.Client(base_url=self.url, timeout=PATIENCE_S, trust_env=False)
        self.connections = []  # of `raw`, to be closed after the test

    def openai(self, **options):
        options = {"api_key": "local", "max_retries": 0, "timeout": PATIENCE_S, **options}
        return openai.OpenAI(base_url=self.url + "/v1", **options)

    def chat(self, content="hello", **fields):
        messages = fields.pop("messages", [{"role": "user", "content": content}])
        return self.http.post("/v1/chat/completions", json={"messages": messages, **fields})

    def events(self, content="hello", **fields):
        """The data of each SSE event of a streamed chat, [DONE] included as a string."""
        reply = self.chat(content, stream=True, **fields)
        assert reply.status_code == 200, reply.text
        lines = [line for line in reply.text.split("\n") if line.startswith("data: ")]
        datas = [line.removeprefix("data: ") for line in lines]
        return [data if data == "[DONE]" else json.loads(data) for data in datas]

    def status(self):
        return self.http.get("/status").json()

    def wait_for(self, condition, timeout_s=PATIENCE_S):
        """Poll /status until the condition holds for it."""
        deadline = time.monotonic() + timeout_s
        while True:
            status = self.status()
            if condition(status):
                return status
            assert time.monotonic() < deadline, status
            time.sleep(0.02)

    def wait_idle(self):
        return self.wait_for(lambda s: s["running"] is None and s["queued"] == 0)

    def wait_disconnected(self):
        """Poll until all requests have ended, the last one because its client had gone."""
        assert self.wait_idle()["recent"][0]["finish"] == "disconnected"

    def raw(self, request):
        """Send bytes, and return the socket; the test closes it, and a test that fails need not."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)
        self.connections.append(connection)
        connection.sendall(request)
        return connection

    def raw_chat(self, content, *, stream, **fields):
        """Start a chat on a socket of its own."""
        body = json.dumps(
            {"messages": [{"role": "user", "content": content}], "stream": stream, **fields}
        ).encode()
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return self.raw(head.encode() + body)

    def close_connections(self):
        """What a test has left open: a request goes on until then, and a socket is a warning."""
        while self.connections:
            self.connections.pop().close()

    def log(self):
        return self.log_path.read_text(encoding="utf-8")

    def stop(self):
        self.close_connections()
        if self.process.poll() is None:
            if os.name == "nt":  # there, a signal would be the process's hard end
                self.http.post("/shutdown", json={}, headers={"x-api-key": self.key})
            else:
                self.process.send_signal(signal.SIGTERM)
        self.http.close()
        try:
            return self.process.wait(timeout=PATIENCE_S)
        finally:
            self.process.stdout.close()
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()


def launch(folder, script, flags, environment):
    """Start a server and wait until it listens."""
    command = [sys.executable, "-m", "engine", "serve", "--port", "0"]
    if script is not None:
        path = folder / "script.json"
        path.write_text(json.dumps({"format": 1, **script}), encoding="utf-8")
        command += ["--script", str(path)]
        if "--repeat-stop-tokens" not in flags:  # scripts are monotonous on purpose
            command += ["--repeat-stop-tokens", "0"]
    log_path = folder / "log.txt"
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            [*command, *flags],
            cwd=REPOSITORY,
            env={**os.environ, "STRATUM_HOME": str(folder / "home"), **environment},
            stdout=subprocess.PIPE,
            stderr=log,
        )
    line = process.stdout.readline().decode()
    found = READY.search(line)
    if found is None:
        process.kill()
        process.wait()
        process.stdout.close()
        pytest.fail(f"the server did not start: {line!r} {log_path.read_text()}")
    return RunningServer(process, int(found[1]), log_path)


@pytest.fixture(autouse=True)
def leave_nothing_open(request):
    """Close what a test has left open, so that one failure costs no other test."""
    uses_servers = "start_server" in request.fixturenames
    servers = request.getfixturevalue("start_server").servers if uses_servers else []
    yield
    for server in servers:
        server.close_connections()


@pytest.fixture(scope="module")
def start_server(tmp_path_factory):
    """A function that starts servers; all of them must stop cleanly when the module is done."""
    servers = []

    def start(script=None, *flags, environment=None, wait=True):
        folder = tmp_path_factory.mktemp("server ü")
        server = launch(folder, script, flags, environment or {})
        servers.append(server)
        while wait and server.http.get("/health").status_code == 503:
            time.sleep(0.02)
        return server

    start.servers = servers
    yield start
    statuses = [server.stop() for server in servers]
    assert statuses == [0] * len(servers)
