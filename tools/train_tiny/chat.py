"""One training conversation and its token ids, as the engine would tokenize it.

The text is what the model's chat template renders (assets/models/chat_template.jinja); a test
compares the two. Prompts carry no loss: only what the model itself would write does. As in the
engine, the template's own text and the content of messages are tokenized apart (T2).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from tokenizers import Tokenizer

from tools.train_tiny.tokenizer import special_ids

# Sentences that the template puts first in the system turn for the reasoning effort.
EFFORT_TEXTS = {
    "low": "Think only briefly before you answer.",
    "medium": "",
    "xhigh": "Think thoroughly, check each step, and only then answer.",
}
TOOLS_BEFORE = "# Tools\n\nYou have access to the following functions:\n\n<tools>"
# The template's words; it writes `<tool_call>` here, which the engine turns into that token.
TOOLS_AFTER = (
    "\n</tools>\n\nIf you choose to call a function ONLY reply in the following format with NO "
    "suffix:\n\n",
    "\n<function=example_function_name>\n<parameter=example_parameter_1>\nvalue_1\n</parameter>\n"
    "<parameter=example_parameter_2>\nThis is the value for the second parameter\nthat can span\n"
    "multiple lines\n</parameter>\n</function>\n",
    "\n\n<IMPORTANT>\nReminder:\n- Function calls MUST follow the specified format: an inner "
    "<function=...></function> block must be nested within ",
    " XML tags\n- Required parameters MUST be specified\n- You may provide optional reasoning for "
    "your function call in natural language BEFORE the function call, but NOT after\n- If there is "
    "no function call available, answer the question like normal with your current knowledge and "
    "do not tell the user about function calls\n</IMPORTANT>",
)


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call; string values are written raw, others as JSON."""

    name: str
    arguments: Mapping[str, str | int]


@dataclass(frozen=True, slots=True)
class Turn:
    """One question (or tool result) and the answer; `thought` None means an empty think block."""

    question: str
    answer: str
    thought: str | None = None
    call: Call | None = None
    is_result: bool = False


@dataclass(frozen=True, slots=True)
class Chat:
    """A whole conversation. `effort` None: thinking is off or the request names no effort."""

    turns: tuple[Turn, ...]
    system: str = ""
    tools: tuple[Mapping[str, object], ...] = ()
    effort: str | None = None


@dataclass(slots=True)
class Encoded:
    """Token ids and the loss weight of each token as a target."""

    ids: list[int] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)


class ChatEncoder:
    """Turns chats into token ids, piece by piece as the engine does."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Looks up the control tokens."""
        self.tokenizer = tokenizer
        self.special = special_ids(tokenizer)
        # The template's own pieces recur in every chat.
        self._fixed = lru_cache(maxsize=4096)(self._text)

    def _text(self, text: str) -> list[int]:
        return [int(i) for i in self.tokenizer.encode(text, add_special_tokens=False).ids]

    def _system_pieces(self, chat: Chat) -> list[tuple[str, bool]]:
        """Returns (text, is content) of the system turn after its role line."""
        parts: list[list[tuple[str, bool]]] = []
        if chat.effort is not None and EFFORT_TEXTS[chat.effort]:
            parts.append([(EFFORT_TEXTS[chat.effort], False)])
        if chat.tools:
            listed = [(TOOLS_BEFORE, False)]
            for tool in chat.tools:
                listed += [("\n", False), (json.dumps(tool, ensure_ascii=False), True)]
            before, example, reminder, rules = TOOLS_AFTER
            listed += [(before, False), ("<tool_call>", False), (example, False)]
            listed += [("</tool_call>", False), (reminder, False), ("<tool_call>", False)]
            listed += [("</tool_call>", False), (rules, False)]
            parts.append(listed)
        if chat.system:
            parts.append([(chat.system, True)])
        pieces: list[tuple[str, bool]] = []
        for i, part in enumerate(parts):
            pieces += ([("\n\n", False)] if i else []) + part
        return pieces

    def _join(self, pieces: list[tuple[str, bool]]) -> list[int]:
        """Returns ids of alternating template text and content; neighbours of a kind are one."""
        ids: list[int] = []
        waiting = ""
        for text, is_content in [*pieces, ("", True)]:
            if not is_content and text not in self.special:
                waiting += text
                continue
            ids += self._fixed(waiting)
            waiting = ""
            ids += self._text(text) if is_content else [self.special[text]]
        return ids

    def _call(self, call: Call) -> list[int]:
        pieces = [("<tool_call>", False), ("\n<function=", False), (call.name, True)]
        pieces.append((">\n", False))
        for name, value in call.arguments.items():
            text = value if isinstance(value, str) else json.dumps(value)
            pieces += [("<parameter=", False), (name, True), (">\n", False), (text, True)]
            pieces.append(("\n</parameter>\n", False))
        return self._join([*pieces, ("</function>\n", False), ("</tool_call>", False)])

    def prompt(self, chat: Chat, *, thinks: bool) -> list[int]:
        """Returns the ids up to where the model writes the last turn's answer."""
        ids = self.encode(Chat(chat.turns[:-1], chat.system, chat.tools, chat.effort)).ids
        ids += self._question(chat.turns[-1])
        ids += [self.special["<|im_start|>"], *self._fixed("assistant\n")]
        ids += [self.special["<think>"]]
        if thinks:
            return [*ids, *self._fixed("\n")]
        return [*ids, *self._fixed("\n\n"), self.special["</think>"], *self._fixed("\n\n")]

    def _question(self, turn: Turn) -> list[int]:
        start, end = "<|im_start|>", "<|im_end|>"
        if turn.is_result:
            pieces = [(start, False), ("user\n", False), ("<tool_response>", False)]
            pieces += [("\n", False), (turn.question, True), ("\n", False)]
            pieces += [("</tool_response>", False), (end, False), ("\n", False)]
        else:
            pieces = [(start, False), ("user\n", False), (turn.question, True)]
            pieces += [(end, False), ("\n", False)]
        return self._join(pieces)

    def encode(self, chat: Chat) -> Encoded:
        """Returns the ids and weights of a whole chat, end-of-turn tokens included."""
        out = Encoded()

        def put(ids: list[int], weight: float) -> None:
            out.ids.extend(ids)
            out.weights.extend([weight] * len(ids))

        start, end = self.special["<|im_start|>"], self.special["<|im_end|>"]
        newline = self._fixed("\n")
        system = self._system_pieces(chat)
        if system:
            put([start, *self._join([("system\n", False), *system]), end, *newline], 0.0)
        for turn in chat.turns:
            put(self._question(turn), 0.0)
            put([start, *self._fixed("assistant\n"), self.special["<think>"]], 0.0)
            if turn.thought is None:
                gap = self._fixed("\n\n")
                put([*gap, self.special["</think>"], *gap], 0.0)
            else:
                put(newline, 0.0)
                put([*self._text(turn.thought), *newline, self.special["</think>"]], 1.0)
                put(self._fixed("\n\n"), 1.0)
            put(self._text(turn.answer), 1.0)
            if turn.call is not None:
                put(self._fixed("\n\n") if turn.answer else [], 1.0)
                put(self._call(turn.call), 1.0)
            put([end], 1.0)
            put(newline, 0.0)
        return out
