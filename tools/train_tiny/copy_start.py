"""Starting values under which looking back is learned in minutes.

Copying needs two steps that only pay together: carry each token's identity to the place after it,
and attend to that place from a later token like it. From plainly random values a short run on one
core does not find them (measured: nothing copied after 460,000 tokens; so started, 90 % of random
tokens after 690,000). Nothing is fixed: training may do with these values what it likes.
"""

import torch
from torch import Tensor

from tools.train_tiny.shape import TinyShape

OUTPUT_SCALE = 0.06
CARRIED_SCALE = 4.0  # of the previous token's identity, beside embeddings of norm 8
PASSED_SCALE = 2.0  # of what attention passes on
# Sharp from the start: 80 % of the attention finds its token 40 back, 40 % of it 200 back. Blurred,
# it brings noise, and training turns it off before it is of use.
QUERY_SCALE = 3.0


def favour_copying(params: dict[str, Tensor], shape: TinyShape, generator: torch.Generator) -> None:
    """Changes freshly drawn parameters in place."""
    # Copying a token is then passing its embedding on, for all tokens alike.
    params["output.weight"] = params["token_embd.weight"] * OUTPUT_SCALE
    for layer, kind in enumerate(shape.layer_kinds):
        if kind == "L":
            _remember_followers(params, f"blk.{layer}.", shape)
    if shape.layer_kinds[0] == "L" and "A" in shape.layer_kinds:
        attention = f"blk.{shape.layer_kinds.index('A')}."
        _attend_to_followers(params, "blk.0.", attention, shape, generator)
    if shape.num_mtp_layers:
        _draft_copies(params, shape, generator)


def _orthogonal(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """Returns `rows` orthonormal rows."""
    return torch.linalg.qr(torch.randn(columns, rows, generator=generator)).Q.T.contiguous()


def _remember_followers(params: dict[str, Tensor], prefix: str, shape: TinyShape) -> None:
    """Starts a linear layer's first key head as: what followed the last token like this one?

    Its queries and keys project alike, but keys are made of the token before; so the layer's state
    maps a token to its follower. Reaches back some tens of tokens.
    """
    dim, keys = shape.linear_head_dim, shape.linear_k_heads * shape.linear_head_dim
    projection = params[prefix + "attn_qkv.weight"]
    projection[keys : keys + dim] = projection[:dim]
    taps = params[prefix + "ssm_conv1d.weight"] * 0.2
    taps[:, -1] += 1.0
    taps[keys : keys + dim, -1] -= 1.0
    taps[keys : keys + dim, -2] += 1.0
    params[prefix + "ssm_conv1d.weight"] = taps


def _attend_to_followers(
    params: dict[str, Tensor],
    linear: str,
    attention: str,
    shape: TinyShape,
    generator: torch.Generator,
) -> None:
    """Starts a linear layer's last value head as the token before, and attention on it.

    That head forgets at once, so all that it passes on is the token before, in directions of its
    own. The attention's first key head finds it there from a later token of that identity, and
    passes on the token that it stands beside: any distance back.
    """
    hidden, dim, head_dim = shape.hidden_size, shape.linear_head_dim, shape.head_dim
    head = shape.linear_v_heads - 1
    values = slice(head * dim, (head + 1) * dim)
    channels = slice(shape.conv_channels - dim, shape.conv_channels)
    identity = _orthogonal(dim, hidden, generator)
    carried = _orthogonal(dim, hidden, generator)
    # Queries and keys of the last key head alike, so that its products are never negative.
    key_dim = shape.linear_k_heads * dim
    qkv, taps = params[linear + "attn_qkv.weight"], params[linear + "ssm_conv1d.weight"]
    qkv[2 * key_dim - dim : 2 * key_dim] = qkv[key_dim - dim : key_dim]
    taps[2 * key_dim - dim : 2 * key_dim] = taps[key_dim - dim : key_dim]
    qkv[channels] = identity
    taps[channels] = 0.0
    taps[channels, -2] = 1.0
    params[linear + "ssm_a"][head] = -1.5
    params[linear + "ssm_dt.bias"][head] = 6.0
    for name in ("ssm_alpha", "ssm_beta"):
        params[linear + f"{name}.weight"][head] = 0.0
    params[linear + "attn_gate.weight"][values] = 0.0
    # The norm of a head's result is the root of its size, halved by the gate.
    params[linear + "ssm_out.weight"][:, values] = carried.T * (2 * CARRIED_SCALE / dim**0.5)
    groups = shape.num_heads // shape.num_kv_heads
    turned = _orthogonal(head_dim, dim, generator)
    passed = _orthogonal(head_dim, hidden, generator)
    queries = params[attention + "attn_q.weight"].view(shape.num_heads, 2 * head_dim, hidden)
    params[attention + "attn_k.weight"][:head_dim] = turned @ carried
    params[attention + "attn_v.weight"][:head_dim] = passed
    out = params[attention + "attn_output.weight"].view(hidden, shape.num_heads, head_dim)
    for i in range(groups):
        queries[i, :head_dim] = turned @ identity
        out[:, i] = passed.T * PASSED_SCALE
    params[attention + "attn_q_norm.weight"] *= QUERY_SCALE
    _index(params, attention, shape, identity, carried, generator)


def _index(
    params: dict[str, Tensor],
    prefix: str,
    shape: TinyShape,
    sought: Tensor,
    kept: Tensor,
    generator: torch.Generator,
) -> None:
    """Starts a block's indexer with the same question as its attention.

    `sought` and `kept` (rows, hidden) project the
    token looked for and the one kept at a place alike.
    """
    dim, heads = shape.indexer_dim, shape.indexer_heads
    turned = _orthogonal(dim, sought.shape[0], generator)
    # Rope turns every dimension, the first of each half by whole turns within few tokens.
    fast = torch.arange(dim) % (dim // 2) < dim * 3 // 16
    turned[fast] *= 0.25
    params[prefix + "indexer.k_proj.weight"] = turned @ kept
    params[prefix + "indexer.q_proj.weight"] = (turned @ sought).repeat(heads, 1)


def _draft_copies(params: dict[str, Tensor], shape: TinyShape, generator: torch.Generator) -> None:
    """Starts the draft head's first key head as: where was the given token, and what came then?

    The head is given the token after each position. Half of its input is made of that token, half
    of the streams, both by one projection: queries read the first half, keys the second, and
    values pass the first half on towards the output.
    """
    prefix, hidden, dim = f"blk.{shape.num_layers}.", shape.hidden_size, shape.head_dim
    half = hidden // 2
    shared = _orthogonal(half, hidden, generator)
    joined = torch.zeros(hidden, 2 * hidden)
    joined[:half, :hidden], joined[half:, hidden:] = shared, shared
    params[prefix + "nextn.eh_proj.weight"] = joined
    looking, passed = _orthogonal(dim, half, generator), _orthogonal(dim, half, generator)
    queries = params[prefix + "attn_q.weight"].view(shape.num_heads, 2 * dim, hidden)
    keys = params[prefix + "attn_k.weight"].view(shape.num_kv_heads, dim, hidden)
    values = params[prefix + "attn_v.weight"].view(shape.num_kv_heads, dim, hidden)
    out = params[prefix + "attn_output.weight"].view(hidden, shape.num_heads, dim)
    keys[0, :, :half], keys[0, :, half:] = 0.0, looking
    values[0, :, :half], values[0, :, half:] = passed, 0.0
    for head in range(shape.num_heads // shape.num_kv_heads):
        queries[head, :dim, :half], queries[head, :dim, half:] = looking, 0.0
        out[:, head] = (passed @ shared).T
    params[prefix + "attn_q_norm.weight"] *= QUERY_SCALE
    both = torch.eye(hidden)
    _index(params, prefix, shape, both[:half], both[half:], generator)
