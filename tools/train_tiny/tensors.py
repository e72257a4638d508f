"""Names, shapes and storage types of the bundled model's tensors (spec/qwen4exp.md 3.2, 7.3).

The MTP head is layout A of section 7.3: a block after the trunk's with `nextn.*` tensors.
"""

from engine.core.ggml_types import GgmlType
from tools.train_tiny.shape import PleShape, TinyShape

# Always float32, as converters for this architecture do (spec section 3.2).
FLOAT32_PARTS = (
    "norm",
    "_inject",
    "ssm_a",
    "ssm_dt",
    "ssm_conv1d",
    "ssm_alpha",
    "ssm_beta",
    "ffn_gate_inp",
    "ple_conv1d",
)


def tensor_type(name: str, shape: TinyShape) -> GgmlType:
    """Returns how a tensor is stored.

    The small projections of the residual streams are BF16; routed experts take 4 bits, since they
    are half of all values, and so does the n-gram table; the draft head's gate and up experts take 2 bits, where a worse guess
    costs speed but never changes an answer; everything else is Q8_0.
    """
    part = name.removesuffix(".weight").rsplit(".", 1)[-1]
    is_draft = name.startswith(f"blk.{shape.num_layers}.")
    if any(mark in name for mark in FLOAT32_PARTS):
        return GgmlType.F32
    if "hc_" in name:
        return GgmlType.BF16
    if part in ("ffn_gate_exps", "ffn_up_exps"):
        return GgmlType.Q2_0 if is_draft else GgmlType.Q4_K
    if part in ("ffn_down_exps", "per_layer_token_embd"):
        return GgmlType.IQ4_NL
    return GgmlType.Q8_0


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
            names |= _ple(shape, shape.ple)
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


def _ple(shape: TinyShape, ple: PleShape) -> dict[str, tuple[int, ...]]:
    h, width = shape.hidden_size, shape.num_streams * shape.hidden_size
    return {
        "ple_key.weight": (width, h),
        "ple_value.weight": (h, h),
        "ple_norm_key.weight": (width,),
        "ple_norm_query.weight": (width,),
        "ple_norm_conv.weight": (width,),
        "ple_conv1d.weight": (width, ple.conv_kernel),
    }
