"""What is found out before a start."""

import json
import os
import socket
import subprocess
import sys

import psutil
import pytest

from app.supervisor.launch import console_python, engine_environment
from app.supervisor.preparation import (
    CannotStartError,
    base_url,
    find_running,
    free_port,
    port_in_use,
    port_is_free,
    port_owner,
    read_plan,
    wait_for_running,
)
from app.supervisor.state import ReasonCode
from engine.core.settings import EngineRecord, write_engine_record


def write(path, **values):
    path.write_text(json.dumps({"format": 1, **values}), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:1"),
        ("0.0.0.0", "http://127.0.0.1:1"),  # noqa: S104
        ("::", "http://[::1]:1"),
        ("[::1]", "http://[::1]:1"),
        ("my-pc.lan", "http://my-pc.lan:1"),
    ],
)
def test_the_address_is_one_that_this_machine_reaches(host, url):
    assert base_url(host, 1) == url


def test_the_key_is_the_configs_or_the_environments(tmp_path):
    key = "0123456789abcdef"
    path = write(tmp_path / "a ü.json", api_keys=[key, key[::-1]])
    assert read_plan(path).api_key == key
    path = write(tmp_path / "b.json")
    assert read_plan(path).api_key is None
    assert read_plan(path, f" {key} ,other").api_key == key


@pytest.mark.parametrize(
    ("content", "code", "engine_code"),
    [
        (None, ReasonCode.CONFIG_MISSING, ""),
        ("[]", ReasonCode.CONFIG_BROKEN, "config"),
        ('{"format": 2}', ReasonCode.CONFIG_BROKEN, "format_too_new"),
        ('{"port": 99999}', ReasonCode.CONFIG_BROKEN, "config"),
    ],
)
def test_a_config_that_cannot_be_used_is_said(tmp_path, content, code, engine_code):
    path = tmp_path / "c.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(CannotStartError) as caught:
        read_plan(path)
    reason = caught.value.reason
    assert (reason.code, reason.engine_code) == (code, engine_code)
    assert reason.params["path"] == str(path)


def test_without_a_config_no_model_was_chosen():
    with pytest.raises(CannotStartError) as caught:
        read_plan(None)
    assert caught.value.reason.code is ReasonCode.NO_MODEL


def test_who_has_a_port_is_named_and_another_is_offered(tmp_path):
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", 0))
        stranger.listen()
        port = stranger.getsockname()[1]
        assert not port_is_free("127.0.0.1", port)
        assert not port_is_free("localhost", port)
        assert port_owner(port).pid == os.getpid()
        reason = port_in_use(read_plan(write(tmp_path / "c.json", port=port)))
    assert reason.params["port"] == port
    assert reason.params["pid"] == os.getpid()
    assert reason.params["owner"] == psutil.Process().name()
    assert port < reason.params["offered"] <= port + 50
    assert port_is_free("127.0.0.1", reason.params["offered"])


def test_behind_the_last_port_there_is_none():
    assert free_port("127.0.0.1", 65535) is None


def test_a_record_whose_server_does_not_answer_is_no_running_engine(tmp_path):
    assert find_running(tmp_path, None) is None
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    write_engine_record(tmp_path, EngineRecord(pid=os.getpid(), port=port))
    assert find_running(tmp_path, None) is None


def test_an_engine_of_somebody_else_is_not_waited_for(tmp_path):
    """Its command line looks like ours, it answers, and no record of ours names it."""
    code = (
        "import http.server, sys\n"
        "server = http.server.HTTPServer(('127.0.0.1', 0), http.server.BaseHTTPRequestHandler)\n"
        "print(server.server_port, flush=True)\n"
        "server.serve_forever()\n"
    )
    stranger = subprocess.Popen(
        [sys.executable, "-c", code, "engine", "serve"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        port = int(stranger.stdout.readline())
        plan = read_plan(write(tmp_path / "c.json", port=port))
        assert wait_for_running(plan, tmp_path, lambda: True, patience_s=1e9) is None
    finally:
        stranger.kill()
        stranger.communicate()


def test_the_engine_is_run_by_a_python_with_standard_streams(tmp_path):
    (tmp_path / "python.exe").touch()
    assert console_python(str(tmp_path / "pythonw.exe")).name == "python.exe"
    assert console_python("/usr/bin/python3").name == "python3"


def test_the_engine_speaks_utf8_and_gives_its_errors_codes():
    environment = engine_environment({"PATH": "x"})
    assert environment["PYTHONUTF8"] == "1"
    assert environment["STRATUM_ERROR_LINES"] == "1"
    assert environment["PATH"] == "x"
