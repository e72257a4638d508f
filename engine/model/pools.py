"""Allocates the state pools of a model: what all its sequences remember (spec section 6)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from engine.core.kv_type import KvType, needs_card
from engine.core.model_config import ModelConfig, PleConfig
from engine.model.limits import ModelLimits
from engine.ops.base import Ops
from engine.ops.pools import DeltaPool, FarPages, KvPool, PlePool


def delta_pool(config: ModelConfig, limits: ModelLimits, ops: Ops) -> DeltaPool:
    """State of one DeltaNet layer."""
    slots, W = limits.max_sequences, limits.max_window
    nk, nv, d = config.delta_num_k_heads, config.delta_num_v_heads, config.delta_head_dim
    return DeltaPool(
        state=ops.zeros((slots, 2, nv, d, d)),
        conv=ops.zeros((slots, 2, config.delta_conv_kernel - 1, config.delta_channels)),
        window_conv=ops.zeros((slots, W, config.delta_channels)),
        window_k=ops.zeros((slots, W, nk, d)),
        window_v=ops.zeros((slots, W, nv, d)),
        window_decay=ops.zeros((slots, W, nv)),
        window_beta=ops.zeros((slots, W, nv)),
    )


def ple_pool(config: ModelConfig, ple: PleConfig, limits: ModelLimits, ops: Ops) -> PlePool:
    """Convolution history of the n-gram layer."""
    slots, width = limits.max_sequences, config.num_streams * config.hidden_size
    num_history = (ple.conv_kernel - 1) * ple.ngram_size
    return PlePool(
        conv=ops.zeros((slots, 2, num_history, width)),
        window=ops.zeros((slots, limits.max_window, width)),
    )


def kv_pool(config: ModelConfig, limits: ModelLimits, ops: Ops) -> KvPool:
    """Key/value pages of one attention layer, on the card or in RAM as the limits say.

    Raises:
        ConfigError: these operations cannot compute with the number format.
    """
    kind = limits.kv_type
    if kind not in ops.kv_types:
        raise needs_card(kind)
    index_type = np.float32 if kind is KvType.F32 else np.float16
    dtype = np.int8 if kind is KvType.I8 else index_type
    ratio = config.block_ratio
    pages, size = limits.num_pages(ratio), limits.page_size(ratio)
    near = limits.num_near_pages(ratio)
    shapes = [(size, config.num_kv_heads, config.head_dim)] * 2 + [(size, config.index_dim)]
    types: list[npt.DTypeLike] = [dtype, dtype, index_type]
    if kind is KvType.I8:
        shapes += [(size, config.num_kv_heads)] * 2
        types += [np.float32] * 2
    parts = list(zip(shapes, types, strict=True))
    keys, values, index_raw, *scales = (ops.zeros((near, *shape), t) for shape, t in parts)
    far = None
    if near < pages:
        arrays = ops.host_arrays(*(((pages - near, *shape), t) for shape, t in parts))
        far = FarPages(near, tuple(arrays), tuple(ops.card_address(array) for array in arrays))
    return KvPool(
        keys=keys,
        values=values,
        index_raw=index_raw,
        index_pooled=ops.zeros((pages, size // ratio, config.index_dim), index_type),
        page_tokens=size,
        key_scales=scales[0] if scales else None,
        value_scales=scales[1] if scales else None,
        far=far,
    )
