r"""Cuts a growing Markdown text into pieces that can be parsed on their own.

A piece ends where nothing that comes later can change it: at a blank line outside of fences, at the end
of a fence, before a heading. So only the last piece of a growing answer is parsed and laid out again;
all others are finished for good. What may grow without end (code, tables, lists, a paragraph of 6,000
characters) is cut too; a cut piece `continues` the one before and brings the `prefix` that the parser
needs (the fence's first line, the table's head).

    splitter = Splitter()
    splitter.add("# Title\n\nSome te")     # pieces: "# Title\n", "\nSome te"
    splitter.add("xt\n\nMore")             # pieces: "# Title\n", "\nSome text\n\n", "More"

The text of all pieces together is the text that was added.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# What is laid out again for every frame of a growing answer must stay this small.
MAX_PARAGRAPH_CHARS = 4_000
MAX_LIST_CHARS = 1_500
MAX_CODE_LINES = 60
MAX_CODE_CHARS = 6_000
MAX_TABLE_ROWS = 25

_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
_NESTED_FENCE = re.compile(r"\s*(?:[-*+]\s+|\d{1,9}[.)]\s+|>\s?)*(`{3,}(?=[^`]*$)|~{3,})")
_HEADING = re.compile(r" {0,3}#{1,6}(?:\s|$)")
_ITEM = re.compile(r"(?:[-*+]|\d{1,9}[.)])(?:\s|$)")
_FORMULA = re.compile(r" {0,3}(\$\$|\\\[)")
_DELIMITER = re.compile(r"\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$")
_SENTENCE_END = re.compile(r"[.!?…]\s|[。！？]|\n")  # noqa: RUF001  # Chinese full stops
_REFERENCE = re.compile(r" {0,3}\[[^\]]+\]:\s*\S+")


@dataclass(slots=True)
class Piece:
    """A part of the text.

    Attributes:
        text: of this piece.
        prefix: what must be parsed before it, and is not shown.
        continues: it belongs to the piece before and is shown without a gap.
    """

    text: str = ""
    prefix: str = ""
    continues: bool = False

    @property
    def source(self) -> str:
        """What the parser gets."""
        return self.prefix + self.text


@dataclass(slots=True)
class _Open:
    """What is open at the end of the text."""

    fence: str = ""  # the marks that opened it
    fence_line: str = ""  # its first line; empty for a fence within a list
    formula: str = ""  # the mark that will end it
    table_head: str = ""  # the two lines of a table's head
    is_list: bool = False
    is_blank: bool = True  # only blank lines so far
    had_blank: bool = False  # the line before was blank
    num_lines: int = 0  # of code, or rows of the table


class Splitter:
    """See above.

    Attributes:
        pieces: all but the last are final.
    """

    def __init__(self, text: str = "") -> None:
        self.pieces: list[Piece] = [Piece()]
        self._open = _Open()
        self._line = ""  # the line that has not ended: the last piece ends with it
        if text:
            self.add(text)

    @property
    def last(self) -> Piece:
        """The piece that still grows."""
        return self.pieces[-1]

    @property
    def is_code_open(self) -> bool:
        """Whether the last piece is a code block whose end has not come."""
        return bool(self._open.fence_line)

    def add(self, text: str) -> None:
        """Take more text."""
        lines = text.split("\n")
        lines[0] = self._line + lines[0]
        # The line that has not ended is looked at again, as a whole, when it has grown.
        if self._line:
            self.last.text = self.last.text[: -len(self._line)]
        self._line = ""
        unfinished = lines.pop()
        for line in lines:
            self._take(line)
        if unfinished:
            self._begin_unless_it_belongs(unfinished)
            self.last.text += unfinished
            self._line = unfinished
            self._cut_long_paragraph()

    def _take(self, line: str) -> None:
        self._begin_unless_it_belongs(line)
        self.last.text += line + "\n"
        state = self._open
        is_blank = not line.strip()
        state.num_lines += 1
        if state.fence:
            self._take_in_fence(line)
            return
        if state.formula:
            if state.formula in line:
                state.formula = ""
        elif not is_blank:
            self._look(line)
        state.had_blank = is_blank
        state.is_blank = state.is_blank and is_blank
        if _HEADING.match(line) and not (state.is_list or state.formula):
            self._begin()
        elif state.table_head and state.num_lines >= MAX_TABLE_ROWS:
            head = state.table_head
            self._begin(_Open(table_head=head, is_blank=False), prefix=head)
        else:
            self._cut_long_paragraph()

    def _take_in_fence(self, line: str) -> None:
        state = self._open
        if _ends_fence(line, state.fence):
            is_own = bool(state.fence_line)
            state.fence = state.fence_line = ""
            if is_own:
                self._begin()
        elif state.fence_line and (
            state.num_lines >= MAX_CODE_LINES or len(self.last.text) > MAX_CODE_CHARS
        ):
            going_on = _Open(fence=state.fence, fence_line=state.fence_line, is_blank=False)
            self._begin(going_on, prefix=state.fence_line)

    def _look(self, line: str) -> None:
        """See what a line opens."""
        state = self._open
        if state.is_blank:
            state.is_list = bool(_ITEM.match(line.lstrip())) or line.lstrip().startswith(">")
        fence = _NESTED_FENCE.match(line)
        if fence is not None:
            state.fence = fence[1]
            if state.is_blank and _FENCE.match(line):
                state.fence_line = line + "\n"
                state.num_lines = 0
            state.is_blank = False
            return
        formula = _FORMULA.match(line)
        if formula is not None:
            end = "$$" if formula[1] == "$$" else "\\]"
            if end not in line[formula.end() :]:
                state.formula = end
        elif "|" in line and _DELIMITER.match(line) and not state.is_list:
            rows = self.last.text.strip("\n").split("\n")
            if len(rows) == 2 and "|" in rows[0]:
                state.table_head = "\n".join(rows) + "\n"
                state.num_lines = 0

    def _begin_unless_it_belongs(self, line: str) -> None:
        """A new piece before this line, if it is the beginning of something else."""
        state = self._open
        if state.is_blank or state.fence or state.formula or not line.strip():
            return
        size = len(self.last.text)
        if state.had_blank:
            # An indented line after a blank one goes on with a list (or with indented code).
            if not line[0].isspace():
                self._begin()
        elif state.is_list:
            if size > MAX_LIST_CHARS and (_ITEM.match(line) or line[0] == ">"):
                self._begin(continues=True)
        elif _HEADING.match(line) or _FENCE.match(line):
            self._begin()

    def _begin(
        self, state: _Open | None = None, *, prefix: str = "", continues: bool = False
    ) -> None:
        if self.last.text:
            self.pieces.append(Piece("", prefix, continues=continues or bool(prefix)))
        self._open = state or _Open()

    def _cut_long_paragraph(self) -> None:
        """A piece that is too long ends at a sentence, for the sake of who has to lay it out."""
        state, text = self._open, self.last.text
        is_long = len(text) > MAX_PARAGRAPH_CHARS and not (state.fence_line or state.table_head)
        is_long_code = bool(state.fence_line) and len(self._line) > MAX_CODE_CHARS
        if not (is_long or is_long_code):
            return
        half = len(text) // 2
        ends = [found.end() for found in _SENTENCE_END.finditer(text, half)]
        cut = ends[-1] if ends else text.rfind(" ", half) + 1
        if not half < cut < len(text):
            cut = len(text)
        rest = text[cut:]
        if cut >= len(text) - len(self._line):
            self._line = rest
        self.last.text = text[:cut]
        self.pieces.append(Piece(rest, state.fence_line, continues=True))
        self._open = _Open(
            fence=state.fence,
            fence_line=state.fence_line,
            formula=state.formula,
            is_blank=not rest.strip() and not state.fence,
        )


def _ends_fence(line: str, fence: str) -> bool:
    stripped = line.strip().lstrip("> ")
    return len(stripped) >= len(fence) and set(stripped) == {fence[0]}


def mended(piece: Piece) -> Piece:
    """A piece that still grows, with its open marks closed: bold is bold from its first letter on.

    `**bold wo` is shown as if it were `**bold wo**`.
    """
    text = piece.text.rstrip()
    if piece.prefix or "```" in text or "~~~" in text or "$$" in text:
        return piece
    last_line = text.rpartition("\n")[2]
    closing = ""
    if last_line.count("`") % 2:
        closing = "`"
    elif last_line.count("**") % 2 and not last_line.endswith("*"):
        closing = "**"
    return Piece(text + closing, "", continues=piece.continues) if closing else piece


def references(text: str) -> str:
    """The link definitions (`[name]: address`) of a text: all pieces may use them."""
    if "]:" not in text:
        return ""
    return "\n".join(line for line in text.split("\n") if _REFERENCE.match(line))
