"""How keys and values are stored; a file of its own, so that a model needs no run config."""

from __future__ import annotations

import enum

from engine.core.errors import ConfigError


class KvType(enum.StrEnum):
    """Number format of the KV cache and the index keys. `i8`: keys and values alone, on a card."""

    F16 = "f16"
    F32 = "f32"
    I8 = "i8"

    @property
    def value_bytes(self) -> int:
        """Of a number of a key or value."""
        return {KvType.F16: 2, KvType.F32: 4, KvType.I8: 1}[self]

    @property
    def index_bytes(self) -> int:
        """Of a number of an index key; int8 would move too many blocks in or out of the choice."""
        return 4 if self is KvType.F32 else 2

    @property
    def scale_bytes(self) -> int:
        """Beside each head of a key or value."""
        return 4 if self is KvType.I8 else 0


def needs_card(kind: KvType, why: str = "") -> ConfigError:
    """The refusal of a format that only a card's operations can read; `why` says why none computes."""
    sentence = (
        f"Keys and values in the format {kind.value} need a graphics card that computes; choose "
        "another one (setting: kv_type)."
    )
    return ConfigError(f"{sentence} {why}".rstrip(), code="kv_type_needs_card")
