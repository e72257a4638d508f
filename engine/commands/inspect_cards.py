"""What `engine inspect` says of the PC's NVIDIA cards: what of a model would lie on which.

By what their driver says and by sizes alone; no card is opened, so what loading finds may differ a little.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine.core.card_bytes import CONTEXT_BYTES
from engine.core.card_record import find_record, has_card_packages
from engine.core.config import OpsName, RunConfig
from engine.core.drive_speed import DriveKind
from engine.core.errors import EngineError
from engine.core.gguf_header import ModelHeader
from engine.core.gpu import Gpu, GpuReport, probe_gpus
from engine.core.layer_split import LayerShare
from engine.core.machine import Machine
from engine.core.model_numbers import numbers_of_header
from engine.core.placement import Placement
from engine.core.placement_hybrid import card_bytes, gpu_problems
from engine.core.prompt_chunk import rows_on_cpu
from engine.core.settings import load_settings
from engine.core.sizes import size_in_words
from engine.core.split_numbers import SplitInput, head_bytes

if TYPE_CHECKING:
    from engine.worker.card_division import CardDivision

PROBLEMS = {
    "gpu_too_old": "it is older than Turing (compute capability 7.5)",
    "driver_too_old": "its driver is too old for it; install a newer one from nvidia.com/drivers",
}


@dataclass(frozen=True, slots=True)
class CardLine:
    """One card.

    Attributes:
        gpu: the card.
        share: the layers that it gets; None without any.
        has_head: whether head and draft layer are its own.
        expert_bytes: experts that it holds.
        why: it gets none, or what is not known yet; empty where there is nothing to say.
        has_draft: whether the draft layer comes with the head.
    """

    gpu: Gpu
    share: LayerShare | None = None
    has_head: bool = False
    expert_bytes: int = 0
    why: str = ""
    has_draft: bool = True

    @property
    def words(self) -> str:
        """For a line of the report."""
        name = f"{self.gpu.index} {self.gpu.name}, {size_in_words(self.gpu.vram_free_bytes)} free"
        if self.share is None:
            return f"{name}: not used, {self.why}"
        rest = size_in_words(self.share.num_bytes - self.expert_bytes)
        head = ", head" if self.has_head else ""
        head += " and draft layer" if self.has_head and self.has_draft else ""
        line = (
            f"{name}: {self.share.words}{head} ({rest}), "
            f"{self.share.expert_share:.0%} of their experts ({size_in_words(self.expert_bytes)})"
        )
        return f"{line}; {self.why}" if self.why else line

    def as_json(self) -> dict[str, object]:
        """For programs."""
        share = self.share
        return {
            "number": self.gpu.index,
            "name": self.gpu.name,
            "uuid": self.gpu.uuid,
            "total_bytes": self.gpu.vram_total_bytes,
            "free_bytes": self.gpu.vram_free_bytes,
            "layers": None if share is None else [share.first, share.stop - 1],
            "has_head": self.has_head,
            "expert_share": 0.0 if share is None else share.expert_share,
            "expert_bytes": self.expert_bytes,
            "used_bytes": 0 if share is None else share.num_bytes,
            "reason": self.why,
        }


@dataclass(frozen=True, slots=True)
class CardReport:
    """All cards.

    Attributes:
        lines: one for each card of the PC.
        placement: what lies where; the CPU's plan where no card would compute.
    """

    lines: tuple[CardLine, ...]
    placement: Placement


def card_report(
    config: RunConfig,
    header: ModelHeader,
    draft_head: ModelHeader | None,
    machine: Machine,
    placement: Placement,
) -> CardReport:
    """What would lie on the cards of this PC; without lines where there is none, or the CPU was asked for.

    Args:
        config: of the run.
        header: of the model.
        draft_head: of the draft head's own file, where it has one.
        machine: RAM.
        placement: the CPU's plan.

    Raises:
        EngineError: the setting gpus names a card that is not there, or cards without room.
    """
    report = probe_gpus()
    if not report.cards or config.ops not in {OpsName.AUTO, OpsName.CUDA}:
        return CardReport((), placement)
    from engine.worker.card_choice import Card, wanted_gpus  # noqa: PLC0415  # only with a card
    from engine.worker.card_division import divide  # noqa: PLC0415

    wanted = wanted_gpus(config, report.cards)
    refusals = {gpu.index: _refusal(gpu, report, config.ops) for gpu in wanted}
    usable = [Card(gpu.index, gpu) for gpu in wanted if not refusals[gpu.index]]
    reasons = {gpu.index: "the setting gpus does not name it" for gpu in report.cards} | refusals
    if not usable:
        lines = (CardLine(gpu, why=reasons[gpu.index]) for gpu in report.cards)
        return CardReport(tuple(lines), placement)
    model = SplitInput(
        numbers_of_header(header, config, draft_head),
        head_bytes(header),
        rows=rows_on_cpu(config),
        context=placement.context,
        num_tokens=placement.kv_pages * placement.page_tokens,
        parallel=placement.max_sequences,
    )
    division = divide(config, model, usable)
    found = {}
    for card, why in division.left_out:
        found[card.gpu.index] = CardLine(card.gpu, why=why)
    if len(division.parts) == 1:
        gpu = division.parts[0].card.gpu
        found[gpu.index] = _alone(config, model, gpu, report)
    for part in division.parts if len(division.parts) > 1 else ():
        gpu, share = part.card.gpu, part.share
        assert share is not None  # noqa: S101  # of several cards each has its layers
        held = share.expert_share * (share.stop - share.first) * model.for_split().expert_bytes
        is_last = part is division.parts[-1]
        found[gpu.index] = CardLine(gpu, share, is_last, int(held), _news(gpu, report))
    lines = (found.get(gpu.index) or CardLine(gpu, why=reasons[gpu.index]) for gpu in report.cards)
    beside = _placement(config, header, draft_head, machine, model, division)
    return CardReport(tuple(lines), beside or placement)


def _placement(
    config: RunConfig,
    header: ModelHeader,
    draft_head: ModelHeader | None,
    machine: Machine,
    model: SplitInput,
    division: CardDivision,
) -> Placement | None:
    """What would lie where; None where the one card that is left has too little room."""
    from engine.worker.card_sizes import (  # noqa: PLC0415  # only with a card
        PlacingInput,
        placement_beside_card,
        placement_beside_cards,
    )

    placing = PlacingInput(machine, DriveKind.UNKNOWN, draft_head)
    if len(division.parts) == 1:
        gpu = division.parts[0].card.gpu
        room = _room(config, gpu)
        return placement_beside_card(config, header, placing, model.context, room, gpu)
    rooms = [
        (part.share.stop - part.share.first, _room(config, part.card.gpu))
        for part in division.parts
        if part.share is not None
    ]
    wide = replace(model, rows=division.prompt_rows)
    return placement_beside_cards(config, header, placing, wide, rooms)


def _room(config: RunConfig, gpu: Gpu) -> int:
    """Bytes of a card for the model."""
    from engine.worker.card import reserve_of  # noqa: PLC0415  # only with a card

    return gpu.vram_free_bytes - reserve_of(config, gpu) - CONTEXT_BYTES


def _alone(config: RunConfig, model: SplitInput, gpu: Gpu, report: GpuReport) -> CardLine:
    """Of the one card that would compute: it gives up more than several together before it is too small."""
    from engine.worker.card_sizes import sizes_beside_card  # noqa: PLC0415  # only with a card

    numbers, room = model.numbers, _room(config, gpu)
    sizes = sizes_beside_card(config, numbers, model.context, room, gpu)
    if sizes is None:
        return CardLine(gpu, why="it has too little room for this model")
    held = sizes.slots * numbers.expert_slot_bytes
    used = held + card_bytes(numbers, model.context, sizes)
    experts = sizes.slots / max(numbers.num_experts, 1)
    share = LayerShare(gpu.index, 0, numbers.num_layers, experts, used)
    said = []
    if used > room + CONTEXT_BYTES:
        said.append("it has too little room by its numbers, loading may fail")
    if sizes.parallel < numbers.parallel:
        said.append("it computes one request at a time")
    why = "; ".join(filter(None, (*said, _news(gpu, report))))
    return CardLine(gpu, share, has_head=True, expert_bytes=held, why=why, has_draft=sizes.with_mtp)


def _refusal(gpu: Gpu, report: GpuReport, ops: OpsName) -> str:
    """Why a card cannot be used; empty when nothing is known against it."""
    if not has_card_packages(report.driver):
        return "the packages for NVIDIA cards are not installed"
    problems = gpu_problems(gpu, report.driver_major, 0)
    if problems:
        return PROBLEMS[problems[0].code]
    if ops is OpsName.CUDA:  # asked for by name: used whatever an earlier check said
        return ""
    sentence, _ = _checked(gpu, report)
    return sentence


def _news(gpu: Gpu, report: GpuReport) -> str:
    return "" if _checked(gpu, report)[1] else "it is checked before its first use"


def _checked(gpu: Gpu, report: GpuReport) -> tuple[str, bool]:
    """What an earlier check has against a card, and whether there was one."""
    try:
        record = find_record(load_settings().data_dir, gpu, report.driver)
    except EngineError:  # of the settings, which other commands complain of
        return "", False
    if record is None:
        return "", False
    return ("" if record.is_passed else record.sentence), True
