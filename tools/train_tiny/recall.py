"""Facts that a chat states itself, asked for later."""

import random

from tools.train_tiny.chat import Turn
from tools.train_tiny.copying import Passages
from tools.train_tiny.word_lists import COLORS, NAMES, PLACES, THINGS


def name_turns(draw: random.Random, thinks: bool) -> tuple[Turn, Turn]:
    """Returns a greeting with a name and a later question for it."""
    name = draw.choice(NAMES)
    told = draw.choice(("My name is {n}.", "I am {n}.", "Hello, my name is {n}.", "Call me {n}."))
    asked = draw.choice(("What is my name?", "What's my name?", "Do you know my name?"))
    thought = "The name was given before." if thinks else None
    greeting = Turn(
        told.format(n=name), f"Hello {name}!", "I greet the person." if thinks else None
    )
    return greeting, Turn(asked, f"Your name is {name}.", thought)


def place_turn(
    draw: random.Random, passages: Passages, thinks: bool, num_filler_words: int
) -> Turn:
    """Returns a few facts, filler sentences around them, and a question for one of the facts."""
    count = draw.randint(1, 4)
    things = [
        f"{c} {t}"
        for c, t in zip(draw.sample(COLORS, count), draw.sample(THINGS, count), strict=True)
    ]
    if draw.random() < 0.3:
        codes = [str(draw.randrange(100, 10000)) for _ in things]
        facts = [f"The code of the {t} is {c}." for t, c in zip(things, codes, strict=True)]
        asks = [f"What is the code of the {t}?" for t in things]
    else:
        places = [draw.choice(PLACES) for _ in things]
        facts = [f"The {t} is in the {p}." for t, p in zip(things, places, strict=True)]
        asks = [f"Where is the {t}?" for t in things]
    parts = list(facts)
    while num_filler_words > 0:
        sentence = passages.sentence_text(draw, min(12, num_filler_words))
        num_filler_words -= sentence.count(" ") + 1
        parts.insert(draw.randrange(len(parts) + 1), sentence)
    chosen = draw.randrange(count)
    text = f"{' '.join(parts)}{draw.choice((' ', chr(10) * 2))}{asks[chosen]}"
    return Turn(text, facts[chosen], "The text says it." if thinks else None)
