"""Experts on two processors: whatever is cached, copied or left to the CPU, the answers are the same.

`plain` has no kernels; the same with kernels is in `test_emulated_engine.py`.
"""

from __future__ import annotations

import gc

import numpy as np
import pytest

from engine.core.card_bytes import GRAPH_BYTES, OTHER_SCRATCH_BYTES
from engine.core.errors import ModelFileError
from engine.device.array import DeviceArray
from engine.device.base import DeviceMemoryError
from engine.model.mtp import DraftEntry
from engine.model.trunk import Model
from engine.ops.cuda import CudaOps
from engine.ops.cuda_settings import CudaSettings
from engine.sequence.batch import Batch, BatchEntry, LogitsWanted
from tests.support.golden import arrays, forward, golden_limits, model_file, run_tokens
from tests.support.plain_device import PlainDevice
from tests.support.plain_launches import plain_launches

CASE = "full"  # 4 layers of 16 experts, 4 used
NUM_TOKENS = 40


def load(
    settings: CudaSettings,
    total_bytes: int = 1 << 30,
    mtp: str | None = None,
    draft_ids: np.ndarray | None = None,
) -> Model:
    limits = golden_limits()
    ops = CudaOps(limits.for_ops(), PlainDevice(total_bytes), settings, plain_launches)
    head = None if mtp is None else model_file(mtp)
    return Model.load(model_file(CASE), ops, limits, mtp_file=head, draft_ids=draft_ids)


def ops_of(model: Model) -> CudaOps:
    assert isinstance(model.ops, CudaOps)
    return model.ops


def num_slots(model: Model) -> list[int]:
    memory = ops_of(model).moe_work.memory
    assert memory is not None
    return list(memory.cache.num_slots)


def expert_bytes() -> int:
    """Of all experts of the model in slots."""
    model = load(CudaSettings())
    memory = ops_of(model).moe_work.memory
    assert memory is not None
    assert num_slots(model) == [16] * 4
    return memory.slot_bytes


def tokens() -> list[int]:
    return arrays(CASE)["tokens"][:NUM_TOKENS].tolist()


def decoded(model: Model, chunk: int) -> np.ndarray:
    sequence = model.new_sequence()
    logits = run_tokens(model, sequence, tokens(), chunk)
    sequence.release()
    return logits


@pytest.mark.parametrize("chunk", [1, 3, 40])
@pytest.mark.parametrize("pcie_frac", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99, 1.0])
def test_any_cache_and_any_share_of_copies_gives_the_golden_logits(share, pcie_frac, chunk):
    settings = CudaSettings(
        cache_bytes=int(expert_bytes() * share) + 60_000,  # the ring is among them
        pcie_frac=pcie_frac,
        ring_experts=3,
    )
    model = load(settings)
    logits = decoded(model, chunk)
    wanted = arrays(CASE)["logits"][:NUM_TOKENS]
    assert np.abs(logits - wanted).max() < 1e-4
    np.testing.assert_array_equal(logits.argmax(axis=1), wanted.argmax(axis=1))


@pytest.mark.parametrize("chunk", [1, 5, 40])
def test_cached_and_copied_experts_agree_bit_for_bit(chunk):
    whole = decoded(load(CudaSettings()), chunk)
    copied = decoded(load(CudaSettings(cache_bytes=0, pcie_frac=1.0)), chunk)
    some = decoded(load(CudaSettings(cache_bytes=1 << 21, pcie_frac=1.0)), chunk)
    np.testing.assert_array_equal(copied, whole)
    np.testing.assert_array_equal(some, whole)


def test_choices_are_counted_for_the_layer_that_made_them(monkeypatch):
    monkeypatch.setattr("engine.model.passes.STEP_S", 0.0)  # windows stop after each layer
    model = load(CudaSettings(cache_bytes=0))
    counted: list[tuple[int, list[list[int]]]] = []
    assert ops_of(model).count_choices(lambda layer, ids: counted.append((layer, ids.tolist())))
    sequence = model.new_sequence()
    wanted = []
    for token in tokens()[:4]:
        wanted += [
            (layer, np.asarray(model.workspace_rows(1).expert_ids).tolist())
            for layer in model.layers(Batch([BatchEntry(sequence, [token], LogitsWanted.LAST)]))
        ]
        sequence.commit(1)
    ops_of(model).moe_work.begin_pass()  # the last layer's is counted when the next pass begins
    assert counted[-len(wanted) :] == wanted


def test_the_cache_follows_what_is_used_and_answers_stay_the_same():
    whole = load(CudaSettings())
    size = expert_bytes() * 3 // 4  # of which the ring takes two thirds
    model = load(CudaSettings(cache_bytes=size, pcie_frac=1.0, rounds_between_swaps=2))
    memory = ops_of(model).moe_work.memory
    assert memory is not None
    assert sum(num_slots(model)) == 16
    before = [slot_of.copy() for slot_of in memory.cache.slot_of]
    sequences = [whole.new_sequence(), model.new_sequence()]
    for token in [7] * 60:  # the same experts again and again
        wanted = forward(whole, sequences[0], [token]).logits.copy()
        got = forward(model, sequences[1], [token]).logits
        np.testing.assert_array_equal(got, wanted)
        for sequence in sequences:
            sequence.commit(1)
    changed = [
        int((old >= 0).sum() - ((old >= 0) & (new >= 0)).sum())
        for old, new in zip(before, memory.cache.slot_of, strict=True)
    ]
    assert sum(changed) > 0
    assert memory.cache.hits > 0
    memory.cache.hits = memory.cache.misses = 0
    forward(model, sequences[1], [7])
    forward(model, sequences[1], [7])  # the choice of the last pass is counted with the next
    assert memory.cache.hits > memory.cache.misses


def test_the_hosts_times_grow_with_the_layers_that_it_shares():
    model = load(CudaSettings(cache_bytes=0))
    times = ops_of(model).moe_work.times
    decoded(model, 4)
    layers = 4 * (NUM_TOKENS // 4 + 1)  # one pass more: it is recorded
    assert times.num_layers == layers
    assert times.computed_s > 0
    whole = load(CudaSettings())
    decoded(whole, 4)
    assert ops_of(whole).moe_work.times.num_layers == 0


def test_prompts_of_many_lengths_leave_no_pinned_memory_behind():
    model = load(CudaSettings())
    pinned = ops_of(model).device.pinned
    sizes: list[int] = []
    ops_of(model).device.pinned = lambda num_bytes: sizes.append(num_bytes) or pinned(num_bytes)
    for chunk in range(17, NUM_TOKENS + 1):
        sequence = model.new_sequence()
        model.forward(Batch([BatchEntry(sequence, tokens()[:chunk], LogitsWanted.LAST)]))
        sequence.release()
    hidden = model.config.hidden_size
    tables = 1 + sum(layer.ple is not None for layer in model.weights.layers)
    assert sum(sizes) <= tables * (32 + 64) * hidden * 4


def test_prompts_that_get_longer_leave_no_memory_of_the_card_behind():
    def used_after(lengths: range) -> int:
        model = load(CudaSettings(cache_bytes=0))
        before = ops_of(model).device.free_bytes()
        for length in lengths:
            sequence = model.new_sequence()
            model.forward(Batch([BatchEntry(sequence, tokens()[:length], LogitsWanted.LAST)]))
            sequence.release()
        del sequence
        gc.collect()
        ops_of(model).moe_work.resize(0)  # what is kept for arrays to come goes, too
        return before - ops_of(model).device.free_bytes()

    longest = used_after(range(NUM_TOKENS, NUM_TOKENS + 1))
    assert used_after(range(17, NUM_TOKENS + 1)) <= longest * 2  # what is small doubles


def test_what_the_reserve_keeps_free_stays_free():
    seen = set()
    device = ops_of(load(CudaSettings(cache_bytes=0, ring_experts=2))).device
    least = device.info.total_bytes - device.free_bytes() + OTHER_SCRATCH_BYTES + GRAPH_BYTES
    for taken in range(least, least + (4 << 20), 1 << 17):
        reserve = device.info.total_bytes - taken
        model = load(CudaSettings(reserve_bytes=reserve, ring_experts=2))
        seen.add(sum(num_slots(model)))
        assert ops_of(model).device.free_bytes() > reserve
        decoded(model, 40)
        assert ops_of(model).device.free_bytes() > reserve
    assert len(seen) > 3
    assert {0, 64} < seen


def test_the_draft_heads_experts_come_before_those_of_the_layers():
    settings = CudaSettings(cache_bytes=expert_bytes() // 2, ring_experts=1)
    model = load(settings, mtp="full-mtp")
    *layers, draft = num_slots(model)
    assert draft == 16
    assert 0 < sum(layers) < 64


def test_a_card_with_less_room_than_it_says_gets_a_smaller_cache():
    least = load(CudaSettings(cache_bytes=0))
    has = ops_of(least).device.info.total_bytes - ops_of(least).device.free_bytes()

    class Boaster(PlainDevice):
        def alloc(self, num_bytes):
            if self.used_bytes + num_bytes > has + expert_bytes() // 2:
                raise DeviceMemoryError("The card has no room.")
            return super().alloc(num_bytes)

    limits = golden_limits()
    ops = CudaOps(limits.for_ops(), Boaster(), CudaSettings(cache_bytes=4 << 20), plain_launches)
    model = Model.load(model_file(CASE), ops, limits)
    assert 0 < sum(num_slots(model)) < 64


def test_a_pass_that_lacks_memory_is_done_again_with_fewer_experts_on_the_card(caplog):
    device = PlainDevice()
    limits = golden_limits()
    ops = CudaOps(limits.for_ops(), device, CudaSettings(), plain_launches)
    model = Model.load(model_file(CASE), ops, limits)
    sequence = model.new_sequence()
    first = run_tokens(model, sequence, tokens()[:8], 4)
    device.taken_bytes = device.free_bytes() - 60_000  # a game; the longer pass needs scratch
    rest = run_tokens(model, sequence, tokens()[8:], 32)
    wanted = arrays(CASE)["logits"][:NUM_TOKENS]
    assert np.abs(np.concatenate([first, rest]) - wanted).max() < 1e-4
    assert 0 < sum(num_slots(model)) < 64
    assert "fewer experts are kept on the card" in caplog.text
    device.taken_bytes += device.free_bytes()
    ops.moe_work.resize(0)
    device.taken_bytes += device.free_bytes()
    with pytest.raises(DeviceMemoryError):
        run_tokens(model, model.new_sequence(), tokens() * 2, 80)


def test_a_finished_pass_finds_room_for_the_streams_that_its_sequences_keep():
    device = PlainDevice()
    limits = golden_limits()
    ops = CudaOps(limits.for_ops(), device, CudaSettings(), plain_launches)
    model = Model.load(model_file(CASE), ops, limits)
    sequence = model.new_sequence()
    first = run_tokens(model, sequence, tokens()[:8], 1)
    copied = DeviceArray.copy

    def copy(array: DeviceArray) -> DeviceArray:
        if sum(num_slots(model)) == 64:
            device.taken_bytes += device.free_bytes()  # a game has taken what was given back
            raise DeviceMemoryError("The card has no room.")
        return copied(array)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DeviceArray, "copy", copy)
        rest = run_tokens(model, sequence, tokens()[8:12], 1)
    wanted = arrays(CASE)["logits"][:12]
    assert np.abs(np.concatenate([first, rest]) - wanted).max() < 1e-4
    assert 0 < sum(num_slots(model)) < 64


def test_counts_of_earlier_answers_choose_the_slots():
    counts = [np.zeros(16, np.float32) for _ in range(4)]
    counts[2][[3, 9]] = 50
    counts[0][5] = 1
    model = load(CudaSettings(cache_bytes=1, ring_experts=1))
    memory = ops_of(model).moe_work.memory
    assert memory is not None
    one = memory.most_slot_bytes
    settings = CudaSettings(cache_bytes=(2 + 3) * one, ring_experts=1, counts=counts)
    model = load(settings)
    memory = ops_of(model).moe_work.memory
    assert memory is not None
    assert memory.cache.slot_of[2][[3, 9]].min() >= 0
    assert memory.cache.slot_of[0][5] >= 0
    assert sum(num_slots(model)) == 3


@pytest.mark.parametrize("ring", [1, 3, 16])
def test_a_prompt_has_each_expert_copied_once_that_has_no_slot(ring):
    model = load(CudaSettings(cache_bytes=expert_bytes() // 2, ring_experts=ring))
    memory = ops_of(model).moe_work.memory
    assert memory is not None
    copied = memory.mover.num_bytes
    decoded(model, NUM_TOKENS)  # which want all experts
    missing = 4 * 16 - sum(num_slots(model))
    assert memory.mover.num_bytes - copied == missing * memory.most_slot_bytes


@pytest.mark.parametrize("copy_bytes", [0, 400_000, 1 << 30])
def test_experts_in_locked_memory_give_the_same_bits(copy_bytes, caplog):
    whole = decoded(load(CudaSettings()), 40)
    settings = CudaSettings(
        cache_bytes=0, pcie_frac=1.0, pins_experts=True, pinned_copy_bytes=copy_bytes
    )
    model = load(settings)  # this card locks nothing in place
    np.testing.assert_array_equal(decoded(model, 40), whole)
    np.testing.assert_array_equal(decoded(model, 1), decoded(load(CudaSettings()), 1))
    assert caplog.text.count("refuses to lock the experts") == 1
    ops_of(model).close()


@pytest.mark.parametrize("chunk", [1, 40])
def test_the_share_of_copies_can_be_changed_while_the_model_is_loaded(chunk):
    whole = decoded(load(CudaSettings()), chunk)
    model = load(CudaSettings(cache_bytes=0))
    ops = ops_of(model)
    loaded = decoded(model, chunk)
    ops.tune({"pcie_frac": 1.0, "spec_min_p": 0.5})
    times, memory = ops.moe_work.times, ops.moe_work.memory
    assert memory is not None
    computed, moved = times.computed_s, memory.mover.num_bytes
    np.testing.assert_array_equal(decoded(model, chunk), whole)  # the card computed everything
    assert times.computed_s == computed
    assert memory.mover.num_bytes > moved
    ops.tune({})
    np.testing.assert_array_equal(decoded(model, chunk), loaded)
    assert (times.computed_s > computed) is (chunk == 1)


def test_closing_gives_everything_back():
    model = load(CudaSettings(cache_bytes=1 << 21))
    decoded(model, 4)
    ops = ops_of(model)
    device = ops.device
    ops.close()
    ops.close()
    del model, ops
    gc.collect()
    assert isinstance(device, PlainDevice)
    assert device.is_closed


@pytest.mark.parametrize("pcie_frac", [-0.1, 1.5])
def test_a_share_that_is_none_is_refused(pcie_frac):
    with pytest.raises(ValueError, match="share"):
        CudaSettings(pcie_frac=pcie_frac)


def test_passes_of_a_draft_head_do_not_count_as_rounds():
    model = load(
        CudaSettings(cache_bytes=1 << 20, rounds_between_swaps=1, pcie_frac=1.0), mtp="full-mtp"
    )
    memory = ops_of(model).moe_work.memory
    assert memory is not None
    calls = []
    begin_round = memory.begin_round
    memory.begin_round = lambda: (calls.append(1), begin_round())  # type: ignore[method-assign]
    assert model.mtp is not None
    sequence = model.new_sequence()
    for _ in range(3):  # the first is recorded, which computes it twice
        result = forward(model, sequence, [1, 2, 3], LogitsWanted.LAST)
    sequence.commit(3)
    calls.clear()
    model.mtp.forward([DraftEntry(sequence, result.streams.copy(), [2, 3, 4])])
    model.mtp.forward([DraftEntry(sequence, result.streams.copy()[-1:], [4])])
    assert len(calls) == 1


@pytest.mark.parametrize("chunk", [1, 40])
@pytest.mark.parametrize("pcie_frac", [0.0, 0.4])
def test_every_expert_that_is_read_in_the_file_is_told_before(monkeypatch, pcie_frac, chunk):
    settings = CudaSettings(
        cache_bytes=expert_bytes() // 3 + 60_000,
        ring_experts=3,
        pcie_frac=pcie_frac,
        host_rows=8,
    )
    model = load(settings)
    plain = decoded(model, chunk)
    work = ops_of(model).moe_work
    memory = work.memory
    assert memory is not None
    told: set[tuple[int, int]] = set()
    read: list[tuple[int, int]] = []
    unexpected: list[tuple[int, int]] = []

    def note(layer_idx: int, experts: np.ndarray) -> None:
        found = [(layer_idx, int(one)) for one in np.unique(experts) if one >= 0]
        read.extend(found)
        unexpected.extend(one for one in found if one not in told)

    layers = {id(layer.host): layer.index for layer in work._layers.values()}
    sources = {id(layer.source): layer.index for layer in work._layers.values()}
    compute, copy = work._host.experts, memory.mover.put_all

    def computed(weights, x, ids, *more):
        note(layers[id(weights)], ids)
        compute(weights, x, ids, *more)

    def copied(source, experts, bank):
        note(sources[id(source)], np.array(experts))
        copy(source, experts, bank)

    monkeypatch.setattr(work._host, "experts", computed)
    monkeypatch.setattr(memory.mover, "put_all", copied)

    def tell(layer_idx: int, experts: np.ndarray) -> None:
        told.update((layer_idx, int(one)) for one in experts.reshape(-1) if one >= 0)

    assert ops_of(model).watch_reads(tell)
    # Which processor computes an expert changes meanwhile, and with it the rounding.
    assert np.abs(decoded(model, chunk) - plain).max() < 1e-4
    assert len({layer for layer, _ in read}) == 4
    assert unexpected == []
    assert len(told) < 4 * 16  # what the card holds is not told


def test_a_file_that_cannot_be_read_is_an_error_of_that_pass_and_the_next_one_is_right():
    model = load(CudaSettings(cache_bytes=0, host_rows=8))
    plain = decoded(model, 1)

    def fail(layer_idx: int, experts: np.ndarray) -> None:
        if layer_idx == 2:
            raise ModelFileError("The drive is gone.")

    ops_of(model).watch_reads(fail)
    with pytest.raises(ModelFileError, match="drive is gone"):
        decoded(model, 1)
    ops_of(model).watch_reads(None)
    assert np.array_equal(decoded(model, 1), plain)


@pytest.mark.parametrize("pcie_frac", [0.0, 0.5])
def test_the_cpu_computes_what_the_card_lacks_of_a_short_prompt_and_the_bus_brings_it_of_a_long_one(
    pcie_frac,
):
    settings = CudaSettings(
        cache_bytes=expert_bytes() // 3 + 60_000, ring_experts=3, pcie_frac=pcie_frac, host_rows=32
    )
    model = load(settings)
    work, memory = ops_of(model).moe_work, ops_of(model).moe_work.memory
    assert memory is not None
    wanted = arrays(CASE)["logits"][:NUM_TOKENS]
    seen = []
    for chunk in (40, 30):  # 30 + 10
        layers, copied = work.times.num_layers, memory.mover.num_bytes
        assert np.abs(decoded(model, chunk) - wanted).max() < 1e-4
        seen.append((work.times.num_layers - layers, memory.mover.num_bytes - copied))
    (long_layers, long_bytes), (short_layers, short_bytes) = seen
    assert long_layers == 0
    assert short_layers >= 8  # four for each pass; a recorded one is computed twice the first time
    assert short_bytes < long_bytes
