"""Passes over more rows of a prompt than the usual 256, kernels included, on an emulated card."""

from __future__ import annotations

import numpy as np
import pytest

from engine.core.model_sizes import activation_row_bytes, expert_scratch_row_bytes
from engine.device.emulated import EmulatedDevice
from engine.model.trunk import Model
from engine.ops.cuda import CudaOps
from engine.ops.cuda_settings import CudaSettings
from engine.sequence.batch import Batch, BatchEntry, LogitsWanted
from tests.support.golden import forward, golden_limits, model_file, run_tokens

SMALL = "quant-IQ2_XS"
COUNT = 600


def load(case: str, max_rows: int) -> Model:
    limits = golden_limits(max_rows=max_rows, context=1024)
    # Few slots: most experts pass through the ring.
    settings = CudaSettings(cache_bytes=150_000, rounds_between_swaps=1000)
    ops = CudaOps(limits.for_ops(), EmulatedDevice(1 << 30, seed=max_rows), settings)
    return Model.load(model_file(case), ops, limits)


def prompt(model: Model) -> list[int]:
    tokens: list[int] = (
        np.random.default_rng(3).integers(0, model.config.vocab_size, COUNT).tolist()
    )
    return tokens


@pytest.mark.parametrize("case", [SMALL, pytest.param("full", marks=pytest.mark.slow)])
def test_a_prompt_in_one_pass_has_the_bits_of_passes_of_256_rows(case: str) -> None:
    bits = []
    for rows in (256, COUNT):
        model = load(case, rows)
        sequence = model.new_sequence()
        logits = [run_tokens(model, sequence, prompt(model), rows)]
        logits.append(run_tokens(model, sequence, [5, 6, 7, 8], 2))
        bits.append(np.concatenate(logits))
        model.ops.close()
    np.testing.assert_array_equal(*bits)


def test_a_long_pass_is_left_between_layers_for_windows_and_goes_on_as_if_it_had_not_been() -> None:
    model = load(SMALL, COUNT)
    wanted = run_tokens(model, model.new_sequence(), prompt(model), COUNT)[-1]
    other = model.new_sequence()
    windows = run_tokens(model, other, [5, 6, 7, 8], 2)
    model.ops.close()

    model = load(SMALL, COUNT)
    lane = model.new_lane(16)
    sequence, other = model.new_sequence(), model.new_sequence()
    steps = model.layers(Batch([BatchEntry(sequence, prompt(model), LogitsWanted.LAST)]))
    got, result = [], None
    while result is None:
        try:
            next(steps)
        except StopIteration as end:
            result = end.value
            break
        if len(got) < 2:
            tokens = [5, 6, 7, 8][2 * len(got) :][:2]
            window = lane.layers(Batch([BatchEntry(other, tokens, LogitsWanted.ALL)]))
            while True:
                try:
                    next(window)
                except StopIteration as end:
                    got.append(end.value.logits.copy())
                    break
            other.commit(2)
    np.testing.assert_array_equal(result.logits[0], wanted)
    np.testing.assert_array_equal(np.concatenate(got), windows)
    model.ops.close()


def test_prompts_of_many_lengths_leave_few_pinned_bytes_behind() -> None:
    model = load(SMALL, COUNT)
    ops = model.ops
    assert isinstance(ops, CudaOps)
    device = ops.device
    assert isinstance(device, EmulatedDevice)
    sequence = model.new_sequence()
    forward(model, sequence, prompt(model))
    sequence.release()
    before = device._pinned_bytes
    for count in (599, 530):
        sequence = model.new_sequence()
        forward(model, sequence, prompt(model)[:count])
        sequence.release()
    assert device._pinned_bytes == before
    ops.close()


@pytest.mark.parametrize("case", [SMALL, pytest.param("full", marks=pytest.mark.slow)])
def test_a_further_row_takes_what_the_plan_says_of_a_row(
    monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    for part in ("streams", "delta"):  # mixes and mixers go through a pass in groups of rows
        monkeypatch.setattr(f"engine.ops.cuda_{part}._GROUP_ROWS", 64)
    taken, scratch = [], []
    for rows in (256, COUNT):
        model = load(case, rows)
        ops = model.ops
        assert isinstance(ops, CudaOps)
        taken.append(ops.device.info.total_bytes - ops.device.free_bytes())
        batch = Batch([BatchEntry(model.new_sequence(), prompt(model)[:rows], LogitsWanted.LAST)])
        model.forward(batch)
        scratch.append(ops._launcher.scratch_bytes)
        moe = model.weights.layers[0].moe
        planned = expert_scratch_row_bytes(
            *(moe.down.rows, moe.gate.rows, moe.router.rows, moe.num_used),
            is_gated=case == SMALL,
        )
        ops.close()
    further = COUNT - 256
    activations = activation_row_bytes(model.config, on_card=True)
    of_plan = 16 * model.config.rope_dim + 256
    assert activations * 0.99 < (taken[1] - taken[0]) / further < activations + of_plan
    assert planned * 0.3 < (scratch[1] - scratch[0]) / further < planned * 1.1
