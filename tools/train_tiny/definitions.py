"""Questions about words: what they mean, examples, synonyms, kinds; and small talk."""

import random

from tools.train_tiny import phrases
from tools.train_tiny.chat import Turn
from tools.train_tiny.held_out import is_held_out, is_held_out_sentence
from tools.train_tiny.wordnet import Meaning

# Words met so often in WordNet's tagged texts are drawn most: a short run sees each of them some
# ten times, which is what it takes to keep a meaning.
WELL_KNOWN_COUNT = 10


def article(word: str) -> str:
    """Returns `a` or `an`."""
    return "an" if word[0] in "aeiou" else "a"


def definition(meaning: Meaning) -> str:
    """Returns the answer that defines a word."""
    return f"The {meaning.part} {meaning.word} means: {meaning.gloss}."


def most_usual(meanings: list[Meaning]) -> dict[str, Meaning]:
    """Returns each word's most usual meaning."""
    best: dict[str, Meaning] = {}
    for m in meanings:
        if m.word not in best or m.count > best[m.word].count:
            best[m.word] = m
    return best


def main_words(meanings: list[Meaning]) -> list[Meaning]:
    """Returns the words that training concentrates on."""
    best = most_usual([m for m in meanings if not is_held_out(m.word)])
    return [m for m in best.values() if " " not in m.word and m.count >= WELL_KNOWN_COUNT]


class WordTasks:
    """Draws questions from word meanings."""

    def __init__(self, meanings: list[Meaning], draw: random.Random) -> None:
        """Prepares the draw; held-out words and examples are dropped here."""
        self.random = draw
        trained = [m for m in meanings if not is_held_out(m.word)]
        best = most_usual(trained)
        single = [m for m in best.values() if " " not in m.word]
        self.main = main_words(meanings)
        self.less_known = [m for m in single if 0 < m.count < WELL_KNOWN_COUNT]
        self.other_parts = [m for m in trained if m.count > 1 and m is not best[m.word]]
        self.rare = [m for m in best.values() if not m.is_usual]
        # Well-known words more often, but not in proportion: counts span four decades.
        self.weights = [min(m.count, 200) ** 0.35 for m in self.main]
        self.examples = [
            (m, e) for m in self.main for e in m.examples if not is_held_out_sentence(e)
        ]
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

    def definition_turn(self, thinks: bool, again: bool = False) -> Turn:
        """Returns a question for a word's meaning."""
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
        thought = f"This is about the {m.part} {m.word}." if thinks else None
        return Turn(question, definition(m), thought)

    def word_turn(self, thinks: bool) -> Turn:
        """Returns a question for an example, a synonym or the kind of thing."""
        draw = self.random.random()
        if draw < 0.4:
            m, example = self.random.choice(self.examples)
            asks: tuple[str, ...] = phrases.ASK_EXAMPLE
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
        return Turn(question, answer, f"This is about the word {m.word}." if thinks else None)

    def talk_turn(self, thinks: bool) -> Turn:
        """Returns small talk."""
        asks, answers = self.random.choice(phrases.TALK)
        return Turn(
            self.random.choice(asks),
            self.random.choice(answers),
            "This is a simple question." if thinks else None,
        )
