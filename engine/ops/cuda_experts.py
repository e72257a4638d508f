"""Experts on two processors: those in the card's slots there, the others on the CPU or over the bus.

A layer of few rows goes: route on the card; ids, weights and rows go to pinned memory, an event behind
them; the card computes the experts that it holds and the shared one, while the host waits for the event
and computes the missing ones in place in the mapped file. A share of the missing ones (`pcie_frac`) is
copied to the card instead and computed there. The host's sum is added where both come together.

A layer of many rows (a prompt, beyond `host_rows`) is computed on the card alone: the missing experts pass through a ring of
slots in groups, the next group being copied while one is computed.

What the card computes of a choice is kept apart until the end and summed in the order of the choice. So
it makes no difference to any bit whether an expert was cached or came through the ring.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.device.array import DeviceArray
from engine.device.base import Event
from engine.memory.expert_memory import ExpertMemory, RingHalf
from engine.memory.expert_pins import ExpertPins
from engine.ops.base import ChoiceCounter
from engine.ops.cuda_expert_layer import ExpertLayer, HostRows, host_group, source_of
from engine.ops.cuda_host_arrays import HostArrays
from engine.ops.cuda_launch import Launcher
from engine.ops.cuda_launches import ExpertLaunches
from engine.ops.cuda_recording import Steps
from engine.ops.cuda_settings import CudaSettings
from engine.ops.host import HostOps
from engine.ops.weights import MoeWeights

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int32]

RESULTS = "expert_pairs"  # scratch memory of the choices' results
_GIVEN_UP = 8  # when memory runs out, at least one slot of so many; then twice as many, and so on
_READ_ALL = 3  # a layer whose choices are so many times its experts reads nearly all of them


@dataclass(slots=True)
class HostTimes:
    """What the host did in layers that both processors share; all of it only grows.

    Attributes:
        waited_s: for layers' choices, the card being behind.
        computed_s: experts that the card does not hold.
        num_layers: layers.
    """

    waited_s: float = 0.0
    computed_s: float = 0.0
    num_layers: int = 0


class CudaExperts:
    """Experts of all layers.

    Attributes:
        memory: where they lie; None before `prepare`.
        counter: is told what the model's layers choose.
        read_watch: is told which experts the host is about to read in the file.
        times: of the host's share.
    """

    def __init__(
        self,
        launcher: Launcher,
        launches: ExpertLaunches,
        host_arrays: HostArrays,
        host: HostOps,
        steps: Steps,
        settings: CudaSettings,
    ) -> None:
        self._launcher = launcher
        self._launches = launches
        self._host_arrays = host_arrays
        self._host = host
        self._steps = steps
        self._settings = settings
        self.memory: ExpertMemory | None = None
        self.counter: ChoiceCounter | None = None
        self.read_watch: ChoiceCounter | None = None
        self.times = HostTimes()
        self._layers: dict[int, ExpertLayer] = {}
        self._rows: dict[tuple[int, int, int], HostRows] = {}  # by R, K, H
        self._noted: tuple[ExpertMemory, int, IntArray] | None = None  # a choice to be counted
        self._chosen: Event = launcher.device.new_event()
        self._slot_table: IntArray = np.zeros((0, 0), np.int32)  # (layers, E), pinned
        self._ring_rows: list[IntArray] = []  # (E,) of each half of the ring, pinned
        self._num_trunk = 0  # the layers behind are the draft head's
        self._saw_trunk = False  # since the last round was begun
        self._turn = 0  # half of the ring that is filled next
        self._pcie_frac = settings.pcie_frac
        self._changes = 0  # of what a recorded layer consists of

    def prepare(self, groups: Sequence[MoeWeights], num_draft: int, num_bytes: int) -> None:
        """Take memory for experts and fill it.

        Args:
            groups: of the layers, the draft head's last.
            num_draft: how many are the draft head's.
            num_bytes: of the card's memory, for ring and slots.
        """
        settings = self._settings
        self._layers.clear()
        self._num_trunk = len(groups) - num_draft
        sources = [source_of(group) for group in groups]
        pins = None
        if settings.pins_experts:
            pins = ExpertPins(self._launcher.device, sources, settings.pinned_copy_bytes)
        self.memory = ExpertMemory(
            self._launcher.space,
            sources,
            num_draft,
            ring_experts=settings.ring_experts,
            most_swaps=settings.most_swaps,
            rounds_between_swaps=settings.rounds_between_swaps,
            pins=pins,
        )
        most = max((source.num_experts for source in sources), default=1)
        (self._slot_table,) = self._host_arrays.new_block([((len(groups), most), np.int32)])
        # A block for each half: one is read while the other is written.
        self._ring_rows = [
            self._host_arrays.new_block([((most,), np.int32)])[0] for _ in self.memory.ring
        ]
        for index, (group, source) in enumerate(zip(groups, sources, strict=True)):
            slot_of = self._host_arrays.mirror(self._slot_table[index, : source.num_experts])
            self._layers[id(group)] = ExpertLayer(index, source, group, host_group(group), slot_of)
        ring_bytes = sum(half.memory.nbytes for half in self.memory.ring)
        self.memory.take(num_bytes - ring_bytes, self._counts(groups, num_draft))
        self._upload_table()

    def _counts(
        self, groups: Sequence[MoeWeights], num_draft: int
    ) -> list[npt.NDArray[np.float32]] | None:
        """Known counts of the layers; the draft head's experts are wanted alike."""
        known = self._settings.counts
        if known is None:
            return None
        draft = groups[len(groups) - num_draft :]
        return [*known, *(np.ones(group.router.rows, np.float32) for group in draft)]

    @property
    def generation(self) -> int:
        """Changes when launches that were recorded before must be recorded again."""
        return self._changes + (0 if self.memory is None else self.memory.generation)

    def set_pcie_frac(self, share: float) -> None:
        """Copy this share of the missing experts from the next layer on; at most all of them."""
        share = min(max(share, 0.0), 1.0)
        if (share > 0) != (self._pcie_frac > 0):
            self._changes += 1  # with copies a layer has a launch more
        self._pcie_frac = share

    # -- memory ----------------------------------------------------------------------------------

    @property
    def slot_bytes(self) -> int:
        """Card memory of all slots."""
        return 0 if self.memory is None else self.memory.slot_bytes

    @property
    def most_slot_bytes(self) -> int:
        """Card memory of slots for all experts."""
        return 0 if self.memory is None else self.memory.whole_bytes

    def shrink(self, needed_bytes: int, attempt: int) -> bool:
        """Give up slots; whether there were any. Between passes.

        Args:
            needed_bytes: what the card had no room for; 0 where nobody knows.
            attempt: how often the same pass has asked before; at the fourth time all slots go.
        """
        memory = self.memory
        if memory is None or not memory.slot_bytes:
            return False
        given_up = max(needed_bytes, (memory.slot_bytes << attempt) // _GIVEN_UP)
        self.resize(memory.slot_bytes - given_up)
        return True

    def resize(self, num_bytes: int) -> None:
        """Slots for at most so many bytes, as many as there is room for; between passes."""
        memory = self.memory
        if memory is None:
            return
        self._launcher.stream.synchronize()
        if num_bytes <= 0:
            memory.release()
        elif memory.slot_bytes:
            memory.resize(num_bytes)
        else:
            memory.take(num_bytes, memory.cache.counts())
        self._upload_table()

    # -- passes ----------------------------------------------------------------------------------

    def begin_pass(self) -> None:
        """Between passes: let the cache follow what is used, tell the card where experts are."""
        memory = self.memory
        if memory is None:
            return
        self._note()
        if self._saw_trunk:
            self._saw_trunk = False
            memory.begin_round()
        if memory.is_dirty:
            self._upload_table()

    def _upload_table(self) -> None:
        memory, table = self.memory, self._slot_table
        if memory is None:
            return
        self._launcher.stream.synchronize()  # an earlier copy of the table
        table[...] = -1
        for row, slot_of in zip(table, memory.cache.slot_of, strict=True):
            row[: len(slot_of)] = slot_of
        self._host_arrays.upload_block(table)
        memory.is_dirty = False

    def moe(
        self,
        weights: MoeWeights,
        x: DeviceArray,
        expert_ids: DeviceArray,
        expert_weights: DeviceArray,
        out: DeviceArray,
    ) -> None:
        """See `Ops.moe`."""
        self._launches.route(weights, x, expert_ids, expert_weights)
        self._experts(weights, x, expert_ids, expert_weights, out, with_shared=True)

    def shared_expert(self, weights: MoeWeights, x: DeviceArray, out: DeviceArray) -> None:
        """See `Ops.shared_expert`."""
        values = self._scratch("shared_values", x.shape, np.float32)
        self._launches.shared_values(weights, x, values)
        self._launches.add_shared(weights, x, values, out)

    def experts(
        self,
        weights: MoeWeights,
        x: DeviceArray,
        expert_ids: DeviceArray,
        expert_weights: DeviceArray,
        out: DeviceArray,
    ) -> None:
        """See `Ops.experts`."""
        self._experts(weights, x, expert_ids, expert_weights, out, with_shared=False)

    def _experts(
        self,
        weights: MoeWeights,
        x: DeviceArray,
        ids: DeviceArray,
        expert_weights: DeviceArray,
        out: DeviceArray,
        *,
        with_shared: bool,
    ) -> None:
        layer, memory = self._layer(weights)
        pairs = self._scratch(RESULTS, (*ids.shape, x.shape[1]), np.float32)
        values = self._scratch("shared_values", x.shape, np.float32) if with_shared else None
        is_whole = memory.cache.is_whole(layer.index)
        if not is_whole and (len(ids) <= self._settings.host_rows or not memory.ring):
            self._shared_work(layer, memory, x, ids, expert_weights, pairs, values, out)
        else:
            self._cached_pairs(layer, memory, x, ids, pairs)
            if not is_whole:
                self._ring_pairs(layer, memory, x, ids, pairs)
            if values is not None:
                self._launches.shared_values(weights, x, values)
            # No choice is negative, so the ids serve as slots: every pair was computed.
            self._launches.expert_sum(pairs, ids, None, expert_weights, None, out)
        if values is not None:
            self._launches.add_shared(weights, x, values, out)

    def _cached_pairs(
        self,
        layer: ExpertLayer,
        memory: ExpertMemory,
        x: DeviceArray,
        ids: DeviceArray,
        pairs: DeviceArray,
    ) -> DeviceArray:
        """What the card's slots give; the slots of each choice."""
        slots = self._scratch("expert_slots", ids.shape, np.int32)
        self._launches.expert_slots(ids, layer.slot_of, slots)
        bank = memory.banks[layer.index]
        if bank.num_slots:
            self._launches.expert_pairs(layer.weights, bank, x, slots, pairs)
        return slots

    # -- few rows: both processors ---------------------------------------------------------------

    def _shared_work(
        self,
        layer: ExpertLayer,
        memory: ExpertMemory,
        x: DeviceArray,
        ids: DeviceArray,
        expert_weights: DeviceArray,
        pairs: DeviceArray,
        values: DeviceArray | None,
        out: DeviceArray,
    ) -> None:
        stream, steps = self._launcher.stream, self._steps
        rows = self._host_rows(len(ids), ids.shape[1], x.shape[1])
        stream.download(rows.ids, ids.address)
        stream.download(rows.weights, expert_weights.address)
        stream.download(rows.x, x.address)
        steps.host(functools.partial(stream.record, self._chosen))
        slots = self._cached_pairs(layer, memory, x, ids, pairs)
        ring_slots = None
        if values is not None:
            self._launches.shared_values(layer.weights, x, values)
        if self._pcie_frac and memory.ring:
            half = memory.ring[layer.index % len(memory.ring)]  # captured launches keep its address
            steps.host(functools.partial(self._begin_copies, layer, memory, rows, half))
            ring_slots = self._scratch("ring_slots", ids.shape, np.int32)
            stream.upload(ring_slots.address, rows.ring_slots)
            bank = half.bank(layer.source)
            self._launches.expert_pairs(layer.weights, bank, x, ring_slots, pairs)
            steps.host(functools.partial(self._end_copies, layer, rows, half))
        else:
            steps.host(functools.partial(self._compute_missing, layer, memory, rows))
        total = self._scratch("host_sum", x.shape, np.float32)
        stream.upload(total.address, rows.total)
        self._launches.expert_sum(pairs, slots, ring_slots, expert_weights, total, out)

    def _choose_missing(self, layer: ExpertLayer, memory: ExpertMemory, rows: HostRows) -> None:
        """Wait for a layer's choice, and write down what the card does not hold of it."""
        self._note()
        if memory.is_moving and not self._chosen.is_done():
            memory.move_one()
        began_at = time.perf_counter()
        self._chosen.synchronize()
        self.times.waited_s += time.perf_counter() - began_at
        self.times.num_layers += 1
        slot_of = memory.cache.slot_of[layer.index]
        np.copyto(rows.missing, rows.ids)
        rows.missing[slot_of[rows.ids] >= 0] = -1
        self._noted = (memory, layer.index, rows.ids.copy())  # the next choice lands in `rows`
        self._saw_trunk = self._saw_trunk or layer.index < self._num_trunk
        self._will_read(layer, rows.missing)

    def _will_read(self, layer: ExpertLayer, expert_ids: npt.NDArray[np.integer]) -> None:
        """Say which experts of a layer come from the file now."""
        if self.read_watch is not None and layer.index < self._num_trunk:
            self.read_watch(layer.index, np.asarray(expert_ids, np.int32))

    def _note(self) -> None:
        """Count the choice of the layer before: the card is busy now, and this costs nothing."""
        if self._noted is not None:
            memory, index, ids = self._noted
            memory.cache.note(index, ids)
            if self.counter is not None and index < self._num_trunk:
                self.counter(index, ids)
            self._noted = None

    def _compute_missing(self, layer: ExpertLayer, memory: ExpertMemory, rows: HostRows) -> None:
        self._choose_missing(layer, memory, rows)
        self._compute(layer, rows)

    def _compute(self, layer: ExpertLayer, rows: HostRows) -> None:
        if (rows.missing < 0).all():
            rows.total[...] = 0
            return
        began_at = time.perf_counter()
        self._host.experts(layer.host, rows.x, rows.missing, rows.weights, rows.total)
        self.times.computed_s += time.perf_counter() - began_at

    def _begin_copies(
        self, layer: ExpertLayer, memory: ExpertMemory, rows: HostRows, half: RingHalf
    ) -> None:
        """Have a share of the missing experts copied to the ring; the rest is the CPU's."""
        self._choose_missing(layer, memory, rows)
        rows.ring_slots[...] = -1
        experts, uses = np.unique(rows.missing[rows.missing >= 0], return_counts=True)
        count = min(round(self._pcie_frac * len(experts)), half.num_slots)
        if count == 0:
            return
        bank = half.bank(layer.source)
        # What read the half before is done: this layer's choice came behind it in the stream.
        chosen = experts[np.argsort(-uses, kind="stable")[:count]]
        memory.mover.put_all(layer.source, chosen.tolist(), bank)
        for slot, expert in enumerate(chosen.tolist()):
            is_this = rows.missing == expert
            rows.ring_slots[is_this] = slot
            rows.missing[is_this] = -1
        memory.mover.stream.record(half.filled)
        self._launcher.stream.wait(half.filled)

    def _end_copies(self, layer: ExpertLayer, rows: HostRows, half: RingHalf) -> None:
        self._launcher.stream.record(half.is_free)
        self._compute(layer, rows)

    # -- many rows: the card alone ---------------------------------------------------------------

    def _ring_pairs(
        self,
        layer: ExpertLayer,
        memory: ExpertMemory,
        x: DeviceArray,
        ids: DeviceArray,
        pairs: DeviceArray,
    ) -> None:
        """What the experts give that have no slot, group by group."""
        stream, mover = self._launcher.stream, memory.mover
        missing = np.flatnonzero(memory.cache.slot_of[layer.index] < 0)
        if ids.size < _READ_ALL * layer.source.num_experts:
            missing = np.intersect1d(missing, ids.numpy())
        slots = self._scratch("ring_slots", ids.shape, np.int32)
        size = memory.ring[0].num_slots
        for start in range(0, len(missing), size):
            group = missing[start : start + size]
            half, row = memory.ring[self._turn], self._ring_rows[self._turn]
            self._turn = 1 - self._turn
            half.is_free.synchronize()  # the row of slots is read until then
            bank = half.bank(layer.source)
            self._will_read(layer, group)
            mover.put_all(layer.source, group.tolist(), bank)
            mover.stream.record(half.filled)
            row[...] = -1
            row[group] = np.arange(len(group), dtype=np.int32)
            self._host_arrays.upload_block(row)
            slot_of = self._host_arrays.mirror(row[: layer.source.num_experts])
            self._launches.expert_slots(ids, slot_of, slots)
            stream.wait(half.filled)
            self._launches.expert_pairs(layer.weights, bank, x, slots, pairs)
            stream.record(half.is_free)

    def close(self) -> None:
        """Give everything back; nothing may compute any more."""
        if self.memory is not None:
            self.memory.release()
            self.memory.mover.close()
            self.memory.ring.clear()
            self.memory = None

    # -- parts -----------------------------------------------------------------------------------

    def _layer(self, weights: MoeWeights) -> tuple[ExpertLayer, ExpertMemory]:
        layer = self._layers.get(id(weights))
        if layer is None or self.memory is None:
            raise TypeError("these experts were not there when loading was finished")
        return layer, self.memory

    def _scratch(self, name: str, shape: tuple[int, ...], dtype: npt.DTypeLike) -> DeviceArray:
        kind = np.dtype(dtype)
        address = self._launcher.scratch(name, math.prod(shape) * kind.itemsize)
        return DeviceArray(self._launcher.space, address, shape, kind, None)

    def _host_rows(self, num_rows: int, num_used: int, width: int) -> HostRows:
        """Pinned arrays for so many rows; the same ones at each call."""
        rows = self._rows.get((num_rows, num_used, width))
        if rows is None:
            most = max(num_rows, self._settings.host_rows)
            key = (most, num_used, width)
            if key not in self._rows:
                choice = ((most, num_used), np.int32)
                share = ((most, num_used), np.float32)
                values = ((most, width), np.float32)
                self._rows[key] = HostRows(
                    *self._host_arrays.new_block([values, choice, share, choice, values, choice])
                )
            rows = self._rows[num_rows, num_used, width] = self._rows[key].first(num_rows)
        return rows
