"""Cuts a byte stream into lines, however the chunks fall, within a length limit."""

from __future__ import annotations

from engine.worker.messages import MAX_LINE_BYTES, MessageError


class LineSplitter:
    r"""Collects chunks and hands out whole lines.

    >>> splitter = LineSplitter()
    >>> splitter.feed(b'{"a"'), splitter.feed(b':1}\\n{"b"'), splitter.rest
    ([], [b'{"a":1}'], b'{"b"')
    """

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []  # of the unfinished line; joined once
        self._num_bytes = 0

    @property
    def rest(self) -> bytes:
        """The bytes after the last line end."""
        return b"".join(self._parts)

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes, without their ends.

        Raises:
            MessageError: a line is longer than the limit.
        """
        pieces = chunk.split(b"\n")
        lines: list[bytes] = []
        for piece in pieces[:-1]:
            self._append(piece)
            lines.append(b"".join(self._parts))
            self._parts, self._num_bytes = [], 0
        self._append(pieces[-1])
        return lines

    def _append(self, piece: bytes) -> None:
        if not piece:
            return
        self._num_bytes += len(piece)
        if self._num_bytes > self._max_bytes:
            raise MessageError(f"a line has more than {self._max_bytes} bytes")
        self._parts.append(piece)
