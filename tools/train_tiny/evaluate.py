"""Judges a checkpoint: losses on held-out words, right senses, drafts, sample answers."""

import json
import logging
import random
import re
from pathlib import Path

import torch

from tools.train_tiny import tokenizer as tokenizers_
from tools.train_tiny.batches import make_batch
from tools.train_tiny.data import Chat, ChatEncoder, Turn, definition, is_held_out
from tools.train_tiny.export import load_checkpoint, load_file
from tools.train_tiny.losses import step_loss
from tools.train_tiny.model import TinyModel
from tools.train_tiny.sampling import answer
from tools.train_tiny.wordnet import Meaning, read_meanings

logger = logging.getLogger(__name__)

STOP_WORDS = frozenset(
    [
        "a",
        "an",
        "and",
        "any",
        "as",
        "at",
        "be",
        "by",
        "for",
        "from",
        "has",
        "have",
        "in",
        "into",
        "is",
        "it",
        "its",
        "means",
        "of",
        "on",
        "one",
        "or",
        "something",
        "someone",
        "that",
        "the",
        "their",
        "them",
        "to",
        "used",
        "very",
        "which",
        "who",
        "with",
        "adjective",
        "adverb",
        "noun",
        "verb",
    ]
)
SAMPLE_QUESTIONS = (
    "Hello",
    "Who are you?",
    "What can you do?",
    "What is Stratum?",
    "What does river mean?",
    "What is a dog?",
    "What does happy mean?",
    "What does the verb run mean?",
    "What does quickly mean?",
    "Use house in a sentence.",
    "What is another word for big?",
    "What is 7 + 5?",
    "What is 13 - 6?",
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


@torch.no_grad()
def draft_rate(model: TinyModel, chats: list[list[int]], starts: list[int]) -> float:
    """Returns how often the draft head's first guess equals the trunk's own next choice."""
    hits = total = 0
    for ids, start in zip(chats, starts, strict=True):
        tokens = torch.tensor([ids])
        out = model.trunk(tokens)
        choice = model.logits(out.mixed)[0].argmax(-1)
        _, mixed, _ = model.mtp(out.streams[:, :-1], tokens[:, 1:])
        draft = model.logits(mixed)[0].argmax(-1)
        # Draft at i guesses token i + 2, which the trunk chooses at i + 1.
        hits += int((draft[start:] == choice[start + 1 :]).sum())
        total += draft[start:].shape[0]
    return hits / max(1, total)


def _loss(model: TinyModel, encoder: ChatEncoder, meanings: list[Meaning]) -> tuple[float, float]:
    chats = [
        encoder.encode(Chat((Turn(f"What does {m.word} mean?", definition(m)),))) for m in meanings
    ]
    chats = [c for c in chats if len(c.ids) <= 97]
    batch = make_batch(chats, 96, encoder.special["<|endoftext|>"])
    parts = tuple(torch.from_numpy(a) for a in (batch.tokens, batch.targets, batch.weights))
    with torch.no_grad():
        loss = step_loss(model, *parts, mtp_share=1.0, with_indexer=False)
    return loss.main, loss.mtp


def report(folder: Path, wordnet: Path, file: Path | None = None, num_words: int = 100) -> None:
    """Logs the figures as one JSON line and sample answers after it.

    Judges the written `file` if there is one, dequantised; else the folder's checkpoint.
    """
    torch.set_num_threads(1)
    shape, params = load_checkpoint(folder) if file is None else load_file(file)
    model = TinyModel(shape, params)
    encoder = ChatEncoder(tokenizers_.load(folder / "tokenizer.json"))
    draw = random.Random(1)  # noqa: S311 - a repeatable choice, no secret
    usual = [m for m in read_meanings(wordnet) if m.count >= 5 and " " not in m.word]
    held_out = [m for m in usual if is_held_out(m.word)][:num_words]
    trained = draw.sample([m for m in usual if not is_held_out(m.word)], num_words)
    figures: dict[str, float] = {}
    figures["held_out_loss"], figures["held_out_mtp_loss"] = _loss(model, encoder, held_out)
    figures["trained_loss"], figures["trained_mtp_loss"] = _loss(model, encoder, trained)
    right, lines, chats, starts = 0, [], [], []
    for m in trained:
        question = f"What does the {m.part} {m.word} mean?"
        said = answer(model, encoder, question)
        right += has_right_sense(said, m)
        lines.append(f"{question} -> {said}")
        ids = encoder.encode(Chat((Turn(question, said),))).ids
        chats.append(ids)
        starts.append(ids.index(encoder.special["</think>"]))
    figures["right_sense"] = right / num_words
    figures["first_draft_accepted"] = draft_rate(model, chats, starts)
    logger.info("%s", json.dumps({k: round(v, 4) for k, v in figures.items()}))
    for line in lines[:20]:
        logger.info("trained: %s", line)
    for m in held_out[:12]:
        question = f"What does {m.word} mean?"
        logger.info("held out: %s -> %s", question, answer(model, encoder, question))
    for question in SAMPLE_QUESTIONS:
        logger.info("%s -> %s", question, answer(model, encoder, question))
    for question in SAMPLE_QUESTIONS[:6]:
        logger.info("thinking: %s -> %s", question, answer(model, encoder, question, thinks=True))
