"""What is selected in a transcript: from one position to another, across messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.chat.view.transcript.rows import END, Row
from app.chat.view.transcript.sections import Section


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the text of a row."""

    section: Section
    row: Row
    offset: int

    @property
    def key(self) -> tuple[int, int, int]:
        """For comparing."""
        return (self.section.index, self.row.index, self.offset)


@dataclass(slots=True)
class Selection:
    """See above; empty when both ends are the same."""

    anchor: Position | None = None
    cursor: Position | None = None

    def clear(self) -> None:
        """Nothing is selected."""
        self.anchor = self.cursor = None

    @property
    def ends(self) -> tuple[Position, Position] | None:
        """The first and the last position; None when nothing is selected."""
        if self.anchor is None or self.cursor is None or self.anchor.key == self.cursor.key:
            return None
        first, last = sorted((self.anchor, self.cursor), key=lambda position: position.key)
        return first, last

    def part_of(self, section: Section, row: Row) -> tuple[int, int]:
        """The selected part of a row; (0, 0) = nothing."""
        ends = self.ends
        if ends is None:
            return 0, 0
        first, last = ends
        place = (section.index, row.index)
        if not first.key[:2] <= place <= last.key[:2]:
            return 0, 0
        begin = first.offset if place == first.key[:2] else 0
        end = last.offset if place == last.key[:2] else END
        return begin, end

    def text(self, sections: Sequence[Section]) -> str:
        """The selected text; whole messages as they were written."""
        ends = self.ends
        if ends is None:
            return ""
        first, last = ends
        parts: list[str] = []
        for section in sections[first.section.index : last.section.index + 1]:
            is_inner = first.section.index < section.index < last.section.index
            if is_inner:
                parts.append(section.message.text)
                continue
            section.build()
            rows: list[str] = []
            for row in section.body_rows():
                begin, end = self.part_of(section, row)
                if begin < end:
                    text = row.text(begin, end)
                    is_joined = bool(row.piece.continues and rows)
                    rows.append(("" if not rows else "\n" if is_joined else "\n\n") + text)
            parts.append("".join(part for part in rows if part.strip("\n")))
        return "\n\n".join(part for part in parts if part)
