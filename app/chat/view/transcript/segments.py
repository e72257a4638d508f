"""A stretch of an answer's text between two tool calls, as rows that follow the growing text."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtWidgets import QWidget

from app.chat.view.markdown.blocks import Block
from app.chat.view.markdown.splitter import Piece, Splitter
from app.chat.view.transcript.code_view import CodeView
from app.chat.view.transcript.rows import BodyRow

Parse = Callable[[Piece], list[Block]]
CopyButton = Callable[[QWidget, CodeView], QWidget]


class Segment:
    """Text and its rows.

    Attributes:
        rows: one for each piece of the text.
        size: characters of text so far.
        is_growing: the last row may still change.
    """

    def __init__(self, parse: Parse, copy_button: CopyButton, *, is_muted: bool = False) -> None:
        self.rows: list[BodyRow] = []
        self.size = 0
        self.is_growing = False
        self._parse = parse
        self._copy_button = copy_button
        self._is_muted = is_muted
        self._splitter = Splitter()
        self._last_size = 0  # of the last piece when its row was made

    def add(self, text: str) -> None:
        """Take more text; rows whose pieces are final stay as they are."""
        if not text:
            return
        self.size += len(text)
        self._splitter.add(text)
        pieces = self._splitter.pieces
        if self.rows:
            last = self.rows[-1]
            place = len(self.rows) - 1
            # Cutting a paragraph replaces the piece's text, adding makes it longer.
            if len(pieces[place].text) != self._last_size:
                last.grow()
            if len(pieces) > len(self.rows):
                last.freeze()
        for place in range(len(self.rows), len(pieces)):
            row = BodyRow(pieces[place], self._parse, is_muted=self._is_muted)
            row.copy_button = self._copy_button
            row.before = self.rows[-1] if self.rows else None
            row.is_growing = self.is_growing and place == len(pieces) - 1
            self.rows.append(row)
        self._last_size = len(pieces[-1].text)

    def end(self) -> None:
        """No more text comes."""
        self.is_growing = False
        if self.rows:
            self.rows[-1].freeze()

    def parse_again(self, parse: Parse) -> None:
        """Parse all pieces another way: link definitions have come."""
        self._parse = parse
        for row in self.rows:
            row.parse_with(parse)

    @property
    def is_code_open(self) -> bool:
        """Whether the end of a code block has not come."""
        return self.is_growing and self._splitter.is_code_open
