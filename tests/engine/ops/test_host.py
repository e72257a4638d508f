"""The host operations against the reference, and against themselves: other cuts, threads, company.

Bounds are relative to the root mean square of the right values. Where activations are rounded to 8
bits, matrix products are also compared with the reference on rounded activations, which must agree
as closely as float32 sums do.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np
import pytest

from engine.core.ggml_types import GgmlType
from engine.kernels.library import VARIANTS, load_library
from engine.ops.base import Limits
from engine.ops.check_cases import (
    FLOAT_TYPES,
    MatmulCase,
    MoeCase,
    MoeSizes,
    OpCase,
    Results,
    error_of,
)
from engine.ops.check_inputs import Inputs
from engine.ops.check_sequences import AttentionCase, DeltaCase, DeltaSizes, PleCase, SequenceCase
from engine.ops.host import HostOps
from engine.ops.host_structs import HOST_FORMATS
from engine.ops.reference import ReferenceOps
from tests.support.ops_cases import all_cases, matmul_cases, sequence_cases

FLOAT_BOUND = 1e-5
HALF_BOUND = 1e-3  # a key or value in float16 may round to its neighbour
QUANTISED_BOUND = 0.12
LIMITS = Limits(max_rows=64, max_window=8, num_slots=3, num_pages=200)

CASES = {case.name: case for case in all_cases()}
CUTS = ((1,), (2,), (5,))  # rows of a pass, repeated


@pytest.fixture(scope="module", params=load_library().variants)
def host(request) -> Iterator[HostOps]:
    ops = HostOps(LIMITS, request.param)
    yield ops
    ops.close()


@functools.cache
def reference(name: str) -> Results:
    case = CASES[name]
    return case.run(ReferenceOps(LIMITS), [case.num_rows])


@pytest.mark.parametrize("variant", VARIANTS)
def test_this_processor_can_run_the_variant(variant: str):
    if variant not in load_library().variants:
        pytest.skip(f"this processor has no {variant}; the tests below run on the others")
    with_variant = HostOps(LIMITS, variant)
    assert with_variant.isa == variant
    with_variant.close()


def bound(case: OpCase) -> float:
    if case.quantises:
        return QUANTISED_BOUND
    if isinstance(case, AttentionCase) and case.dtype == np.float16:
        return HALF_BOUND
    return FLOAT_BOUND


def repeated(cut: tuple[int, ...], num_rows: int) -> list[int]:
    """Passes of cut[0] rows, and what is left."""
    size = cut[0]
    return [size] * (num_rows // size) + ([num_rows % size] if num_rows % size else [])


def assert_same_bits(got: Results, wanted: Results) -> None:
    for name, value in wanted.items():
        assert value.tobytes() == got[name].tobytes(), name


@pytest.mark.parametrize("name", CASES)
def test_an_operation_agrees_with_the_reference(host: HostOps, name: str):
    case = CASES[name]
    got = case.run(host, [case.num_rows])
    assert error_of(got, reference(name)) < bound(case)


@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: f"{cut[0]} rows")
@pytest.mark.parametrize("name", CASES)
def test_a_row_has_the_same_bits_whatever_the_number_of_rows(host: HostOps, name: str, cut):
    case = CASES[name]
    whole = case.run(host, [case.num_rows])
    assert_same_bits(case.run(host, repeated(cut, case.num_rows)), whole)


def rounded(x: np.ndarray) -> np.ndarray:
    """Activations after rounding to 8-bit blocks of 32 and back, in float64."""
    blocks = x.reshape(len(x), -1, 32)
    largest = np.abs(blocks).max(axis=-1, keepdims=True)
    inverse = np.float32(127) / largest
    q = np.rint(blocks * inverse)
    return (q.astype(np.float64) * (largest / np.float32(127)).astype(np.float64)).reshape(x.shape)


QUANTISED = {
    case.name: case
    for case in matmul_cases()
    if len(case.tensors) == 1 and case.tensors[0].type not in FLOAT_TYPES
}


@pytest.mark.parametrize("name", QUANTISED)
def test_a_quantised_product_is_exact_for_its_rounded_activations(host: HostOps, name: str):
    case = QUANTISED[name]
    weights = case.tensors[0].dequantise().astype(np.float64)
    got = case.run(host, [case.num_rows])
    assert error_of(got, {"out0": rounded(case.x) @ weights.T}) < 2e-6


@pytest.mark.parametrize("case", sequence_cases(), ids=lambda case: case.name)
def test_a_sequence_has_the_same_bits_between_other_sequences(host: HostOps, case: SequenceCase):
    cuts = [1, 7, 4, case.num_rows - 12]
    assert_same_bits(case.run_together(host, cuts), case.run(host, cuts))


COMMITTING = [case for case in sequence_cases() if isinstance(case, DeltaCase | PleCase)]


@pytest.mark.parametrize("commit", [1, 3, 8])
@pytest.mark.parametrize("case", COMMITTING, ids=lambda case: case.name)
def test_committing_part_of_a_window_equals_a_pass_of_that_part(host: HostOps, case, commit: int):
    committed = case.run_committed(host, 4, 8, commit)
    alone = case.run(host, [4, commit])
    assert_same_bits(committed, {name: alone[name] for name in committed})


LARGE_CASES = [
    MatmulCase([GgmlType.Q4_K, GgmlType.F16, GgmlType.Q5_K], [300, 200, 150], 1024),
    MoeCase(GgmlType.Q8_0, GgmlType.Q8_0, MoeSizes(12, 4, 256, 160, 128), num_rows=48),
    DeltaCase(DeltaSizes(4, 8, 64, 4), num_rows=48),
]


@pytest.mark.parametrize("case", LARGE_CASES, ids=lambda case: case.name)
def test_the_bits_do_not_depend_on_the_number_of_threads(host: HostOps, case: OpCase):
    results = []
    for threads in (1, 2, 5):
        limits = Limits(max_rows=64, max_window=8, num_slots=3, num_pages=8, threads=threads)
        ops = HostOps(limits, host.isa)
        assert ops.num_threads == threads
        results.append(case.run(ops, [case.num_rows]))
        ops.close()
    assert_same_bits(results[1], results[0])
    assert_same_bits(results[2], results[0])


ROW_COUNTS = (*range(1, 18), 64)


@pytest.mark.parametrize("ggml_type", sorted(HOST_FORMATS), ids=lambda t: t.name)
def test_a_row_has_the_same_bits_in_any_company_in_every_format(host: HostOps, ggml_type):
    # Weights are decoded on their way for few rows, into memory for more, in groups for many.
    case = MatmulCase([ggml_type], [37], 768, num_rows=64)
    alone = case.run(host, [1] * 64)
    for count in ROW_COUNTS:
        assert_same_bits(case.run(host, [count]), {"out0": alone["out0"][:count]})


@pytest.mark.parametrize("shape", [(48, 256), (34, 128)], ids=["48 x 256", "34 x 128"])
@pytest.mark.parametrize("ggml_type", sorted(HOST_FORMATS), ids=lambda t: t.name)
def test_a_row_has_the_same_bits_in_any_company_of_a_small_matrix(host, ggml_type, shape):
    # Small matrices lie a second time, in an order of their own, and eight rows are taken at a time.
    rows, columns = shape
    if columns % ggml_type.block_values:
        pytest.skip("a row of this format has 256 values at least")
    case = MatmulCase([ggml_type], [rows], columns, num_rows=40)
    alone = case.run(host, [1] * 40)
    for count in (*range(1, 18), 40):
        assert_same_bits(case.run(host, [count]), {"out0": alone["out0"][:count]})


@pytest.mark.parametrize("ggml_type", sorted(HOST_FORMATS), ids=lambda t: t.name)
def test_rows_of_a_table_are_read_as_the_format_is_defined(host: HostOps, ggml_type: GgmlType):
    table = Inputs(7).tensor(ggml_type, 40, 768)
    out = np.zeros((40, 768), np.float32)
    host.gather_rows(host.matrix(table), np.arange(40), out)
    np.testing.assert_array_equal(out, table.dequantise())


@pytest.mark.parametrize("columns", range(32, 289, 32))
@pytest.mark.parametrize("ggml_type", [t for t in HOST_FORMATS if t.block_values == 32])
def test_rows_that_end_inside_a_block_of_256(host: HostOps, ggml_type: GgmlType, columns: int):
    case = MatmulCase([ggml_type], [3], columns, num_rows=3)
    weights = case.tensors[0].dequantise().astype(np.float64)
    wanted = rounded(case.x) @ weights.T
    assert error_of(case.run(host, [3]), {"out0": wanted}) < 2e-6
    assert error_of(case.run(host, [1, 1]), {"out0": wanted[:2]}) < 2e-6


def test_a_large_pass_agrees_with_the_reference_and_with_single_rows(host: HostOps):
    case = MoeCase(GgmlType.F16, GgmlType.F32, MoeSizes(20, 5, 96, 64, 32), num_rows=300)
    got = case.run(host, [300])  # more rows than one group of the experts holds
    assert error_of(got, case.run(ReferenceOps(LIMITS), [300])) < FLOAT_BOUND
    assert_same_bits(case.run(host, [1] * 300), got)


def test_memory_is_read_without_a_trace_and_only_where_it_is_contiguous(host: HostOps):
    values = np.arange(300_007, dtype=np.float32)
    host.read_memory(values)
    assert values.tobytes() == np.arange(300_007, dtype=np.float32).tobytes()
    with pytest.raises(ValueError, match="read_memory"):
        host.read_memory(values[:300_006].reshape(-1, 6)[:, :3])
