"""The kernels of streams, DeltaNet, attention and the n-gram layer against the reference, and themselves.

On the emulated card: late and in odd orders, memory that nobody set is NaN.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest

from engine.device.emulated import EmulatedDevice
from engine.ops import cuda_attention, cuda_delta, cuda_streams
from engine.ops.base import Limits
from engine.ops.check_cases import MixCase, OpCase, Results, RowsCase, error_of
from engine.ops.check_sequences import AttentionCase, DeltaCase, DeltaSizes, PleCase, SequenceCase
from engine.ops.reference import ReferenceOps
from tests.support.cuda_mixers import MixerOps
from tests.support.ops_cases import layer_cases, row_cases, sequence_cases

FLOAT_BOUND = 1e-5
HALF_BOUND = 1e-3  # a key or value in float16 may round to its neighbour
QUANTISED_BOUND = 0.12  # activations are rounded to 8 bits
LIMITS = Limits(max_rows=64, max_window=8, num_slots=3, num_pages=200)

CASES: dict[str, OpCase] = {
    case.name: case
    for case in [
        *row_cases(),
        *layer_cases(),
        *sequence_cases(),
        DeltaCase(DeltaSizes(2, 6, 128, 4)),
    ]
    if isinstance(case, RowsCase | MixCase | SequenceCase)
}
SEQUENCES = {name: case for name, case in CASES.items() if isinstance(case, SequenceCase)}


@pytest.fixture
def ops(mixer_card: EmulatedDevice) -> MixerOps:
    return MixerOps(LIMITS, mixer_card)


@functools.cache
def reference(name: str) -> Results:
    case = CASES[name]
    return case.run(ReferenceOps(LIMITS), [case.num_rows])


def bound(case: OpCase) -> float:
    if case.quantises:
        return QUANTISED_BOUND
    if isinstance(case, AttentionCase) and case.dtype == np.float16:
        return HALF_BOUND
    return FLOAT_BOUND


def assert_same_bits(got: Results, wanted: Results) -> None:
    for name, value in wanted.items():
        assert value.tobytes() == got[name].tobytes(), name


@pytest.mark.parametrize("name", CASES)
def test_an_operation_agrees_with_the_reference(ops: MixerOps, name: str):
    case = CASES[name]
    assert error_of(case.run(ops, [case.num_rows]), reference(name)) < bound(case)


@pytest.mark.parametrize("name", CASES)
def test_a_row_has_the_same_bits_whatever_the_number_of_rows(ops: MixerOps, name: str):
    case = CASES[name]
    whole = case.run(ops, [case.num_rows])
    for cuts in ([1] * case.num_rows, [5, 1, 2, case.num_rows - 8]):
        assert_same_bits(case.run(ops, cuts), whole)


@pytest.mark.parametrize("name", SEQUENCES)
def test_a_sequence_has_the_same_bits_between_other_sequences(ops: MixerOps, name: str):
    case = SEQUENCES[name]
    cuts = [1, 7, 4, case.num_rows - 12]
    assert_same_bits(case.run_together(ops, cuts), case.run(ops, cuts))


@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("name", CASES)
def test_long_passes_in_groups_of_rows_have_the_same_bits(
    ops: MixerOps, monkeypatch: pytest.MonkeyPatch, name: str, rows: int
):
    case = CASES[name]
    cuts = [9, case.num_rows - 9]
    sequence = SEQUENCES.get(name)
    whole = case.run(ops, cuts)
    monkeypatch.setattr(cuda_delta, "_GROUP_ROWS", rows)
    monkeypatch.setattr(cuda_streams, "_GROUP_ROWS", rows)
    monkeypatch.setattr(cuda_attention, "_MOST_GROUP", rows)
    assert_same_bits(case.run(ops, cuts), whole)
    if sequence is not None:
        assert_same_bits(sequence.run_together(ops, cuts), whole)


@pytest.mark.parametrize("commit", [1, 3, 8])
@pytest.mark.parametrize(
    "name", [name for name, case in CASES.items() if isinstance(case, DeltaCase | PleCase)]
)
def test_committing_part_of_a_window_equals_a_pass_of_that_part(
    ops: MixerOps, name: str, commit: int
):
    case = CASES[name]
    committed = case.run_committed(ops, 4, 8, commit)
    alone = case.run(ops, [4, commit])
    assert_same_bits(committed, {key: alone[key] for key in committed})
