"""Greedy answers from a checkpoint, with torch; slow and simple (the engine is the fast way)."""

import torch
from tokenizers import Tokenizer

from tools.train_tiny.data import Chat, ChatEncoder, Turn
from tools.train_tiny.model import TinyModel


def prompt_ids(encoder: ChatEncoder, question: str, thinks: bool = False) -> list[int]:
    """Returns a one-question prompt up to where the model starts to write."""
    chat = encoder.encode(Chat((Turn(question, "", "" if thinks else None),)))
    if thinks:
        return chat.ids[: chat.ids.index(encoder.special["<think>"]) + 2]
    return chat.ids[:-2]  # without the end-of-turn token and its newline


@torch.no_grad()
def greedy(model: TinyModel, prompt: list[int], stop_ids: set[int], max_tokens: int) -> list[int]:
    """Returns the tokens written until a stop token, without it."""
    ids = list(prompt)
    while len(ids) - len(prompt) < max_tokens:
        mixed = model.trunk(torch.tensor([ids])).mixed[0, -1]
        token_id = int(model.logits(mixed).argmax())
        if token_id in stop_ids:
            break
        ids.append(token_id)
    return ids[len(prompt) :]


def answer(
    model: TinyModel, encoder: ChatEncoder, question: str, thinks: bool = False, limit: int = 60
) -> str:
    """Returns the answer's text, thinking included."""
    tokenizer: Tokenizer = encoder.tokenizer
    stops = {encoder.special["<|im_end|>"], encoder.special["<|endoftext|>"]}
    ids = greedy(model, prompt_ids(encoder, question, thinks), stops, limit)
    return str(tokenizer.decode(ids, skip_special_tokens=False))
