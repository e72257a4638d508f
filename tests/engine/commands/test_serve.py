"""`engine serve` before it serves: whatever is wrong is said in one line, with exit status 2."""

import logging
import os
import socket

import pytest

from engine.cli import main
from engine.commands import serve
from engine.core.config import BUNDLED_MODEL
from engine.core.settings import EngineRecord, write_engine_record

KEY = "0123456789abcdef"


@pytest.fixture(autouse=True)
def _own_settings(tmp_path, monkeypatch):
    monkeypatch.setenv("STRATUM_HOME", str(tmp_path / "home"))
    monkeypatch.delenv(serve.KEYS_VARIABLE, raising=False)
    level = logging.getLogger("engine").level
    yield
    logging.getLogger("engine").setLevel(level)


@pytest.fixture(autouse=True)
def _no_worker(monkeypatch):
    """None of these cases may come as far as a worker."""

    async def fail(*_arguments):
        pytest.fail("a worker was about to be started")

    monkeypatch.setattr(serve, "_serve", fail)


def refused(capsys, *flags):
    assert main(["serve", *flags]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("engine serve: ")
    assert captured.err.count("\n") == 1
    return captured.err


@pytest.mark.parametrize(
    ("flags", "part"),
    [
        (("--port", "70000"), 'port is "70000"; it must be a whole number from 0 to 65535'),
        (("--host", "0.0.0.0"), "api_keys is empty"),  # noqa: S104 - it is refused
        (("--host", "::"), "api_keys is empty"),
        (("--api-keys", "short"), "16 characters"),
        (("--cors-origins", "*"), "Set api_keys"),
        (("--trusted-origins", "nonsense"), "is no origin"),
        (("--host", "203.0.113.7", "--api-keys", KEY), "cannot listen on 203.0.113.7"),
        (("--config", "missing.json"), "missing.json"),
        (("--port", "0", "--script", "missing.json"), "missing.json"),
        (("--port", "0", "--model", "missing.gguf"), "missing.gguf"),
        (("--port", "0", "--context", "99999999"), "longer than the model's"),
    ],
)
def test_unusable_settings_are_refused(capsys, flags, part):
    assert part in refused(capsys, *flags)


def test_a_truncated_model_file_is_refused(capsys, tmp_path):
    path = tmp_path / "half.gguf"
    path.write_bytes(BUNDLED_MODEL.read_bytes()[:20_000])
    assert "half.gguf is damaged" in refused(capsys, "--port", "0", "--model", str(path))


def test_a_file_of_another_kind_is_refused(capsys):
    assert "not a GGUF file" in refused(capsys, "--port", "0", "--model", __file__)


def test_a_short_key_in_the_environment_is_refused(capsys, monkeypatch):
    monkeypatch.setenv(serve.KEYS_VARIABLE, f"{KEY},short")
    text = refused(capsys)
    assert serve.KEYS_VARIABLE in text
    assert "short," not in text


def test_a_port_in_use_is_named_with_another_one_to_take(capsys):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        text = refused(capsys, "--port", str(port))
    assert f"Port {port} on 127.0.0.1 is in use by another program" in text
    assert f"--port {port + 1}" in text


def test_a_port_of_our_own_server_is_recognised(capsys, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        write_engine_record(tmp_path / "home" / "data", EngineRecord(pid=os.getpid(), port=port))
        text = refused(capsys, "--port", str(port))
    assert f"Stratum, which is already running (process {os.getpid()})" in text


def test_a_bad_model_file_frees_the_port_again(capsys):
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    refused(capsys, "--port", str(port), "--model", "missing.gguf")
    with socket.create_server(("127.0.0.1", port)):
        pass
