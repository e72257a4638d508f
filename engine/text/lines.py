"""Follows where lines start and whether they lie in a code fence, for text that arrives in pieces.

A call counts only at the start of a line outside a fence; elsewhere it is a mention (M2).
"""

from __future__ import annotations

_HEAD_CHARS = 12  # of a line, enough to see an indented fence


class LineTracker:
    """Feed all text; ask about the position after it.

    Attributes:
        at_line_start: nothing has been written on the current line.
        in_fence: the current line lies inside a code fence.
    """

    def __init__(self) -> None:
        self.at_line_start = True
        self.in_fence = False
        self._head = ""
        self._num_ticks = 0

    def feed(self, text: str) -> None:
        """Adds text, at a cost of its length."""
        start = 0
        while (stop := text.find("\n", start)) >= 0:
            self._add(text, start, stop)
            self._end_line()
            start = stop + 1
        self._add(text, start, len(text))
        self.at_line_start = not self._head

    def _add(self, text: str, start: int, stop: int) -> None:
        if len(self._head) < _HEAD_CHARS:
            missing = _HEAD_CHARS - len(self._head)
            self._head += text[start : min(stop, start + missing)]
        self._num_ticks += text.count("`", start, stop)

    def _end_line(self) -> None:
        line = self._head.strip()
        run = len(line) - len(line.lstrip("`"))
        # "```code``` text" is inline code, not a fence
        if run >= 3 and run == self._num_ticks:
            self.in_fence = not self.in_fence
        self._head, self._num_ticks = "", 0
