"""The whole model: trunk, output head and MTP head over a dictionary of named parameters.

Names and layouts are the GGUF file's (spec/qwen4exp.md 3.2, layout A of section 7.3 for the head).
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from tools.train_tiny import layers
from tools.train_tiny.copy_start import favour_copying
from tools.train_tiny.layers import Params, Streams, linear, rms
from tools.train_tiny.shape import TinyShape
from tools.train_tiny.tensors import tensor_shapes

MEMORIES = (1000.0, 100.0, 400.0, 20.0)


@dataclass(frozen=True, slots=True)
class TrunkOutput:
    """What one pass of the trunk leaves behind."""

    streams: Tensor  # (batch, time, streams, hidden), after the last layer
    mixed: Tensor  # (batch, time, hidden), what the output matrix reads
    balance: Tensor  # scalar: sum of the layers' balance losses
    attention_inputs: dict[int, Tensor]  # layer -> (batch, time, hidden), detached


def init_params(shape: TinyShape, seed: int) -> dict[str, Tensor]:
    """Returns freshly drawn parameters under their tensor names."""
    generator = torch.Generator().manual_seed(seed)
    params = {
        name: _init_tensor(name, size, shape, generator)
        for name, size in tensor_shapes(shape).items()
    }
    favour_copying(params, shape, generator)
    return {name: value.requires_grad_() for name, value in params.items()}


def _init_tensor(
    name: str, size: tuple[int, ...], shape: TinyShape, generator: torch.Generator
) -> Tensor:
    def normal(std: float) -> Tensor:
        return torch.randn(size, generator=generator) * std

    kind = name.removesuffix(".weight").rsplit(".", 1)[-1]
    if kind == "ssm_a":
        return -torch.ones(size)
    if name.endswith("ssm_dt.bias"):
        # Memories of 20 to 1,000 tokens; heads of one key head lie `linear_k_heads` apart.
        steps = torch.tensor([MEMORIES[i % len(MEMORIES)] for i in range(size[0])]).reciprocal()
        return torch.log(torch.expm1(steps))
    if "norm" in kind:
        return torch.ones(size)
    if kind == "ssm_conv1d":
        return (torch.rand(size, generator=generator) * 2 - 1) * size[1] ** -0.5
    if kind == "ple_conv1d":
        return normal(0.02)
    if kind == "token_embd":
        return normal(0.5)
    if kind == "output":
        return normal(0.02)
    if kind == "per_layer_token_embd":
        return normal(0.1)
    std = size[-1] ** -0.5
    if kind in ("attn_output", "ssm_out", "ffn_down_exps", "ffn_down_shexp"):
        std /= math.sqrt(2 * shape.num_layers)
    return normal(std)


class TinyModel:
    """Forward passes over named parameters; holds no optimiser state."""

    def __init__(self, shape: TinyShape, params: Params) -> None:
        """Binds the sizes to the parameters."""
        self.shape = shape
        self.params = params

    def trunk(self, tokens: Tensor) -> TrunkOutput:
        """Runs all trunk layers from empty state; tokens (batch, time) int64."""
        shape, params = self.shape, self.params
        batch, length = tokens.shape
        tables = layers.rope_tables(length, shape)
        embedded = torch.nn.functional.embedding(tokens, params["token_embd.weight"])
        value = embedded.view(-1, 1, shape.hidden_size).expand(-1, shape.num_streams, -1)
        streams = Streams(value.contiguous(), params, shape)
        balance = torch.zeros(())
        attention_inputs: dict[int, Tensor] = {}
        for layer, kind in enumerate(shape.layer_kinds):
            if shape.ple is not None and layer == shape.ple.layer_idx:
                rows = torch.nn.functional.embedding(
                    layers.ple_rows(tokens, shape.ple),
                    params["per_layer_token_embd.weight"],
                    sparse=True,
                )
                now = streams.settle().view(batch, length, shape.num_streams, -1)
                streams.value = layers.ple_update(now, rows, params, shape, shape.ple).flatten(0, 1)
            x = streams.mix(f"blk.{layer}.hc_attn").view(batch, length, -1)
            if kind == "L":
                y = layers.linear_attention(x, params, layer, shape)
            else:
                attention_inputs[layer] = x.detach()
                y = layers.sparse_attention(x, params, layer, shape, tables)
            streams.add(y.flatten(0, 1))
            y, layer_balance = layers.moe(streams.mix(f"blk.{layer}.hc_ffn"), params, layer, shape)
            streams.add(y)
            balance = balance + layer_balance
        mixed = streams.mix("output_hc")
        return TrunkOutput(
            streams=streams.value.view(batch, length, shape.num_streams, -1),
            mixed=mixed.view(batch, length, -1),
            balance=balance,
            attention_inputs=attention_inputs,
        )

    def logits(self, mixed: Tensor) -> Tensor:
        """Returns scores over the vocabulary; mixed (..., hidden)."""
        return linear(mixed, self.params["output.weight"])

    def mtp(self, streams: Tensor, next_tokens: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Runs the draft head over whole sequences (section 7.2).

        streams (batch, time, streams, hidden) of the trunk; next_tokens (batch, time), the token
        that follows each position. Returns the head's streams, what the output matrix reads
        (batch, time, hidden), the balance loss and the attention's input, detached; it proposes
        the token after `next_tokens`.
        """
        shape, params = self.shape, self.params
        layer = shape.num_layers
        p = f"blk.{layer}."
        batch, length, count, hidden = streams.shape
        embedding = params["token_embd.weight"].detach()[next_tokens]
        e = rms(embedding, params[p + "nextn.enorm.weight"], shape.rms_eps)
        flat = streams.flatten(-2)
        f = rms(flat, params[p + "nextn.hnorm.weight"], shape.rms_eps).view_as(streams)
        from_embedding, from_hidden = params[p + "nextn.eh_proj.weight"].split(hidden, 1)
        z = linear(f, from_hidden) + linear(e, from_embedding).unsqueeze(2)
        state = Streams(z.reshape(-1, count, hidden), params, shape)
        tables = layers.rope_tables(length, shape)
        x = state.mix(p + "hc_attn").view(batch, length, -1)
        y = layers.sparse_attention(x, params, layer, shape, tables)
        state.add(y.flatten(0, 1))
        y, balance = layers.moe(state.mix(p + "hc_ffn"), params, layer, shape)
        state.add(y)
        mixed = state.mix(p + "nextn.hc_head").view(batch, length, -1)
        return state.value.view_as(streams), mixed, balance, x.detach()
