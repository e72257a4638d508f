"""Which NVIDIA cards compute, as a setting: `auto`, or a list of cards.

    {"gpus": "auto"}    {"gpus": [0, 1]}    {"gpus": ["GPU-1f3a...", "GPU-77b0..."]}    --gpus 0,1

A number is that of `nvidia-smi`: the order on the PCI bus, which changes when cards are moved between
slots. A UUID belongs to the card itself. Which cards there are is not known here.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, StringConstraints

from engine.core.config_words import Words

AUTO = "auto"
AUTO_GPUS = (AUTO,)

_NAME = r"^(auto|[0-9]{1,3}|GPU-[0-9a-fA-F-]{4,40})$"


def _as_text(value: object) -> object:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if is_number else value


def _as_list(value: object) -> object:
    """A single name as a list, and an empty list as `auto`."""
    if isinstance(value, int | str):
        value = [part.strip() for part in str(value).split(",") if part.strip()]
    return (tuple(value) or AUTO_GPUS) if isinstance(value, list | tuple) else value


def _checked(names: tuple[str, ...]) -> tuple[str, ...]:
    if AUTO in names and len(names) > 1:
        raise ValueError("auto stands alone")
    if len(set(names)) < len(names):
        raise ValueError("each card is named once")
    return names


GpuName = Annotated[
    str,
    BeforeValidator(_as_text),
    StringConstraints(pattern=_NAME),
]
GpuNames = Annotated[
    tuple[GpuName, ...],
    BeforeValidator(_as_list),
    AfterValidator(_checked),
    Words("a list of cards (numbers or UUIDs, each once), or `auto`"),
]
