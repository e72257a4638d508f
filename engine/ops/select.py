"""Operations by name, imported only when they are wanted."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.core.errors import ConfigError, EngineError
from engine.device.base import DeviceError
from engine.ops.base import Limits, Ops

if TYPE_CHECKING:
    from engine.device.base import Device
    from engine.ops.cuda_settings import CardUse, CudaSettings

_log = logging.getLogger(__name__)

OPS_NAMES = ("auto", "reference", "host", "cuda", "emulated")
_CLASSES = {
    "reference": ("engine.ops.reference", "ReferenceOps"),
    "host": ("engine.ops.host", "HostOps"),
}
_ON_CARD = frozenset({"cuda", "emulated"})
_EMULATED_BYTES = 2 << 30  # memory of the emulated card


class CardStartError(DeviceError):
    """One of several cards could not be opened.

    Attributes:
        index: CUDA's number of it.
    """

    def __init__(self, index: int, error: Exception) -> None:
        code = error.code if isinstance(error, EngineError) else None
        super().__init__(str(error), code=code)
        self.index = index


def make_ops(
    name: str,
    limits: Limits,
    settings: CudaSettings | None = None,
    cards: Sequence[CardUse] | None = None,
) -> Ops:
    """The named implementation; `auto` is the fastest one of the CPU that works on this machine.

    A graphics card is used only where somebody says so: it must have passed its check on this PC first,
    and of that the operations know nothing (`engine/worker/card_gate.py`).

    Args:
        name: of `OPS_NAMES`.
        limits: sizes that they are made for.
        settings: of those on a card; None for the defaults.
        cards: for `cuda`, in the order in which a token passes them, with their own settings; None: the
            usable one with most memory.

    Raises:
        ConfigError: no such implementation.
        CardStartError: one of several cards cannot be opened.
        EngineError: it was asked for by name and does not work on this machine.
    """
    if name in _CLASSES:
        return _make(name, limits)
    if name in _ON_CARD:
        return _make_on_cards(limits, cards) if cards else _make_on_card(name, limits, settings)
    if name != "auto":
        known = ", ".join(OPS_NAMES)
        raise ConfigError(f"There are no operations called {name!r}; use one of {known}.")
    try:
        return _make("host", limits)
    except (EngineError, ImportError, OSError) as error:
        _log.warning("The fast CPU operations cannot be used, answers will be slow: %s", error)
        return _make("reference", limits)


def _make(name: str, limits: Limits) -> Ops:
    module_name, class_name = _CLASSES[name]
    ops = getattr(importlib.import_module(module_name), class_name)(limits)
    if not isinstance(ops, Ops):
        raise TypeError(f"{class_name} is no implementation of the operations")
    return ops


def _make_on_card(name: str, limits: Limits, settings: CudaSettings | None) -> Ops:
    cards = importlib.import_module("engine.device.select")
    cuda = importlib.import_module("engine.ops.cuda")
    is_emulated = name == "emulated"
    device = cards.open_emulated(_EMULATED_BYTES) if is_emulated else cards.open_card()
    try:
        ops = cuda.CudaOps(limits, device, settings)
    except BaseException:
        device.close()
        raise
    if not isinstance(ops, Ops):
        raise TypeError("CudaOps is no implementation of the operations")
    return ops


def _make_on_cards(limits: Limits, uses: Sequence[CardUse]) -> Ops:
    """The operations on exactly these cards."""
    select = importlib.import_module("engine.device.select")
    devices: list[Device] = []
    try:
        for use in uses:
            try:
                devices.append(select.open_card(use.index))
            except (EngineError, ImportError, OSError) as error:
                raise CardStartError(use.index, error) from error
        if len(uses) == 1:
            cuda = importlib.import_module("engine.ops.cuda")
            ops = cuda.CudaOps(limits, devices[0], uses[0].settings)
        else:
            split = importlib.import_module("engine.ops.cuda_split")
            shares = [
                split.CardShare(device, use.num_layers, use.settings)
                for device, use in zip(devices, uses, strict=True)
            ]
            ops = split.SplitOps(limits, shares)
    except BaseException:
        for device in devices:
            device.close()
        raise
    if not isinstance(ops, Ops):
        raise TypeError("these are no implementation of the operations")
    return ops
