r"""A custom tool's free text, taken out of the JSON arguments in which the answer parser delivers it.

    {"input":"ls \"my files\""}   ->   ls "my files"

The model sees a custom tool as a function with one string parameter `input`. The text must stream, so
it is decoded from the fragments as they come; these never split an escape sequence (T19).
"""

from __future__ import annotations

import json
import re

from engine.core.strict_json import BadJsonError, parse_json

PARAMETER = "input"
OPENING = '{"' + PARAMETER + '":"'
INSIDE = re.compile(r'(?:[^"\\]|\\.)*', re.DOTALL)  # a string's inside up to its closing quote


class CustomInput:
    """Feed the fragments of a call's arguments, take the text."""

    def __init__(self) -> None:
        self._head: list[str] = []  # while it is undecided, and of arguments of another shape
        self._is_open = False
        self._is_over = False

    def feed(self, fragment: str) -> str:
        """The text that this fragment adds."""
        if self._is_over or not fragment:
            return ""
        if not self._is_open:
            self._head.append(fragment)
            head = "".join(self._head) if len(self._head) <= len(OPENING) else ""
            if not head.startswith(OPENING):
                return ""
            self._is_open = True
            self._head.clear()
            fragment = head.removeprefix(OPENING)
        inside = INSIDE.match(fragment)
        text = inside.group() if inside is not None else ""
        self._is_over = len(text) < len(fragment)
        return str(json.loads(f'"{text}"'))

    def finish(self) -> str:
        """The text of a complete call that did not begin with its input.

        A call without the parameter gives its arguments as they are: the client tells the model.
        """
        if self._is_open:
            return ""
        arguments = "".join(self._head)
        try:
            value = parse_json(arguments)
        except BadJsonError:
            return arguments
        if not isinstance(value, dict) or not value:
            return ""
        text = value.get(PARAMETER)
        return text if isinstance(text, str) else arguments
