"""Judges a written model file on held-out cases: the figures of assets/models/README.md."""

import itertools
import json
import logging
import re
from pathlib import Path
from typing import cast

from tools.train_tiny import tokenizer as tokenizers_
from tools.train_tiny.cases import (
    TextCase,
    ToolCase,
    copy_cases,
    rename_cases,
    sum_cases,
    tool_cases,
    word_cases,
)
from tools.train_tiny.data import sentences_of
from tools.train_tiny.definitions import main_words
from tools.train_tiny.drafts import draft_rates
from tools.train_tiny.editing import library_functions
from tools.train_tiny.engine_client import Engine, Reply
from tools.train_tiny.word_lists import words
from tools.train_tiny.wordnet import Meaning, read_meanings

logger = logging.getLogger(__name__)

STOP_WORDS = frozenset(
    words(
        "a an and any as at be by for from has have in into is it its means of on one or something "
        "someone that the their them to used very which who with adjective adverb noun verb"
    )
)
SAMPLE_QUESTIONS = (
    "Hello",
    "Who are you?",
    "What can you do?",
    "What is Stratum?",
    "How do I start Stratum?",
    "What does the setting prompt_chunk do?",
    "What is the default of port?",
    "What does river mean?",
    "What is a dog?",
    "What does happy mean?",
    "What does the verb run mean?",
    "What does quickly mean?",
    "Use house in a sentence.",
    "What is another word for big?",
    "What is 7 + 5?",
    "What is 63 - 28?",
    "Repeat this text: The quick brown fox jumps over the lazy dog.",
    "Replace the word cat with horse: The cat sleeps and the cat eats.",
    "The red key is in the box. The blue key is in the garden. Where is the red key?",
    "Thank you",
)


def content_words(text: str) -> set[str]:
    """Returns the words that carry sense, lower case, without plural endings."""
    words = re.findall(r"[a-z]+", text.lower())
    return {w.rstrip("s") for w in words if w not in STOP_WORDS and len(w) > 2}


def has_right_sense(text: str, meaning: Meaning) -> bool:
    """Whether an answer shares at least half of the gloss's content words."""
    gloss = content_words(meaning.gloss)
    said = content_words(text.partition("means:")[2])
    return bool(gloss) and len(gloss & said) * 2 >= len(gloss)


def is_definition_shaped(text: str, word: str) -> bool:
    """Whether an answer has a definition's form: the word, a gloss of some words, no stutter."""
    found = re.fullmatch(r"The (noun|verb|adjective|adverb) (.+?) means: (.+)\.", text)
    if found is None or found.group(2) != word:
        return False
    said = found.group(3).split()
    stutters = any(a == b for a, b in itertools.pairwise(said))
    return 2 <= len(said) <= 25 and not stutters


def _share_exact(engine: Engine, cases: list[TextCase], effort: str, name: str) -> float:
    right = 0
    for case in cases:
        reply = engine.ask(case.question, effort, 700)
        is_right = reply.content.strip() == case.expected.strip()
        right += is_right
        if not is_right:
            logger.debug("%s wrong: %r -> %r", name, case.question[-80:], reply.text()[-80:])
    return right / len(cases)


def _share_sums(engine: Engine, cases: list[TextCase], effort: str) -> float:
    replies = [engine.ask(c.question, effort) for c in cases]
    return sum(r.content.endswith(c.expected) for r, c in zip(replies, cases, strict=True)) / len(
        cases
    )


def is_wanted_call(reply: Reply, case: ToolCase) -> bool:
    """Whether an answer is one call of the wanted tool with the wanted arguments."""
    return (
        len(reply.calls) == 1
        and reply.calls[0][0] == case.name
        and json.loads(reply.calls[0][1]) == dict(case.arguments)
    )


def is_well_formed_call(reply: Reply, case: ToolCase) -> bool:
    """Whether an answer is one call of an offered tool with exactly its required parameters."""
    if len(reply.calls) != 1:
        return False
    name, arguments = reply.calls[0]
    for tool in case.tools:
        function = cast("dict[str, object]", tool["function"])
        if function["name"] == name:
            parameters = cast("dict[str, list[str]]", function["parameters"])
            return set(json.loads(arguments)) == set(parameters["required"])
    return False


def tool_figures(engine: Engine, cases: list[ToolCase], effort: str) -> dict[str, float]:
    """Returns shares of well-formed calls, wanted calls and answers that hold the result."""
    formed = wanted = answered = 0
    for case in cases:
        messages: list[dict[str, object]] = [{"role": "user", "content": case.question}]
        reply = engine.chat(messages, case.tools, effort)
        formed += is_well_formed_call(reply, case)
        wanted += is_wanted_call(reply, case)
        arguments = json.dumps(dict(case.arguments))
        function = {"name": case.name, "arguments": arguments}
        call = {"id": "call_1", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": "call_1", "content": case.result})
        answered += case.words in engine.chat(messages, case.tools, effort).content
    n = len(cases)
    return {"well_formed": formed / n, "wanted_call": wanted / n, "answers_result": answered / n}


def report(
    folder: Path, wordnet: Path, model: Path, python: str, count: int, record: Path | None
) -> None:
    """Logs and stores the figures of a written model file, and logs answers to read.

    Args:
        folder: of the run, for its tokenizer.
        wordnet: its files.
        model: the GGUF file.
        python: interpreter that runs the engine.
        count: cases of each kind (four times as many trained words).
        record: JSON file for the figures.
    """
    tokenizer = tokenizers_.load(folder / "tokenizer.json")
    meanings = read_meanings(wordnet)
    sentences = sentences_of(meanings, held_out=True)
    functions = library_functions()
    trained, held_out = word_cases(main_words(meanings), meanings, 4 * count, count)
    figures: dict[str, float] = {}
    answers: list[str] = []
    with Engine(model, python) as engine:
        for effort in ("none", "high"):
            for size in (60, 200):
                cases = copy_cases(sentences, tokenizer, size, count)
                figures[f"copy_{size}/{effort}"] = _share_exact(engine, cases, effort, "copy")
            cases = rename_cases(functions, count)
            figures[f"rename/{effort}"] = _share_exact(engine, cases, effort, "rename")
            figures[f"sums/{effort}"] = _share_sums(engine, sum_cases(count), effort)
            for key, share in tool_figures(engine, tool_cases(count), effort).items():
                figures[f"tools_{key}/{effort}"] = share
        said = [(m, engine.ask(f"What does the {m.part} {m.word} mean?").content) for m in trained]
        figures["right_sense_trained"] = sum(has_right_sense(t, m) for m, t in said) / len(said)
        asked = [(m, engine.ask(f"What does {m.word} mean?").content) for m in held_out]
        shaped = sum(is_definition_shaped(text, m.word) for m, text in asked)
        figures["definition_shaped_held_out"] = shaped / len(asked)
        answers += [f"trained: {m.part} {m.word} -> {text}" for m, text in said[:40]]
        answers += [f"held out: {m.word} -> {text}" for m, text in asked]
        for effort in ("none", "high"):
            for question in SAMPLE_QUESTIONS:
                reply = engine.ask(question, effort)
                thought = f"({reply.reasoning}) " if reply.reasoning else ""
                answers.append(f"{question} -> {thought}{reply.text()}")
    figures |= draft_rates(model, tokenizer, [(m, t) for m, t in said[:40]], sentences)
    rounded = {key: round(value, 4) for key, value in figures.items()}
    logger.info("%s", json.dumps(rounded))
    for key, value in rounded.items():
        logger.info("%-32s %.3f", key, value)
    for line in answers:
        logger.info("%s", line)
    if record is not None:
        record.write_text(json.dumps(rounded, indent=2) + "\n", encoding="utf-8")
