"""Copying: random tokens first, then words, sentences and code.

What is copied has to be held in the context, so these are what teaches the attention to look back.
"""

import random
from dataclasses import dataclass

from tools.train_tiny.chat import Encoded, Turn

ASKS = (
    "Repeat this text: {t}",
    "Repeat this text: {t}",
    "Repeat this text exactly: {t}",
    "Repeat the following text:\n\n{t}",
    "Repeat after me: {t}",
    "Copy this text: {t}",
    "Copy this exactly:\n\n{t}",
    "Please copy the following:\n{t}",
    "Say this again: {t}",
    "Write this once more: {t}",
    "{t}\n\nRepeat the text above.",
)
THOUGHTS = ("I repeat the text.", "I copy the text exactly.")


def random_repeats(draw: random.Random, num_tokens: int, length: int) -> Encoded:
    """Returns random tokens repeated at one distance; only the repeats carry loss.

    num_tokens: tokens to draw from; length: of the whole row.
    """
    period = draw.randint(4, max(5, length // 2 - 8))
    # A small alphabet often, so that one token before is not enough to find the place.
    kind = draw.random()
    if kind < 0.35:
        num_tokens = min(num_tokens, 1024)  # tokens come by frequency: these are met everywhere
    alphabet = num_tokens if kind < 0.6 else draw.randint(24, 200)
    offset = draw.randrange(num_tokens - alphabet + 1)
    span = [offset + draw.randrange(alphabet) for _ in range(period)]
    out = Encoded()
    while len(out.ids) < length:
        gap = draw.choice((0, 0, 1, 3, 8)) if period < length // 3 else draw.choice((0, 1, 4))
        noise = [draw.randrange(num_tokens) for _ in range(gap)]
        is_first = not any(out.weights) and len(out.ids) < period
        # The first token of a repeat cannot be known, unless nothing stands between.
        out.ids += noise + span
        out.weights += [0.0] * len(noise)
        out.weights += [0.0] * period if is_first else [0.0] + [1.0] * (period - 1)
    out.ids, out.weights = out.ids[:length], out.weights[:length]
    return out


@dataclass(frozen=True, slots=True)
class Passages:
    """Texts to copy, made of sentences, words, code lines and odd strings."""

    sentences: list[str]
    words: list[str]
    functions: list[str]

    def sentence_text(self, draw: random.Random, num_words: int) -> str:
        """Returns whole sentences of about that many words."""
        parts: list[str] = []
        count = 0
        while count < num_words:
            sentence = draw.choice(self.sentences)
            parts.append(sentence)
            count += sentence.count(" ") + 1
        text = " ".join(parts)
        if draw.random() < 0.5:
            return text
        return " ".join(text.split(" ")[:num_words])

    def word_text(self, draw: random.Random, num_words: int) -> str:
        """Returns random words, which nothing but looking back can copy."""
        words = [draw.choice(self.words) for _ in range(num_words)]
        if draw.random() < 0.3:
            words = [w.capitalize() if draw.random() < 0.3 else w for w in words]
        return draw.choice((" ", " ", " ", ", ", "\n", "; ")).join(words)

    def odd_text(self, draw: random.Random, num_words: int) -> str:
        """Returns codes, numbers, paths and the like."""
        made = []
        for _ in range(max(1, num_words // 3)):
            kind = draw.random()
            if kind < 0.4:
                made.append(str(draw.randrange(10 ** draw.randint(1, 6))))
            elif kind < 0.6:
                letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
                made.append("".join(draw.choice(letters) for _ in range(draw.randint(3, 10))))
            elif kind < 0.8:
                made.append(f"{draw.choice(self.words)}/{draw.choice(self.words)}.txt")
            else:
                made.append(f"{draw.choice(self.words)}={draw.randrange(1000)}")
        return draw.choice((" ", " ", ", ")).join(made)

    def text(self, draw: random.Random, num_words: int) -> str:
        """Returns a text of about that many words."""
        kind = draw.random()
        if kind < 0.62:
            return self.sentence_text(draw, num_words)
        if kind < 0.80:
            return self.word_text(draw, num_words)
        if kind < 0.90 or not self.functions:
            return self.odd_text(draw, num_words)
        return draw.choice(self.functions)


def copy_turn(
    draw: random.Random, passages: Passages, min_words: int, max_words: int, thinks: bool
) -> Turn:
    """Returns a request to copy a text of about `min_words` to `max_words` words."""
    # Short ones often: each teaches where a copy begins, which is the hardest of its tokens.
    num_words = max(1, round(min_words * (max_words / min_words) ** draw.random()))
    text = passages.text(draw, num_words).strip()
    ask = draw.choice(ASKS).format(t=text)
    return Turn(ask, text, draw.choice(THOUGHTS) if thinks else None)
