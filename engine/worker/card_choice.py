"""Which NVIDIA cards compute, and which layers each: the setting `gpus` against what is there.

Nothing is opened here: what a card has free is what its driver says, so a card that is left out gets no
CUDA context, which would take some hundred megabytes of it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.core.bandwidth import measure_bandwidth
from engine.core.config import RunConfig
from engine.core.config_gpus import AUTO
from engine.core.errors import ConfigError, EngineError, ResourceError
from engine.core.gpu import Gpu
from engine.core.layer_split import LayerShare, LayerSplit, SplitCard, split_layers
from engine.core.machine import probe_machine
from engine.core.placement_hybrid import rates_of
from engine.core.prompt_chunk import rows_on_card, turns_s
from engine.core.split_numbers import SplitInput, split_card
from engine.device.base import DeviceError
from engine.device.select import FoundCard, found_cards
from engine.ops.cuda_settings import CardUse, CudaSettings
from engine.worker.card import reserve_of

logger = logging.getLogger(__name__)

_MEASURING_S = 0.4
_HOST_BYTES_PER_S = 20e9  # two channels of slow memory, where it cannot be measured
_CORE_BYTES_PER_S = 6e9  # of experts in most formats, decoded and multiplied by one core
_SENTENCES = {
    "gpu_left_out_too_small": "it has no room for a layer of this model",
    "gpu_left_out_slower": "answers would not be 3 % faster with it",
}


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


def cards_of(config: RunConfig, gpus: Sequence[Gpu]) -> list[Card]:
    """The cards as CUDA counts them; what cannot be used is left out, with a sentence in the log.

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
    for gpu, problem in problems:
        if not is_automatic(config) or not cards:
            raise problem
        leave_out(gpu, str(problem))
    return cards


def leave_out(gpu: Gpu, why: str) -> None:
    """Say that a card is not used."""
    logger.warning("%s is left out: %s", card_label(gpu), why)


def unlisted_gpus() -> list[Gpu]:
    """The cards as far as CUDA alone tells, for PCs on which neither NVML nor nvidia-smi answers.

    Raises:
        DeviceError: CUDA has no card at all.
    """
    return [
        Gpu(
            index=card.index,
            name=card.info.name,
            vram_total_bytes=card.info.total_bytes,
            vram_free_bytes=card.info.total_bytes,
            compute_capability=card.info.capability,
            pci=card.info.pci,
        )
        for card in found_cards()
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


@dataclass(frozen=True, slots=True)
class CardChoice:
    """The cards that compute.

    Attributes:
        uses: them, in the order in which a token passes them.
        prompt_rows: of a prompt in one pass, where several share a model.
    """

    uses: tuple[CardUse, ...]
    prompt_rows: int


def choose_cards(
    config: RunConfig,
    model: SplitInput,
    cards: Sequence[Card],
    settings: CudaSettings,
    host_bytes_per_s: float | None = None,
) -> CardChoice:
    """The cards that compute, and which layers each.

    Args:
        config: says which are wanted, and what is left to others.
        model: its numbers, with the fewest rows of a pass.
        cards: those that can be used; at least one.
        settings: of a card that computes alone; sizes are divided among several.
        host_bytes_per_s: at which the processor reads experts; None = measure.

    Raises:
        ResourceError: the cards that are named have no room for the model.
    """
    if len(cards) == 1:
        return _alone(config, model, cards[0], settings)
    if host_bytes_per_s is None:
        host_bytes_per_s = _host_bytes_per_s()
    split = split_cards(config, model, cards, host_bytes_per_s)
    for number, why in why_left_out(split):
        logger.info("%s is left out: %s.", cards[number].label, why)
    if not split.shares:
        if not is_automatic(config):
            names = ", ".join(card.label for card in cards)
            raise ResourceError(
                f"{names} have no room for this model together; use a smaller context, or other cards "
                "(setting: gpus).",
                code="gpus_too_small",
            )
        largest = max(cards, key=lambda card: card.gpu.vram_free_bytes)
        return _alone(config, model, largest, settings)
    used = [cards[share.index] for share in split.shares]
    if len(used) == 1:
        return _alone(config, model, used[0], settings)
    split, rows = _with_rows(config, model, used, split, host_bytes_per_s)
    for line in share_lines(split, used):
        logger.info("%s", line)
    held = [share.expert_share * (share.stop - share.first) for share in split.shares]
    total = sum(held) or 1.0
    uses = (
        _shared(config, model, used[share.index], share, settings, part / total)
        for share, part in zip(split.shares, held, strict=True)
    )
    return CardChoice(tuple(uses), rows)


def _with_rows(
    config: RunConfig,
    model: SplitInput,
    used: Sequence[Card],
    first: LayerSplit,
    host_bytes_per_s: float,
) -> tuple[LayerSplit, int]:
    """The division among exactly these cards, with as many rows in a pass as make turns shortest."""
    numbers = [_split_card(config, card, number) for number, card in enumerate(used)]
    splits: dict[int, LayerSplit] = {}

    def slots_beside(rows: int) -> int:
        wide = replace(model, rows=rows)
        splits[rows] = split_layers(wide.for_split(), numbers, host_bytes_per_s, keeps_all=True)
        slots = model.slots(splits[rows]) if splits[rows].shares else -1
        return slots if slots >= min(model.numbers.experts_used, model.numbers.num_experts) else -1

    most = max(first.shares, key=lambda share: share.stop - share.first)
    rates = rates_of(used[first.shares.index(most)].gpu)
    found = rows_on_card(
        config.prompt_chunk,
        slots_beside,
        lambda rows, slots: turns_s(
            rows, model.window_load(slots), model.numbers.num_experts, rates
        ),
    )
    rows = model.rows if found is None else found[0]
    if found is None:
        slots_beside(rows)
    return splits[rows], rows


def split_cards(
    config: RunConfig,
    model: SplitInput,
    cards: Sequence[Card],
    host_bytes_per_s: float | None = None,
) -> LayerSplit:
    """Which layers each of several cards would get; shares and notes count the cards as given."""
    numbers = [_split_card(config, card, number) for number, card in enumerate(cards)]
    if host_bytes_per_s is None:
        host_bytes_per_s = _host_bytes_per_s()
    return split_layers(
        model.for_split(), numbers, host_bytes_per_s, keeps_all=not is_automatic(config)
    )


def share_lines(split: LayerSplit, cards: Sequence[Card]) -> list[str]:
    """What lies on which card, in words."""
    return [
        f"{cards[share.index].label}: {share.words}, {share.expert_share:.0%} of their experts"
        for share in split.shares
    ]


def why_left_out(split: LayerSplit) -> list[tuple[int, str]]:
    """Which of the cards as given get no layers, and why in words."""
    return [(int(str(note.params["index"])), _SENTENCES[note.code]) for note in split.notes]


def _split_card(config: RunConfig, card: Card, number: int) -> SplitCard:
    return split_card(card.gpu, number, reserve_of(config, card.gpu))


def _alone(config: RunConfig, model: SplitInput, card: Card, settings: CudaSettings) -> CardChoice:
    reserve = reserve_of(config, card.gpu)
    own = replace(settings, reserve_bytes=reserve)
    use = CardUse(card.index, model.numbers.num_layers, own)
    return CardChoice((use,), model.rows)


def _shared(
    config: RunConfig,
    model: SplitInput,
    card: Card,
    share: LayerShare,
    settings: CudaSettings,
    cache_part: float,
) -> CardUse:
    layers = share.stop - share.first
    cache = settings.cache_bytes
    own = replace(
        settings,
        reserve_bytes=reserve_of(config, card.gpu),
        cache_bytes=None if cache is None else int(cache * cache_part),
        pinned_copy_bytes=settings.pinned_copy_bytes * layers // model.numbers.num_layers,
    )
    return CardUse(card.index, layers, own)


def _host_bytes_per_s() -> float:
    """About what the processor reads of experts, whose layers a card has no room for."""
    machine = probe_machine()
    measured = measure_bandwidth(
        machine.physical_cores, machine.ram_available_bytes, time_limit_s=_MEASURING_S
    )
    return min(measured or _HOST_BYTES_PER_S, machine.physical_cores * _CORE_BYTES_PER_S)
