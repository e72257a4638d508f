"""The whole model: trunk, output head and MTP head over a dictionary of named parameters.

Names and layouts are the GGUF file's (spec/qwen4exp.md 3.2, layout A of section 7.3 for the head).
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from tools.train_tiny import layers
from tools.train_tiny.layers import Params, Streams, linear, rms
from tools.train_tiny.shape import TinyShape


@dataclass(frozen=True, slots=True)
class TrunkOutput:
    """What one pass of the trunk leaves behind."""

    streams: Tensor  # (batch, time, streams, hidden), after the last layer
    mixed: Tensor  # (batch, time, hidden), what the output matrix reads
    balance: Tensor  # scalar: sum of the layers' balance losses
    attention_inputs: dict[int, Tensor]  # layer -> (batch, time, hidden), detached


def tensor_shapes(shape: TinyShape) -> dict[str, tuple[int, ...]]:
    """Returns every tensor's name and row-major shape."""
    h, hc, r = shape.hidden_size, shape.num_streams, shape.low_rank
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (shape.vocab_size, h),
        "output.weight": (shape.vocab_size, h),
    } | _mixer("output_hc", hc * h, r)
    for layer in range(shape.num_blocks):
        is_linear = layer < shape.num_layers and shape.layer_kinds[layer] == "L"
        names = _linear_layer(shape) if is_linear else _attention_layer(shape)
        for mixer in ("hc_attn", "hc_ffn"):
            names |= _mixer(mixer, hc * h, r) | {f"{mixer}_inject.weight": (hc, hc * h)}
        names |= _moe(shape)
        if shape.ple is not None and layer == shape.ple.layer_idx:
            names |= _ple(shape)
        if layer >= shape.num_layers:
            names |= _mixer("nextn.hc_head", hc * h, r) | {
                "nextn.enorm.weight": (h,),
                "nextn.hnorm.weight": (hc * h,),
                "nextn.eh_proj.weight": (h, 2 * h),
            }
        shapes |= {f"blk.{layer}.{name}": size for name, size in names.items()}
    if shape.ple is not None:
        shapes["per_layer_token_embd.weight"] = (shape.ple.num_rows, shape.ple.row_width)
    return shapes


def _mixer(prefix: str, width: int, rank: int) -> dict[str, tuple[int, ...]]:
    return {
        f"{prefix}_norm.weight": (width,),
        f"{prefix}_down.weight": (rank, width),
        f"{prefix}_up.weight": (width, rank),
    }


def _linear_layer(shape: TinyShape) -> dict[str, tuple[int, ...]]:
    h, nv, inner = (
        shape.hidden_size,
        shape.linear_v_heads,
        shape.linear_v_heads * shape.linear_head_dim,
    )
    return {
        "attn_qkv.weight": (shape.conv_channels, h),
        "attn_gate.weight": (inner, h),
        "ssm_conv1d.weight": (shape.conv_channels, shape.conv_kernel),
        "ssm_alpha.weight": (nv, h),
        "ssm_beta.weight": (nv, h),
        "ssm_a": (nv,),
        "ssm_dt.bias": (nv,),
        "ssm_norm.weight": (shape.linear_head_dim,),
        "ssm_out.weight": (h, inner),
    }


def _attention_layer(shape: TinyShape) -> dict[str, tuple[int, ...]]:
    h, hd = shape.hidden_size, shape.head_dim
    return {
        "attn_q.weight": (shape.num_heads * 2 * hd, h),
        "attn_k.weight": (shape.num_kv_heads * hd, h),
        "attn_v.weight": (shape.num_kv_heads * hd, h),
        "attn_output.weight": (h, shape.num_heads * hd),
        "attn_q_norm.weight": (hd,),
        "attn_k_norm.weight": (hd,),
        "indexer.q_proj.weight": (shape.indexer_heads * shape.indexer_dim, h),
        "indexer.k_proj.weight": (shape.indexer_dim, h),
        "indexer.q_norm.weight": (shape.indexer_dim,),
        "indexer.k_norm.weight": (shape.indexer_dim,),
    }


def _moe(shape: TinyShape) -> dict[str, tuple[int, ...]]:
    h, e, ff, shared = (
        shape.hidden_size,
        shape.num_experts,
        shape.expert_size,
        shape.shared_expert_size,
    )
    return {
        "ffn_gate_inp.weight": (e, h),
        "ffn_gate_exps.weight": (e, ff, h),
        "ffn_up_exps.weight": (e, ff, h),
        "ffn_down_exps.weight": (e, h, ff),
        "ffn_gate_inp_shexp.weight": (h,),
        "ffn_gate_shexp.weight": (shared, h),
        "ffn_up_shexp.weight": (shared, h),
        "ffn_down_shexp.weight": (h, shared),
    }


def _ple(shape: TinyShape) -> dict[str, tuple[int, ...]]:
    assert shape.ple is not None
    h, width = shape.hidden_size, shape.num_streams * shape.hidden_size
    return {
        "ple_key.weight": (width, h),
        "ple_value.weight": (h, h),
        "ple_norm_key.weight": (width,),
        "ple_norm_query.weight": (width,),
        "ple_norm_conv.weight": (width,),
        "ple_conv1d.weight": (width, shape.ple.conv_kernel),
    }


def init_params(shape: TinyShape, seed: int) -> dict[str, Tensor]:
    """Returns freshly drawn parameters under their tensor names."""
    generator = torch.Generator().manual_seed(seed)
    return {
        name: _init_tensor(name, size, shape, generator).requires_grad_()
        for name, size in tensor_shapes(shape).items()
    }


def _init_tensor(
    name: str, size: tuple[int, ...], shape: TinyShape, generator: torch.Generator
) -> Tensor:
    def normal(std: float) -> Tensor:
        return torch.randn(size, generator=generator) * std

    kind = name.removesuffix(".weight").rsplit(".", 1)[-1]
    if kind == "ssm_a":
        return -torch.linspace(1.0, 8.0, size[0])
    if name.endswith("ssm_dt.bias"):
        # softplus(bias) between 0.003 and 0.3: memories from 3 to 300 tokens.
        steps = torch.exp(torch.linspace(math.log(0.003), math.log(0.3), size[0]))
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
                streams.value = layers.ple_update(now, rows, params, shape).flatten(0, 1)
            x = streams.mix(f"blk.{layer}.hc_attn").view(batch, length, -1)
            if kind == "L":
                y = layers.linear_attention(x, params, layer, shape)
            else:
                attention_inputs[layer] = x.detach()
                y = layers.sparse_attention(x, params, layer, shape, tables)
            streams.add(y.flatten(0, 1))
            y, layer_balance = layers.moe(
                streams.mix(f"blk.{layer}.hc_ffn"), params, layer, shape
            )
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

    def mtp(self, streams: Tensor, next_tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Runs the draft head over whole sequences (section 7.2).

        streams (batch, time, streams, hidden) of the trunk; next_tokens (batch, time), the token
        that follows each position. Returns the head's streams, what the output matrix reads
        (batch, time, hidden) and the balance loss; it proposes the token after `next_tokens`.
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
        return state.value.view_as(streams), mixed, balance
