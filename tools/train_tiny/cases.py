"""The held-out cases that the evaluation asks: none of them is ever drawn for training."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tokenizers import Tokenizer

from tools.train_tiny.arithmetic import result
from tools.train_tiny.editing import renamable, rename
from tools.train_tiny.held_out import (
    is_held_out,
    is_held_out_function,
    is_held_out_sum,
    is_held_out_topic,
)
from tools.train_tiny.tool_tasks import Tool, draw_result, draw_tools, tool_question
from tools.train_tiny.word_lists import TOPICS
from tools.train_tiny.wordnet import Meaning

NEW_NAMES = ("total", "value", "item", "count", "result", "target", "source", "label", "buffer")


@dataclass(frozen=True, slots=True)
class TextCase:
    """A question with the only right answer."""

    question: str
    expected: str


@dataclass(frozen=True, slots=True)
class ToolCase:
    """A question that wants a call, the call's arguments, its result and the words of it."""

    tools: Sequence[Mapping[str, object]]
    question: str
    name: str
    arguments: Mapping[str, str | int]
    result: str
    words: str


def copy_cases(
    sentences: list[str], tokenizer: Tokenizer, num_tokens: int, count: int
) -> list[TextCase]:
    """Returns passages of exactly `num_tokens` tokens, of held-out sentences in a drawn order."""
    draw = random.Random(num_tokens)  # noqa: S311 - repeatable cases, no secrets
    cases: list[TextCase] = []
    while len(cases) < count:
        text = " ".join(draw.sample(sentences, num_tokens // 4))
        encoding = tokenizer.encode(text, add_special_tokens=False)
        passage = text[: encoding.offsets[num_tokens - 1][1]].strip()
        cases.append(TextCase(f"Repeat this text: {passage}", passage))
    return cases


def rename_cases(functions: list[str], count: int) -> list[TextCase]:
    """Returns renamings in held-out functions of Python's library."""
    draw = random.Random(5)  # noqa: S311 - repeatable cases, no secrets
    kept = [f for f in functions if is_held_out_function(f) and renamable(f)]
    cases = []
    for source in draw.sample(kept, count):
        old = draw.choice(renamable(source))
        new = draw.choice([n for n in NEW_NAMES if n not in source])
        question = f"Rename {old} to {new} in this function:\n\n{source}"
        cases.append(TextCase(question, rename(source, old, new)))
    return cases


def sum_cases(count: int) -> list[TextCase]:
    """Returns sums and differences of two-digit numbers whose pair is held out."""
    draw = random.Random(6)  # noqa: S311 - repeatable cases, no secrets
    cases: dict[str, TextCase] = {}
    while len(cases) < count:
        a, b = draw.randrange(10, 100), draw.randrange(10, 100)
        sign = "+" if len(cases) % 2 else "-"
        if sign == "-" and a < b:
            a, b = b, a
        if is_held_out_sum(a, b):
            case = TextCase(f"What is {a} {sign} {b}?", f"{a} {sign} {b} = {result(a, sign, b)}.")
            cases[case.question] = case
    return list(cases.values())


def tool_cases(count: int) -> list[ToolCase]:
    """Returns tool questions on held-out topics; other offered tools are held out too."""
    draw = random.Random(8)  # noqa: S311 - repeatable cases, no secrets
    topics = [t for t in TOPICS if is_held_out_topic(t)]
    cases = []
    for _ in range(count):
        tools: list[Tool] = draw_tools(draw, topics)
        question, call, _ = tool_question(draw, draw.choice(tools))
        text, words = draw_result(draw)
        declared = [tool.declaration(draw) for tool in tools]
        cases.append(ToolCase(declared, question, call.name, call.arguments, text, words))
    return cases


def word_cases(
    main: list[Meaning], meanings: list[Meaning], num_trained: int, num_held_out: int
) -> tuple[list[Meaning], list[Meaning]]:
    """Returns trained words out of those that are drawn most, and held-out words."""
    draw = random.Random(1)  # noqa: S311 - repeatable cases, no secrets
    best: dict[str, Meaning] = {}
    for m in sorted(meanings, key=lambda m: m.count):
        if " " not in m.word and is_held_out(m.word):
            best[m.word] = m
    usual = sorted(best.values(), key=lambda m: -m.count)[:num_held_out]
    return draw.sample(main, num_trained), usual
