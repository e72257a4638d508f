"""How often the draft head's first guess equals the model's own next choice."""

from pathlib import Path

import torch
from tokenizers import Tokenizer

from tools.train_tiny.cases import copy_cases
from tools.train_tiny.chat import Chat, ChatEncoder, Turn
from tools.train_tiny.export import load_file
from tools.train_tiny.model import TinyModel
from tools.train_tiny.wordnet import Meaning


@torch.no_grad()
def acceptance(model: TinyModel, ids: list[int], start: int) -> tuple[int, int]:
    """Returns accepted and made first drafts over one chat from position `start` on."""
    tokens = torch.tensor([ids])
    out = model.trunk(tokens)
    choice = model.logits(out.mixed)[0].argmax(-1)
    mixed = model.mtp(out.streams[:, :-1], tokens[:, 1:])[1]
    draft = model.logits(mixed)[0].argmax(-1)
    # Draft at i guesses token i + 2, which the trunk chooses at i + 1.
    return int((draft[start:] == choice[start + 1 :]).sum()), draft[start:].shape[0]


def draft_rates(
    file: Path, tokenizer: Tokenizer, said: list[tuple[Meaning, str]], sentences: list[str]
) -> dict[str, float]:
    """Returns the shares on definitions as the model answered them and on copied passages."""
    torch.set_num_threads(1)
    shape, params = load_file(file)
    model, encoder = TinyModel(shape, params), ChatEncoder(tokenizer)
    chats = [Turn(f"What does the {m.part} {m.word} mean?", text) for m, text in said]
    copies = [Turn(c.question, c.expected) for c in copy_cases(sentences, tokenizer, 60, 20)]
    rates = {}
    for name, turns in (("drafts_chat", chats), ("drafts_copy", copies)):
        accepted = made = 0
        for turn in turns:
            ids = encoder.encode(Chat((turn,))).ids[:-1]
            more, total = acceptance(model, ids, ids.index(encoder.special["</think>"]))
            accepted, made = accepted + more, made + total
        rates[name] = accepted / made
    return rates
