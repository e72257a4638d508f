"""Sequences: batches, partial commits, checkpoints and abandoned passes, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from engine.core.errors import InputError, ResourceError
from engine.device.array import host_copy
from engine.model.trunk import Model
from engine.sequence.batch import Batch, BatchEntry, LogitsWanted
from engine.sequence.state import SequenceState
from tests.support.golden import OPS_NAMES, arrays, forward, load_golden, run_tokens

CASES = ("full", "odd", "quant-Q4_K_M")
WINDOW = 8
pytestmark = pytest.mark.parametrize("ops_name", OPS_NAMES)


def tokens_of(case: str) -> list[int]:
    return arrays(case)["tokens"].tolist()


def state_bits(model: Model, sequence: SequenceState) -> list[np.ndarray]:
    """Copies of everything that a sequence remembers, down to its length."""
    parts = [host_copy(a) for a in model.store.fixed_arrays(sequence.slot, sequence.half)]
    n = sequence.length
    for pool in model.store.kv:
        for cache in (pool.keys, pool.values, pool.index_raw):
            stored = host_copy(cache)[sequence.pages.pages]
            parts.append(stored.reshape(-1, *stored.shape[2:])[:n].copy())
        stored = host_copy(pool.index_pooled)[sequence.pages.pages]
        num_blocks = n // model.config.block_ratio
        parts.append(stored.reshape(-1, stored.shape[-1])[:num_blocks].copy())
    parts.append(np.array([n, *sequence.token_tail, len(sequence.rope), sequence.rope.next]))
    if sequence.last_streams is not None:
        parts.append(host_copy(sequence.last_streams))
    return parts


def assert_same_bits(got: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    assert len(got) == len(wanted)
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("case", CASES)
def test_two_sequences_in_one_batch_give_the_bits_that_each_gives_alone(case, ops_name):
    model = load_golden(case, ops_name)
    tokens = tokens_of(case)
    parts = [(tokens[:70], tokens[20:25]), (tokens[70:71], tokens[25:95]), (tokens[71:74], [5])]

    def run_alone(which: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
        sequence = model.new_sequence()
        logits = [run_tokens(model, sequence, part[which]) for part in parts]
        bits = state_bits(model, sequence)
        sequence.release()
        return logits, bits

    alone = [run_alone(0), run_alone(1)]
    spare = model.new_sequence()  # so that both get other slots and pages than alone
    spare.begin_pass([1] * 40, None)
    pair = [model.new_sequence(), model.new_sequence()]
    for step, part in enumerate(parts):
        entries = [BatchEntry(pair[i], part[i], LogitsWanted.ALL) for i in (1, 0)]
        result = model.forward(Batch(entries))
        np.testing.assert_array_equal(result.logits_of(0), alone[1][0][step])
        np.testing.assert_array_equal(result.logits_of(1), alone[0][0][step])
        for i in (0, 1):
            pair[i].commit(len(part[i]))
    for i in (0, 1):
        assert_same_bits(state_bits(model, pair[i]), alone[i][1])


@pytest.mark.parametrize("case", CASES)
def test_committing_n_of_a_window_is_having_decoded_n_tokens(case, ops_name):
    model = load_golden(case, ops_name)
    tokens = tokens_of(case)
    start = 58  # the window crosses index blocks, a page of 32 and a position of 64
    window, after = tokens[start : start + WINDOW], tokens[start + WINDOW : start + WINDOW + 3]
    decoded = model.new_sequence()
    run_tokens(model, decoded, tokens[:start])
    prompt = decoded.snapshot()
    logits_alone = []
    for n in range(WINDOW + 1):
        if n:
            logits_alone.append(run_tokens(model, decoded, window[n - 1 : n])[0])
        wanted = state_bits(model, decoded)
        here = decoded.snapshot()
        wanted_next = run_tokens(model, decoded, after)

        tried = model.new_sequence()
        tried.restore(prompt)
        logits = forward(model, tried, window).logits
        np.testing.assert_array_equal(
            logits[:n], np.array(logits_alone).reshape(n, logits.shape[1])
        )
        tried.commit(n)
        assert tried.length == start + n
        assert_same_bits(state_bits(model, tried), wanted)
        np.testing.assert_array_equal(run_tokens(model, tried, after), wanted_next)
        tried.release()
        decoded.restore(here)
        here.release()


@pytest.mark.parametrize("case", CASES)
def test_a_restored_checkpoint_continues_bit_for_bit(case, ops_name):
    model = load_golden(case, ops_name)
    tokens = tokens_of(case)
    sequence = model.new_sequence()
    run_tokens(model, sequence, tokens[:45])  # in the middle of a page
    checkpoint = sequence.snapshot()
    wanted_bits = state_bits(model, sequence)
    wanted = run_tokens(model, sequence, tokens[45:60])

    other = model.new_sequence()
    other.restore(checkpoint)
    run_tokens(model, other, tokens[60:75])  # something else: must not touch the shared page
    sequence.restore(checkpoint)
    assert_same_bits(state_bits(model, sequence), wanted_bits)
    np.testing.assert_array_equal(run_tokens(model, sequence, tokens[45:60]), wanted)
    assert checkpoint.num_bytes > 0
    for holder in (sequence, other, checkpoint):
        holder.release()
        holder.release()
    assert model.store.pages.num_free == model.store.pages.num_pages


@pytest.mark.parametrize("case", CASES)
def test_sequences_that_share_a_page_do_not_see_each_others_tokens(case, ops_name):
    model = load_golden(case, ops_name)
    tokens = tokens_of(case)
    sequence, other = model.new_sequence(), model.new_sequence()
    run_tokens(model, sequence, tokens[:45])  # in the middle of a page
    checkpoint = sequence.snapshot()
    run_tokens(model, sequence, tokens[45:55])
    wanted = run_tokens(model, sequence, tokens[55:70])

    sequence.restore(checkpoint)
    other.restore(checkpoint)
    assert sequence.pages.pages == other.pages.pages
    run_tokens(model, sequence, tokens[45:55])
    run_tokens(model, other, tokens[70:80])
    assert sequence.pages.pages[0] == other.pages.pages[0]
    assert sequence.pages.pages[1] != other.pages.pages[1]
    np.testing.assert_array_equal(run_tokens(model, sequence, tokens[55:70]), wanted)


@pytest.mark.parametrize("leave_after", [0, 2, 3])
def test_an_abandoned_pass_leaves_no_trace(leave_after, ops_name):
    model = load_golden("full", ops_name)
    tokens = tokens_of("full")
    sequence = model.new_sequence()
    run_tokens(model, sequence, tokens[:50])
    bits, num_free = state_bits(model, sequence), model.store.pages.num_free
    layers = model.layers(Batch([BatchEntry(sequence, tokens[90:160])]))
    for layer_idx in layers:
        if layer_idx == leave_after:
            break
    layers.close()
    assert_same_bits(state_bits(model, sequence), bits)
    assert model.store.pages.num_free == num_free
    fresh = model.new_sequence()
    run_tokens(model, fresh, tokens[:50])
    wanted = run_tokens(model, fresh, tokens[50:80])
    np.testing.assert_array_equal(run_tokens(model, sequence, tokens[50:80]), wanted)


def test_a_pass_left_open_goes_on_after_another_sequences_pass(ops_name):
    model = load_golden("full", ops_name)
    tokens = tokens_of("full")
    wanted = run_tokens(model, model.new_sequence(), tokens[:40])
    long, short = model.new_sequence(), model.new_sequence()
    batch = Batch([BatchEntry(long, tokens[:40], LogitsWanted.ALL)])
    layers = model.layers(batch, model.new_buffers())
    next(layers)
    run_tokens(model, short, tokens[40:60])
    while True:
        try:
            next(layers)
        except StopIteration as end:
            np.testing.assert_array_equal(end.value.logits, wanted)
            break
    long.commit(40)


def test_a_commit_after_another_sequences_pass_keeps_its_own_streams(ops_name):
    model = load_golden("full", ops_name)
    tokens = tokens_of("full")
    first, second, alone = (model.new_sequence() for _ in range(3))
    run_tokens(model, alone, tokens[:3])
    forward(model, first, tokens[:6])
    forward(model, second, tokens[50:80])
    first.commit(3)
    second.commit(30)
    assert_same_bits(state_bits(model, first), state_bits(model, alone))


def test_a_pass_whose_sequence_was_released_meanwhile_cannot_touch_its_successor(ops_name):
    model = load_golden("full", ops_name)
    tokens = tokens_of("full")
    wanted = run_tokens(model, model.new_sequence(), tokens[:40])
    sequence = model.new_sequence()
    layers = model.layers(Batch([BatchEntry(sequence, tokens[90:120])]), model.new_buffers())
    next(layers)
    slot = sequence.slot
    sequence.release()
    successor = model.new_sequence()
    assert successor.slot == slot
    forward(model, successor, tokens[:40], LogitsWanted.NONE)
    with pytest.raises(RuntimeError, match="released or began another pass"):
        next(layers)
    successor.commit(40)
    after = run_tokens(model, successor, tokens[40:50])
    again = model.new_sequence()
    np.testing.assert_array_equal(run_tokens(model, again, tokens[:40]), wanted)
    np.testing.assert_array_equal(run_tokens(model, again, tokens[40:50]), after)


def test_a_forgotten_pass_that_is_closed_late_leaves_the_newer_one_alone(ops_name):
    model = load_golden("full", ops_name)
    tokens = tokens_of("full")
    sequence = model.new_sequence()
    layers = model.layers(Batch([BatchEntry(sequence, tokens[:20])]))
    next(layers)
    forward(model, sequence, tokens[20:28])
    layers.close()
    sequence.commit(8)
    assert sequence.length == 8


def test_a_pass_whose_buffers_were_taken_by_another_cannot_go_on(ops_name):
    model = load_golden("full", ops_name)
    first, second = model.new_sequence(), model.new_sequence()
    layers = model.layers(Batch([BatchEntry(first, [1, 2, 3])]))
    next(layers)
    forward(model, second, [4, 5])
    with pytest.raises(RuntimeError, match="buffers"):
        next(layers)


def test_an_uncommitted_pass_is_forgotten_by_the_next(ops_name):
    model = load_golden("full", ops_name)
    tokens = tokens_of("full")
    sequence = model.new_sequence()
    run_tokens(model, sequence, tokens[:20])
    forward(model, sequence, tokens[100:108])
    got = forward(model, sequence, tokens[20:28]).logits.copy()
    sequence.commit(8)
    np.testing.assert_array_equal(got, run_tokens(model, model.new_sequence(), tokens[:28])[20:28])


def test_what_cannot_be_committed_is_refused(ops_name):
    model = load_golden("full", ops_name)
    sequence = model.new_sequence()
    with pytest.raises(RuntimeError, match="no finished pass"):
        sequence.commit(1)
    forward(model, sequence, tokens_of("full")[: WINDOW + 1])
    with pytest.raises(ValueError, match="only as a whole"):
        sequence.commit(3)
    with pytest.raises(ValueError, match="cannot commit 10 of 9"):
        sequence.commit(10)
    sequence.commit(WINDOW + 1)
    with pytest.raises(RuntimeError, match="no finished pass"):
        sequence.commit(1)


def test_a_sequence_longer_than_the_context_is_refused_and_unharmed(ops_name):
    model = load_golden("full", ops_name, context=64)
    sequence = model.new_sequence()
    run_tokens(model, sequence, tokens_of("full")[:60])
    bits = state_bits(model, sequence)
    with pytest.raises(InputError, match="would have 65 tokens, but the context is 64"):
        forward(model, sequence, tokens_of("full")[60:65])
    assert_same_bits(state_bits(model, sequence), bits)
    run_tokens(model, sequence, tokens_of("full")[60:64])


def test_a_full_cache_refuses_a_whole_batch_and_harms_nobody(ops_name):
    model = load_golden("full", ops_name, kv_pages=3)
    tokens = tokens_of("full")
    first, second = model.new_sequence(), model.new_sequence()
    run_tokens(model, first, tokens[:60])
    bits = state_bits(model, first)
    entries = [BatchEntry(second, tokens[:20]), BatchEntry(first, tokens[60:70])]
    with pytest.raises(ResourceError, match="96 token places are in use"):
        model.forward(Batch(entries))
    assert_same_bits(state_bits(model, first), bits)
    assert model.store.pages.num_free == 1
    run_tokens(model, second, tokens[:20])


def test_more_sequences_than_slots_are_refused_until_one_is_released(ops_name):
    model = load_golden("full", ops_name)
    sequences = [model.new_sequence() for _ in range(3)]
    with pytest.raises(ResourceError, match="All places"):
        model.new_sequence()
    run_tokens(model, sequences[1], tokens_of("full")[:30])
    sequences[1].release()
    with pytest.raises(RuntimeError, match="released"):
        forward(model, sequences[1], [1])
    again = model.new_sequence()  # a used slot starts empty
    np.testing.assert_array_equal(
        run_tokens(model, again, tokens_of("full")[:30]),
        run_tokens(model, sequences[0], tokens_of("full")[:30]),
    )


@pytest.mark.parametrize("token_id", [-1, 384, 1 << 40])
def test_a_token_outside_of_the_vocabulary_is_refused(token_id, ops_name):
    model = load_golden("full", ops_name)
    with pytest.raises(InputError, match=f"token id {token_id} is not in"):
        forward(model, model.new_sequence(), [3, token_id])
