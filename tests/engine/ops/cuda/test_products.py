"""The kernels of products, router and experts against the reference, and themselves.

On the emulated card: late and in odd orders, memory that nobody set is NaN.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import cast

import pytest

from engine.core.ggml_types import GgmlType
from engine.device.emulated import EmulatedDevice
from engine.ops.base import Limits, Ops
from engine.ops.check_cases import (
    GatherCase,
    MatmulCase,
    MoeCase,
    MoeSizes,
    OpCase,
    Results,
    error_of,
)
from engine.ops.reference import ReferenceOps
from tests.support.cuda_products import ProductOps, product_files
from tests.support.ops_cases import layer_cases, matmul_cases, row_cases

FLOAT_BOUND = 1e-5
QUANTISED_BOUND = 0.12  # of the host too: activations are rounded to 8 bits, twice by experts
LIMITS = Limits(max_rows=128, max_window=8, num_slots=1, num_pages=1)

Q8_0, Q2_0, Q4_K = GgmlType.Q8_0, GgmlType.Q2_0, GgmlType.Q4_K
QUICK_TYPES = (GgmlType.F32, Q8_0, Q4_K)

CASES: dict[str, OpCase] = {
    case.name: case
    for case in [
        *matmul_cases(),
        *row_cases(),
        *layer_cases(),
        MoeCase(Q4_K, Q8_0, MoeSizes(2, 1, 256, 64, 32), num_rows=70),
        MoeCase(Q2_0, GgmlType.IQ4_NL, MoeSizes(3, 2, 192, 96, 64), num_rows=40),
        MoeCase(GgmlType.F16, GgmlType.F32, MoeSizes(2, 2, 20, 12, 7), num_rows=40),
    ]
    if isinstance(case, MatmulCase | GatherCase | MoeCase)
}
# Around the kernels for 1, 2, 4, 8, 16 and up to 64 rows.
MANY = [
    MatmulCase([t], [65], columns, num_rows=65, seed=7)
    for t in sorted({GgmlType.F32, GgmlType.BF16, Q8_0, GgmlType.Q5_1, Q2_0, Q4_K, GgmlType.Q2_K})
    for columns in (256, 1280)
] + [
    MatmulCase(
        [Q8_0, Q8_0], [700, 65], 64, num_rows=600, seed=8
    ),  # more tiles than a column of blocks has
]
CUTS = [1] * 3 + [2] * 2 + [3, 4, 5, 8, 9, 16, 13]
QUICK = {
    "a product": MatmulCase([Q8_0, GgmlType.F32, Q4_K], [9, 5, 33], 256, num_rows=20),
    "experts": MoeCase(Q8_0, Q8_0, MoeSizes(5, 3, 64, 32, 96)),
}


@pytest.fixture(scope="module")
def quick_card() -> Iterator[EmulatedDevice]:
    device = EmulatedDevice()
    device.load_kernels(product_files(QUICK_TYPES))
    yield device
    device.close()


@pytest.fixture(scope="module")
def card() -> Iterator[EmulatedDevice]:
    device = EmulatedDevice()
    device.load_kernels(product_files())
    yield device
    device.close()


def ops_on(device: EmulatedDevice) -> Ops:
    return cast("Ops", ProductOps(device))


def reference(case: OpCase) -> Results:
    return case.run(ReferenceOps(LIMITS), [case.num_rows])


@functools.cache
def reference_of(name: str) -> Results:
    return reference(CASES[name])


def bound(case: OpCase) -> float:
    return QUANTISED_BOUND if case.quantises else FLOAT_BOUND


def assert_same_bits(got: Results, wanted: Results) -> None:
    for name, value in wanted.items():
        assert value.tobytes() == got[name].tobytes(), name


@pytest.mark.parametrize("name", QUICK)
def test_it_agrees_with_the_reference_and_with_itself(quick_card: EmulatedDevice, name: str):
    case, ops = QUICK[name], ops_on(quick_card)
    whole = case.run(ops, [case.num_rows])
    assert error_of(whole, reference(case)) < bound(case)
    assert_same_bits(case.run(ops, [1, 5, 2, case.num_rows - 8]), whole)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_an_operation_agrees_with_the_reference(card: EmulatedDevice, name: str):
    case = CASES[name]
    assert error_of(case.run(ops_on(card), [case.num_rows]), reference_of(name)) < bound(case)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_row_has_the_same_bits_whatever_the_number_of_rows(card: EmulatedDevice, name: str):
    case, ops = CASES[name], ops_on(card)
    whole = case.run(ops, [case.num_rows])
    for cuts in ([1] * min(4, case.num_rows), [5, 1, 2, case.num_rows - 8]):
        part = case.run(ops, cuts)
        assert_same_bits(part, {key: value[: len(part[key])] for key, value in whole.items()})


@pytest.mark.slow
@pytest.mark.parametrize("case", MANY, ids=lambda case: case.name)
def test_tensor_cores_give_the_bits_of_the_other_kernels(card: EmulatedDevice, case: MatmulCase):
    ops = ops_on(card)
    whole = case.run(ops, [case.num_rows])
    assert error_of(whole, reference(case)) < bound(case)
    assert_same_bits(case.run(ops, [*CUTS[:-1], case.num_rows - sum(CUTS[:-1])]), whole)
    assert_same_bits(case.run(ops, [17, case.num_rows - 17]), whole)
