"""How keys and values are stored; a file of its own, so that a model needs no run config."""

from __future__ import annotations

import enum


class KvType(enum.StrEnum):
    """Number format of the KV cache and the index keys."""

    F16 = "f16"
    F32 = "f32"
