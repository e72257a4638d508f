"""Fetches one file, or a range of one: resumable, verified, patient. No byte of a wrong place.

A request asks for what is missing (`Range`), at a location that the hub was just asked for. An answer
counts only when it is 206 with exactly the `Content-Range` that was asked for. An answer 200 to a
resumed file begins at byte 0 and so does the file again; for a range inside a file it is an error,
since a mirror that ignores `Range` would fill tensors with a shard's beginning.
"""

from __future__ import annotations

import logging
import re
import secrets
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import httpx2

from installer.download.control import Control, InterruptedTransferError
from installer.download.disk import hash_file
from installer.download.hub import Hub, Location
from installer.download.options import RetryPolicy
from installer.download.part_file import PartFile, PartIdentity
from installer.download.problems import TransferProblemError, problem_of, problem_of_status
from installer.download.progress import Phase
from installer.download.reporter import Reporter
from installer.errors import ChecksumError, HubError, NetworkError

logger = logging.getLogger(__name__)

T = TypeVar("T")

_CONTENT_RANGE = re.compile(r"bytes (?P<first>\d+)-(?P<last>\d+)/(?P<total>\d+|\*)", re.ASCII)


@dataclass(frozen=True, slots=True)
class RemoteRange:
    """Bytes of a file on the hub; all of them, or some.

    Attributes:
        repository: where the file is.
        revision: the commit.
        path: its path there.
        file_bytes: size of the whole file.
        first: the first byte that is wanted.
        bytes: how many are wanted.
    """

    repository: str
    revision: str
    path: str
    file_bytes: int
    first: int
    bytes: int

    @classmethod
    def whole(cls, repository: str, revision: str, path: str, file_bytes: int) -> RemoteRange:
        """All of a file."""
        return cls(repository, revision, path, file_bytes, 0, file_bytes)

    @property
    def is_whole(self) -> bool:
        """Whether it is all of the file."""
        return self.first == 0 and self.bytes == self.file_bytes


class Transfer:
    """Fetches, for one download."""

    def __init__(
        self,
        hub: Hub,
        client: httpx2.Client,
        control: Control,
        policy: RetryPolicy,
        reporter: Reporter,
    ) -> None:
        self._hub = hub
        self._client = client
        self._control = control
        self._policy = policy
        self._reporter = reporter

    def fetch(self, wanted: RemoteRange, target: Path, sha256: str) -> None:
        """Fetch into a file, which has its name only when its SHA-256 fits.

        Raises:
            DownloadError: it cannot go on; the part is kept, except when its bytes are wrong.
            StoppedError: that was asked for; the part is kept.
        """
        identity = PartIdentity(
            wanted.bytes, sha256, f"{wanted.repository}/{wanted.path}@{wanted.revision}"
        )
        part = PartFile(target, identity, self._control)
        reporter = self._reporter
        try:
            reporter.begin(Phase.CHECKING, target.name, wanted.bytes)
            part.open(reporter.read)
            for is_last in (False, True):
                reporter.begin(Phase.DOWNLOADING, target.name, wanted.bytes, part.length)
                self._complete(part, wanted)
                if part.matches():
                    part.finish()
                    return
                logger.warning(
                    "%s has %d bytes that do not fit its checksum%s",
                    target.name,
                    part.length,
                    "" if is_last else "; fetching it again",
                )
                reporter.take_back(part.length)
                part.restart()
            part.close()
            raise ChecksumError(
                f"{target.name} was fetched twice from {self._hub.host}, and both times it was not "
                "what its checksum says. Try again later, or choose another mirror.",
                params={"file": target.name, "host": self._hub.host},
            )
        finally:
            part.close()

    def read(self, wanted: RemoteRange) -> bytes:
        """Fetch a few bytes into memory (a listing, a header).

        Raises:
            DownloadError: it cannot be had.
            StoppedError: that was asked for.
        """
        sink = _MemorySink()
        self._complete(sink, wanted)
        return bytes(sink.data)

    def ask(self, question: Callable[[], T]) -> T:
        """The answer to a question to the hub, tried again like a transfer.

        Raises:
            DownloadError: there is no answer.
            StoppedError: that was asked for.
        """
        attempt = 0
        while True:
            self._control.wait_while_paused()
            try:
                return question()
            except TransferProblemError as problem:
                attempt += 1
                self._wait_after(problem, attempt)

    def _complete(self, sink: PartFile | _MemorySink, wanted: RemoteRange) -> None:
        """Fetch what `sink` lacks of `wanted`, with as many requests as it takes."""
        attempt = 0
        while sink.length < wanted.bytes:
            if self._control.is_paused:
                self._reporter.state(Phase.PAUSED)
                self._control.wait_while_paused()
                self._reporter.resumed()
            before = sink.length
            try:
                self._control.check_stopped()
                location = self._hub.location(wanted.repository, wanted.revision, wanted.path)
                self._request(location, sink, wanted)
            except InterruptedTransferError:
                attempt = 0
            except TransferProblemError as problem:
                attempt = 1 if sink.length > before else attempt + 1
                self._wait_after(problem, attempt)

    def _wait_after(self, problem: TransferProblemError, attempt: int) -> None:
        """Wait for the next try, or give up."""
        policy = self._policy
        if not problem.may_pass or attempt >= policy.max_attempts:
            raise problem.error from problem
        wait = min(policy.first_wait_s * 2 ** (attempt - 1), policy.longest_wait_s)
        # Many who lost the same server should not come back in the same second.
        wait *= 0.75 + secrets.randbelow(500) / 1000
        if problem.retry_after_s is not None:
            wait = max(wait, min(problem.retry_after_s, policy.longest_retry_after_s))
        if problem.at_once and attempt == 1:
            wait = 0.0
        logger.info("%s Trying again in %.1f s (%d)", problem.error, wait, attempt)
        self._reporter.waiting(
            wait, problem.error.code, attempt, policy.max_attempts, self._control
        )
        self._control.check_stopped()

    def _request(
        self, location: Location, sink: PartFile | _MemorySink, wanted: RemoteRange
    ) -> None:
        """One request, and as many of its bytes as arrive."""
        first, last = wanted.first + sink.length, wanted.first + wanted.bytes - 1
        # A connection of its own, which can be shut while even the answer's head is awaited.
        headers = {**location.headers, "Accept-Encoding": "identity", "Connection": "close"}
        if first > 0 or last + 1 < wanted.file_bytes:
            headers["Range"] = f"bytes={first}-{last}"
        with self._connection() as connection:
            try:
                with self._client.stream(
                    "GET", location.url, headers=headers, extensions={"trace": connection.trace}
                ) as response:
                    connection.use(response)
                    self._accept(response, location, sink, wanted)
                    self._receive(response, sink, wanted)
            except (httpx2.HTTPError, httpx2.InvalidURL) as error:
                self._control.check()
                raise problem_of(error, location.host) from error

    def _accept(
        self,
        response: httpx2.Response,
        location: Location,
        sink: PartFile | _MemorySink,
        wanted: RemoteRange,
    ) -> None:
        """Check the answer's head; afterwards its bytes belong behind those that `sink` has."""
        status = response.status_code
        if status == 206:
            self._check_range(response, sink, wanted)
        elif status == 200:
            self._check_whole(response, sink, wanted)
        elif status == 416:
            # The file is shorter than what we have of it: it is another one now.
            if sink.length == 0:
                raise TransferProblemError(self._changed(wanted), may_pass=False)
            self._forget(sink)
            raise TransferProblemError(self._changed(wanted), may_pass=True, at_once=True)
        else:
            raise problem_of_status(
                response,
                host=location.host,
                what=wanted.path.rsplit("/", 1)[-1],
                is_signed=location.is_signed,
            )

    def _check_range(
        self, response: httpx2.Response, sink: PartFile | _MemorySink, wanted: RemoteRange
    ) -> None:
        text = response.headers.get("Content-Range", "")
        match = _CONTENT_RANGE.fullmatch(text.strip())
        first, last = wanted.first + sink.length, wanted.first + wanted.bytes - 1
        if match is not None and match["total"] not in ("*", str(wanted.file_bytes)):
            raise TransferProblemError(self._changed(wanted), may_pass=False)
        if match is None or (int(match["first"]), int(match["last"])) != (first, last):
            raise self._ignores_range(wanted, f"it sent {text or 'no range'}")

    def _check_whole(
        self, response: httpx2.Response, sink: PartFile | _MemorySink, wanted: RemoteRange
    ) -> None:
        if not wanted.is_whole:
            raise self._ignores_range(wanted, "it sent the whole file")
        length = response.headers.get("Content-Length")
        if length is not None and length != str(wanted.bytes):
            if "html" in response.headers.get("Content-Type", ""):
                raise TransferProblemError(
                    HubError(
                        f"A page came instead of {wanted.path}: this network may want you to log "
                        "in. Open any page in a browser, then go on.",
                        code="login_page",
                        params={"file": wanted.path},
                    ),
                    may_pass=False,
                )
            raise TransferProblemError(self._changed(wanted), may_pass=False)
        if sink.length:
            logger.warning("%s is sent from its beginning again", wanted.path)
            self._forget(sink)

    def _forget(self, sink: PartFile | _MemorySink) -> None:
        if isinstance(sink, PartFile):
            self._reporter.take_back(sink.length)
        sink.restart()

    def _receive(
        self, response: httpx2.Response, sink: PartFile | _MemorySink, wanted: RemoteRange
    ) -> None:
        missing = wanted.bytes - sink.length
        for chunk in response.iter_raw():
            self._control.check()
            data = chunk[:missing]  # of an answer that is too long the checksum is the judge
            sink.append(data)
            missing -= len(data)
            if isinstance(sink, PartFile):  # headers are not in the plan
                self._reporter.received(len(data))
            self._control.throttle(len(data))
            if missing == 0:
                return
        host = response.url.host
        raise TransferProblemError(
            NetworkError(
                f"The connection to {host} ended early. The download resumes where it was.",
                code="connection_lost",
                params={"host": host},
            ),
            may_pass=True,
        )

    @contextmanager
    def _connection(self) -> Iterator[_Connection]:
        connection = _Connection()
        with self._control.interruptible(connection.shut):
            yield connection

    def _changed(self, wanted: RemoteRange) -> HubError:
        return HubError(
            f"{wanted.path} on {self._hub.host} is another file than this version of Stratum knows. "
            "Update Stratum, or choose another mirror.",
            code="hub_file_changed",
            params={"file": wanted.path, "host": self._hub.host},
        )

    def _ignores_range(self, wanted: RemoteRange, how: str) -> TransferProblemError:
        return TransferProblemError(
            HubError(
                f"{self._hub.host} cannot send a part of {wanted.path} ({how}), so nothing could be "
                "resumed. Choose another mirror.",
                code="mirror_ignores_range",
                params={"file": wanted.path, "host": self._hub.host},
            ),
            may_pass=False,
        )


class _Connection:
    """The socket below a request, to be shut from another thread."""

    def __init__(self) -> None:
        self._stream: object = None

    def trace(self, event: str, info: Mapping[str, object]) -> None:
        """Told by the HTTP client what it does; keeps the connection when it comes up."""
        if event.endswith((".connect_tcp.complete", ".start_tls.complete")):
            self._stream = info.get("return_value")

    def use(self, response: httpx2.Response) -> None:
        """Take the connection of an answer."""
        self._stream = response.extensions.get("network_stream", self._stream)

    def shut(self) -> None:
        """Wake the thread that waits for bytes; it sees an error and asks why."""
        get_extra_info = getattr(self._stream, "get_extra_info", None)
        raw = get_extra_info("socket") if get_extra_info is not None else None
        if isinstance(raw, socket.socket):
            try:
                raw.shutdown(socket.SHUT_RDWR)
            except OSError:
                logger.debug("the connection was closed already")


class _MemorySink:
    """Bytes of a small range."""

    def __init__(self) -> None:
        self.data = bytearray()

    @property
    def length(self) -> int:
        return len(self.data)

    def append(self, data: bytes) -> None:
        self.data += data

    def restart(self) -> None:
        self.data.clear()


def verify_file(path: Path, sha256: str, control: Control, reporter: Reporter) -> bool:
    """Whether a file has this SHA-256; it is read as a whole.

    Raises:
        DiskError: it cannot be read.
        StoppedError: that was asked for.
    """
    reporter.begin(Phase.VERIFYING, path.name, path.stat().st_size)
    return hash_file(path, control, reporter.read) == sha256
