"""Which NVIDIA cards may compute: the setting `gpus` against what is there.

Nothing is opened here. Which layers each of several cards gets is decided in `card_division.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.core.config import OpsName, RunConfig
from engine.core.config_gpus import AUTO
from engine.core.errors import ConfigError, EngineError
from engine.core.gpu import Gpu, probe_gpus
from engine.core.kv_type import KvType, needs_card
from engine.device.base import DeviceError

if TYPE_CHECKING:
    from engine.device.select import FoundCard

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Card:
    """A card that may compute.

    Attributes:
        index: CUDA's number of it.
        gpu: what its driver says; `gpu.index` is the number that people know.
    """

    index: int
    gpu: Gpu

    @property
    def label(self) -> str:
        """For sentences: number and name."""
        return card_label(self.gpu)


def card_label(gpu: Gpu) -> str:
    """For sentences: number and name, for PCs have two cards of one name."""
    return f"Graphics card {gpu.index} ({gpu.name})"


def is_automatic(config: RunConfig) -> bool:
    """Whether the program chooses the cards."""
    return config.gpus == (AUTO,)


def wanted_gpus(config: RunConfig, gpus: Sequence[Gpu]) -> list[Gpu]:
    """Of the machine's cards those that the setting means, in its order.

    Raises:
        ConfigError: it names one that is not there, or one twice.
    """
    if is_automatic(config):
        return list(gpus)
    chosen: list[Gpu] = []
    for name in config.gpus:
        gpu = next((g for g in gpus if name in {str(g.index), g.uuid}), None)
        if gpu is None:
            there = "; ".join(f"{g.index} is {g.name}, {g.uuid}".rstrip(", ") for g in gpus)
            raise ConfigError(
                f"The setting gpus names the card {name}, which this PC does not have"
                + (f" ({there})." if there else "; no NVIDIA card was found."),
                code="gpu_not_there",
                params={"card": name, "cards": there},
            )
        if gpu in chosen:
            raise ConfigError(
                f"The setting gpus names {card_label(gpu)} twice; name each card once.",
                code="gpu_twice",
                params={"card": gpu.name},
            )
        chosen.append(gpu)
    return chosen


def require_wanted_cards(config: RunConfig) -> None:
    """Refuse what this PC's cards cannot give, before anything is loaded.

    Raises:
        ConfigError: a card is named that is not there, or the KV cache's format needs one and none is.
    """
    if config.ops not in {OpsName.AUTO, OpsName.CUDA}:
        if config.ops is OpsName.HOST and config.kv_type is KvType.I8:
            raise needs_card(config.kv_type)
        return
    if is_automatic(config) and config.kv_type is not KvType.I8:
        return  # nothing to ask for: the question takes a moment
    gpus = probe_gpus().cards
    if not gpus and config.ops is OpsName.CUDA:
        return  # a card may be there that only CUDA itself knows
    wanted_gpus(config, gpus)
    if not gpus:
        raise needs_card(config.kv_type, "No NVIDIA card was found.")


def cards_of(config: RunConfig, gpus: Sequence[Gpu]) -> tuple[list[Card], list[str]]:
    """The cards as CUDA counts them, and a sentence for each that cannot be used and is left out.

    Raises:
        DeviceError: CUDA has no card at all.
        EngineError: a card that was named cannot be used, or none can.
    """
    found = found_cards()
    cards, problems = [], []
    for gpu in gpus:
        match = _found(gpu, found)
        problem = _problem(gpu, match)
        if match is not None and problem is None:
            cards.append(Card(match.index, gpu))
        elif problem is not None:
            problems.append((gpu, problem))
    for _, problem in problems:
        if not is_automatic(config) or not cards:
            raise problem
    return cards, [leave_out(gpu, str(problem)) for gpu, problem in problems]


def found_cards() -> list[FoundCard]:
    """What CUDA counts; its bindings are loaded only where a card is to compute.

    Raises:
        DeviceError: it has no card at all.
    """
    from engine.device.select import found_cards as found  # noqa: PLC0415  # where there is a card

    return found()


def leave_out(gpu: Gpu, why: str) -> str:
    """Log that a card is not used; the result is the sentence."""
    sentence = f"{card_label(gpu)} is left out: {why}"
    logger.warning("%s", sentence)
    return sentence


def unlisted_gpus() -> list[Gpu]:
    """The cards as far as CUDA alone tells, for PCs on which neither NVML nor nvidia-smi answers.

    Raises:
        DeviceError: CUDA has no card at all, or its packages are not there.
    """
    try:
        cards = found_cards()
    except DeviceError as error:
        if error.code != "gpu_packages_missing":
            raise
        # Packages alone would not help: they are fetched where the driver answers.
        raise DeviceError(
            "No NVIDIA card answers on this PC; install its driver and run the setup again, or take "
            "--ops auto, with which the processor computes.",
            code="gpu_no_driver",
        ) from error
    return [
        Gpu(
            index=card.index,
            name=card.info.name,
            vram_total_bytes=card.info.total_bytes,
            vram_free_bytes=card.info.total_bytes,
            compute_capability=card.info.capability,
            pci=card.info.pci,
        )
        for card in cards
        if card.info is not None
    ]


def _found(gpu: Gpu, found: Sequence[FoundCard]) -> FoundCard | None:
    """The card in CUDA's counting: by its place on the bus, else by its number."""
    for card in found:
        if gpu.pci and card.info is not None and card.info.pci == gpu.pci:
            return card
    for card in found:
        is_known = gpu.pci and card.info is not None and card.info.pci  # then it is another one
        if not is_known and card.index == gpu.index:
            return card
    return None


def _problem(gpu: Gpu, card: FoundCard | None) -> EngineError | None:
    if card is None:
        return DeviceError(
            f"{card_label(gpu)} is hidden from CUDA; look at the variable CUDA_VISIBLE_DEVICES, or "
            "restart the PC.",
            code="gpu_hidden",
            params={"card": gpu.name},
        )
    return card.problem
