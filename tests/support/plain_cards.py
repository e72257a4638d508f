"""Plain devices in the place of a PC's NVIDIA cards, for loading through the worker's own code."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from engine.core.errors import EngineError
from engine.core.gpu import Gpu, GpuReport
from engine.device.base import Device, DeviceInfo
from engine.device.select import FoundCard
from engine.ops.base import Limits, Ops
from engine.ops.cuda import CudaOps
from engine.ops.cuda_settings import CardUse, CudaSettings
from engine.ops.cuda_split import CardShare, SplitOps
from engine.ops.select import CardStartError
from engine.worker import card_choice, card_division, card_loading
from engine.worker.card_gate import Gate
from tests.support.plain_device import PlainDevice
from tests.support.plain_launches import plain_launches

GIB = 1 << 30


def gpu(number: int, gib: float = 12, name: str = "", **facts: object) -> Gpu:
    """What a driver says of a card."""
    size = int(gib * GIB)
    known: dict[str, object] = {
        "vram_total_bytes": size,
        "vram_free_bytes": size,
        "has_display": False,
        "uuid": f"GPU-000{number}",
        "pci": f"0000:0{number + 1}:00",
        "memory_bytes_per_s": 5e11,
    }
    return Gpu(number, name or f"Plain {number}", **(known | facts))  # type: ignore[arg-type]


def found(one: Gpu, index: int | None = None, problem: EngineError | None = None) -> FoundCard:
    """The same card as CUDA counts it."""
    info = DeviceInfo(one.name, (8, 9), 4, one.vram_total_bytes, 2, one.pci)
    return FoundCard(one.index if index is None else index, info, problem)


def stand_in(
    monkeypatch: pytest.MonkeyPatch,
    *open_one: Callable[[], Device],
    gpus: Sequence[Gpu] | None = None,
    cuda: Sequence[FoundCard] | None = None,
) -> list[tuple[CardUse, ...]]:
    """The PC has these cards from here on, all of which have passed their check.

    Args:
        monkeypatch: pytest's.
        open_one: opens each of them.
        gpus: what the driver says; None: cards of 12 GiB.
        cuda: what CUDA counts; None: the same cards.

    Returns:
        What operations were asked for, one after the other.
    """
    said = tuple(gpus or (gpu(number) for number in range(len(open_one))))
    counted = tuple(cuda or map(found, said))
    report = GpuReport(said, "580.95.05", "nvml")
    asked: list[tuple[CardUse, ...]] = []
    make_ops = card_loading.make_ops

    def opened(use: CardUse) -> Device:
        try:
            return open_one[use.index]()
        except EngineError as error:
            raise CardStartError(use.index, error) from error

    def make(
        name: str,
        limits: Limits,
        settings: CudaSettings | None = None,
        cards: Sequence[CardUse] | None = None,
    ) -> Ops:
        if name != "cuda":
            return make_ops(name, limits, settings)
        assert cards
        asked.append(tuple(cards))
        devices = [opened(use) for use in cards]
        if len(cards) == 1:
            return CudaOps(limits, devices[0], cards[0].settings, plain_launches)
        shares = [
            CardShare(device, use.num_layers, use.settings)
            for device, use in zip(devices, cards, strict=True)
        ]
        return SplitOps(limits, shares, plain_launches)

    monkeypatch.setattr(card_loading, "probe_gpus", lambda: report)
    monkeypatch.setattr(card_loading, "allowed_cards", lambda _c, gpus, *_: Gate(tuple(gpus)))
    monkeypatch.setattr(card_choice, "found_cards", lambda: list(counted))
    monkeypatch.setattr(card_division, "measure_bandwidth", lambda *_args, **_kw: 60e9)
    monkeypatch.setattr(card_loading, "make_ops", make)
    return asked


def plain_card(total_bytes: int = GIB) -> Callable[[], PlainDevice]:
    """Opens a plain device."""
    return lambda: PlainDevice(total_bytes=total_bytes)
