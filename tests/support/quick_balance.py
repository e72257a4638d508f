"""A card's balance of memory that looks at each call and moves little things, for cards of some megabytes."""

from __future__ import annotations

import pytest

from engine.ops import cuda_balance

_MARGIN_BYTES = 20_000


def quicken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines that are made from here on give back at once, and take again as soon as they may."""
    for name, value in (("LOOK_EVERY_S", 0.0), ("CALM_S", 0.0)):
        monkeypatch.setattr(cuda_balance, name, value)
    for name in ("MARGIN_BYTES", "WORTH_BYTES"):
        monkeypatch.setattr(cuda_balance, name, _MARGIN_BYTES)
