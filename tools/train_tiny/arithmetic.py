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


def _operands(draw: random.Random) -> tuple[int, str, int]:
    """Returns two numbers and a sign, oftener than by chance with a digit carried or borrowed."""
    while True:
        low, top = (
            (10, 100) if draw.random() < 0.8 else (0, 100) if draw.random() < 0.5 else (0, 20)
        )
        a, b = draw.randrange(low, top), draw.randrange(low, top)
        sign = draw.choice("+-")
        if sign == "-" and a < b:
            a, b = b, a
        is_carried = a % 10 + b % 10 > 9 if sign == "+" else a % 10 < b % 10
        if not is_held_out_sum(a, b) and (is_carried or draw.random() < 0.6):
            return a, sign, b


def sum_turn(draw: random.Random, thinks: bool) -> Turn:
    """Returns a question for one sum; the work is thought, or said where nothing is thought."""
    a, sign, b = _operands(draw)
    word = "plus" if sign == "+" else "minus"
    ask = draw.choice(ASKS).format(a=a, b=b, s=sign, w=word)
    final = f"{a} {sign} {b} = {result(a, sign, b)}."
    if thinks:
        return Turn(ask, final, worked(a, sign, b))
    return Turn(ask, f"{worked(a, sign, b)} So {final}")
