"""Operations by name, imported only when they are wanted."""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING

from engine.core import placement_hybrid
from engine.core.errors import ConfigError, EngineError
from engine.ops.base import Limits, Ops

if TYPE_CHECKING:
    from engine.ops.cuda_settings import CudaSettings

_log = logging.getLogger(__name__)

OPS_NAMES = ("auto", "reference", "host", "cuda", "emulated")
_CLASSES = {
    "reference": ("engine.ops.reference", "ReferenceOps"),
    "host": ("engine.ops.host", "HostOps"),
}
_ON_CARD = frozenset({"cuda", "emulated"})
_EMULATED_BYTES = 2 << 30  # memory of the emulated card


def make_ops(name: str, limits: Limits, settings: CudaSettings | None = None) -> Ops:
    """The named implementation; `auto` is the fastest one that works on this machine.

    Args:
        name: of `OPS_NAMES`.
        limits: sizes that they are made for.
        settings: of those on a card; None for the defaults.

    Raises:
        ConfigError: no such implementation.
        EngineError: it was asked for by name and does not work on this machine.
    """
    if name in _CLASSES:
        return _make(name, limits)
    if name in _ON_CARD:
        return _make_on_card(name, limits, settings)
    if name != "auto":
        known = ", ".join(OPS_NAMES)
        raise ConfigError(f"There are no operations called {name!r}; use one of {known}.")
    if placement_hybrid.GPU_ENGINE:
        try:
            return _make_on_card("cuda", limits, settings)
        except (EngineError, ImportError, OSError) as error:  # no packages, no driver, no card
            _log.warning("The graphics card is not used: %s", error)
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
