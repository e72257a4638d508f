"""How much memory the graphics cards have, as NVIDIA's library says (package `nvidia-ml-py`).

A machine without that package, its driver or such a card has nothing to check: the numbers are None
or 0. The library is asked each time; it keeps no figures.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
    def nvmlDeviceGetName(self, handle: object) -> str | bytes: ...  # noqa: N802
    def nvmlDeviceGetMemoryInfo(self, handle: object) -> _Memory: ...  # noqa: N802


@dataclass(frozen=True, slots=True)
class CardMemory:
    """Memory of one card now.

    Attributes:
        index: its number, as nvidia-smi counts.
        name: as its driver calls it; empty when it does not say.
        free_bytes: what no program holds.
        used_bytes: what programs hold, whichever they are.
    """

    index: int
    name: str
    free_bytes: int
    used_bytes: int


def free_vram_bytes(gpus: Sequence[str] = AUTO_GPUS) -> int | None:
    """Free memory of cards together; None when it cannot be told.

    Args:
        gpus: which cards, as in the setting.
    """
    cards = card_memories(gpus)
    return sum(card.free_bytes for card in cards) if cards else None


def card_memories(gpus: Sequence[str] = AUTO_GPUS) -> tuple[CardMemory, ...]:
    """Memory of each card; empty when it cannot be told.

    Args:
        gpus: which cards, as in the setting.
    """
    return tuple(_memories(gpus))


def _text(text: str | bytes) -> str:
    return text.decode(errors="replace") if isinstance(text, bytes) else text


def _uuid(nvml: _Nvml, handle: object) -> str:
    return _text(nvml.nvmlDeviceGetUUID(handle))


def _name(nvml: _Nvml, handle: object) -> str:
    try:
        return _text(nvml.nvmlDeviceGetName(handle))
    except Exception as error:  # noqa: BLE001 - as below; its memory is told without
        logger.debug("a graphics card does not tell its name: %s", error)
        return ""


def _memories(gpus: Sequence[str]) -> Iterator[CardMemory]:
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
                memory = nvml.nvmlDeviceGetMemoryInfo(handle)
                yield CardMemory(index, _name(nvml, handle), memory.free, memory.used)
    except Exception as error:  # noqa: BLE001 - see above
        logger.debug("a graphics card does not tell its memory: %s", error)
    finally:
        with contextlib.suppress(Exception):
            nvml.nvmlShutdown()
