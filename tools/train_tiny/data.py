"""Mixes the training tasks: endless, seeded, by shares of the tokens and by stage.

Stage 0 teaches to look back, before anything else can be learned by heart instead: half of its
tokens are random ones, repeated. The later stages mix everything.
"""

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

from tools.train_tiny import phrases
from tools.train_tiny.arithmetic import sum_turn
from tools.train_tiny.chat import (
    EFFORT_TEXTS,
    TOOLS_AFTER,
    TOOLS_BEFORE,
    Chat,
    ChatEncoder,
    Encoded,
    Turn,
)
from tools.train_tiny.copying import Passages, copy_turn, random_repeats
from tools.train_tiny.definitions import WordTasks, definition
from tools.train_tiny.editing import EditTasks, last_word_turn
from tools.train_tiny.held_out import is_held_out_function, is_held_out_sentence
from tools.train_tiny.recall import name_turns, place_turn
from tools.train_tiny.stratum_facts import FACTS, setting_questions
from tools.train_tiny.tokenizer import SPECIAL_TOKENS
from tools.train_tiny.tool_tasks import ToolTasks, slot_turn
from tools.train_tiny.wordnet import Meaning

# Shares of the tokens by stage.
SHARES: tuple[dict[str, float], ...] = (
    {"random": 0.50, "copy": 0.20, "define": 0.22, "replace": 0.03, "sum": 0.03, "talk": 0.02},
    {
        "random": 0.02,
        "copy": 0.08,
        "long copy": 0.12,
        "define": 0.22,
        "word": 0.02,
        "replace": 0.17,
        "sum": 0.22,
        "tool": 0.06,
        "slot": 0.03,
        "recall": 0.02,
        "fact": 0.02,
        "talk": 0.02,
    },
    # The end, at a small rate: sums are known by then, long copies still lose their place.
    {
        "random": 0.04,
        "copy": 0.14,
        "long copy": 0.28,
        "define": 0.23,
        "word": 0.02,
        "replace": 0.08,
        "sum": 0.06,
        "tool": 0.06,
        "slot": 0.03,
        "recall": 0.02,
        "fact": 0.02,
        "talk": 0.02,
    },
)
MAX_COPY_WORDS = (40, 150)  # by stage
LONG_COPY_WORDS = (80, 250)
LONGEST_COPY_WORDS = 700
# Rows of random tokens. Short spans are within reach of the linear layers; long ones need the
# attention, and the longest its indexer too.
RANDOM_LENGTHS = (
    (49, 65, 97, 97, 145, 193, 289, 385),
    (97, 145, 193, 289, 385, 385, 577, 577, 1153, 2305),
)
SHARE_OF_THINKING = 0.45


def capital(sentence: str) -> str:
    """Returns a sentence with a capital letter and a full stop."""
    return sentence[0].upper() + sentence[1:].rstrip(".") + "."


def sentences_of(meanings: list[Meaning], held_out: bool) -> list[str]:
    """Returns WordNet's example sentences, and for training its rarer glosses too."""
    texts = {e: None for m in meanings for e in m.examples if is_held_out_sentence(e) == held_out}
    if not held_out:
        texts |= {m.gloss: None for m in meanings if not m.is_usual}
    return [capital(text) for text in texts]


class Mixer:
    """Draws encoded chats."""

    def __init__(
        self,
        meanings: list[Meaning],
        functions: list[str],
        config_page: Path,
        seed: int,
        encoder: ChatEncoder | None = None,
    ) -> None:
        """Prepares every task. Without an encoder only chats can be drawn, not rows."""
        self.random = random.Random(seed)  # noqa: S311 - repeatable draws, no secrets
        self.encoder = encoder
        self.words = WordTasks(meanings, self.random)
        kept = [f for f in functions if not is_held_out_function(f)]
        usual = [m.word for m in self.words.main if "-" not in m.word]
        self.passages = Passages(sentences_of(meanings, held_out=False), usual, kept)
        self.edits = EditTasks(functions, self.passages)
        self.tools = ToolTasks()
        self.facts = [*FACTS, *setting_questions(config_page)]
        self.stage = 0
        self.used = dict.fromkeys(SHARES[-1], 1.0)
        self._makers: dict[str, Callable[[], Chat]] = {
            "copy": lambda: self._single(self._copy(1, MAX_COPY_WORDS[min(self.stage, 1)])),
            "long copy": lambda: self._single(self._long_copy()),
            "define": self._define,
            "word": lambda: self._single(self.words.word_turn),
            "replace": self._replace,
            "sum": self._sums,
            "tool": self._tool,
            "slot": lambda: self._single(
                lambda thinks: slot_turn(self.random, self.passages.words, thinks)
            ),
            "recall": self._recall,
            "fact": lambda: self._single(self._fact),
            "talk": lambda: self._single(self.words.talk_turn),
        }

    def _effort(self) -> tuple[bool, str | None]:
        """Returns whether the model thinks and which effort the request names."""
        if self.random.random() >= SHARE_OF_THINKING:
            return False, None
        return True, self.random.choice(("xhigh", "xhigh", "xhigh", "medium", "low"))

    def _system(self) -> str:
        return self.random.choice(phrases.SYSTEM_TEXTS) if self.random.random() < 0.06 else ""

    def _single(self, make: Callable[[bool], Turn]) -> Chat:
        thinks, effort = self._effort()
        return Chat((make(thinks),), self._system(), effort=effort)

    def _copy(self, min_words: int, max_words: int) -> Callable[[bool], Turn]:
        return lambda thinks: copy_turn(self.random, self.passages, min_words, max_words, thinks)

    def _long_copy(self) -> Callable[[bool], Turn]:
        least, most = LONG_COPY_WORDS
        return self._copy(least, most if self.random.random() < 0.85 else LONGEST_COPY_WORDS)

    def _define(self) -> Chat:
        thinks, effort = self._effort()
        draw = self.random.random()
        count = 1 if draw < 0.86 else 2 if draw < 0.95 else 3
        turns = tuple(self.words.definition_turn(thinks, again=i > 0) for i in range(count))
        return Chat(turns, self._system(), effort=effort)

    def _replace(self) -> Chat:
        if self.random.random() < 0.1:
            return self._single(lambda thinks: last_word_turn(self.random, self.passages, thinks))
        return self._single(lambda thinks: self.edits.turn(self.random, thinks))

    def _sums(self) -> Chat:
        thinks, effort = self._effort()
        count = self.random.choice((1, 2, 3))
        return Chat(tuple(sum_turn(self.random, thinks) for _ in range(count)), effort=effort)

    def _tool(self) -> Chat:
        thinks, effort = self._effort()
        other = self.words.definition_turn(thinks)
        return self.tools.chat(self.random, effort, other)

    def _fact(self, thinks: bool) -> Turn:
        asks, answer = self.random.choice(self.facts)
        thought = "This is about Stratum." if thinks else None
        return Turn(self.random.choice(asks), answer, thought)

    def _recall(self) -> Chat:
        thinks, effort = self._effort()
        if self.random.random() < 0.25:
            first, last = name_turns(self.random, thinks)
            between = [self._any_turn(thinks) for _ in range(self.random.randint(0, 2))]
            return Chat((first, *between, last), effort=effort)
        filler = 0 if self.random.random() < 0.5 else round(900 ** self.random.uniform(0.3, 1.0))
        turn = place_turn(self.random, self.passages, thinks, filler)
        return Chat((turn,), self._system(), effort=effort)

    def _any_turn(self, thinks: bool) -> Turn:
        kind = self.random.random()
        if kind < 0.6:
            return self.words.definition_turn(thinks)
        if kind < 0.8:
            return sum_turn(self.random, thinks)
        return copy_turn(self.random, self.passages, 1, 20, thinks)

    def chat(self, task: str) -> Chat:
        """Returns a chat of one task (any key of SHARES but `random`)."""
        return self._makers[task]()

    def rows(self) -> Iterator[Encoded]:
        """Yields encoded rows for ever, each from the task that is most behind its share."""
        if self.encoder is None:
            message = "This mixer has no encoder; only chats can be drawn from it."
            raise ValueError(message)
        num_ordinary = self.encoder.tokenizer.get_vocab_size() - len(SPECIAL_TOKENS)
        while True:
            shares = SHARES[min(self.stage, len(SHARES) - 1)]
            task = min(shares, key=lambda name: self.used[name] / shares[name])
            if task == "random":
                length = self.random.choice(RANDOM_LENGTHS[min(self.stage, 1)])
                row = random_repeats(self.random, num_ordinary, length)
            else:
                row = self.encoder.encode(self.chat(task))
            self.used[task] += len(row.ids)
            yield row

    def set_stage(self, stage: int) -> None:
        """Changes the shares; tasks start level again."""
        self.stage = stage
        self.used = dict.fromkeys(self.used, 1.0)


def sample_texts(
    meanings: list[Meaning], functions: list[str], config_page: Path, num_chats: int = 1500
) -> Iterator[str]:
    """Yields the text that the tokenizer is trained on, usual words three times."""
    for m in meanings:
        for _ in range(3 if m.is_usual else 1):
            yield f"What does {m.word} mean?"
            yield definition(m)
        yield from m.examples
    mixer = Mixer(meanings, functions, config_page, seed=1)
    for task in SHARES[-1]:
        for _ in range(num_chats if task not in ("random", "define") else 0):
            chat = mixer.chat(task)
            for turn in chat.turns:
                yield from (turn.question, turn.answer, turn.thought or "")
    yield from mixer.passages.functions

    for _ in range(3000):
        yield from (TOOLS_BEFORE, *TOOLS_AFTER, *EFFORT_TEXTS.values())
        yield from ("system\n", "user\n", "assistant\n", "\n\n", "</function>\n")
        yield from ("\n<function=", ">\n", "<parameter=", "\n</parameter>\n")
        tools = mixer.tools.chat(mixer.random, None, Turn("", "")).tools
        yield from (json.dumps(tool, ensure_ascii=False) for tool in tools)
