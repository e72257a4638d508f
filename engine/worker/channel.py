"""The worker's end of the pipes: commands come in, messages go out, and the end is noticed.

File descriptor 1 is taken away from the rest of the process and points to standard error instead, so
that no print of any library can get between two messages. A thread reads commands into a queue; when
the input ends, the front is gone and the process ends at once, in whatever it is doing.
"""

from __future__ import annotations

import ctypes
import logging
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import BinaryIO

from engine.worker.messages import (
    MAX_LINE_BYTES,
    Failed,
    Message,
    MessageError,
    Quit,
    decode,
    encode,
)

logger = logging.getLogger(__name__)

_PR_SET_PDEATHSIG = 1


class Channel:
    """Messages over two binary streams.

    Attributes:
        commands: what the front has sent and nobody has handled yet.
        quit_patience_s: how long this process may go on after it was asked to quit, although its
            input has ended; for what must be saved.
    """

    def __init__(
        self, source: BinaryIO, sink: BinaryIO, end_process: Callable[[int], object] = os._exit
    ) -> None:
        self.commands: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self.quit_patience_s = 0.0
        self._source = source
        self._sink = sink
        self._end_process = end_process
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._read, name="commands", daemon=True)

    def start(self) -> None:
        """Begin to read commands."""
        self._thread.start()

    def send(self, *messages: Message) -> None:
        """Write messages, all at once; waits while the pipe is full."""
        self.send_raw(b"".join(map(encode, messages)))

    def send_raw(self, line: bytes) -> None:
        """Write bytes as they are (the scripted worker's garbage)."""
        try:
            with self._lock:
                self._sink.write(line)
                self._sink.flush()
        except OSError:
            self._end_process(0)  # nobody listens any more

    def end_with(self, message: Message) -> None:
        """Say why, and end the process at once, whatever it is in the middle of."""
        self.send(message)
        self._end_process(1)

    def _read(self) -> None:
        try:
            while line := self._source.readline(MAX_LINE_BYTES + 2):
                if not line.endswith(b"\n"):
                    break  # the front died while it wrote
                message = decode(line)
                self.commands.put(message)
                if isinstance(message, Quit) and self.quit_patience_s:
                    time.sleep(self.quit_patience_s)  # the process ends by itself before
                    break
        except MessageError as error:
            logger.critical("the front sent something that is no message: %s", error)
            self.send(Failed("internal_error", f"The worker cannot go on: {error}.", {}))
            self._end_process(1)
            return
        except OSError as error:
            logger.info("the command pipe failed: %s", error)
        self._end_process(0)


def open_channel() -> Channel:
    """The channel over this process's standard input and output; reading has begun."""
    die_with_parent()
    # Ctrl+C, and the stop signal of a service manager, reach the whole group: the front decides, and
    # lets running answers end. A front that is gone ends this process by the end of its input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _provide_standard_error()
    sink_fd = os.dup(1)
    os.dup2(2, 1)
    source_fd = os.dup(0)
    _make_binary(sink_fd, source_fd)
    sys.stdout = sys.stderr
    channel = Channel(os.fdopen(source_fd, "rb"), os.fdopen(sink_fd, "wb"))
    channel.start()
    return channel


def die_with_parent() -> None:
    """Linux: have the kernel kill this process when its parent ends, even if pipes stay open."""
    if sys.platform.startswith("linux"):
        parent = os.getppid()
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended in between
            os._exit(0)


def _provide_standard_error() -> None:
    """A process without a console (Windows, `pythonw`) may have no standard error at all."""
    try:
        os.fstat(2)
    except OSError:
        null_fd = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null_fd, 2)
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.dup(2), "w", encoding="utf-8", errors="replace", buffering=1)


def _make_binary(*descriptors: int) -> None:
    """Windows: keep the C library from translating line ends."""
    if sys.platform == "win32":
        import msvcrt  # noqa: PLC0415  # exists on Windows only

        for descriptor in descriptors:
            msvcrt.setmode(descriptor, os.O_BINARY)
