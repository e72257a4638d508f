"""`engine serve` before it serves: whatever is wrong is said in one line, with exit status 2."""

import logging
import os
import socket

import pytest

from engine.cli import main
from engine.commands import serve
from engine.core.config import BUNDLED_MODEL, RunConfig
from engine.core.emulated_cards import EMULATED_VARIABLE
from engine.core.gpu import GpuReport
from engine.core.settings import EngineRecord, write_engine_record
from engine.server.model_side import open_model_side

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
        (("--host", ""), "host is ''; it must be an address or a name"),
        (("--host", "127.0.0.1:80"), "The port is a setting of its own"),
        (("--host", "http://localhost"), "it must be an address or a name"),
        (("--api-keys", "short"), "16 characters"),
        (("--cors-origins", "*"), "Set api_keys"),
        (("--trusted-origins", "nonsense"), "is no origin"),
        (("--allowed-hosts", "http://my-pc"), "is no host name"),
        (("--host", "203.0.113.7", "--api-keys", KEY), "cannot listen on 203.0.113.7"),
        (("--config", "missing.json"), "missing.json"),
        (("--port", "0", "--script", "missing.json"), "missing.json"),
        (("--port", "0", "--model", "missing.gguf"), "missing.gguf"),
        (("--port", "0", "--context", "99999999"), "longer than the model's"),
    ],
)
def test_unusable_settings_are_refused(capsys, flags, part):
    assert part in refused(capsys, *flags)


@pytest.mark.parametrize(
    ("cards", "flags", "part"),
    [
        ("", ("--kv-type", "i8"), "i8 need a graphics card that computes"),
        ("900", ("--kv-type", "i8", "--ops", "host"), "i8 need a graphics card that computes"),
        ("", ("--gpus", "0"), "names the card 0, which this PC does not have; no NVIDIA card"),
        ("900", ("--gpus", "0,3"), "names the card 3, which this PC does not have (0 is Emulated"),
    ],
)
def test_what_the_cards_of_this_pc_cannot_give_is_refused(capsys, monkeypatch, cards, flags, part):
    monkeypatch.setenv(EMULATED_VARIABLE, cards)
    monkeypatch.setattr(
        "engine.core.gpu.read_nvml", lambda _: GpuReport()
    )  # whatever the tester has
    monkeypatch.setattr("engine.core.gpu.run_smi", lambda _: "")
    assert part in refused(capsys, "--port", "0", *flags)


@pytest.mark.parametrize("flags", [("--kv-type", "i8"), ("--gpus", "1"), ("--ops", "cuda")])
def test_what_they_can_give_is_not_refused(capsys, monkeypatch, flags):
    started = []

    async def serve_nothing(*_):
        started.append(flags)
        return 0

    monkeypatch.setenv(EMULATED_VARIABLE, "900,900")
    monkeypatch.setattr(serve, "_serve", serve_nothing)
    assert main(["serve", "--port", "0", *flags]) == 0
    assert started


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


@pytest.fixture
def our_server(tmp_path):
    """A taken port, and the record of a server of ours with default settings on it."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        settings = serve._settings_digest(RunConfig(port=port), None)
        record = EngineRecord(pid=os.getpid(), port=port, settings=settings)
        write_engine_record(tmp_path / "home" / "data", record)
        yield record


def test_a_second_start_with_the_same_settings_says_where_the_first_one_is(capsys, our_server):
    assert main(["serve", "--port", str(our_server.port)]) == 0
    captured = capsys.readouterr()
    url = f"http://127.0.0.1:{our_server.port}"
    assert captured.out == f"Stratum is already running at {url} (process {os.getpid()}).\n"
    assert captured.err == ""


def test_a_second_start_with_other_settings_is_refused(capsys, our_server):
    text = refused(capsys, "--port", str(our_server.port), "--context", "512")
    assert f"Stratum, which is already running with other settings (process {os.getpid()})" in text


def test_a_second_start_with_a_key_is_not_told_that_a_server_without_one_is_it(capsys, our_server):
    text = refused(capsys, "--port", str(our_server.port), "--api-keys", KEY)
    assert "already running with other settings" in text


def test_the_digest_of_the_settings_knows_keys_and_an_upstream_key(monkeypatch):
    def digest(**settings):
        return serve._settings_digest(RunConfig(**settings), None)

    upstream = {"upstream": "http://host:8000/v1"}
    with_keys = [digest(), digest(api_keys=[KEY]), digest(api_keys=[KEY + "7"]), digest(**upstream)]
    monkeypatch.setenv("STRATUM_UPSTREAM_KEY", KEY)
    with_keys.append(digest(**upstream))
    assert len(set(with_keys)) == len(with_keys)
    assert digest(api_keys=[KEY]) == with_keys[1]
    assert digest(api_keys=[KEY, KEY]) == with_keys[1]


def announced(capsys, **settings):
    config = RunConfig(**settings)
    serve._announce(config, 8080, open_model_side(config, config.model_path, None))
    return capsys.readouterr().out


def test_a_server_for_all_addresses_names_one_that_can_be_opened(capsys, monkeypatch):
    monkeypatch.setattr(serve, "outward_address", lambda _family: "192.0.2.7")
    text = announced(capsys, host="0.0.0.0", api_keys=[KEY])  # noqa: S104
    assert "ready at http://127.0.0.1:8080 and loads" in text
    assert text.endswith("address: http://192.0.2.7:8080\n")
    assert "ready at http://[::1]:8080" in announced(capsys, host="[::]", api_keys=[KEY])
    monkeypatch.setattr(serve, "outward_address", lambda _family: None)
    assert announced(capsys, host="::", api_keys=[KEY]).endswith("name or address\n")


def test_a_server_for_this_machine_alone_names_no_other_address(capsys):
    text = announced(capsys, lazy_load=True)
    assert text.startswith(
        "Stratum is ready at http://127.0.0.1:8080 and loads stratum-tiny with the first"
    )
    assert text.count("\n") == 1


def test_the_record_of_a_process_that_is_gone_is_not_believed(capsys, tmp_path, our_server):
    old = our_server.model_copy(update={"started_at": 1.0})  # so the number is another process's
    write_engine_record(tmp_path / "home" / "data", old)
    assert "another program" in refused(capsys, "--port", str(our_server.port))


@pytest.mark.skipif(not socket.has_ipv6, reason="this Python has no IPv6")
def test_a_port_that_another_program_has_under_the_name_localhost_is_in_use(capsys):
    try:
        other = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no IPv6")
    with other:
        port = other.getsockname()[1]
        assert f"Port {port} on ::1 is in use" in refused(capsys, "--port", str(port))


def test_a_bad_model_file_frees_the_port_again(capsys):
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    refused(capsys, "--port", str(port), "--model", "missing.gguf")
    with socket.create_server(("127.0.0.1", port)):
        pass
