"""Stop strings: finds the first one in a text that arrives in pieces, and holds back its start.

`StopMatcher` is an Aho-Corasick automaton: one step per character whatever the number of stops, and
the same result for any division of the text. It knows nothing of tokens or of thinking; the caller
feeds it the text that stops apply to.

Example: with the stop "END", pushing "a E" gives ("a ", None), then "ND b" gives ("", "END").
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence


class StopMatcher:
    """Finds the stop string that is complete first; at one end position, the longest."""

    def __init__(self, stops: Sequence[str]) -> None:
        words = [stop for stop in dict.fromkeys(stops) if stop]
        self._next: list[dict[str, int]] = [{}]
        self._fail: list[int] = [0]
        self._depth: list[int] = [0]
        self._found: list[str | None] = [None]
        for word in words:
            self._add(word)
        self._link()
        firsts = "".join(re.escape(char) for char in self._next[0])
        self._first = re.compile(f"[{firsts}]") if words else None
        self._state = 0
        self._held = ""
        self._stopped: str | None = None

    def push(self, text: str) -> tuple[str, str | None]:
        """The text that is safe to emit, and the stop that is now complete or None.

        After a match nothing more is emitted: the rest of the answer is cut.
        """
        if self._stopped is not None:
            return "", None
        if self._first is None:
            return text, None
        state, pos = self._state, 0
        while pos < len(text):
            if state == 0:
                start = self._first.search(text, pos)
                if start is None:
                    break
                pos = start.start()
            state = self._step(state, text[pos])
            pos += 1
            found = self._found[state]
            if found is not None:
                self._stopped = found
                seen = self._held + text[:pos]
                self._held = ""
                return seen[: len(seen) - len(found)], found
        self._state = state
        seen = self._held + text
        safe_chars = len(seen) - self._depth[state]
        self._held = seen[safe_chars:]
        return seen[:safe_chars], None

    def flush(self) -> str:
        """The text still held back; the next push starts afresh."""
        held, self._held, self._state = self._held, "", 0
        return held

    def _step(self, state: int, char: str) -> int:
        while state and char not in self._next[state]:
            state = self._fail[state]
        return self._next[state].get(char, 0)

    def _add(self, word: str) -> None:
        state = 0
        for char in word:
            child = self._next[state].get(char)
            if child is None:
                child = len(self._next)
                self._next[state][char] = child
                self._next.append({})
                self._fail.append(0)
                self._depth.append(self._depth[state] + 1)
                self._found.append(None)
            state = child
        self._found[state] = word

    def _link(self) -> None:
        """Sets, breadth first, where each state continues when its next character fails."""
        queue = deque(self._next[0].values())
        while queue:
            state = queue.popleft()
            for char, child in self._next[state].items():
                self._fail[child] = self._step(self._fail[state], char)
                if self._found[child] is None:
                    self._found[child] = self._found[self._fail[child]]
                queue.append(child)
