"""Which tensors the setting `requant` holds in fewer bits than the file does.

The mixes between the residual streams are the only large matrices that published files keep in 16
bits; every token reads all of them. As Q8_0 they take 34 bytes in place of 64.
"""

from __future__ import annotations

import math
import re

from engine.core.ggml_types import GgmlType, row_bytes

REQUANT_TYPE = GgmlType.Q8_0

_FLOATS = frozenset({GgmlType.F32, GgmlType.F16, GgmlType.BF16})
_NAMES = re.compile(r"(output_hc|blk\.\d+\.hc_(attn|ffn))_(down|up)\.weight")


def is_requantised(name: str, ggml_type: GgmlType, shape: tuple[int, ...]) -> bool:
    """Whether the setting applies to a tensor: a stream projection in floats, of whole blocks."""
    return (
        _NAMES.fullmatch(name) is not None
        and ggml_type in _FLOATS
        and shape[-1] % REQUANT_TYPE.block_values == 0
    )


def requantised_bytes(shape: tuple[int, ...]) -> int:
    """Memory that such a tensor then takes."""
    return math.prod(shape[:-1]) * row_bytes(REQUANT_TYPE, shape[-1])
