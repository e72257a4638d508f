"""Which tensors a model must have, and in which shapes (spec 3.2).

`check_trunk_shapes` runs before anything is allocated from metadata: afterwards every size of the
config is the size of a tensor that lies in the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from engine.core.errors import ModelFileError

if TYPE_CHECKING:  # config.py calls this module; only its types are needed here
    from engine.core.model_config import ModelConfig, PleConfig

Shape = tuple[int, ...]
Expected = tuple[str, tuple[Shape, ...]]  # name, shapes that are accepted


class HasShape(Protocol):
    """A tensor as far as checks need it."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Row-major sizes."""


def check_trunk_shapes(config: ModelConfig, tensors: Mapping[str, HasShape]) -> None:
    """Check every tensor of the trunk.

    Raises:
        ModelFileError: a tensor is missing or has another shape.
    """
    embedding_shape = (config.vocab_size, config.hidden_size)
    require(tensors, "token_embd.weight", (embedding_shape,))
    if "output.weight" in tensors:
        require(tensors, "output.weight", (embedding_shape,))
    check_all(tensors, mixer_shapes(config, "output_hc_"))
    for index, kind in enumerate(config.layer_kinds):
        check_layer_shapes(config, f"blk.{index}.", tensors, is_delta=kind.value == "delta")
    num_blocks = config.num_layers + config.num_mtp_layers
    if any(name.startswith(f"blk.{num_blocks}.") for name in tensors):
        raise ModelFileError(
            f"The model file holds tensors of a layer {num_blocks}, but its metadata count only "
            f"{num_blocks} layers, so the file is damaged; download it again."
        )
    if config.ple is not None:
        _check_ple_shapes(config, config.ple, tensors)


def check_layer_shapes(
    config: ModelConfig, prefix: str, tensors: Mapping[str, HasShape], *, is_delta: bool
) -> None:
    """Check one layer's tensors, whose names begin with `prefix`."""
    D = config.num_streams * config.hidden_size
    for part in ("hc_attn_", "hc_ffn_"):
        check_all(tensors, mixer_shapes(config, prefix + part))
        require(tensors, f"{prefix}{part}inject.weight", ((config.num_streams, D),))
    if is_delta:
        check_all(tensors, _delta_shapes(config, prefix))
    else:
        fused = f"{prefix}attn_qkv.weight" in tensors
        check_all(tensors, _attention_shapes(config, prefix, fused=fused))
    fused = f"{prefix}ffn_gate_up_exps.weight" in tensors
    check_all(tensors, _moe_shapes(config, prefix, fused=fused))


def mixer_shapes(config: ModelConfig, prefix: str) -> Iterator[Expected]:
    """Norm, down and up of one gated-residual mix; the norm may be stored as {H, hc}."""
    hc, H, r = config.num_streams, config.hidden_size, config.low_rank
    yield f"{prefix}norm.weight", ((hc * H,), (hc, H))
    yield f"{prefix}down.weight", ((r, hc * H),)
    yield f"{prefix}up.weight", ((hc * H, r),)


def _delta_shapes(config: ModelConfig, prefix: str) -> Iterator[Expected]:
    H, C, inner = config.hidden_size, config.delta_channels, config.delta_inner
    nv = config.delta_num_v_heads
    yield f"{prefix}attn_qkv.weight", ((C, H),)
    yield f"{prefix}attn_gate.weight", ((inner, H),)
    yield f"{prefix}ssm_conv1d.weight", ((C, config.delta_conv_kernel),)
    yield f"{prefix}ssm_alpha.weight", ((nv, H),)
    yield f"{prefix}ssm_beta.weight", ((nv, H),)
    yield f"{prefix}ssm_a", ((nv,),)
    yield f"{prefix}ssm_dt.bias", ((nv,),)
    yield f"{prefix}ssm_norm.weight", ((config.delta_head_dim,),)
    yield f"{prefix}ssm_out.weight", ((H, inner),)


def _attention_shapes(config: ModelConfig, prefix: str, *, fused: bool) -> Iterator[Expected]:
    H, hd = config.hidden_size, config.head_dim
    q_rows, kv_rows = config.num_heads * 2 * hd, config.num_kv_heads * hd
    if fused:
        yield f"{prefix}attn_qkv.weight", ((q_rows + 2 * kv_rows, H),)
    else:
        yield f"{prefix}attn_q.weight", ((q_rows, H),)
        yield f"{prefix}attn_k.weight", ((kv_rows, H),)
        yield f"{prefix}attn_v.weight", ((kv_rows, H),)
    yield f"{prefix}attn_output.weight", ((H, config.num_heads * hd),)
    yield f"{prefix}attn_q_norm.weight", ((hd,),)
    yield f"{prefix}attn_k_norm.weight", ((hd,),)
    yield f"{prefix}indexer.q_proj.weight", ((config.num_index_heads * config.index_dim, H),)
    yield f"{prefix}indexer.k_proj.weight", ((config.index_dim, H),)
    yield f"{prefix}indexer.q_norm.weight", ((config.index_dim,),)
    yield f"{prefix}indexer.k_norm.weight", ((config.index_dim,),)


def _moe_shapes(config: ModelConfig, prefix: str, *, fused: bool) -> Iterator[Expected]:
    E, H = config.num_experts, config.hidden_size
    width, shared_width = config.expert_width, config.shared_expert_width
    yield f"{prefix}ffn_gate_inp.weight", ((E, H),)
    if fused:
        yield f"{prefix}ffn_gate_up_exps.weight", ((E, 2 * width, H),)
    else:
        yield f"{prefix}ffn_gate_exps.weight", ((E, width, H),)
        yield f"{prefix}ffn_up_exps.weight", ((E, width, H),)
    yield f"{prefix}ffn_down_exps.weight", ((E, H, width),)
    yield f"{prefix}ffn_gate_inp_shexp.weight", ((H,), (1, H))
    yield f"{prefix}ffn_gate_shexp.weight", ((shared_width, H),)
    yield f"{prefix}ffn_up_shexp.weight", ((shared_width, H),)
    yield f"{prefix}ffn_down_shexp.weight", ((H, shared_width),)


def _check_ple_shapes(config: ModelConfig, ple: PleConfig, tensors: Mapping[str, HasShape]) -> None:
    hc, H = config.num_streams, config.hidden_size
    table = tensors.get("per_layer_token_embd.weight")
    if table is None:
        raise _missing("per_layer_token_embd.weight")
    if len(table.shape) != 2 or table.shape[1] != ple.row_width:
        raise _wrong("per_layer_token_embd.weight", table.shape, ((0, ple.row_width),))
    if table.shape[0] < ple.num_table_rows:
        raise ModelFileError(
            f"The n-gram table per_layer_token_embd.weight has {table.shape[0]} rows, but its heads "
            f"reach {ple.num_table_rows}; the file is damaged or incomplete, so download it again."
        )
    for layer in ple.layers:
        prefix = f"blk.{layer}.ple_"
        require(tensors, f"{prefix}key.weight", ((hc * H, H),))
        require(tensors, f"{prefix}value.weight", ((H, H),))
        for norm in ("norm_key", "norm_query", "norm_conv"):
            require(tensors, f"{prefix}{norm}.weight", ((hc * H,), (hc, H)))
        require(tensors, f"{prefix}conv1d.weight", ((hc * H, ple.conv_kernel),))


def check_all(tensors: Mapping[str, HasShape], expected: Iterator[Expected]) -> None:
    """Check each of the expected tensors."""
    for name, shapes in expected:
        require(tensors, name, shapes)


def require(tensors: Mapping[str, HasShape], name: str, shapes: tuple[Shape, ...]) -> None:
    """Check that a tensor exists in one of the shapes.

    Raises:
        ModelFileError: it does not.
    """
    tensor = tensors.get(name)
    if tensor is None:
        raise _missing(name)
    if tuple(tensor.shape) not in shapes:
        raise _wrong(name, tensor.shape, shapes)


def _missing(name: str) -> ModelFileError:
    return ModelFileError(
        f"The model file lacks the tensor {name}; it is incomplete or of an unknown variant, "
        "so download it again, or choose another file."
    )


def _wrong(name: str, shape: Shape, shapes: tuple[Shape, ...]) -> ModelFileError:
    return ModelFileError(
        f"The tensor {name} has the shape {tuple(shape)}, but the metadata say {shapes[0]}; "
        "the file is damaged or of an unknown variant, so choose another one."
    )
