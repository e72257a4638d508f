"""The exact token ids of earlier answers, for prompts in which they come back as text.

A client sends an answer back as text (content, thinking, calls). Rendered and tokenized again, it can
come out in other tokens than the model wrote: it may have split a word in its own way, ended in a
blank that the template strips, or written its arguments' JSON with other blanks. One such token, and
the conversation could not go on from its warm state. So each answer's ids are remembered under what
came before it and what the client was given, and put in place of the rendered turn:

    memory.note(prompt, turn_start, ids, answer)            # when an answer ends
    ids = memory.reuse(prompt.token_ids, messages)          # when a prompt is made

They are used only where everything that the model wrote is in the rendered turn too, up to white
space that templates strip: thinking that the client or the template has dropped stays dropped, and
a text that was edited is what the client says it is. The ids before the answer are a part of the key,
so nothing of another conversation can come in.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.text.messages import normalise_messages
from engine.text.tokenizer import Tokenizer
from engine.text.turns import role_of

MOST_ANSWERS = 4096
MOST_IDS = 4_000_000  # 16 MB

IdArray = npt.NDArray[np.int32]
Message = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class WrittenAnswer:
    """What a client was given.

    Attributes:
        calls: name and arguments (a JSON object as text) of each call.
    """

    content: str
    reasoning: str = ""
    calls: tuple[tuple[str, str], ...] = ()

    def message(self) -> Message:
        """The answer as clients send it back."""
        calls = [{"function": {"name": name, "arguments": text}} for name, text in self.calls]
        return {
            "role": "assistant",
            "content": self.content,
            "reasoning_content": self.reasoning,
            "tool_calls": calls,
        }


class AnswerMemory:
    """Answers by what stood before them and what they say; thread-safe.

    Args:
        tokenizer: of the prompts.
        most_answers: older ones are forgotten.
        most_ids: of all answers together.
    """

    def __init__(
        self, tokenizer: Tokenizer, most_answers: int = MOST_ANSWERS, most_ids: int = MOST_IDS
    ) -> None:
        self._tokenizer = tokenizer
        self._most_answers = most_answers
        self._most_ids = most_ids
        self._turns: OrderedDict[bytes, IdArray] = OrderedDict()  # the longest unused first
        self._num_ids = 0
        self._lock = threading.Lock()
        self._header = tokenizer.encode("assistant\n")
        structure = tokenizer.structure
        self._tags = {
            structure.think,
            structure.think_end,
            structure.tool_call,
            structure.tool_call_end,
        }

    def note(
        self,
        prompt: Sequence[int],
        turn_start: int,
        answer_ids: Sequence[int],
        answer: WrittenAnswer,
    ) -> None:
        """Remember an answer.

        Args:
            prompt: the ids that it was generated from.
            turn_start: where the answer's turn begins in them; 0 = unknown, then nothing is noted.
            answer_ids: what was generated, with or without the turn's end.
            answer: the same as the client has it.
        """
        ids = list(answer_ids)
        if ids and ids[-1] in self._tokenizer.eos_ids:
            ids.pop()
        if not ids or turn_start <= 0:
            return
        before = hashlib.blake2b(_id_array(prompt[:turn_start]).tobytes())
        turn = _id_array([*prompt[turn_start:], *ids])
        _, *said = normalise_messages([{"role": "user", "content": ""}, answer.message()])
        if not said:  # later prompts leave an empty turn out
            return
        key = _key(before, said[0])
        with self._lock:
            self._forget(key)
            self._turns[key] = turn
            self._num_ids += len(turn)
            while len(self._turns) > self._most_answers or self._num_ids > self._most_ids:
                self._forget(next(iter(self._turns)))

    def reuse(self, token_ids: Sequence[int], messages: Sequence[Message]) -> list[int]:
        """The prompt with the ids of answers that are remembered in place of the rendered ones.

        Args:
            token_ids: a rendered prompt that ends with the beginning of the model's turn.
            messages: that it was rendered from.
        """
        same = list(token_ids)
        turns = self._assistant_turns(same)
        if not turns or not self._turns:
            return same
        answers = [m for m in normalise_messages(messages) if m["role"] == "assistant"]
        if len(answers) != len(turns):  # the template has left one out, or joined some
            return same
        ids = _id_array(same)
        before = hashlib.blake2b()
        result: list[int] = []
        done = 0
        for (start, stop), answer in zip(turns, answers, strict=True):
            before.update(ids[done:start].tobytes())
            result += same[done:start]
            turn = ids[start:stop]
            written = self._find(_key(before, answer))
            if written is not None and self._says_the_same(turn, written):
                turn = written
            before.update(turn.tobytes())
            result += turn.tolist()
            done = stop
        return result + same[done:]

    def _find(self, key: bytes) -> IdArray | None:
        with self._lock:
            turn = self._turns.get(key)
            if turn is not None:
                self._turns.move_to_end(key)
            return turn

    def _forget(self, key: bytes) -> None:
        turn = self._turns.pop(key, None)
        if turn is not None:
            self._num_ids -= len(turn)

    def _assistant_turns(self, token_ids: list[int]) -> list[tuple[int, int]]:
        """First and behind-last index of the assistant's complete turns, ends not counted."""
        structure = self._tokenizer.structure
        if structure.im_start is None or structure.im_end is None:
            return []
        turns: list[tuple[int, int]] = []
        start = 0
        while True:
            try:
                start = token_ids.index(structure.im_start, start)
                stop = token_ids.index(structure.im_end, start)
            except ValueError:
                return turns
            if self._is_assistants(token_ids, start):
                turns.append((start, stop))
            start = stop

    def _is_assistants(self, token_ids: list[int], start: int) -> bool:
        header = self._header
        if token_ids[start + 1] != header[0]:
            return False
        if token_ids[start + 1 : start + 1 + len(header)] == header:
            return True
        return role_of(token_ids, start, self._tokenizer) == "assistant"

    def _says_the_same(self, rendered: IdArray, written: IdArray) -> bool:
        """Whether nothing but white space and the form of arguments tells the turns apart."""
        return np.array_equal(rendered, written) or self._shape(rendered) == self._shape(written)

    def _shape(self, turn: IdArray) -> tuple[list[int], str]:
        """The tags of a turn, and its text outside of calls without white space.

        What stands in calls is in the key.
        """
        structure = self._tokenizer.structure
        tags: list[int] = []
        outside: list[int] = []
        is_in_call = False
        for token_id in turn.tolist():
            if token_id in self._tags:
                tags.append(token_id)
                is_in_call = token_id == structure.tool_call
            if not is_in_call:
                outside.append(token_id)
        text = self._tokenizer.decode(outside, skip_control=False)
        return tags, "".join(text.split())


def _key(before: hashlib.blake2b, answer: Message) -> bytes:
    """A digest of what stands before an answer and of what it says."""
    calls = answer.get("tool_calls")
    said = [
        str(answer.get("content") or "").strip(),
        str(answer.get("reasoning_content") or "").strip(),
        [_call_part(call) for call in calls] if isinstance(calls, list) else [],
    ]
    text = json.dumps(said, sort_keys=True)
    digest = before.copy()
    digest.update(b"\0" + text.encode())
    return digest.digest()


def _call_part(call: object) -> list[object]:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        return []
    return [function.get("name"), function.get("arguments")]


def _id_array(token_ids: Sequence[int]) -> IdArray:
    return np.asarray(token_ids, np.int32)
