"""The whole GPU engine, kernels included, on an emulated card that does its work late and in odd orders.

What must hold on every implementation is tested widely on `plain` (tests/support/plain_launches.py); here
it is the kernels and the order of the work between card and host that can go wrong.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from engine.commands.logits import compute_logits
from engine.device.array import on_card
from engine.device.emulated import EmulatedDevice
from engine.gguf.reader import GgufFile
from engine.model.mtp import DraftEntry
from engine.model.trunk import Model
from engine.ops.cuda import CudaOps
from engine.ops.cuda_settings import CudaSettings
from engine.ops.reference import ReferenceOps
from engine.sequence.batch import Batch, BatchEntry, LogitsForm, LogitsWanted
from engine.sequence.state import SequenceState
from tests.support.golden import (
    FLOAT_CASES,
    GOLDEN,
    HOST_BOUND,
    QUANTISED_CASES,
    arrays,
    assert_logits,
    forward,
    golden_limits,
    model_file,
    run_tokens,
)

SMALL = "quant-IQ2_XS"
slow = pytest.mark.slow


def load(
    case: str, settings: CudaSettings | None = None, *, mtp: str | None = None, seed: int = 0
) -> Model:
    limits = golden_limits(max_rows=64)
    ops = CudaOps(limits.for_ops(), EmulatedDevice(1 << 29, seed=seed), settings)
    head = None if mtp is None else model_file(mtp)
    return Model.load(model_file(case), ops, limits, mtp_file=head)


def tokens_of(case: str, count: int) -> list[int]:
    return arrays(case)["tokens"][:count].tolist()


@pytest.mark.parametrize(
    "case", [SMALL, *(pytest.param(c, marks=slow) for c in (*FLOAT_CASES, *QUANTISED_CASES[:2]))]
)
def test_golden_models_give_the_golden_logits(case):
    count = 64 if case == SMALL else 128
    with GgufFile.open(GOLDEN / f"{case}.gguf") as file:
        logits = compute_logits(file, tokens_of(case, count), "emulated", threads=1)
    wanted = arrays(case)["logits"][:count]
    assert_logits("emulated", case, logits, wanted)
    if case in FLOAT_CASES:
        assert np.abs(logits - wanted).max() < HOST_BOUND


def test_the_command_takes_the_emulated_card(tmp_path: Path):
    from engine.cli import main  # noqa: PLC0415

    tokens = tokens_of(SMALL, 5)
    (tmp_path / "tokens.json").write_text(json.dumps(tokens))
    out = tmp_path / "logits.npz"
    where = ["--tokens", str(tmp_path / "tokens.json"), "--out", str(out)]
    model = str(GOLDEN / f"{SMALL}.gguf")
    status = main(["logits", "--model", model, "--ops", "emulated", "--threads", "1", *where])
    assert status == 0
    assert np.load(out)["logits"].shape[0] == 5


@pytest.mark.parametrize("case", [SMALL, pytest.param("full", marks=slow)])
def test_rows_have_the_same_bits_in_prompts_windows_and_steps(case):
    model = load(case)
    tokens = tokens_of(case, 40)
    whole = run_tokens(model, model.new_sequence(), tokens)
    sequence = model.new_sequence()
    parts = []
    for cut in ([20], [8, 7], [1, 1, 1, 2]):
        for count in cut:
            done = sequence.length
            parts.append(run_tokens(model, sequence, tokens[done : done + count]))
    np.testing.assert_array_equal(np.concatenate(parts), whole)


SIZES = (0, 60_000, 400_000, None)


@pytest.mark.parametrize("chunk", [3, 24])
@pytest.mark.parametrize(
    "case", [SMALL, *(pytest.param(c, marks=slow) for c in ("full", "quant-Q4_K_M"))]
)
def test_any_cache_and_any_share_of_copies_gives_the_same_top_tokens(case, chunk):
    count = 24
    wanted = arrays(case)["logits"][:count].argmax(axis=1)
    tops = []
    for seed, (size, frac) in enumerate(
        [(None, 0.0), *((s, f) for s in SIZES[:-1] for f in (0.0, 0.5, 1.0))]
    ):
        settings = CudaSettings(
            cache_bytes=size, pcie_frac=frac, ring_experts=2, rounds_between_swaps=2
        )
        model = load(case, settings, seed=seed)
        logits = run_tokens(model, model.new_sequence(), tokens_of(case, count), chunk)
        tops.append(logits.argmax(axis=1))
        model.ops.close()
    for top in tops[1:]:
        np.testing.assert_array_equal(top, tops[0])
    assert (tops[0] == wanted).mean() > 0.9  # all tokens are held to more, above


@pytest.mark.parametrize("case", [SMALL, pytest.param("full", marks=slow)])
def test_cached_and_copied_experts_agree_bit_for_bit(case):
    bits = []
    for size, pins in ((None, False), (0, False), (150_000, False), (0, True)):
        settings = CudaSettings(cache_bytes=size, pcie_frac=1.0, pins_experts=pins)
        model = load(case, settings, seed=3)
        sequence = model.new_sequence()
        tokens = tokens_of(case, 30)
        logits = [
            run_tokens(model, sequence, tokens[:20]),
            run_tokens(model, sequence, tokens[20:], 2),
        ]
        bits.append(np.concatenate(logits))
        model.ops.close()
    for other in bits[1:]:
        np.testing.assert_array_equal(other, bits[0])


def window(model: Model, sequence: SequenceState, tokens: list[int], accepted: int) -> np.ndarray:
    """Logits of a window of which some tokens are committed."""
    logits = forward(model, sequence, tokens).logits.copy()
    sequence.commit(accepted)
    return logits[:accepted]


@pytest.mark.parametrize("case", [SMALL, pytest.param("full", marks=slow)])
def test_windows_of_drafts_that_are_committed_in_part_give_the_bits_of_single_steps(case):
    # Which processor computes an expert is a matter of bits, so the placement must be a fixed one.
    model = load(case, CudaSettings(cache_bytes=100_000, rounds_between_swaps=1000))
    tokens = tokens_of(case, 24)
    stepped = model.new_sequence()
    wanted = run_tokens(model, stepped, tokens, 1)
    first, second = model.new_sequence(), model.new_sequence()
    got = [window(model, first, tokens[:5], 5), window(model, first, [*tokens[5:7], 3, 4], 2)]
    second.restore(first.snapshot())
    got.append(window(model, first, [*tokens[7:12], 9, 9, 9], 5))
    got.append(window(model, first, tokens[12:20], 8))
    np.testing.assert_array_equal(np.concatenate(got), wanted[:20])
    again = [window(model, second, [*tokens[7:8], 1, 2], 1), window(model, second, tokens[8:12], 4)]
    np.testing.assert_array_equal(np.concatenate(again), wanted[7:12])


def test_two_sequences_in_one_window_give_the_bits_that_each_gives_alone():
    model = load(SMALL)
    tokens = tokens_of(SMALL, 40)
    alone = [
        run_tokens(model, model.new_sequence(), part, 4) for part in (tokens[:8], tokens[20:28])
    ]
    model = load(SMALL, seed=5)
    pair = [model.new_sequence(), model.new_sequence()]
    got: list[list[np.ndarray]] = [[], []]
    for start in (0, 4):
        parts = (tokens[start : start + 4], tokens[20 + start : 24 + start])
        entries = [BatchEntry(s, p, LogitsWanted.ALL) for s, p in zip(pair, parts, strict=True)]
        result = model.forward(Batch(entries))
        for i in (0, 1):
            got[i].append(result.logits_of(i).copy())
            pair[i].commit(4)
    for i in (0, 1):
        np.testing.assert_array_equal(np.concatenate(got[i]), alone[i])


@slow
def test_the_trunk_feeds_the_head_and_chained_drafts_are_the_golden_ones():
    golden = arrays("full-mtp")
    tokens = golden["tokens"].tolist()
    model = load("full", CudaSettings(cache_bytes=500_000), mtp="full-mtp")
    assert model.mtp is not None
    sequence = model.new_sequence()
    done = 0
    for chain, position in enumerate(golden["chain_positions"].tolist()[:2]):
        streams = []
        for start in range(done, position + 1, 48):
            stop = min(start + 48, position + 1)
            streams.append(np.asarray(forward(model, sequence, tokens[start:stop]).streams))
            sequence.commit(stop - start)
        given = np.concatenate(streams)
        for start in range(0, len(given), 48):
            part = given[start : start + 48]
            first = done + start + 1
            result = model.mtp.forward(
                [DraftEntry(sequence, part, tokens[first : first + len(part)])]
            )
        done = position + 1
        for step, drafted in enumerate(golden["chain_tokens"][chain].tolist()):
            logits = result.logits[0]
            assert np.abs(logits - golden["chain_logits"][chain, step]).max() < HOST_BOUND
            assert int(logits.argmax()) == drafted
            fed_back = result.streams[-1:].copy()
            best = model.mtp.forward([DraftEntry(sequence, fed_back, [drafted])], LogitsForm.BEST)
            sequence.truncate_mtp(sequence.mtp_length - 1)
            result = model.mtp.forward([DraftEntry(sequence, fed_back, [drafted])])
            assert best.best is not None
            assert best.best.tolist() == [int(result.logits[0].argmax())]
        sequence.truncate_mtp(done)


@pytest.mark.parametrize("case", [SMALL, pytest.param("full", marks=slow)])
def test_int8_caches_give_what_the_references_give(case):
    limits = golden_limits(max_rows=64, kv_type="i8")
    logits = []
    for ops in (CudaOps(limits.for_ops(), EmulatedDevice(1 << 29)), ReferenceOps(limits.for_ops())):
        model = Model.load(model_file(case), ops, limits)
        sequence = model.new_sequence()
        logits.append(run_tokens(model, sequence, tokens_of(case, 60), 50))
        again = model.new_sequence()
        again.restore(sequence.snapshot())
        last = [forward(model, one, [7, 8, 9]).logits.copy() for one in (sequence, again)]
        np.testing.assert_array_equal(*last)
        ops.close()
    assert_logits("emulated", case, logits[0], logits[1])


@pytest.mark.parametrize("kv_type", ["f16", "i8"])
@pytest.mark.parametrize("case", [SMALL, pytest.param("full", marks=slow)])
def test_pages_in_host_memory_give_the_bits_of_pages_on_the_card(case, kv_type):
    bits = []
    for near in (None, 1, 0):
        limits = golden_limits(
            max_rows=64, kv_type=kv_type, page_tokens=16, kv_pages=12, kv_near_pages=near
        )
        ops = CudaOps(limits.for_ops(), EmulatedDevice(1 << 29, seed=4))
        model = Model.load(model_file(case), ops, limits)
        assert all((pool.far is None) is (near is None) for pool in model.store.kv)
        tokens = tokens_of(case, 60)
        sequence, again = model.new_sequence(), model.new_sequence()
        logits = [run_tokens(model, sequence, tokens[:10], 7)]  # the page of position 10 is near
        again.restore(sequence.snapshot())
        logits.append(run_tokens(model, again, tokens[10:50], 15))  # goes on in a copy of it
        logits.append(run_tokens(model, sequence, tokens[10:], 50))
        bits.append(np.concatenate(logits))
        ops.close()
    np.testing.assert_array_equal(bits[1], bits[0])
    np.testing.assert_array_equal(bits[2], bits[0])


def test_windows_are_recorded_again_when_a_longer_pass_has_moved_scratch_memory():
    model = load(SMALL)
    tokens = tokens_of(SMALL, 40)

    def window() -> np.ndarray:
        sequence = model.new_sequence()
        logits = forward(model, sequence, tokens[:2]).logits.copy()
        sequence.release()
        return logits

    window()
    wanted = window()
    sequence = model.new_sequence()
    forward(model, sequence, tokens)
    sequence.release()
    array: object = model.ops.zeros((1,))
    on_card(array).space.drop_kept()  # what was scratch memory cannot be touched any more
    np.testing.assert_array_equal(window(), wanted)
