"""Makes the training chats: endless, seeded, as token ids with a loss weight each.

The chats have the text that the model's chat template renders (assets/models/chat_template.jinja);
a test compares the two. Prompts carry no loss: only what the model itself would write does.
"""

import random
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from tokenizers import Tokenizer

from tools.train_tiny import phrases
from tools.train_tiny.tokenizer import special_ids
from tools.train_tiny.wordnet import Meaning

# Sentences that the template puts first in the system turn for the reasoning effort.
EFFORT_TEXTS = (
    "Think only briefly before you answer.",
    "Think thoroughly, check each step, and only then answer.",
)
# Words met so often in WordNet's tagged texts are drawn most: a short run sees each of them some
# ten times, which is what it takes to keep a meaning.
WELL_KNOWN_COUNT = 4


@dataclass(frozen=True, slots=True)
class Turn:
    """One question and its answer; `thought` None means an empty think block."""

    question: str
    answer: str
    thought: str | None = None


@dataclass(frozen=True, slots=True)
class Chat:
    """A whole conversation."""

    turns: tuple[Turn, ...]
    system: str = ""


@dataclass(slots=True)
class Encoded:
    """Token ids and the loss weight of each token as a target."""

    ids: list[int] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)


def is_held_out(word: str) -> bool:
    """Whether a word is kept out of training (one in a hundred, by a checksum of its letters)."""
    return zlib.crc32(word.encode()) % 100 == 7


def article(word: str) -> str:
    """Returns `a` or `an`."""
    return "an" if word[0] in "aeiou" else "a"


def definition(meaning: Meaning) -> str:
    """Returns the answer that defines a word."""
    return f"The {meaning.part} {meaning.word} means: {meaning.gloss}."


class ChatMaker:
    """Draws chats from word meanings."""

    def __init__(self, meanings: list[Meaning], seed: int) -> None:
        """Prepares the draw; held-out words are dropped here."""
        self.random = random.Random(seed)  # noqa: S311 - repeatable draws, no secrets
        trained = [m for m in meanings if not is_held_out(m.word)]
        best: dict[str, Meaning] = {}
        for m in trained:
            if m.word not in best or m.count > best[m.word].count:
                best[m.word] = m
        single = [m for m in best.values() if " " not in m.word]
        self.main = [m for m in single if m.count >= WELL_KNOWN_COUNT]
        self.less_known = [m for m in single if 0 < m.count < WELL_KNOWN_COUNT]
        self.other_parts = [m for m in trained if m.count > 1 and m is not best[m.word]]
        self.rare = [m for m in best.values() if not m.is_usual]
        # Well-known words more often, but not in proportion: counts span four decades.
        self.weights = [min(m.count, 200) ** 0.35 for m in self.main]
        self.with_example = [m for m in self.main if m.examples]
        self.with_synonym = [m for m in self.main if m.synonyms]
        self.with_kind = [m for m in self.main if m.kind_of and m.kind_of == m.kind_of.lower()]
        self._queue: list[Meaning] = []

    def _usual(self) -> Meaning:
        # A shuffled deck with weights: every word comes before one comes too often.
        if not self._queue:
            keys = [self.random.random() ** (1 / w) for w in self.weights]
            order = sorted(range(len(keys)), key=keys.__getitem__)
            self._queue = [self.main[i] for i in order[len(order) // 3 :]]
        return self._queue.pop()

    def _quoted(self, word: str) -> str:
        draw = self.random.random()
        if draw < 0.82:
            return word
        if draw < 0.90:
            return f'"{word}"'
        if draw < 0.95:
            return f"'{word}'"
        return word.capitalize()

    def _definition_turn(self, again: bool = False) -> Turn:
        draw = self.random.random()
        is_other_part = 0.75 <= draw < 0.80
        if draw < 0.75:
            m = self._usual()
        elif is_other_part:
            m = self.random.choice(self.other_parts)
        elif draw < 0.94:
            m = self.random.choice(self.less_known)
        else:
            m = self.random.choice(self.rare)
        if again and self.random.random() < 0.5:
            asks: tuple[str, ...] = phrases.ASK_AGAIN
        elif is_other_part:
            asks = phrases.ASK_PART
        elif m.part == "noun" and self.random.random() < 0.35:
            asks = phrases.ASK_NOUN
        elif self.random.random() < 0.1:
            asks = phrases.ASK_PART
        else:
            asks = phrases.ASK_MEANING
        question = self.random.choice(asks).format(
            q=self._quoted(m.word), a=article(m.word), part=m.part
        )
        thought = f"This is about the {m.part} {m.word}." if self.random.random() < 0.2 else None
        return Turn(question, definition(m), thought)

    def _word_turn(self) -> Turn:
        draw = self.random.random()
        if draw < 0.4:
            m = self.random.choice(self.with_example)
            asks: tuple[str, ...] = phrases.ASK_EXAMPLE
            example = self.random.choice(m.examples)
            answer = example[0].upper() + example[1:].rstrip(".") + "."
        elif draw < 0.75:
            m = self.random.choice(self.with_synonym)
            asks = phrases.ASK_SYNONYM
            answer = f"Another word for {m.word} is {m.synonyms[0]}."
        else:
            m = self.random.choice(self.with_kind)
            asks = phrases.ASK_KIND
            a, above = article(m.word), m.kind_of
            answer = f"{a.capitalize()} {m.word} is a kind of {above}."
        question = self.random.choice(asks).format(q=self._quoted(m.word), a=article(m.word))
        return Turn(question, answer, self._plain_thought(f"This is about the word {m.word}."))

    def _plain_thought(self, text: str) -> str | None:
        return text if self.random.random() < 0.2 else None

    def _talk_turn(self) -> Turn:
        asks, answers = self.random.choice(phrases.TALK)
        return Turn(
            self.random.choice(asks),
            self.random.choice(answers),
            self._plain_thought("This is a simple question."),
        )

    def _sum_turn(self) -> Turn:
        a, b = self.random.randint(0, 20), self.random.randint(0, 20)
        if self.random.random() < 0.5:
            sign, word, result = "+", "plus", a + b
        else:
            a, b = max(a, b), min(a, b)
            sign, word, result = "-", "minus", a - b
        ask = self.random.choice(
            ("What is {a} {s} {b}?", "{a} {s} {b} =", "{a} {s} {b}", "What is {a} {w} {b}?")
        )
        return Turn(
            ask.format(a=a, b=b, s=sign, w=word),
            f"{a} {sign} {b} = {result}.",
            self._plain_thought("This is a sum."),
        )

    def _turn(self, again: bool = False) -> Turn:
        draw = self.random.random()
        if draw < 0.80:
            return self._definition_turn(again)
        if draw < 0.90:
            return self._word_turn()
        if draw < 0.96:
            return self._talk_turn()
        return self._sum_turn()

    def chat(self) -> Chat:
        """Returns the next chat: mostly one turn, sometimes two or three."""
        draw = self.random.random()
        num_turns = 1 if draw < 0.86 else 2 if draw < 0.95 else 3
        turns = tuple(self._turn(again=i > 0) for i in range(num_turns))
        system = ""
        if self.random.random() < 0.08:
            system = self.random.choice(phrases.SYSTEM_TEXTS)
        if turns[0].thought is not None and self.random.random() < 0.5:
            effort = self.random.choice(EFFORT_TEXTS)
            system = f"{effort}\n\n{system}" if system else effort
        return Chat(turns, system)


class ChatEncoder:
    """Turns chats into token ids, piece by piece as the engine does."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Looks up the control tokens and the fixed pieces."""
        self.tokenizer = tokenizer
        self.special = special_ids(tokenizer)

    def _text(self, text: str) -> list[int]:
        return [int(i) for i in self.tokenizer.encode(text, add_special_tokens=False).ids]

    def encode(self, chat: Chat) -> Encoded:
        """Returns the ids and weights of a whole chat, end-of-turn tokens included."""
        out = Encoded()

        def put(ids: list[int], weight: float) -> None:
            out.ids.extend(ids)
            out.weights.extend([weight] * len(ids))

        start, end = self.special["<|im_start|>"], self.special["<|im_end|>"]
        newline = self._text("\n")
        if chat.system:
            put([start, *self._text("system\n"), *self._text(chat.system), end, *newline], 0.0)
        for turn in chat.turns:
            put([start, *self._text("user\n"), *self._text(turn.question), end, *newline], 0.0)
            put([start, *self._text("assistant\n"), self.special["<think>"]], 0.0)
            if turn.thought is None:
                put([*self._text("\n\n"), self.special["</think>"], *self._text("\n\n")], 0.0)
            else:
                put(newline, 0.0)
                put([*self._text(turn.thought), *newline, self.special["</think>"]], 1.0)
                put(self._text("\n\n"), 1.0)
            put([*self._text(turn.answer), end], 1.0)
            put(newline, 0.0)
        return out


def sample_texts(meanings: list[Meaning]) -> Iterator[str]:
    """Yields the text that the tokenizer is trained on, usual words three times."""
    for m in meanings:
        for _ in range(3 if m.is_usual else 1):
            yield f"What does {m.word} mean?"
            yield definition(m)
        yield from m.examples
    for asks, answers in phrases.TALK:
        for _ in range(20):
            yield from asks
            yield from answers
    for _ in range(2000):
        yield from ("system\n", "user\n", "assistant\n", "\n\n")
