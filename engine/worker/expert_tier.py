"""The experts of a loaded model as placement wants them: kept, looked ahead for, counted.

    file = GgufFile(header, private=keeps_copies(header, placement.experts))
    ...                                             # the model is made of the file's tensors
    tier = open_expert_tier(config, placement.experts, header, file, model, progress)

Loading's part of it: which file, which way of keeping, which counts. What happens in a pass is
`engine/memory/expert_reader.py`.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.core.config import ExpertMode, RunConfig
from engine.core.disk_reads import PAGES, UNKNOWN, DiskReads
from engine.core.draft_head_file import head_tensors
from engine.core.errors import EngineError, ModelFileError
from engine.core.expert_plan import ExpertPlan
from engine.core.gguf_header import ModelHeader
from engine.core.process_memory import major_faults
from engine.core.settings import load_settings
from engine.core.weight_groups import is_read_by_rows, read_every_token
from engine.gguf.file_pages import Range, may_look_into_cache, system_pages
from engine.gguf.keep import KeepResult, can_lock, keep_ranges, supports_private
from engine.gguf.reader import GgufFile
from engine.memory.expert_counts import FOLDER, ExpertCounts, model_key, open_counts
from engine.memory.expert_map import ExpertMap
from engine.memory.expert_reader import ExpertReader
from engine.model.expert_guess import RouterGuess
from engine.model.trunk import Model

logger = logging.getLogger(__name__)

Progress = Callable[[int, int], None]  # (bytes done, bytes in all)

# Operations whose experts are computed where they lie. With a card they are one operation that decides
# itself what is computed where.
_ON_THE_HOST = frozenset({"host", "reference"})


@dataclass(slots=True, eq=False)
class ExpertTier:
    """The experts of one loaded model.

    Attributes:
        reader: is told of every choice; None = nobody needs to be.
        kept: what is held in memory.
        counts: how often experts were used; None = not counted.
        path: where the counts are kept; None = nowhere.
    """

    reader: ExpertReader | None
    kept: KeepResult
    counts: ExpertCounts | None = None
    path: Path | None = None
    _faults_before: int = 0

    @property
    def saves(self) -> bool:
        """Whether `save` has anything to write."""
        return self.counts is not None and self.path is not None

    def save(self) -> None:
        """Write the counts; that they cannot be written is said in the log."""
        if self.counts is None or self.path is None:
            return
        try:
            self.counts.save(self.path)
        except (EngineError, OSError) as error:
            logger.warning("the counts of experts are not saved: %s", error)
        else:
            logger.info("counts of experts are in %s", self.path)

    def disk_reads(self) -> tuple[DiskReads, ...]:
        """What was read from the disk since the model is loaded, as far as that is known."""
        reads = [self.reader.reads] if self.reader is not None and self.reader.asks else []
        faults = major_faults()
        if faults is not None:
            asked = self.reader.faults_while_waiting if self.reader is not None else 0
            touched = max(faults - self._faults_before - asked, 0)
            reads.append(DiskReads(PAGES, touched, UNKNOWN, UNKNOWN, UNKNOWN))
        return tuple(reads)

    def close(self) -> None:
        """End what runs beside the model."""
        if self.reader is not None:
            self.reader.close()


def keeps_copies(header: ModelHeader, plan: ExpertPlan, head: ModelHeader | None = None) -> bool:
    """Whether what the plan keeps must be copied, because this process may not lock so much.

    The files of the model and of the draft head are then to be mapped privately.
    """
    num_bytes = plan.keep_bytes
    if plan.keeps_rest:
        names = read_every_token(header, has_other_head=head is not None)
        num_bytes += sum(header.tensors[name][1].num_bytes for name in names)
        if head is not None:
            num_bytes += sum(head.tensors[name][1].num_bytes for name in head_tensors(head.tensors))
    return num_bytes > 0 and supports_private() and not can_lock(num_bytes)


def open_expert_tier(
    config: RunConfig,
    plan: ExpertPlan,
    header: ModelHeader,
    file: GgufFile,
    model: Model,
    progress: Progress,
    head_file: GgufFile | None = None,
) -> ExpertTier:
    """Keep what the plan keeps, and have the model tell its choices if somebody needs them.

    Args:
        config: the wishes.
        plan: what is kept.
        header: of the model.
        file: the model's.
        model: made of it.
        progress: of keeping.
        head_file: the draft head's own that the model uses; None without one.

    Raises:
        ModelFileError: the file cannot be read.
    """
    experts = ExpertMap.of(file, header, model.config.num_layers)
    shape = (len(experts.layers), experts.num_experts)
    counts, path = _counts(config, header, shape)
    kept_mask = np.zeros(shape, np.bool_)
    result = KeepResult(0, is_copy=False)
    can_look = may_look_into_cache(header.paths)
    pages = system_pages(can_look=can_look)
    ranges: list[Range] = []
    if plan.keeps_rest:
        names = read_every_token(header, has_other_head=head_file is not None)
        ranges = _ranges(file, names)
        by_rows = [one for name, one in file.tensors.items() if is_read_by_rows(name, file.tensors)]
        pages.expect_random([(one.data.ctypes.data, one.data.nbytes) for one in by_rows])
    if plan.keep_bytes and experts.num_experts:
        kept_mask = experts.hottest(counts.counts, plan.keep_bytes)
        for layer_idx, row in enumerate(kept_mask):
            ranges += experts.ranges(layer_idx, np.flatnonzero(row).tolist())
    if ranges:
        result = _keep(file, ranges, int(kept_mask.sum()), progress)
        if not result.num_bytes:
            kept_mask[...] = False
    if plan.keeps_rest and head_file is not None:
        head_ranges = _ranges(head_file, head_tensors(head_file.tensors))
        kept_head = _keep(head_file, head_ranges, 0, progress)
        result = dataclasses.replace(result, num_bytes=result.num_bytes + kept_head.num_bytes)
    counting = counts if config.expert_profile_learn else None
    reader = None
    is_here = model.ops.name in _ON_THE_HOST
    if is_here and (plan.looks_ahead or counting is not None) and experts.num_experts:
        reader = ExpertReader(
            experts,
            pages,
            kept_mask,
            counting,
            asks=plan.looks_ahead,
            guess=RouterGuess(
                model.ops, [layer.moe for layer in model.weights.layers], model.limits.max_rows
            ),
            pages_ahead=system_pages(can_look=can_look),
        )
        model.watch_experts(reader)
    elif plan.looks_ahead and experts.num_experts:
        # The card's operations decide what is computed where, and say what the host will read of the file.
        reader = ExpertReader(experts, pages, kept_mask)
        if not model.ops.watch_reads(reader.will_read):
            reader.close()
            reader = None
    return ExpertTier(
        reader,
        result,
        counts=counting,
        path=path if counting is not None else None,
        _faults_before=major_faults() or 0,
    )


def _ranges(file: GgufFile, names: set[str]) -> list[Range]:
    """Where some tensors are."""
    tensors = [file.tensors[name].data for name in sorted(names)]
    return [(data.ctypes.data, data.nbytes) for data in tensors if data.nbytes]


def _keep(
    file: GgufFile, ranges: Sequence[Range], num_experts: int, progress: Progress
) -> KeepResult:
    began_at = time.perf_counter()
    try:
        result = keep_ranges(file, ranges, progress, system_pages())
    except OSError as error:
        raise ModelFileError(
            f"The model {file.paths[0].name} cannot be read ({error.strerror or error}); check the disk, "
            "or download the file again.",
            code="file_unreadable",
            params={"file": file.paths[0].name},
        ) from error
    if result.problem:
        logger.warning("%s", result.problem)
    logger.info(
        "kept in memory (%s): %d bytes, among them %d experts, in %.2f s",
        "copied" if result.is_copy else "locked",
        result.num_bytes,
        num_experts,
        time.perf_counter() - began_at,
    )
    return result


def _counts(
    config: RunConfig, header: ModelHeader, shape: tuple[int, int]
) -> tuple[ExpertCounts, Path | None]:
    """The counts that there are, and where new ones go."""
    key = model_key(header)
    wants = config.expert_profile_learn or config.expert_mode is ExpertMode.BUDGET
    if not wants:
        return ExpertCounts(shape, key), None
    path = config.expert_profile
    if path is None:
        try:
            path = load_settings().data_dir / FOLDER / f"{key}.json"
        except EngineError as error:
            logger.warning("the counts of experts are not read: %s", error)
            return ExpertCounts(shape, key), None
    counts = open_counts(path, key, shape)
    if config.expert_mode is ExpertMode.BUDGET and counts.is_empty:
        logger.warning(
            "nothing is known yet about which experts are used most, so those with the lowest numbers are "
            "kept; with expert_profile_learn the next start knows better"
        )
    return counts, path
