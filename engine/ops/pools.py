"""State arrays that passes read and write, for all sequences of a model at once.

A sequence owns one *slot* of the fixed-size states and a list of *pages* for what grows with its
length. Everything that changes from pass to pass (slots, halves, lengths, page tables) reaches the
operations as small integer arrays of the `PassPlan`, so a pass is a fixed sequence of calls.

Fixed states are double-buffered: a pass reads half `h` and writes half `1 - h`, so it can be
abandoned at any layer without a trace, committing all of its tokens is a flip of `h`, and committing
only the first n re-runs n cheap steps from the saved window (spec section 6, rollback choice 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]
CacheArray = npt.NDArray[np.float16] | npt.NDArray[np.float32]
KeyArray = CacheArray | npt.NDArray[np.int8]


@dataclass(slots=True, eq=False)
class DeltaPool:
    """State of one DeltaNet layer. W is the largest window that can be committed in part."""

    state: FloatArray  # (slots, 2, num_v_heads, head_dim k, head_dim v)
    conv: FloatArray  # (slots, 2, conv_kernel-1, C), oldest first, inputs before conv and silu
    window_conv: FloatArray  # (slots, W, C) conv inputs of the last pass
    window_k: FloatArray  # (slots, W, num_k_heads, head_dim) normalised keys of the last pass
    window_v: FloatArray  # (slots, W, num_v_heads, head_dim)
    window_decay: FloatArray  # (slots, W, num_v_heads) g, the log decay
    window_beta: FloatArray  # (slots, W, num_v_heads)


@dataclass(slots=True, eq=False)
class PlePool:
    """Convolution history of one n-gram layer."""

    conv: FloatArray  # (slots, 2, (conv_kernel-1)*dilation, hc*H), oldest first
    window: FloatArray  # (slots, W, hc*H) conv inputs of the last pass


@dataclass(frozen=True, slots=True, eq=False)
class FarPages:
    """Pages of an attention layer that lie in host memory, where a card reads them over the bus.

    Attributes:
        num_near: pages of the pool that lie on the card; page n of it is page n - num_near here.
        arrays: keys, values, raw index keys, and of int8 pages their scales, as in `KvPool`.
        addresses: of these arrays, as the card sees them.
    """

    num_near: int
    arrays: tuple[npt.NDArray[Any], ...]
    addresses: tuple[int, ...]


@dataclass(slots=True, eq=False)
class KvPool:
    """Pages of one attention layer. Append-only by position: rolling back is setting the length.

    A page holds `page_tokens` positions, a multiple of the block ratio, so no index block crosses a
    page. Raw index keys are kept for all positions: a block completed again after a rollback is
    pooled again from them.
    """

    keys: KeyArray  # (pages, page_tokens, num_kv_heads, head_dim), after norm and rope
    values: KeyArray  # (pages, page_tokens, num_kv_heads, head_dim)
    index_raw: CacheArray  # (pages, page_tokens, index_dim), before norm and rope
    index_pooled: CacheArray  # (pages, page_tokens // block_ratio, index_dim), after norm and rope
    page_tokens: int
    # Of int8 keys and values, which stand for scale * number; index keys are float16 then.
    key_scales: FloatArray | None = None  # (pages, page_tokens, num_kv_heads)
    value_scales: FloatArray | None = None  # (pages, page_tokens, num_kv_heads)
    # Where not all pages lie here: those from its `num_near` on, but for the pooled index keys.
    far: FarPages | None = None

    def page(self, number: int) -> list[npt.NDArray[Any]]:
        """Views of all that is kept of a page, in a constant order."""
        far = self.far
        if far is None or number < far.num_near:
            return [array[number] for array in self.arrays()]
        views = [array[number - far.num_near] for array in far.arrays]
        views.insert(3, self.index_pooled[number])
        return views

    def arrays(self) -> list[npt.NDArray[Any]]:
        """All arrays of pages, in a constant order."""
        arrays = [self.keys, self.values, self.index_raw, self.index_pooled]
        scales = (self.key_scales, self.value_scales)
        return [*arrays, *(array for array in scales if array is not None)]
