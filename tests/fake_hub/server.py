"""The fake hub.

    with FakeHub() as hub:
        hub.add("maker/model-GGUF", {"model.gguf": BytesContent(b"...")})
        hub.faults.add(Fault(Kind.CUT, after_bytes=1000))
        ... HF_ENDPOINT=hub.endpoint ...
        assert [request.range for request in hub.byte_requests] == [None, "bytes=1000-4999"]

Like the real one it lists repositories with sizes and SHA-256 (`/api/models/...`), and redirects a
large file to a signed location on another origin, whose signature runs out. Small text files are
served by the hub itself.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import socket
import ssl
import threading
import time
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self
from urllib.parse import parse_qs, quote, unquote, urlsplit

from tests.fake_hub.content import BytesContent, Content
from tests.fake_hub.faults import Fault, Faults, Kind, Where

_SEND_BYTES = 64 << 10
_SMALL_SUFFIXES = (".json", ".md", ".txt", ".gitattributes")
_PAGE = b"<html><body>Please log in to this network.</body></html>"


@dataclass(slots=True)
class Repository:
    """A repository at one commit."""

    name: str
    files: dict[str, Content]
    commit: str
    is_gated: bool = False
    is_private: bool = False
    old_commits: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Request:
    """One request that was answered.

    Attributes:
        origin: `hub` or `cdn`.
        sent_bytes: of the body, as far as the client took them.
    """

    origin: str
    method: str
    path: str
    range: str | None
    authorization: str | None
    status: int = 0
    sent_bytes: int = 0
    at: float = field(default_factory=time.monotonic)


class FakeHub:
    """A hub and its storage, on two ports of this PC.

    Attributes:
        faults: what goes wrong.
        requests: all that was asked, in order.
        bytes_per_s: how fast bodies are sent; None: as fast as possible.
        tokens: access tokens that gated repositories accept.
        signature_s: how long a location is good.
    """

    def __init__(self, *, certificate: Path | None = None) -> None:
        self._scheme = "http" if certificate is None else "https"
        self.faults = Faults()
        self.requests: list[Request] = []
        self.bytes_per_s: float | None = None
        self.tokens: set[str] = {"hf_good"}
        self.signature_s = 3600.0
        self._repositories: dict[str, Repository] = {}
        self._signatures: dict[str, tuple[str, Content, float]] = {}
        self._lock = threading.Lock()
        self._is_closing = threading.Event()
        self._hub = _Server(self, _HubHandler)
        self._cdn = _Server(self, _CdnHandler)
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._hub.socket = context.wrap_socket(self._hub.socket, server_side=True)

    def __enter__(self) -> Self:
        for server in (self._hub, self._cdn):
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._is_closing.set()
        for server in (self._hub, self._cdn):
            server.shutdown()
            server.server_close()

    @property
    def endpoint(self) -> str:
        """What `HF_ENDPOINT` is set to."""
        return f"{self._scheme}://127.0.0.1:{self._hub.server_port}"

    @property
    def byte_requests(self) -> list[Request]:
        """Requests for the bytes of large files."""
        return [request for request in self.requests if request.origin == "cdn"]

    @property
    def sent_bytes(self) -> int:
        """Bytes of large files that were sent."""
        return sum(request.sent_bytes for request in self.byte_requests)

    def add(
        self,
        name: str,
        files: dict[str, Content],
        *,
        commit: str | None = None,
        is_gated: bool = False,
        is_private: bool = False,
    ) -> str:
        """Publish a repository, or a new commit of it; the commit."""
        commit = commit or secrets.token_hex(20)
        with self._lock:
            before = self._repositories.get(name)
            old = (before.old_commits | {before.commit}) if before is not None else set()
            self._repositories[name] = Repository(name, files, commit, is_gated, is_private, old)
        return commit

    def expire_signatures(self) -> None:
        """Let all locations that were given run out."""
        with self._lock:
            self._signatures.clear()

    # -- what the handlers use --------------------------------------------------------------------

    def log(self, request: Request) -> None:
        """Keep a request."""
        with self._lock:
            self.requests.append(request)

    def find(self, name: str, revision: str) -> Repository | str:
        """A repository at a revision, or the error code of the real hub."""
        repository = self._repositories.get(name)
        if repository is None:
            return "RepoNotFound"
        if revision not in ("main", repository.commit):
            return "RevisionNotFound"
        return repository

    def sign(self, path: str, content: Content) -> str:
        """A location that is good for a while."""
        signature = secrets.token_urlsafe(12)
        with self._lock:
            until = time.monotonic() + self.signature_s
            self._signatures[signature] = (path, content, until)
        port = self._cdn.server_port
        return f"http://127.0.0.1:{port}/blobs/{content.sha256}?signature={quote(signature)}"

    def signed(self, signature: str) -> tuple[str, Content] | None:
        """The file of a location; None when it has run out."""
        with self._lock:
            entry = self._signatures.get(signature)
        if entry is None or entry[2] < time.monotonic():
            return None
        return entry[:2]

    def wait_until_closed(self, connection: socket.socket) -> None:
        """Send nothing until the client gives up or the test ends."""
        connection.settimeout(0.05)
        while not self._is_closing.is_set():
            try:
                if not connection.recv(1):
                    return
            except TimeoutError:
                continue
            except OSError:
                return


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, hub: FakeHub, handler: type[_Handler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.hub = hub

    def handle_error(self, *_arguments: object) -> None:
        """Clients that go away are part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server
    origin = ""

    def setup(self) -> None:
        # What was "sent" shall have reached the client, but for little.
        self.request.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES // 4)
        super().setup()

    def log_message(self, *_arguments: object) -> None:
        """Quiet: `FakeHub.requests` is the log."""

    def do_GET(self) -> None:  # the base class's name
        self._handle()

    def do_HEAD(self) -> None:  # the base class's name
        self._handle()

    def _handle(self) -> None:
        self.entry = Request(
            self.origin,
            self.command,
            self.path,
            self.headers.get("Range"),
            self.headers.get("Authorization"),
        )
        self.server.hub.log(self.entry)
        self.answer()

    def answer(self) -> None:
        raise NotImplementedError

    def head(self, status: int, headers: dict[str, str]) -> None:
        self.entry.status = status
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def small(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.head(status, {"Content-Length": str(len(body)), **(headers or {})})
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status: int, code: str = "", retry_after: str | None = None) -> None:
        headers = {"X-Error-Code": code, "X-Error-Message": code} if code else {}
        if retry_after is not None:
            headers["Retry-After"] = retry_after
        self.small(status, b'{"error": "no"}', {"Content-Type": "application/json", **headers})

    def simple_fault(self, fault: Fault | None) -> bool:
        """Answer with a fault that has no body of the file; whether there was one."""
        if fault is None:
            return False
        if fault.kind is Kind.STATUS:
            self.refuse(fault.status, retry_after=fault.retry_after)
        elif fault.kind is Kind.LOGIN_PAGE:
            self.small(200, _PAGE, {"Content-Type": "text/html"})
        elif fault.kind is Kind.STALL and not fault.after_bytes:
            self.server.hub.wait_until_closed(self.connection)
            self.close_connection = True
        elif fault.kind is Kind.CUT and not fault.after_bytes:
            self.cut()
        else:
            return False
        return True

    def cut(self) -> None:
        """Break the line; closing alone would leave the client waiting."""
        self.close_connection = True
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    def send_file(self, path: str, content: Content, headers: dict[str, str]) -> None:
        """A file, or the range that is asked for, with the fault of this request."""
        is_get = self.command == "GET"
        fault = self.server.hub.faults.take(Where.BYTES, path) if is_get else None
        if self.simple_fault(fault):
            return
        kind = fault.kind if fault is not None else None
        first, last, status = 0, content.size - 1, 200
        asked = self.headers.get("Range")
        if asked is not None and kind is not Kind.IGNORE_RANGE:
            begin, _, end = asked.removeprefix("bytes=").partition("-")
            first, last = int(begin), min(int(end or content.size), content.size - 1)
            status = 206
            if first >= content.size:
                self.small(416, b"", {"Content-Range": f"bytes */{content.size}"})
                return
            if kind is Kind.WRONG_RANGE:
                first, last = 0, last - first
            total = content.size + (kind is Kind.OTHER_TOTAL)
            headers["Content-Range"] = f"bytes {first}-{last}/{total}"
        count = last - first + 1
        if kind in (Kind.NO_LENGTH, Kind.END_EARLY, Kind.TOO_LONG):
            headers["Connection"] = "close"
            self.close_connection = True
        else:
            headers["Content-Length"] = str(count)
        self.head(status, {"Accept-Ranges": "bytes", "ETag": f'"{content.sha256}"', **headers})
        if is_get:
            self._send_body(content, first, count, fault)

    def _send_body(self, content: Content, first: int, count: int, fault: Fault | None) -> None:
        kind = fault.kind if fault is not None else None
        stops_at = (
            fault.after_bytes
            if fault is not None and kind in (Kind.CUT, Kind.STALL, Kind.END_EARLY)
            else count
        )
        started, done = time.monotonic(), 0
        while done < min(count, stops_at):
            rate = self.server.hub.bytes_per_s  # a test may make the line quick again
            # A slow line sends small pieces often, not large ones seldom.
            step = (
                _SEND_BYTES if rate is None else min(_SEND_BYTES, max(16 << 10, int(rate / 1000)))
            )
            data = bytearray(content.read(first + done, min(step, count - done, stops_at - done)))
            if fault is not None and kind is Kind.WRONG_BYTE:
                index = fault.after_bytes - first - done
                if 0 <= index < len(data):
                    data[index] ^= 0xFF
            self.wfile.write(data)
            done += len(data)
            self.entry.sent_bytes = done
            if rate is not None:
                time.sleep(max(0.0, started + done / rate - time.monotonic()))
        if kind is Kind.CUT:
            self.cut()
        elif kind is Kind.STALL:
            self.server.hub.wait_until_closed(self.connection)
            self.close_connection = True
        elif kind is Kind.TOO_LONG:
            self.wfile.write(b"and more")


class _HubHandler(_Handler):
    """Listings and locations."""

    origin = "hub"

    def answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        parts = path.strip("/").split("/")
        if parts[:2] == ["api", "models"]:
            self._api(parts[2:])
        elif len(parts) >= 5 and parts[2] == "resolve":
            self._resolve("/".join(parts[:2]), parts[3], "/".join(parts[4:]))
        else:
            self.refuse(404)

    def _api(self, parts: list[str]) -> None:
        name = "/".join(parts[:2])
        revision = parts[3] if len(parts) > 3 else "main"
        if self.simple_fault(self.server.hub.faults.take(Where.LISTING, name)):
            return
        repository = self._checked(name, revision)
        if repository is None:
            return
        if len(parts) > 2 and parts[2] == "tree":
            self._json([_tree_entry(path, c) for path, c in sorted(repository.files.items())])
            return
        self._json(
            {
                "id": name,
                "modelId": name,
                "sha": repository.commit,
                "private": repository.is_private,
                "gated": "manual" if repository.is_gated else False,
                "disabled": False,
                "tags": [],
                "downloads": 0,
                "likes": 0,
                "siblings": [_sibling(path, c) for path, c in sorted(repository.files.items())],
            }
        )

    def _json(self, value: object) -> None:
        self.small(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _checked(self, name: str, revision: str) -> Repository | None:
        found = self.server.hub.find(name, revision)
        if isinstance(found, str):
            self.refuse(404, found)
            return None
        if found.is_private and not self._is_allowed():
            self.refuse(401, "RepoNotFound")
            return None
        return found

    def _is_allowed(self) -> bool:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        return token in self.server.hub.tokens

    def _resolve(self, name: str, revision: str, path: str) -> None:
        if self.simple_fault(self.server.hub.faults.take(Where.LOCATION, path)):
            return
        repository = self._checked(name, revision)
        if repository is None:
            return
        content = repository.files.get(path)
        if content is None:
            self.refuse(404, "EntryNotFound")
            return
        if repository.is_gated and not self._is_allowed():
            self.refuse(403 if self.headers.get("Authorization") else 401, "GatedRepo")
            return
        if path.endswith(_SMALL_SUFFIXES):
            headers = {"X-Repo-Commit": repository.commit, "Date": formatdate(usegmt=True)}
            self.send_file(path, content, headers)
            return
        self.head(
            302,
            {
                "Location": self.server.hub.sign(path, content),
                "X-Repo-Commit": repository.commit,
                "X-Linked-Etag": f'"{content.sha256}"',
                "X-Linked-Size": str(content.size),
                "ETag": f'"{content.sha256}"',
                "Content-Length": "0",
            },
        )


class _CdnHandler(_Handler):
    """Signed locations."""

    origin = "cdn"

    def answer(self) -> None:
        signature = parse_qs(urlsplit(self.path).query).get("signature", [""])[0]
        signed = self.server.hub.signed(signature)
        if signed is None:
            self.refuse(403)
            return
        path, content = signed
        self.send_file(path, content, {"Content-Type": "application/octet-stream"})


def _sibling(path: str, content: Content) -> dict[str, object]:
    entry: dict[str, object] = {"rfilename": path, "size": content.size, "blobId": _oid(path)}
    if not path.endswith(_SMALL_SUFFIXES):
        entry["lfs"] = {"sha256": content.sha256, "size": content.size, "pointerSize": 135}
    return entry


def _tree_entry(path: str, content: Content) -> dict[str, object]:
    entry: dict[str, object] = {
        "type": "file",
        "path": path,
        "size": content.size,
        "oid": _oid(path),
    }
    if not path.endswith(_SMALL_SUFFIXES):
        entry["lfs"] = {"oid": content.sha256, "size": content.size, "pointerSize": 135}
    return entry


def _oid(path: str) -> str:
    return hashlib.sha1(path.encode(), usedforsecurity=False).hexdigest()


def publish_files(hub: FakeHub, name: str, paths: dict[str, Path]) -> str:
    """Publish files of this PC; the commit."""
    contents: dict[str, Content] = {
        path: BytesContent(source.read_bytes()) for path, source in paths.items()
    }
    return hub.add(name, contents)
