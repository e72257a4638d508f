"""Loads a model where it works: on the cards that the run config means, else on the CPU.

With `ops` = `auto` a card that fails is left out with a sentence, and the next try goes without it; when
none is left the CPU computes. Cards that are named (setting: gpus), or that `ops` = `cuda` asks for, are
not replaced: then the sentence is an error.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from engine.core.config import OpsName, RunConfig
from engine.core.errors import EngineError, ModelFileError, ParameterValue
from engine.core.gguf_header import ModelHeader
from engine.core.gpu import probe_gpus
from engine.core.kv_type import needs_card
from engine.core.model_numbers import numbers_of_header
from engine.core.placement import Placement, Verdict, require_private_memory
from engine.core.prompt_chunk import rows_on_cpu
from engine.core.sizes import size_in_words
from engine.core.split_numbers import SplitInput, head_bytes
from engine.device.base import DeviceError, DeviceMemoryError
from engine.gguf.reader import GgufFile, Tensor
from engine.memory.ngram_table import NgramTable
from engine.model.limits import ModelLimits
from engine.model.trunk import Model
from engine.ops.base import Ops
from engine.ops.cuda_settings import CardUse
from engine.ops.select import CardStartError, make_ops
from engine.worker.card import card_settings
from engine.worker.card_choice import (
    Card,
    cards_of,
    is_automatic,
    leave_out,
    unlisted_gpus,
    wanted_gpus,
)
from engine.worker.card_division import CardDivision, card_uses, divide, log_division
from engine.worker.card_gate import ByteProgress, allowed_cards, now_compute
from engine.worker.card_sizes import (
    PlacingInput,
    limits_of,
    placement_beside_card,
    placement_beside_cards,
)
from engine.worker.draft_head import draft_ids

if TYPE_CHECKING:
    from engine.ops.cuda_split import SplitOps

logger = logging.getLogger(__name__)

_FAILURES = (DeviceError, DeviceMemoryError)


@dataclass(frozen=True, slots=True, eq=False)
class ModelSource:
    """What is loaded, and for what.

    Attributes:
        config: of the run.
        header: of the model's files.
        file: the model.
        head_file: with the draft head, where that is another file.
        placing: machine and files that it was placed with.
        placement: of the CPU's plan.
        limits: sizes, by that plan.
        table: of the n-grams.
        on_step: told how many of how many steps are done.
    """

    config: RunConfig
    header: ModelHeader
    file: GgufFile
    head_file: GgufFile | None
    placing: PlacingInput
    placement: Placement
    limits: ModelLimits
    table: NgramTable | Tensor | None
    on_step: Callable[[int, int], None]

    def load(self, ops: Ops, limits: ModelLimits) -> Model:
        """The model, with the draft head of a file of its own if that one fits."""
        ids = draft_ids(self.config, self.header)
        requant, table = self.config.requant, self.table
        try:
            return Model.load(
                *(self.file, ops, limits, self.on_step, self.head_file),
                requant=requant,
                draft_ids=ids,
                table=table,
            )
        except ModelFileError as error:
            if self.head_file is None:
                raise
            name = self.head_file.paths[0].name
            logger.warning("the draft head of %s is not used: %s", name, error)
        return Model.load(
            *(self.file, ops, limits, self.on_step), requant=requant, draft_ids=ids, table=table
        )

    def for_split(self) -> SplitInput:
        """What a division of the layers is made of."""
        placement = self.placement
        return SplitInput(
            numbers_of_header(self.header, self.config, self.placing.draft_head),
            head_bytes(self.header),
            rows=rows_on_cpu(self.config),
            context=placement.context,
            num_tokens=placement.kv_pages * placement.page_tokens,
            parallel=placement.max_sequences,
        )


@dataclass(frozen=True, slots=True, eq=False)
class PlacedModel:
    """A model that computes.

    Attributes:
        ops: the operations.
        model: the model.
        placement: what lives where.
        card_notice: why a card of this PC is not used, in sentences; empty where nothing is to be said.
    """

    ops: Ops
    model: Model
    placement: Placement
    card_notice: str = ""


def load_where_it_works(source: ModelSource, progress: ByteProgress | None = None) -> PlacedModel:
    """Operations by the config, and the model on them.

    Raises:
        EngineError: it works nowhere, or not where it was asked for.
    """
    config = source.config
    name, notice = config.ops, ""
    if name in {OpsName.AUTO, OpsName.CUDA}:
        cards: Sequence[Card] = ()
        try:
            cards, notice = _usable_cards(config, progress)
            if cards:
                placed = _on_cards(source, cards)
                said = " ".join(filter(None, (notice, placed.card_notice)))
                return dataclasses.replace(placed, card_notice=said)
        except _FAILURES as error:
            if name is OpsName.CUDA or not is_automatic(config):
                raise
            said = f"The graphics card is not used: {error}"
            logger.warning("%s", said)
            notice = f"{notice} {said}".strip()
        name = OpsName.AUTO
    ops = make_ops(name.value, source.limits.for_ops())
    try:
        _require_kv_type(config, ops, notice)
        require_private_memory(source.placement, source.placing.machine)
        _log_plan(source.placement)
        return PlacedModel(ops, source.load(ops, source.limits), source.placement, notice)
    except BaseException:
        ops.close()
        raise


def _require_kv_type(config: RunConfig, ops: Ops, notice: str) -> None:
    """Raises ConfigError where these operations cannot read the KV cache's format: before any weight is read."""
    if config.kv_type not in ops.kv_types:
        raise needs_card(config.kv_type, notice)


def _usable_cards(config: RunConfig, progress: ByteProgress | None) -> tuple[Sequence[Card], str]:
    """The cards that may compute, and what is to be said of the others.

    Raises:
        EngineError: one that was asked for cannot be used.
    """
    is_by_name = config.ops is OpsName.CUDA
    report = probe_gpus()
    gpus = report.cards or tuple(unlisted_gpus() if is_by_name else ())
    wanted = wanted_gpus(config, gpus)
    gate = allowed_cards(config, wanted, report.driver, progress)
    for refusal in gate.refused:
        logger.warning("%s", refusal.sentence)
    if gate.refused and not is_automatic(config):
        raise DeviceError(gate.refused[0].sentence, code="gpu_refused")
    if not gate.passed:
        return (), gate.notice
    cards, left_out = cards_of(config, gate.passed)
    return cards, " ".join(filter(None, (gate.notice, *left_out)))


class _CardFailedError(Exception):
    """A card cannot be used; `error` says why."""

    def __init__(self, index: int, error: EngineError) -> None:
        super().__init__(str(error))
        self.index = index
        self.error = error


def _on_cards(source: ModelSource, cards: Sequence[Card]) -> PlacedModel:
    """The model on those of the cards that are worth it, without one that fails.

    Raises:
        DeviceError: no card is left, or one was named that fails.
        DeviceMemoryError: the same.
        EngineError: the model cannot be loaded.
    """
    model, settings = source.for_split(), card_settings(source.config, source.header)
    left_out: list[str] = []
    while True:
        division = divide(source.config, model, cards)
        log_division(division)
        uses = card_uses(model, division, settings)
        try:
            placed = _on_exactly(source, model, division, uses)
            now_compute([part.card.index for part in division.parts])
            return dataclasses.replace(placed, card_notice=" ".join(left_out))
        except _CardFailedError as failure:
            rest = [card for card in cards if card.index != failure.index]
            if not rest or not is_automatic(source.config):
                if left_out:  # the person is told of all of them, not of the last one
                    said = " ".join((*left_out, failure.error.message))
                    raise DeviceError(said, code=failure.error.code) from failure
                raise failure.error from failure
            (failed,) = (card for card in cards if card.index == failure.index)
            left_out.append(leave_out(failed.gpu, str(failure.error)))
            cards = rest


def _on_exactly(
    source: ModelSource, model: SplitInput, division: CardDivision, uses: Sequence[CardUse]
) -> PlacedModel:
    try:
        ops = make_ops(OpsName.CUDA.value, source.limits.for_ops(), None, uses)
    except CardStartError as error:
        raise _CardFailedError(error.index, error) from error
    except EngineError as error:  # of the CPU's share of the work
        raise DeviceError(error.message, code=error.code, params=error.params) from error
    try:
        placement = _placement(source, ops, model, division, uses)
        require_private_memory(placement, source.placing.machine)
        _log_plan(placement)
        limits = limits_of(placement, source.limits)
        ops.resize(limits.for_ops())
        return PlacedModel(ops, source.load(ops, limits), placement)
    except _FAILURES as error:
        index = _failed_card(ops, uses)
        ops.close()
        raise _CardFailedError(index, error) from error
    except BaseException:
        ops.close()
        raise


def _placement(
    source: ModelSource,
    ops: Ops,
    model: SplitInput,
    division: CardDivision,
    uses: Sequence[CardUse],
) -> Placement:
    """What lies where, with as much on the cards as each of them has room for."""
    given = (source.config, source.header, source.placing)
    if len(uses) > 1:
        rooms = [
            (use.num_layers, card.device.free_bytes() - use.settings.reserve_bytes)
            for card, use in zip(cast("SplitOps", ops).cards, uses, strict=True)
        ]
        return placement_beside_cards(
            *given, dataclasses.replace(model, rows=division.prompt_rows), rooms
        )
    free_bytes = ops.free_card_bytes()
    if free_bytes is None:
        return source.placement
    reserve_bytes = uses[0].settings.reserve_bytes
    card = division.parts[0].card
    room = free_bytes - reserve_bytes
    placement = placement_beside_card(*given, source.placement.context, room, card.gpu)
    if placement is None:
        raise _too_small(card, free_bytes, reserve_bytes)
    return placement


def _too_small(card: Card, free_bytes: int, reserve_bytes: int) -> DeviceMemoryError:
    """Why a card that nobody asked for is left alone."""
    free, reserve = size_in_words(free_bytes), size_in_words(reserve_bytes)
    if free_bytes < reserve_bytes:
        sentence = (
            f"{card.label} has {free} free, and {reserve} are left to other programs (setting: "
            "vram_reserve_mib); close programs that use it, or lower the setting."
        )
    else:
        sentence = (
            f"{card.label} has too little room for this model: of {free} that are free {reserve} are left "
            "to other programs (setting: vram_reserve_mib); close programs that use it, use a smaller "
            "context, or lower the setting."
        )
    params: dict[str, ParameterValue] = {
        "card": card.gpu.name,
        "free": free_bytes,
        "reserve": reserve_bytes,
    }
    return DeviceMemoryError(sentence, params=params)


def _failed_card(ops: Ops, uses: Sequence[CardUse]) -> int:
    """CUDA's number of the card that has failed: it is lost, else it has the least memory left."""
    if len(uses) == 1:
        return uses[0].index
    free: dict[int, int] = {}
    for card, use in zip(cast("SplitOps", ops).cards, uses, strict=True):
        try:
            free[use.index] = card.device.free_bytes()
        except EngineError:
            return use.index
    return min(free, key=lambda index: free[index])


def _log_plan(placement: Placement) -> None:
    """Say what will live where before anything is loaded."""
    for part in placement.parts:
        logger.info(
            "plan: %s, %s: %s (%s)",
            part.name,
            part.tier.value,
            size_in_words(part.num_bytes),
            part.reason,
        )
    level = logging.INFO if placement.verdict is Verdict.FITS else logging.WARNING
    logger.log(level, "%s", placement.reasons[0])
