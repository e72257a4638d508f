"""One app for each person: a second start hands its wish to the first one, and ends.

    instance = Instance()
    if not instance.claim(Wish.RAISE):    # the first one was asked to raise its window
        return 0
    instance.asked.connect(shell.obey)    # with a `Request`

A local socket (a named pipe on Windows) that only this person can reach. What a crashed app left of it
is found dead and taken over. On Wayland a window may only come to the front with the token that the
desktop gave to the second start, so the token travels along.
"""

from __future__ import annotations

import enum
import getpass
import hashlib
import json
import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QLockFile, QObject, Signal
from PySide6.QtNetwork import QLocalServer, QLocalSocket

from engine.core.errors import ResourceError
from engine.core.settings import settings_path

logger = logging.getLogger(__name__)

CONNECT_MS = 500
# A first app that loads a model from a slow disk may answer late; one that hangs never does.
ANSWER_MS = 5000
_LOCK_MS = 3000
_MOST_BYTES = 4096
_OK = b"ok\n"
_ENDING = b"ending\n"
# A large model needs up to a minute to give its memory back.
END_PATIENCE_S = 120.0
_END_POLL_S = 0.3
_TOKENS = ("XDG_ACTIVATION_TOKEN", "DESKTOP_STARTUP_ID")


class Wish(enum.StrEnum):
    """What a second start wants of the first."""

    RAISE = "raise"
    OPEN_CHAT = "open chat"
    NOTHING = "nothing"  # started at login although it runs: leave it as it is


class _Answer(enum.Enum):
    """What the first one says."""

    NOBODY = enum.auto()  # there is none
    TOLD = enum.auto()
    ENDING = enum.auto()


@dataclass(frozen=True, slots=True)
class Request:
    """A wish, with what the desktop gave for it.

    Attributes:
        token: for the desktop: this window may come to the front; empty where there is none.
    """

    wish: Wish
    token: str = ""


class Instance(QObject):
    """This program among those that were started.

    Signals:
        asked: another start wants something; with a `Request`.

    Attributes:
        is_ending: whether this one is on its way out; another start then waits for its end.
    """

    asked = Signal(object)

    def __init__(self, name: str | None = None, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._name = name or socket_name()
        self._server: QLocalServer | None = None
        self.is_ending: Callable[[], bool] = lambda: False

    def claim(self, wish: Wish, environment: Mapping[str, str] = os.environ) -> bool:
        """Whether this is the first one; else the first one was told the wish.

        One that is ending may still have to give a large model's memory back: it is waited for, and
        then this is the first one.

        Raises:
            ResourceError: the first one is there and does not answer, or does not end.
        """
        deadline = time.monotonic() + END_PATIENCE_S
        while (answer := self._try_claim(wish, environment)) is _Answer.ENDING:
            if time.monotonic() > deadline:
                raise _hangs()
            time.sleep(_END_POLL_S)
        return answer is _Answer.NOBODY

    def _try_claim(self, wish: Wish, environment: Mapping[str, str]) -> _Answer:
        # Two starts at the same moment: the second waits until the first one listens.
        lock = QLockFile(_lock_path(self._name))
        is_locked = lock.tryLock(_LOCK_MS)
        try:
            token = next((environment[key] for key in _TOKENS if environment.get(key)), "")
            answer = self._tell_first(Request(wish, token))
            if answer is _Answer.NOBODY:
                self._listen()
        finally:
            if is_locked:
                lock.unlock()
        return answer

    def close(self) -> None:
        """Let another one be the first."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def _tell_first(self, request: Request) -> _Answer:
        socket = QLocalSocket()
        socket.connectToServer(self._name)
        if not socket.waitForConnected(CONNECT_MS):
            return _Answer.NOBODY  # nobody is there, or only what a crash left
        _allow_to_front()
        message = json.dumps({"wish": request.wish.value, "token": request.token})
        socket.write(message.encode() + b"\n")
        while not socket.canReadLine():
            if not socket.waitForReadyRead(ANSWER_MS):
                raise _hangs()
        is_ending = bytes(socket.readLine().data()) == _ENDING
        return _Answer.ENDING if is_ending else _Answer.TOLD

    def _listen(self) -> None:
        server = QLocalServer(self)
        server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        server.newConnection.connect(self._take)
        QLocalServer.removeServer(self._name)
        if not server.listen(self._name):
            # Better two windows than none.
            logger.warning("a second start will not find this one: %s", server.errorString())
            return
        self._server = server

    def _take(self) -> None:
        server = self._server
        while server is not None and server.hasPendingConnections():
            socket = server.nextPendingConnection()
            socket.readyRead.connect(lambda socket=socket: self._read(socket))
            socket.disconnected.connect(socket.deleteLater)
            self._read(socket)

    def _read(self, socket: QLocalSocket) -> None:
        if not socket.canReadLine():
            if socket.bytesAvailable() > _MOST_BYTES:
                socket.abort()
            return
        line = bytes(socket.readLine(_MOST_BYTES).data())
        is_ending = self.is_ending()
        socket.write(_ENDING if is_ending else _OK)
        socket.flush()
        socket.disconnectFromServer()
        if is_ending:
            return
        request = _request_of(line)
        if request is not None and request.wish is not Wish.NOTHING:
            self.asked.emit(request)


def _hangs() -> ResourceError:
    return ResourceError(
        "Stratum runs already, but does not answer. Wait a moment, or end it in the "
        "task manager, and start it again.",
        code="app_hangs",
    )


def socket_name() -> str:
    """The name of this person's socket; another copy with settings of its own has another one."""
    who = f"{getpass.getuser()}\0{settings_path().absolute()}"
    name = "stratum-" + hashlib.sha256(who.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    if sys.platform == "win32":
        return name
    return str(_socket_folder() / f"{name}.sock")


def _socket_folder() -> Path:
    """A folder that nobody else can write, with a short path: sockets' names hold 107 bytes."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/") and len(runtime) < 60 and _is_ours(Path(runtime)):
        return Path(runtime)
    folder = Path(tempfile.gettempdir())
    if len(str(folder)) > 60:
        folder = Path("/tmp")  # noqa: S108  # the folder in it is ours alone
    folder = folder / f"stratum-{os.getuid()}" if sys.platform != "win32" else folder
    folder.mkdir(mode=0o700, exist_ok=True)
    if not _is_ours(folder):
        raise ResourceError(
            f"The folder {folder} belongs to somebody else, or others can write in it. Remove it "
            "and start again.",
            code="folder_not_ours",
            params={"path": str(folder)},
        )
    return folder


def _is_ours(folder: Path) -> bool:
    if sys.platform == "win32":
        return True
    try:
        stat = folder.lstat()
    except OSError:
        return False
    return stat.st_uid == os.getuid() and not stat.st_mode & 0o022 and folder.is_dir()


def _lock_path(name: str) -> str:
    if sys.platform == "win32":
        return str(Path(tempfile.gettempdir()) / f"{name}.lock")
    return f"{name}.lock"


def _request_of(line: bytes) -> Request | None:
    try:
        content = json.loads(line)
        return Request(Wish(content["wish"]), str(content.get("token", "")))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        logger.warning("a message from another start was not understood: %s", error)
        return None


def _allow_to_front() -> None:
    """Windows lets only the program that the person used last bring a window to the front."""
    if sys.platform == "win32":
        import ctypes  # noqa: PLC0415  # its windll exists only there

        any_process = -1
        ctypes.windll.user32.AllowSetForegroundWindow(any_process)
