"""A quick probe while training: does the model copy random tokens?"""

import torch

from tools.train_tiny.model import TinyModel

NUM_ROWS = 12
GAP = 12
PERIOD = 40
NUM_KNOWN_SKIPPED = 2  # the first tokens of a repeat cannot be known


@torch.no_grad()
def copy_accuracy(model: TinyModel, seed: int = 99) -> float:
    """Returns how many tokens of a repeated random span the model guesses, greedy."""
    draw = torch.Generator().manual_seed(seed)
    span = torch.randint(0, model.shape.vocab_size - 13, (NUM_ROWS, PERIOD), generator=draw)
    gap = torch.randint(0, model.shape.vocab_size - 13, (NUM_ROWS, GAP), generator=draw)
    tokens = torch.cat((gap, span, gap.flip(1), span), 1)
    guesses = model.logits(model.trunk(tokens).mixed).argmax(-1)
    start = 2 * GAP + PERIOD + NUM_KNOWN_SKIPPED
    return float((guesses[:, start - 1 : -1] == tokens[:, start:]).float().mean())
