"""Fits the indexers by least squares while the rest of the model is trained.

Top-k passes no gradient. Training the indexers to predict where the attention looks taught them to
prefer what is near: of the places wanted 700 tokens back they chose 19 %, less than chance. What
the sharp heads look for is known, though: the place behind an earlier token like the present one.
So queries are fitted to name the present token and keys to name the one before, in the directions
that keys tell best; the trunk's indexer then chose 77 %. The draft head's are fitted alike, to
the token that it is given and the one that its streams stand for.
"""

import torch
from torch import Tensor

from tools.train_tiny.model import TinyModel

ROWS, LENGTH, NUM_BATCHES = 8, 144, 10
NUM_REPEATED = 6  # rows whose second half repeats the first
RIDGE = 3.0
FAST_SHARE = 0.25  # of dimensions that rope turns within few tokens


@torch.no_grad()
def fit_indexers(model: TinyModel, seed: int) -> None:
    """Sets the tensors of every attention layer's indexer."""
    draw = torch.Generator().manual_seed(seed)
    embeddings = model.params["token_embd.weight"]
    num_ordinary = model.shape.vocab_size - 13
    layer = model.shape.layer_kinds.index("A")
    inputs: list[Tensor] = []
    draft_inputs: list[Tensor] = []
    tokens: list[Tensor] = []
    for _ in range(NUM_BATCHES):
        rows = torch.randint(0, num_ordinary, (ROWS, LENGTH), generator=draw)
        rows[:NUM_REPEATED, LENGTH // 2 :] = rows[:NUM_REPEATED, : LENGTH // 2]
        out = model.trunk(rows)
        inputs.append(out.attention_inputs[layer])
        draft_inputs.append(model.mtp(out.streams[:, :-1], rows[:, 1:])[3])
        tokens.append(rows)
    named = embeddings[torch.cat(tokens)]
    x, drafts = torch.cat(inputs), torch.cat(draft_inputs)
    _set(model, layer, x[:, 1:], _fit(x[:, 1:], named[:, :-1]), _fit(x, named))
    given, stood_for = _fit(drafts, named[:, 1:]), _fit(drafts, named[:, :-1])
    _set(model, model.shape.num_layers, drafts, stood_for, given)


def _fit(x: Tensor, wanted: Tensor) -> Tensor:
    """Returns the matrix that maps x to `wanted` best, (hidden, hidden)."""
    x, wanted = x.flatten(0, 1), wanted.flatten(0, 1)
    return torch.linalg.solve(x.T @ x + RIDGE * torch.eye(x.shape[1]), x.T @ wanted)


def _set(model: TinyModel, layer: int, x: Tensor, for_keys: Tensor, for_queries: Tensor) -> None:
    shape, prefix = model.shape, f"blk.{layer}.indexer."
    dim = shape.indexer_dim
    told = x.flatten(0, 1) @ for_keys
    best = torch.linalg.eigh(told.T @ told).eigenvectors[:, -dim:].T.flip(0)
    # The best directions go where rope turns slowly: the ends of both halves.
    is_fast = torch.arange(dim) % (dim // 2) < dim * 3 // 16
    places = torch.cat(((~is_fast).nonzero(), is_fast.nonzero())).squeeze(-1)
    chosen = torch.empty_like(best)
    chosen[places] = best
    chosen[is_fast] *= FAST_SHARE
    keys, queries = chosen @ for_keys.T, chosen @ for_queries.T
    keys, queries = (w / w.norm(dim=-1).mean() for w in (keys, queries))
    model.params[prefix + "k_proj.weight"].copy_(keys)
    model.params[prefix + "q_proj.weight"].copy_(queries.repeat(shape.indexer_heads, 1))
    for name in ("q_norm", "k_norm"):
        model.params[prefix + f"{name}.weight"].fill_(1.0)
