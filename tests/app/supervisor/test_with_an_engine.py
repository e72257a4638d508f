"""The supervisor with real processes: starts, ends, crashes, and what is left of them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

pytest.importorskip("PySide6.QtCore", exc_type=ImportError)

from app.engine_http import EngineHttpError
from app.supervisor.events import Patience
from app.supervisor.preparation import port_is_free
from app.supervisor.sleep_watch import SleepWatch
from app.supervisor.state import Activity, Phase, ReasonCode
from engine.core.settings import load_settings, read_engine_record, write_engine_record
from tests.app.supervisor.conftest import PATIENCE_MS, lives, python

ROOT = Path(__file__).resolve().parents[3]
LONG_ANSWER = {"pieces": ["word "] * 2000, "delay_ms": 50, "times": 0}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(sys.platform == "win32", reason="ends processes by POSIX signals"),
]


def is_ready(state):
    return state.phase is Phase.READY and state.is_loaded


def children(pid):
    return [child.pid for child in psutil.Process(pid).children(recursive=True)]


def wait_until(condition, timeout_s=60.0):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


class Answer:
    """A streamed answer, read in a thread."""

    def __init__(self, http):
        self.received = 0
        self.error = None
        self._http = http
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        body = {"messages": [{"role": "user", "content": "go on"}], "stream": True}
        try:
            with self._http.stream("/v1/chat/completions", body) as response:
                for line in response.iter_lines():
                    self.received += len(line)
        except EngineHttpError as error:
            self.error = error

    def wait_begun(self):
        wait_until(lambda: self.received > 500 or self.error)
        assert self.error is None

    def wait_ended(self):
        self._thread.join(60)
        assert not self._thread.is_alive()


def test_a_model_is_started_freed_loaded_by_a_request_and_stopped(supervise, write_config, home):
    watched = supervise(write_config())
    supervisor = watched.supervisor
    supervisor.start()
    state = watched.until(is_ready)
    phases = [state.phase for state in watched.states]
    assert phases[0] is Phase.STARTING
    assert Phase.LOADING in phases
    assert state.model == "stratum-tiny"
    assert supervisor.http.get("/status")["state"] == "idle"
    family = [state.pid, *children(state.pid)]
    assert len(family) == 2  # the front and the model

    supervisor.free_memory()
    state = watched.until(lambda s: s.phase is Phase.READY and not s.is_loaded)
    assert any(s.activity is Activity.RELEASING for s in watched.states)
    assert children(state.pid) == []
    body = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 4}
    supervisor.http.post("/v1/chat/completions", body, read_timeout_s=60)
    watched.until(is_ready)

    port = int(state.base_url.rpartition(":")[2])
    supervisor.stop()
    state = watched.until(lambda s: s.phase is Phase.STOPPED)
    assert state.reason is None
    assert Phase.STOPPING in [s.phase for s in watched.states]
    assert not any(lives(pid) for pid in family)
    assert port_is_free("127.0.0.1", port)
    assert read_engine_record(home / "data") is None
    with pytest.raises(EngineHttpError, match="does not run"):
        supervisor.http.get("/status")
    log = supervisor.log_path.read_text(encoding="utf-8")
    assert "Stratum is ready at http://127.0.0.1" in log


def test_an_engine_killed_while_it_loads_is_started_again(supervise, write_config, write_script):
    script = write_script(load={"delay_ms": 3000, "steps": 30}, answers=[])
    watched = supervise(write_config(), script=script)
    watched.supervisor.start()
    state = watched.until(lambda s: s.phase is Phase.LOADING and s.progress is not None)
    first = [state.pid, *children(state.pid)]
    os.kill(state.pid, signal.SIGKILL)
    watched.until_seen(lambda s: s.phase is Phase.STARTING and s.reason is not None)
    state = watched.until(is_ready)
    assert state.pid not in first
    assert not any(lives(pid) for pid in first)


def test_an_engine_killed_in_mid_answer_is_started_again_and_answers(
    supervise, write_config, write_script
):
    watched = supervise(write_config(), script=write_script(answers=[LONG_ANSWER]))
    watched.supervisor.start()
    state = watched.until(is_ready)
    first = [state.pid, *children(state.pid)]
    answer = Answer(watched.supervisor.http)
    answer.wait_begun()
    watched.supervisor.look_now()
    watched.until(lambda s: s.phase is Phase.BUSY)
    os.kill(state.pid, signal.SIGKILL)
    answer.wait_ended()
    assert answer.error is None or answer.error.code == "engine_cut_off"
    watched.until_seen(lambda s: s.reason is not None and s.reason.code is ReasonCode.KILLED)
    watched.until(is_ready)
    assert not any(lives(pid) for pid in first)
    answer = Answer(watched.supervisor.http)
    answer.wait_begun()
    watched.supervisor.stop()
    watched.supervisor.stop()  # without the ten seconds
    answer.wait_ended()


def test_a_model_process_that_is_killed_is_the_engines_own_business(
    supervise, write_config, write_script
):
    watched = supervise(write_config(), script=write_script(answers=[LONG_ANSWER]))
    watched.supervisor.start()
    front = watched.until(is_ready).pid
    (worker,) = children(front)
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: children(front) not in ([worker], []))
    watched.until(is_ready)
    assert watched.state.pid == front


def test_three_crashes_are_the_end_with_the_last_reason(supervise, write_config):
    command = python(
        "import os; print('cuInit failed: CUDA_ERROR_UNKNOWN', flush=True); os.abort()"
    )
    watched = supervise(write_config(), command=lambda _path: command)
    watched.supervisor.start()
    state = watched.until(lambda s: s.phase is Phase.FAILED)
    assert state.reason.code is ReasonCode.GPU_DRIVER
    assert "CUDA_ERROR_UNKNOWN" in state.reason.detail
    log = watched.supervisor.log_path.read_text(encoding="utf-8")
    assert log.count(" start ---") == 3


def test_a_start_that_hangs_is_ended_and_said(supervise, write_config):
    patience = Patience(
        start_quiet_s=1.0, pulse_s=0.1, leftovers_s=0.1, max_crashes=2, backoff_s=(0.1,)
    )
    command = python("import time; time.sleep(600)")
    watched = supervise(write_config(), command=lambda _path: command, patience=patience)
    watched.supervisor.start()
    state = watched.until(lambda s: s.phase is Phase.FAILED)
    assert state.reason.code is ReasonCode.START_HUNG
    assert state.pid is None


STUBBORN = """
import http.server, json, signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.answer({"state": "idle", "instance": "x", "model": "stubborn", "loaded": True, "c": child.pid})
    def do_POST(self):
        self.answer({"status": "stopping"})
    def answer(self, content):
        data = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
    def log_message(self, *arguments):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(f"ready at http://127.0.0.1:{server.server_port} and so on", flush=True)
server.serve_forever()
"""


def test_an_engine_that_does_not_want_to_end_is_killed_with_all_that_it_started(
    supervise, write_config
):
    patience = Patience(shutdown_s=0.5, terminate_s=0.5, killed_s=5, leftovers_s=0.2)
    watched = supervise(write_config(), command=lambda _path: python(STUBBORN), patience=patience)
    watched.supervisor.start()
    state = watched.until(is_ready)
    family = [state.pid, *children(state.pid)]
    assert len(family) == 2  # the second has a session of its own
    watched.supervisor.stop()
    watched.until(lambda s: s.phase is Phase.STOPPED)
    assert not any(lives(pid) for pid in family)


def test_a_front_that_stops_answering_is_ended_and_started_again(supervise, write_config):
    patience = Patience(
        quiet_s=5.0, leftovers_s=0.2, backoff_s=(0.1,), shutdown_s=0.5, terminate_s=0.5
    )
    watched = supervise(write_config(), command=lambda _path: python(STUBBORN), patience=patience)
    watched.supervisor.start()
    state = watched.until(is_ready)
    os.kill(state.pid, signal.SIGSTOP)  # it lives, and neither answers nor computes
    watched.until_seen(lambda s: s.reason is not None and s.reason.code is ReasonCode.NO_ANSWER)
    watched.until(lambda s: is_ready(s) and s.pid != state.pid)
    assert not lives(state.pid)


def test_a_port_that_is_taken_is_said_and_another_one_offered_and_used(supervise, write_config):
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", 0))
        stranger.listen()
        port = stranger.getsockname()[1]
        watched = supervise(write_config(port=port))
        watched.supervisor.start()
        state = watched.until(lambda s: s.phase is Phase.FAILED)
        assert state.reason.code is ReasonCode.PORT_IN_USE
        assert state.reason.params["port"] == port
        offered = state.reason.params["offered"]
        assert offered > port
        watched.supervisor.use_port(offered)
        state = watched.until(is_ready)
        assert state.base_url == f"http://127.0.0.1:{offered}"
        assert json.loads(watched.supervisor.config_path.read_text())["port"] == offered


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (None, ReasonCode.CONFIG_MISSING),
        ("{", ReasonCode.CONFIG_BROKEN),
        ('{"format": 1, "port": "eighty"}', ReasonCode.CONFIG_BROKEN),
        ('{"format": 99}', ReasonCode.CONFIG_BROKEN),
        ('{"format": 1, "host": "0.0.0.0", "port": 0}', ReasonCode.CONFIG_BROKEN),
        ('{"format": 1, "model": "gone.gguf", "port": 0}', ReasonCode.MODEL_MISSING),
        ('{"format": 1, "model": "cut.gguf", "port": 0}', ReasonCode.MODEL_DAMAGED),
        ('{"format": 1, "context": 9999999, "port": 0}', ReasonCode.CONFIG_BROKEN),
    ],
)
def test_a_config_or_model_that_cannot_be_used_is_said_after_one_try(
    supervise, home, content, code
):
    path = home / "broken.json"
    (home / "cut.gguf").write_bytes(b"GGUF\3\0\0\0")
    if content is not None:
        path.write_text(content, encoding="utf-8")
    watched = supervise(path)
    watched.supervisor.start()
    state = watched.until(lambda s: s.phase is Phase.FAILED)
    assert state.reason.code is code
    if code is not ReasonCode.CONFIG_MISSING:
        assert state.reason.detail
    log = watched.supervisor.log_path
    assert not log.exists() or log.read_text(encoding="utf-8").count(" start ---") == 1


def test_without_a_model_there_is_a_reason(supervise):
    watched = supervise(None)
    watched.supervisor.start()
    assert watched.until(lambda s: s.phase is Phase.FAILED).reason.code is ReasonCode.NO_MODEL


def test_a_second_supervisor_adopts_the_engine_and_can_end_it(
    supervise, write_config, write_script
):
    config, script = write_config(), write_script(answers=[LONG_ANSWER])
    first, second = supervise(config, script=script), supervise(config, script=script)
    first.supervisor.start()
    pid = first.until(is_ready).pid
    second.supervisor.start()
    state = second.until(is_ready)
    assert (state.pid, state.is_adopted) == (pid, True)
    second.supervisor.stop()
    second.until(lambda s: s.phase is Phase.STOPPED)
    assert not lives(pid)
    state = first.until(lambda s: s.phase is Phase.STOPPED)
    assert state.reason.code is ReasonCode.ENDED_OUTSIDE


def test_two_supervisors_that_start_at_once_share_one_engine(supervise, write_config, write_script):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config, script = write_config(port=port), write_script(answers=[])
    both = [supervise(config, script=script) for _ in range(2)]
    for watched in both:
        watched.supervisor.start()
    states = [watched.until(is_ready) for watched in both]
    assert states[0].pid == states[1].pid
    assert sorted(state.is_adopted for state in states) == [False, True]


def test_an_engine_that_does_not_echo_the_nonce_is_not_ours(
    supervise, write_config, write_script, home
):
    config, script = write_config(), write_script(answers=[])
    stranger = supervise(config, script=script)
    stranger.supervisor.start()
    pid = stranger.until(is_ready).pid
    record = read_engine_record(home / "data")
    write_engine_record(home / "data", record.model_copy(update={"nonce": "another"}))
    watched = supervise(config, script=script)
    watched.supervisor.start()
    state = watched.until(is_ready)
    assert not state.is_adopted
    assert state.pid != pid


def test_another_config_is_run_and_remembered(supervise, write_config, write_script):
    script = write_script(answers=[])
    watched = supervise(write_config("one", model_id="model-one"), script=script)
    watched.supervisor.start()
    first = watched.until(is_ready)
    assert first.model == "model-one"
    other = write_config("two", model_id="model-two", api_keys=["0123456789abcdef"])
    watched.supervisor.choose(other)
    watched.until(lambda s: is_ready(s) and s.model == "model-two")
    assert not lives(first.pid)
    assert watched.supervisor.http.get("/status")["model"] == "model-two"  # with its key
    wait_until(lambda: load_settings().active_config == other)


def test_quitting_while_it_answers_ends_everything(supervise, write_config, write_script):
    watched = supervise(write_config(), script=write_script(answers=[LONG_ANSWER]))
    watched.supervisor.start()
    state = watched.until(is_ready)
    family = [state.pid, *children(state.pid)]
    answer = Answer(watched.supervisor.http)
    answer.wait_begun()
    watched.quit()
    assert not any(lives(pid) for pid in family)
    assert watched.state.phase is Phase.STOPPED
    answer.wait_ended()


def test_memory_is_not_freed_while_it_answers_and_the_person_hears_why(
    supervise, write_config, write_script, qtbot
):
    watched = supervise(write_config(), script=write_script(answers=[LONG_ANSWER]))
    watched.supervisor.start()
    watched.until(is_ready)
    answer = Answer(watched.supervisor.http)
    answer.wait_begun()
    watched.supervisor.free_memory()
    qtbot.waitUntil(lambda: watched.refusals != [], timeout=PATIENCE_MS)
    assert watched.refusals[0].code is ReasonCode.BUSY
    watched.supervisor.stop()
    watched.supervisor.stop()
    answer.wait_ended()


def test_before_a_sleep_the_memory_is_free_and_after_it_the_model_is_back(
    supervise, write_config, write_script, qtbot
):
    class Watch(SleepWatch):
        allowed = 0

        def allow(self):
            self.allowed += 1

    watch = Watch()
    watched = supervise(write_config(), script=write_script(answers=[]), watch=watch)
    watched.supervisor.start()
    watched.until(is_ready)
    watch.suspending.emit()
    qtbot.waitUntil(lambda: watch.allowed > 0, timeout=PATIENCE_MS)
    watched.until(lambda s: not s.is_loaded)
    watch.resumed.emit()
    watched.until(is_ready)


KEEPER = """
import sys
from pathlib import Path
from PySide6.QtCore import QCoreApplication
from app.supervisor.control import Surroundings
from app.supervisor.launch import serve_command
from app.supervisor.supervisor import Supervisor

script = sys.argv[3]
extra = ["--script", script, "--repeat-stop-tokens", "0"]
app = QCoreApplication(sys.argv)
supervisor = Supervisor(
    Path(sys.argv[1]), Path(sys.argv[2]),
    surroundings=Surroundings(command=lambda path: [*serve_command(path), *extra]),
)
supervisor.state_changed.connect(
    lambda state: print(state.phase.value, state.pid, state.base_url, flush=True)
)
supervisor.start()
app.exec()
"""


@pytest.mark.parametrize("moment", ["loading", "ready", "answering"])
def test_a_supervisor_killed_at_any_moment_leaves_no_orphan(
    write_config, write_script, home, moment
):
    load = {"delay_ms": 60_000, "steps": 600} if moment == "loading" else {}
    script = write_script(load=load, answers=[LONG_ANSWER])
    keeper = subprocess.Popen(
        python(KEEPER, str(home / "data"), str(write_config()), str(script)),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    with keeper, contextlib.ExitStack() as stack:
        wanted = "loading" if moment == "loading" else "ready"
        while not (words := keeper.stdout.readline().split()) or words[0] != wanted:
            assert words != [] or keeper.poll() is None
        pid, url = int(words[1]), words[2]
        wait_until(lambda: children(pid) != [])
        family = [pid, *children(pid)]
        if moment == "answering":
            address = ("127.0.0.1", int(url.rpartition(":")[2]))
            connection = stack.enter_context(socket.create_connection(address))
            body = b'{"messages": [{"role": "user", "content": "go on"}], "stream": true}'
            connection.sendall(
                b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
            )
            connection.sendall(body)
            received = b""
            while b"data: " not in received:
                received += (part := connection.recv(4096))
                assert part, received
        keeper.kill()
        keeper.wait()
        wait_until(lambda: not any(lives(pid) for pid in family))
        # The system may close a dead process's sockets a moment after it has gone.
        wait_until(lambda: port_is_free("127.0.0.1", int(url.rpartition(":")[2])))
