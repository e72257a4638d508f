"""Sums and differences of numbers below 100, worked out digit by digit."""

import random

from tools.train_tiny.chat import Turn
from tools.train_tiny.held_out import is_held_out_sum

ASKS = (
    "What is {a} {s} {b}?",
    "What is {a} {s} {b}?",
    "{a} {s} {b} =",
    "{a} {s} {b}",
    "What is {a} {w} {b}?",
    "How much is {a} {s} {b}?",
    "Work out {a} {s} {b}.",
)


def worked(a: int, sign: str, b: int) -> str:
    """Returns the steps: ones, tens, and what they make together."""
    ones_a, ones_b = a % 10, b % 10
    tens_a, tens_b = a - ones_a, b - ones_b
    if sign == "+":
        ones, tens = ones_a + ones_b, tens_a + tens_b
        return f"{ones_a} + {ones_b} = {ones}, {tens_a} + {tens_b} = {tens}, {tens} + {ones} = {a + b}."
    if ones_a < ones_b:
        ones_a, tens_a = ones_a + 10, tens_a - 10
    ones, tens = ones_a - ones_b, tens_a - tens_b
    return f"{ones_a} - {ones_b} = {ones}, {tens_a} - {tens_b} = {tens}, {tens} + {ones} = {a - b}."


def result(a: int, sign: str, b: int) -> int:
    """Returns the sum or difference."""
    return a + b if sign == "+" else a - b


def sum_turn(draw: random.Random, thinks: bool) -> Turn:
    """Returns a question for one sum; the work is thought, or said where nothing is thought."""
    while True:
        top = 100 if draw.random() < 0.9 else 20
        a, b = draw.randrange(top), draw.randrange(top)
        sign, word = ("+", "plus") if draw.random() < 0.5 else ("-", "minus")
        if sign == "-" and a < b:
            a, b = b, a
        if not is_held_out_sum(a, b):
            break
    ask = draw.choice(ASKS).format(a=a, b=b, s=sign, w=word)
    final = f"{a} {sign} {b} = {result(a, sign, b)}."
    if thinks:
        return Turn(ask, final, worked(a, sign, b))
    return Turn(ask, f"{worked(a, sign, b)} So {final}")
