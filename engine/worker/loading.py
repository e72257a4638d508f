"""From a run config to a model that can compute: placement, operations, weights, sequences.

The worker, `run` and `bench` load through here, so they agree on every size.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from engine import __version__
from engine.core.config import RunConfig
from engine.core.disk_reads import DiskReads
from engine.core.draft_head_file import head_tensors, read_draft_head
from engine.core.errors import EngineError
from engine.core.gguf_header import ModelHeader, read_model_header
from engine.core.machine import Machine, probe_machine
from engine.core.model_sizes import MAX_WINDOW
from engine.core.placement import Placement, Verdict, place_on_cpu
from engine.core.prompt_chunk import rows_on_cpu
from engine.core.settings import load_settings
from engine.core.weight_groups import expert_tensors, is_read_by_rows, read_every_token
from engine.decode.draft.drafting import Drafting
from engine.decode.sampling import Sampler
from engine.gguf.memory_lock import lock_tensors
from engine.gguf.read_ahead import read_ahead
from engine.gguf.reader import GgufFile
from engine.memory.give_back import GiveBack
from engine.memory.ngram_table import NgramTable
from engine.memory.ngram_table_modes import drive_kind, measure_table_drive, open_ngram_table
from engine.model.limits import ModelLimits
from engine.model.trunk import Model
from engine.ops.base import Ops
from engine.sequence.scheduler import SchedulerLimits
from engine.sequence.sessions import Sessions
from engine.worker.card_loading import ModelSource, load_where_it_works
from engine.worker.card_sizes import PlacingInput
from engine.worker.draft_head import open_draft_head
from engine.worker.drafters import make_drafting
from engine.worker.expert_tier import (
    ExpertTier,
    keeps_copies,
    open_expert_tier,
)
from engine.worker.messages import SamplingParams
from engine.worker.session_files import SessionFile, session_key

logger = logging.getLogger(__name__)

# Of the memory that experts have, what is read at the start where it does not hold all of them.
_SHARE_READ = 0.9

ByteProgress = Callable[[str, int, int], None]  # (phase, bytes done, bytes in all)


@dataclass(slots=True, eq=False)
class LoadedModel:
    """A model in memory, and what it was loaded with.

    Attributes:
        model: computes.
        header: of its files.
        placement: what lives where.
        limits: what the scheduler must keep to.
        fingerprint: changes with anything that can change results.
        sessions: keeps conversations warm; None when there is no memory for that.
        session_file: where they are kept over a restart; None when that is not wanted.
        drafting: guesses tokens; None when that is not wanted.
        experts: keeps experts in memory, asks the disk for others, counts.
        caches: what can be given back when memory runs low.
        card_notice: why a graphics card of this PC is not used, in sentences; empty where there is none.
    """

    model: Model
    header: ModelHeader
    placement: Placement
    limits: SchedulerLimits
    fingerprint: str
    _files: tuple[GgufFile, ...]
    sessions: Sessions | None = None
    session_file: SessionFile | None = None
    drafting: Drafting | None = None
    experts: ExpertTier | None = None
    caches: GiveBack = field(default_factory=GiveBack)
    card_notice: str = ""

    def save(self) -> None:
        """Write what is to be kept over a restart: conversations, counts of drafts and experts."""
        if self.experts is not None:
            self.experts.save()
        if self.drafting is not None:
            self.drafting.save()
        if self.sessions is not None and self.session_file is not None:
            self.session_file.save(self.sessions, self.model.store)

    @property
    def saves(self) -> bool:
        """Whether `save` has anything to write."""
        learns = self.drafting is not None and self.drafting.learns
        counts = self.experts is not None and self.experts.saves
        return self.session_file is not None or learns or counts

    def disk_reads(self) -> tuple[DiskReads, ...]:
        """What was read from the disk since the model is loaded, as far as that is known."""
        experts = () if self.experts is None else self.experts.disk_reads()
        rows = self.model.ngram_rows
        return experts if rows is None else (*experts, rows.table.disk_reads)

    @property
    def ops(self) -> Ops:
        """The operations that compute."""
        return self.model.ops

    def new_sampler(self, params: SamplingParams) -> Sampler:
        """What chooses the tokens of one answer, by the operations if they can."""
        return Sampler(params, self.ops.new_draw)

    @property
    def isa(self) -> str:
        """The instruction set that the operations use; empty where there is no choice."""
        return str(getattr(self.ops, "isa", ""))

    @property
    def ops_label(self) -> str:
        """Implementation and instruction set, such as `host avx512` or `cuda sm_89 on 2 cards`."""
        cards = len(self.ops.stages(self.model.config.num_layers))
        words = f"{self.ops.name} {self.isa}".strip()
        return words if cards == 1 else f"{words} on {cards} cards"

    def close(self) -> None:
        """Give memory and threads back; idempotent. Nothing may compute any more."""
        if self.experts is not None:
            self.experts.close()
        self.model.ops.close()
        if self.model.ngram_rows is not None:
            self.model.ngram_rows.table.close()
        for file in self._files:
            file.close()


def load_model(
    config: RunConfig,
    progress: ByteProgress | None = None,
    parallel: int | None = None,
    header: ModelHeader | None = None,
) -> LoadedModel:
    """Load the model that the config names.

    Args:
        config: what to load and how.
        progress: told how far it is.
        parallel: requests to make room for instead of the config's number, by a caller that keeps
            no conversations warm.
        header: of the config's model, when it has been read already.

    Raises:
        EngineError: the file, a setting or this machine does not allow it; the sentence says why.
    """
    if parallel is not None:
        config = config.model_copy(update={"parallel": parallel, "session_cache_mib": 0})
    if header is None:
        header = read_model_header(config.model_path)
    total_bytes = sum(info.num_bytes for _, info in header.tensors.values())
    if progress is not None:
        progress("weights", 0, total_bytes)
    machine = probe_machine()
    drive = measure_table_drive(header, config)
    head_header = read_draft_head(config, header)
    placement = place_on_cpu(machine, header, config, drive_kind(drive), head_header)
    limits = _sizes(config, placement, machine)

    def on_step(done: int, total: int) -> None:
        if progress is not None:
            progress("weights", total_bytes * done // max(total, 1), total_bytes)

    with contextlib.ExitStack() as undo:
        copies = keeps_copies(header, placement.experts, head_header)
        file = undo.enter_context(GgufFile(header, private=copies))
        head_file = open_draft_head(config, header, private=copies)
        if head_file is not None:
            undo.enter_context(head_file)
        table = open_ngram_table(header, placement.ngram, config, drive, progress)
        if isinstance(table, NgramTable):
            undo.callback(table.close)
        placing = PlacingInput(machine, drive_kind(drive), head_header)
        source = ModelSource(
            *(config, header, file, head_file, placing, placement, limits, table, on_step)
        )
        placed = load_where_it_works(source, progress)
        ops, model, placement = placed.ops, placed.model, placed.placement
        undo.callback(ops.close)
        used_head = None if model.mtp is None else head_file
        _read_ahead(header, placement, None if used_head is None else head_header, progress)
        experts = open_expert_tier(
            config, placement.experts, header, file, model, _phase(progress, "experts"), used_head
        )
        if experts.counts is not None:
            ops.count_choices(experts.counts.add)
        if placement.verdict is Verdict.FITS:
            _lock_if_wanted(config, file, used_head, header, progress)
        undo.pop_all()
    loaded = LoadedModel(
        model=model,
        header=header,
        placement=placement,
        limits=SchedulerLimits(
            context=placement.context,
            vocab_size=model.config.vocab_size,
            prompt_chunk=placement.prompt_rows,
            parallel=placement.max_sequences,
            prompt_slice_s=config.prompt_slice_ms / 1000,
        ),
        fingerprint=fingerprint(header, config, f"{ops.name} {getattr(ops, 'isa', '')}"),
        _files=(file,) if head_file is None else (file, head_file),
        drafting=make_drafting(model, header, config),
        experts=experts,
        card_notice=placed.card_notice,
    )
    if placement.session_bytes:
        loaded.sessions = Sessions(
            model.store.pages, placement.session_bytes, model.store.page_bytes
        )
        _open_session_file(loaded, config)
        loaded.caches.register("warm conversations", loaded.sessions.shrink)
    loaded.caches.register("unused pages", model.store.forget_free_pages)
    if model.ngram_rows is not None:
        loaded.caches.register("rows of the n-gram table", model.ngram_rows.table.shrink)
    return loaded


def _sizes(config: RunConfig, placement: Placement, machine: Machine) -> ModelLimits:
    """What the model's buffers are allocated for."""
    if config.threads > machine.logical_cores:
        logger.warning(
            "threads is %d, but this process may use only %d processors: they will take turns. "
            "Leave it out, and the number that fits is taken.",
            config.threads,
            machine.logical_cores,
        )
    return ModelLimits(
        max_rows=rows_on_cpu(config) + placement.max_sequences,
        max_window=MAX_WINDOW,
        max_sequences=placement.max_sequences,
        context=placement.context,
        kv_type=config.kv_type,
        kv_pages=placement.kv_pages,
        page_tokens=placement.page_tokens,
        threads=config.threads,
        pin_threads=config.pin_threads,
    )


def _open_session_file(loaded: LoadedModel, config: RunConfig) -> None:
    """Take up the conversations of last time, when that is wanted."""
    if not config.save_sessions or loaded.sessions is None:
        return
    try:
        page_tokens = loaded.placement.page_tokens
        key = session_key(loaded.fingerprint, page_tokens, loaded.header.paths)
        data_dir = load_settings().data_dir
    except (EngineError, OSError) as error:
        logger.warning("conversations will not be saved: %s", error)
        return
    loaded.session_file = SessionFile(data_dir, key, config.save_sessions_mib << 20)
    loaded.session_file.read(loaded.sessions, loaded.model.store)


def _phase(progress: ByteProgress | None, name: str) -> Callable[[int, int], None]:
    """Progress of one phase."""

    def on_piece(done: int, total: int) -> None:
        if progress is not None:
            progress(name, done, total)

    return on_piece


def _read_ahead(
    header: ModelHeader,
    placement: Placement,
    head: ModelHeader | None,
    progress: ByteProgress | None,
) -> None:
    """Have the disk deliver what every token reads, and of the experts what memory has room for."""
    names = _read_first(header, placement)
    began_at = time.perf_counter()
    num_read = read_ahead(header, names, _phase(progress, "file"))
    if head is not None and names and not placement.experts.keeps_rest:
        num_read += read_ahead(head, head_tensors(head.tensors), _phase(progress, "file"))
    logger.info("read ahead: %d bytes in %.2f s", num_read, time.perf_counter() - began_at)


def _read_first(header: ModelHeader, placement: Placement) -> set[str]:
    """Tensors that are read at the start; more than fits would push out what was just read."""
    plan = placement.experts
    # What is kept is read when it is kept.
    rest = set() if plan.keeps_rest else read_every_token(header)
    experts = set() if plan.keep_bytes else expert_tensors(header)
    if placement.verdict is Verdict.FITS:
        return rest | experts
    if plan.ram_bytes == 0:  # not even the rest has room
        return set()
    room = int(plan.ram_bytes * _SHARE_READ)
    for name in sorted(experts, key=lambda one: header.tensors[one][1].offset):
        room -= header.tensors[name][1].num_bytes
        if room >= 0:
            rest.add(name)
    return rest


def _lock_if_wanted(
    config: RunConfig,
    file: GgufFile,
    head_file: GgufFile | None,
    header: ModelHeader,
    progress: ByteProgress | None,
) -> None:
    """Lock what every token reads, as far as the system allows; it is unlocked with the mapping."""
    if not config.lock_memory:
        return

    tensors = [
        file.tensors[name] for name in file.tensors if not is_read_by_rows(name, header.tensors)
    ]
    if head_file is not None:
        tensors += [head_file.tensors[name] for name in sorted(head_tensors(head_file.tensors))]
    result = lock_tensors(tensors, _phase(progress, "lock"))
    if result.problem:
        logger.warning("%s", result.problem)
    else:
        logger.info("locked into memory: %d bytes", result.num_bytes)


def fingerprint(header: ModelHeader, config: RunConfig, ops_name: str) -> str:
    """A short hash of what results depend on: our version, the file, operations, number formats.

    The weights themselves are not read (that would take minutes); their names, types and places
    are. The files are not looked at again: they may be gone by now.
    """
    digest = hashlib.sha256()
    for part in (__version__, ops_name, config.kv_type.value, f"requant {config.requant}"):
        digest.update(part.encode() + b"\0")
    for path, shard in zip(header.paths, header.shards, strict=True):
        digest.update(f"{path.name}:{shard.data_start}\n".encode(errors="surrogateescape"))
    for name, (shard_idx, info) in sorted(header.tensors.items()):
        digest.update(f"{name}:{shard_idx}:{info.type.value}:{info.offset}:{info.shape}\n".encode())
    return f"fp_{digest.hexdigest()[:12]}"
