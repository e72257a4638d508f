"""Layers on several cards: the same bits as on one, whatever their sizes."""

from __future__ import annotations

import gc
from collections.abc import Callable

import numpy as np
import pytest

from engine.device.base import Device
from engine.device.emulated import EmulatedDevice
from engine.device.emulated_work import Timing
from engine.model.mtp import DraftEntry
from engine.model.trunk import Model
from engine.ops.cuda import CudaOps
from engine.ops.cuda_launches import make_launches
from engine.ops.cuda_settings import CudaSettings
from engine.ops.cuda_split import CardShare, SplitOps
from engine.sequence.batch import Batch, BatchEntry, LogitsWanted
from engine.sequence.saved_sessions import read_sessions, save_sessions
from engine.sequence.session_visit import Visit
from engine.sequence.sessions import Sessions
from tests.support.golden import arrays, forward, golden_limits, model_file, run_tokens
from tests.support.plain_device import PlainDevice
from tests.support.plain_launches import plain_launches
from tests.support.quick_balance import quicken

slow = pytest.mark.slow
SMALL = "quant-IQ2_XS"  # of 2 layers; `full` has 4
PCIE = CudaSettings(pcie_frac=1.0)  # the card computes all experts: one arithmetic

NewDevice = Callable[[int], Device]


def plain(number: int) -> PlainDevice:
    return PlainDevice((1 << 30) >> number)


def emulated(number: int) -> EmulatedDevice:
    return EmulatedDevice((1 << 29) >> number, seed=number, name=f"Emulated card {number}")


def load(
    case: str,
    shares: tuple[int, ...],
    new_device: NewDevice = plain,
    settings: CudaSettings = PCIE,
    mtp: str | None = None,
) -> Model:
    """A model on one card for each share of its layers."""
    limits = golden_limits(max_rows=64)
    launches = plain_launches if new_device is plain else make_launches
    head = None if mtp is None else model_file(mtp)
    if len(shares) == 1:
        ops = CudaOps(limits.for_ops(), new_device(0), settings, launches)
    else:
        cards = [CardShare(new_device(i), n, settings) for i, n in enumerate(shares)]
        ops = SplitOps(limits.for_ops(), cards, launches)
    return Model.load(model_file(case), ops, limits, mtp_file=head)


def split_of(model: Model) -> SplitOps:
    assert isinstance(model.ops, SplitOps)
    return model.ops


def tokens_of(case: str, count: int) -> list[int]:
    return arrays(case)["tokens"][:count].tolist()


def everything(model: Model, case: str) -> list[np.ndarray]:
    """Logits of a prompt, of steps, of windows that are committed in part, and of a copy."""
    tokens = tokens_of(case, 48)
    first, second = model.new_sequence(), model.new_sequence()
    found = [run_tokens(model, first, tokens[:30], 30), run_tokens(model, first, tokens[30:33], 1)]
    for window, accepted in (([*tokens[33:35], 3, 4], 2), ([*tokens[35:40], 9, 9], 5)):
        found.append(forward(model, first, window).logits.copy())
        first.commit(accepted)
    second.restore(first.snapshot())
    found += [run_tokens(model, one, tokens[40:48], 4) for one in (first, second)]
    for sequence in (first, second):
        sequence.release()
    return found


def assert_same(found: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("case", "shares"),
    [
        *(("full", shares) for shares in ((1, 3), (2, 2), (3, 1), (1, 2, 1), (1, 1, 1, 1))),
        (SMALL, (1, 1)),
    ],
)
def test_layers_on_several_cards_give_the_bits_of_one_card(case, shares):
    wanted = everything(load(case, (sum(shares),)), case)
    assert_same(everything(load(case, shares), case), wanted)


@pytest.mark.parametrize(
    ("case", "shares"),
    [(SMALL, (1, 1)), *(pytest.param("full", s, marks=slow) for s in ((3, 1), (1, 3), (1, 2, 1)))],
)
def test_emulated_cards_of_several_sizes_give_the_bits_of_one(case, shares):
    wanted = everything(load(case, (sum(shares),), emulated), case)
    model = load(case, shares, emulated)
    assert_same(everything(model, case), wanted)
    model.ops.close()


@pytest.mark.parametrize("timing", [Timing.EAGER, Timing.LATE])
def test_streams_wait_for_the_card_before_whenever_work_is_done(timing):
    def device(number: int) -> EmulatedDevice:
        return EmulatedDevice(1 << 28, seed=number, timing=timing)

    wanted = everything(load(SMALL, (2,), device), SMALL)
    assert_same(everything(load(SMALL, (1, 1), device), SMALL), wanted)


def test_each_card_holds_its_own_layers():
    model = load("full", (1, 3), settings=CudaSettings())
    ops = split_of(model)
    first, second = ops.cards
    memories = [card.moe_work.memory for card in ops.cards]
    assert [len(m.cache.num_slots) for m in memories if m is not None] == [1, 3]
    for index, layer in enumerate(model.trunk_layers):
        own = first if index == 0 else second
        other = second if index == 0 else first
        pool = layer.pool
        for array in (getattr(pool, name) for name in pool.__dataclass_fields__):
            if hasattr(array, "space"):
                assert own.holds(array)
                assert not other.holds(array)
        assert own.holds(layer.weights.moe.router.data)


@pytest.mark.parametrize("new_device", [plain, pytest.param(emulated, marks=slow)])
def test_the_draft_head_lies_on_the_last_card_and_drafts_the_same(new_device):
    drafts = []
    for shares in ((4,), (2, 2)):
        model = load("full", shares, new_device, mtp="full-mtp")
        assert model.mtp is not None
        sequence = model.new_sequence()
        result = forward(model, sequence, [1, 2, 3])
        sequence.commit(3)
        drafted = model.mtp.forward([DraftEntry(sequence, result.streams.copy(), [2, 3, 4])])
        again = model.mtp.forward([DraftEntry(sequence, drafted.streams.copy()[-1:], [4])])
        drafts.append([drafted.logits.copy(), again.logits.copy()])
        if len(shares) == 2:
            last = split_of(model).cards[-1].moe_work.memory
            assert last is not None
            assert len(last.cache.num_slots) == 3  # two layers and the head
    assert_same(drafts[1], drafts[0])


def test_a_pass_that_is_left_on_the_second_card_leaves_nothing_behind():
    model = load("full", (2, 2))
    tokens = tokens_of("full", 40)
    sequence = model.new_sequence()
    run_tokens(model, sequence, tokens[:8])
    for layer_idx in model.layers(Batch([BatchEntry(sequence, tokens[8:40])])):
        if layer_idx == 2:
            break
    got = run_tokens(model, sequence, tokens[8:12])
    single = load("full", (4,))
    other = single.new_sequence()
    run_tokens(single, other, tokens[:8])
    np.testing.assert_array_equal(got, run_tokens(single, other, tokens[8:12]))


@pytest.mark.parametrize("seed", [0, 1, 5])
def test_two_passes_that_cross_a_boundary_at_once_do_not_meet_there(seed):
    def device(number: int) -> EmulatedDevice:
        return EmulatedDevice(1 << 28, seed=2 * seed + number)

    model = load(SMALL, (1, 1), device)
    parts = [tokens_of(SMALL, 40)[:20], tokens_of(SMALL, 40)[20:]]  # too long to be recorded
    wanted = []
    for part in parts:
        sequence = model.new_sequence()
        wanted.append(forward(model, sequence, part).logits.copy())
        sequence.release()
    lane = model.new_lane(32)
    sequences = [model.new_sequence() for _ in parts]
    batches = [
        Batch([BatchEntry(s, part, LogitsWanted.ALL)])
        for s, part in zip(sequences, parts, strict=True)
    ]
    first, second = model.layers(batches[0]), lane.layers(batches[1])
    assert next(first) == 0
    assert [next(second), next(second)] == [0, 1]  # its streams may still be under way
    assert next(first) == 1
    for passing, want in ((first, wanted[0]), (second, wanted[1])):
        with pytest.raises(StopIteration) as end:
            next(passing)
        np.testing.assert_array_equal(end.value.value.logits, want)


def read_prompt(model: Model, sessions: Sessions, prompt: list[int]) -> tuple[int, np.ndarray]:
    """Read what is not warm of a prompt, and leave it warm: where that began, the last logits."""
    visit = Visit(sessions, tuple(prompt), 0, len(prompt))
    state = model.new_sequence()
    visit.resume(state)
    began, logits = state.length, np.empty(0)
    while state.length < len(prompt):
        stop = min(visit.next_stop(state.length), state.length + 32)
        logits = forward(model, state, prompt[state.length : stop]).logits[-1].copy()
        state.commit(stop - state.length)
        visit.note(state)
    visit.end(state, prompt)
    state.release()
    return began, logits


def test_conversations_that_one_card_saved_go_on_with_two_bit_for_bit(tmp_path):
    path, tokens = tmp_path / "saved", tokens_of("full", 60)
    results = []
    for shares in ((4,), (1, 3)):
        model = load("full", shares)
        sessions = Sessions(model.store.pages, 1 << 30, model.store.page_bytes)
        if len(shares) == 1:
            read_prompt(model, sessions, tokens[:40])
            save_sessions(path, "key", sessions, model.store, 1 << 30)
        else:
            assert read_sessions(path, "key", sessions, model.store).checkpoints
        results.append(read_prompt(model, sessions, tokens))
    assert results[0][0] == results[1][0] > 0
    np.testing.assert_array_equal(results[1][1], results[0][1])


def test_choices_are_counted_by_the_numbers_of_the_models_layers():
    model = load("full", (1, 3), settings=CudaSettings(cache_bytes=0))
    seen: dict[int, int] = {}

    def count(layer_idx: int, expert_ids: np.ndarray) -> None:
        seen[layer_idx] = seen.get(layer_idx, 0) + expert_ids.size

    assert model.ops.count_choices(count)
    run_tokens(model, model.new_sequence(), tokens_of("full", 8), 1)
    assert sorted(seen) == [0, 1, 2, 3]


def test_learned_counts_reach_the_card_of_their_layer():
    counts = [np.zeros(16, np.float32) for _ in range(4)]
    counts[0][5] = counts[2][[3, 9]] = 50
    one = load("full", (4,), settings=CudaSettings(cache_bytes=0)).ops
    assert isinstance(one, CudaOps)
    assert one.moe_work.memory is not None
    slot = one.moe_work.memory.most_slot_bytes
    settings = CudaSettings(cache_bytes=4 * slot, ring_experts=1, counts=counts)
    first, second = split_of(load("full", (1, 3), settings=settings)).cards
    assert first.moe_work.memory is not None
    assert second.moe_work.memory is not None
    assert first.moe_work.memory.cache.slot_of[0][5] >= 0
    assert second.moe_work.memory.cache.slot_of[1][[3, 9]].min() >= 0


def test_a_game_gets_memory_of_the_card_that_it_runs_on_and_every_card_has_its_turn(monkeypatch):
    quicken(monkeypatch)
    reserve = 16 << 20
    settings = CudaSettings(pcie_frac=1.0, reserve_bytes=reserve)
    model = load("full", (2, 2), settings=settings)
    ops = split_of(model)
    wanted = everything(model, "full")
    whole = [card.moe_work.slot_bytes for card in ops.cards]
    for game, card in enumerate(ops.cards):
        device = card.device
        assert isinstance(device, PlainDevice)
        device.taken_bytes = device.free_bytes() - reserve + whole[game] // 2
        ops.balance_memory()
        slots = [one.moe_work.slot_bytes for one in ops.cards]
        assert 0 < slots[game] < whole[game]
        assert slots[1 - game] == whole[1 - game]
        assert_same(everything(model, "full"), wanted)
        device.taken_bytes = 0
        for _ in range(3):
            ops.balance_memory()
        assert [one.moe_work.slot_bytes for one in ops.cards] == whole
    assert_same(everything(model, "full"), wanted)


def test_a_card_that_runs_out_gets_fewer_experts_and_the_pass_is_done_again(caplog):
    model = load("full", (2, 2))
    device = split_of(model).cards[1].device
    assert isinstance(device, PlainDevice)
    sequence = model.new_sequence()
    tokens = tokens_of("full", 40)
    first = run_tokens(model, sequence, tokens[:8], 4)
    device.taken_bytes = device.free_bytes() - 60_000
    rest = run_tokens(model, sequence, tokens[8:], 32)
    wanted = arrays("full")["logits"][:40]
    assert np.abs(np.concatenate([first, rest]) - wanted).max() < 1e-4
    assert "fewer experts are kept on the card" in caplog.text


def test_what_is_tuned_is_tuned_on_every_card():
    model = load("full", (2, 2), settings=CudaSettings(cache_bytes=0))
    times = [card.moe_work.times for card in split_of(model).cards]
    run_tokens(model, model.new_sequence(), tokens_of("full", 8), 2)
    computed = [one.computed_s for one in times]
    assert min(computed) > 0
    model.ops.tune({"pcie_frac": 1.0})  # the processor has nothing left to compute
    run_tokens(model, model.new_sequence(), tokens_of("full", 8), 2)
    assert [one.computed_s for one in times] == computed


def test_closing_closes_every_card():
    model = load("full", (1, 1, 2))
    ops = split_of(model)
    run_tokens(model, model.new_sequence(), tokens_of("full", 8), 4)
    ops.close()
    ops.close()
    devices = [card.device for card in ops.cards]
    del model, ops
    gc.collect()
    assert all(isinstance(device, PlainDevice) and device.is_closed for device in devices)


@pytest.mark.parametrize("shares", [(4,), (0, 4), (5, -1)])
def test_a_split_that_is_none_is_refused(shares):
    limits = golden_limits().for_ops()
    with pytest.raises(ValueError, match="several cards"):
        SplitOps(limits, [CardShare(plain(0), n, PCIE) for n in shares], plain_launches)


def test_a_split_for_another_model_is_refused():
    with pytest.raises(ValueError, match="4 layers on cards for 5"):
        load("full", (2, 3))
