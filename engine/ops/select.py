"""Operations by name, imported only when they are wanted."""

from __future__ import annotations

import importlib
import logging

from engine.core.errors import ConfigError, EngineError
from engine.ops.base import Limits, Ops

_log = logging.getLogger(__name__)

OPS_NAMES = ("auto", "reference", "host")
_CLASSES = {
    "reference": ("engine.ops.reference", "ReferenceOps"),
    "host": ("engine.ops.host", "HostOps"),
}


def make_ops(name: str, limits: Limits) -> Ops:
    """The named implementation; `auto` is `host` where its library loads, else `reference`.

    Raises:
        ConfigError: no such implementation.
        EngineError: `host` was asked for and its library does not load on this machine.
    """
    if name in _CLASSES:
        return _make(name, limits)
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
