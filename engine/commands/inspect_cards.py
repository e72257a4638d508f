"""What `engine inspect` says of the PC's NVIDIA cards: what of a model would lie on which.

By what their driver says and by sizes alone; no card is opened, so what loading finds may differ a little.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.card_record import find_record, has_card_packages
from engine.core.config import OpsName, RunConfig
from engine.core.errors import EngineError
from engine.core.gguf_header import ModelHeader
from engine.core.gpu import Gpu, GpuReport, probe_gpus
from engine.core.layer_split import LayerShare
from engine.core.model_numbers import numbers_of_header
from engine.core.placement import Placement
from engine.core.placement_hybrid import gpu_problems
from engine.core.settings import load_settings
from engine.core.sizes import size_in_words
from engine.core.split_numbers import SplitInput, head_bytes


@dataclass(frozen=True, slots=True)
class CardLine:
    """One card.

    Attributes:
        gpu: the card.
        share: the layers that it gets; None without any.
        is_last: whether head and draft layer are its own.
        expert_bytes: experts that it holds.
        why: it gets none, or what is not known yet; empty where there is nothing to say.
    """

    gpu: Gpu
    share: LayerShare | None = None
    is_last: bool = False
    expert_bytes: int = 0
    why: str = ""

    @property
    def words(self) -> str:
        """For a line of the report."""
        name = f"{self.gpu.index} {self.gpu.name}, {size_in_words(self.gpu.vram_free_bytes)} free"
        if self.share is None:
            return f"{name}: not used, {self.why}"
        rest = size_in_words(self.share.num_bytes - self.expert_bytes)
        head = ", head and draft layer" if self.is_last else ""
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
            "has_head": self.is_last,
            "expert_share": 0.0 if share is None else share.expert_share,
            "expert_bytes": self.expert_bytes,
            "used_bytes": 0 if share is None else share.num_bytes,
            "reason": self.why,
        }


def card_lines(
    config: RunConfig,
    header: ModelHeader,
    placement: Placement,
    rows: int,
    host_bytes_per_s: float | None = None,
) -> list[CardLine]:
    """Each card of this PC; empty without one, or where the config lets only the CPU compute.

    Args:
        config: of the run.
        header: of the model.
        placement: the CPU's plan, for context and pages.
        rows: of a prompt in one pass.
        host_bytes_per_s: at which the processor reads experts; None = measure.

    Raises:
        ConfigError: the setting gpus names a card that is not there.
    """
    report = probe_gpus()
    if not report.cards or config.ops not in {OpsName.AUTO, OpsName.CUDA}:
        return []
    from engine.worker.card_choice import (  # noqa: PLC0415  # only where there is a card
        Card,
        split_cards,
        wanted_gpus,
        why_left_out,
    )

    wanted = wanted_gpus(config, report.cards)
    reasons = {gpu.index: _refusal(gpu, report) for gpu in wanted}
    usable = [Card(gpu.index, gpu) for gpu in wanted if not reasons[gpu.index][0]]
    model = SplitInput(
        numbers_of_header(header, config),
        head_bytes(header),
        rows=rows,
        context=placement.context,
        num_tokens=placement.kv_pages * placement.page_tokens,
        parallel=placement.max_sequences,
    )
    shares: dict[int, LayerShare] = {}
    left_out: dict[int, str] = {}
    last = -1
    if usable:
        split = split_cards(config, model, usable, host_bytes_per_s)
        shares = {usable[share.index].gpu.index: share for share in split.shares}
        left_out = {usable[number].gpu.index: why for number, why in why_left_out(split)}
        last = usable[split.shares[-1].index].gpu.index if split.shares else -1
    lines = []
    for gpu in report.cards:
        share = shares.get(gpu.index)
        if share is not None:
            num_layers = share.stop - share.first
            experts = int(share.expert_share * num_layers * model.for_split().expert_bytes)
            why = reasons[gpu.index][1]
            lines.append(CardLine(gpu, share, gpu.index == last, experts, why))
        elif gpu.index not in reasons:
            lines.append(CardLine(gpu, why="the setting gpus does not name it"))
        else:
            said = reasons[gpu.index][0] or left_out.get(gpu.index)
            lines.append(CardLine(gpu, why=said or "the cards have no room for this model"))
    return lines


def _refusal(gpu: Gpu, report: GpuReport) -> tuple[str, str]:
    """Why a card cannot be used, and what is to be said of one that can."""
    if not has_card_packages(report.driver):
        return "the packages for NVIDIA cards are not installed", ""
    problems = gpu_problems(gpu, report.driver_major, 0)
    if problems:
        return _PROBLEMS[problems[0].code], ""
    try:
        record = find_record(load_settings().data_dir, gpu, report.driver)
    except EngineError:  # of the settings, which other commands complain of
        return "", ""
    if record is None:
        return "", "it is checked before its first use"
    return ("" if record.is_passed else record.sentence), ""


_PROBLEMS = {
    "gpu_too_old": "it is older than Turing (compute capability 7.5)",
    "driver_too_old": "its driver is too old for it; install a newer one from nvidia.com/drivers",
}
