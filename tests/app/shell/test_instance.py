"""One app for each person: a second start is heard by the first, whatever a crash has left."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication
from PySide6.QtNetwork import QLocalSocket

from app import instance as instance_module
from app.instance import Instance, Request, Wish, socket_name
from engine.core.errors import ResourceError
from tests.app.shell.conftest import PATIENCE_MS

ROOT = Path(__file__).resolve().parents[3]
# A start of the program, as far as it matters here.
SECOND = """
import sys
from PySide6.QtCore import QCoreApplication
from app.instance import Instance, Wish
app = QCoreApplication([])
print("first" if Instance().claim(Wish(sys.argv[1])) else "second", flush=True)
"""


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for sockets of this test alone; its name is short, as the system wants it."""
    folder = Path("/tmp") / f"stratum-test-{os.getpid()}-{tmp_path.name[-3:]}"  # noqa: S108
    folder.mkdir(mode=0o700, exist_ok=True)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    return folder


@pytest.fixture
def first(qapp: QCoreApplication) -> Iterator[Instance]:
    instance = Instance()
    assert instance.claim(Wish.RAISE)
    yield instance
    instance.close()


def start_second(wish: Wish, **environment: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", SECOND, wish.value],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
    )


def ends_with(second: subprocess.Popen[bytes]) -> str:
    out, _ = second.communicate(timeout=90)
    assert second.returncode == 0
    return out.decode().strip()


def test_a_second_start_is_heard_and_gives_way(qtbot, first):
    with qtbot.waitSignal(first.asked, timeout=PATIENCE_MS) as asked:
        second = start_second(Wish.OPEN_CHAT)
    assert asked.args == [Request(Wish.OPEN_CHAT)]
    assert ends_with(second) == "second"


def test_the_desktops_token_for_coming_to_the_front_travels_along(qtbot, first):
    with qtbot.waitSignal(first.asked, timeout=PATIENCE_MS) as asked:
        second = start_second(Wish.RAISE, XDG_ACTIVATION_TOKEN="token-1")
    assert asked.args == [Request(Wish.RAISE, "token-1")]
    assert ends_with(second) == "second"


def test_a_start_at_login_leaves_the_one_that_runs_as_it_is(qtbot, first):
    asked: list[Request] = []
    first.asked.connect(asked.append)
    second = start_second(Wish.NOTHING)
    qtbot.waitUntil(lambda: second.poll() is not None, timeout=PATIENCE_MS)
    assert ends_with(second) == "second"
    assert asked == []


@pytest.mark.skipif(sys.platform == "win32", reason="a pipe of Windows ends with its process")
def test_what_a_crash_left_is_taken_over(qapp):
    left = socket.socket(socket.AF_UNIX)
    left.bind(socket_name())  # bound, and nobody listens
    left.close()
    instance = Instance()
    assert instance.claim(Wish.RAISE)
    instance.close()


def test_the_next_start_is_the_first_once_it_has_ended(qapp, first):
    first.close()
    assert ends_with(start_second(Wish.RAISE)) == "first"


def test_one_that_is_ending_is_waited_for(qtbot, first):
    # It gives a large model's memory back; a start meanwhile came to nothing (seen 2026-11-30).
    asked: list[Request] = []
    first.asked.connect(asked.append)
    first.is_ending = lambda: True
    second = start_second(Wish.RAISE)
    qtbot.wait(1500)
    assert second.poll() is None
    first.close()
    assert ends_with(second) == "first"
    assert asked == []


def test_one_that_does_not_end_is_named(qapp, first, monkeypatch):
    monkeypatch.setattr(instance_module, "END_PATIENCE_S", 0.0)
    monkeypatch.setattr(Instance, "_tell_first", lambda *_: instance_module._Answer.ENDING)
    monkeypatch.setattr(instance_module, "_END_POLL_S", 0.01)
    with pytest.raises(ResourceError, match="runs already"):
        Instance().claim(Wish.RAISE)


def test_one_that_hangs_is_named(qapp, first, monkeypatch):
    monkeypatch.setattr(instance_module, "ANSWER_MS", 50)
    with pytest.raises(ResourceError, match="runs already, but does not answer"):
        Instance().claim(Wish.RAISE)  # the first one's events are not handled meanwhile


@pytest.mark.parametrize("message", [b"\n", b"[]\n", b"\xff\n", b'{"wish": "jump"}\n'])
def test_messages_that_make_no_sense_change_nothing(qtbot, first, message, caplog):
    asked: list[Request] = []
    first.asked.connect(asked.append)
    stranger = QLocalSocket()
    stranger.connectToServer(socket_name())
    stranger.write(message)
    with qtbot.waitSignal(stranger.disconnected, timeout=PATIENCE_MS):
        stranger.flush()
    assert asked == []
    assert "not understood" in caplog.text


def test_a_message_without_end_is_cut_off(qtbot, first):
    stranger = QLocalSocket()
    stranger.connectToServer(socket_name())
    with qtbot.waitSignal(stranger.disconnected, timeout=PATIENCE_MS):
        stranger.write(b"x" * 100_000)
        stranger.flush()


def test_two_copies_with_settings_of_their_own_do_not_meet(qapp, first, monkeypatch, tmp_path):
    monkeypatch.setenv("STRATUM_HOME", str(tmp_path / "other"))
    other = Instance()
    assert other.claim(Wish.RAISE)
    other.close()


@pytest.mark.skipif(sys.platform == "win32", reason="modes of files are POSIX")
def test_a_folder_that_others_can_write_is_not_used(runtime, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_RUNTIME_DIR", "")
    monkeypatch.setattr(instance_module.tempfile, "gettempdir", lambda: str(runtime))
    folder = runtime / f"stratum-{os.getuid()}"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    with pytest.raises(ResourceError, match="others can write in it"):
        socket_name()
