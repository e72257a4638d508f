"""How much memory the graphics cards have, as NVIDIA's library says (package `nvidia-ml-py`).

A machine without that package, its driver or such a card has nothing to check: the numbers are None
or 0. The library is asked each time; it keeps no figures.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
from collections.abc import Iterator, Sequence
from typing import Protocol, cast

from engine.core.config_gpus import AUTO_GPUS

logger = logging.getLogger(__name__)


class _Memory(Protocol):
    free: int
    used: int


class _Nvml(Protocol):
    """The part of `pynvml` that is used."""

    def nvmlInit(self) -> None: ...  # noqa: N802 - NVIDIA's names
    def nvmlShutdown(self) -> None: ...  # noqa: N802
    def nvmlDeviceGetCount(self) -> int: ...  # noqa: N802
    def nvmlDeviceGetHandleByIndex(self, index: int) -> object: ...  # noqa: N802
    def nvmlDeviceGetUUID(self, handle: object) -> str | bytes: ...  # noqa: N802
    def nvmlDeviceGetMemoryInfo(self, handle: object) -> _Memory: ...  # noqa: N802


def free_vram_bytes(gpus: Sequence[str] = AUTO_GPUS) -> int | None:
    """Free memory of cards together; None when it cannot be told.

    Args:
        gpus: which cards, as in the setting.
    """
    memories = list(_memories(gpus))
    return sum(memory.free for memory in memories) if memories else None


def used_vram_bytes() -> int:
    """Used memory of all cards together, by whatever program; 0 when it cannot be told."""
    return sum(memory.used for memory in _memories())


def _uuid(nvml: _Nvml, handle: object) -> str:
    uuid = nvml.nvmlDeviceGetUUID(handle)
    return uuid.decode(errors="replace") if isinstance(uuid, bytes) else uuid


def _memories(gpus: Sequence[str] = AUTO_GPUS) -> Iterator[_Memory]:
    try:
        nvml = cast("_Nvml", importlib.import_module("pynvml"))
    except ImportError:
        return
    try:
        nvml.nvmlInit()
    except Exception as error:  # noqa: BLE001 - its errors have classes of its own making
        logger.debug("the graphics driver does not answer: %s", error)
        return
    try:
        for index in range(nvml.nvmlDeviceGetCount()):
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            if gpus == AUTO_GPUS or str(index) in gpus or _uuid(nvml, handle) in gpus:
                yield nvml.nvmlDeviceGetMemoryInfo(handle)
    except Exception as error:  # noqa: BLE001 - see above
        logger.debug("a graphics card does not tell its memory: %s", error)
    finally:
        with contextlib.suppress(Exception):
            nvml.nvmlShutdown()
