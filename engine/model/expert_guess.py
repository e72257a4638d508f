"""Which experts the next layer will choose, by its router applied to the input of this layer's experts.

The streams change little from one layer to the next, so the choice is often right in trained models.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from engine.ops.base import Ops
from engine.ops.weights import MoeWeights

FloatArray = npt.NDArray[np.float32]


class RouterGuess:
    """Guesses with the routers of all layers.

    Args:
        ops: the operations that compute the model.
        layers: the experts of each layer.
        max_rows: most rows of a pass.
    """

    def __init__(self, ops: Ops, layers: Sequence[MoeWeights], max_rows: int) -> None:
        self._ops = ops
        self._layers = layers
        num_used = max(layer.num_used for layer in layers)
        self._ids = ops.zeros((max_rows, num_used), np.int32)
        self._weights = ops.zeros((max_rows, num_used))

    def guess(self, layer_idx: int, x: FloatArray) -> npt.NDArray[np.int64]:
        """Experts of a layer, ascending, from the input `[R, H]` of the experts of the one before."""
        ids = self._ids[: len(x)]
        self._ops.route(self._layers[layer_idx], x, ids, self._weights[: len(x)])
        return np.unique(ids).astype(np.int64)
