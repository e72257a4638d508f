"""What the host operations refuse, and how."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from engine.core.errors import ConfigError, ModelFileError
from engine.core.ggml_types import GgmlType
from engine.core.topology import default_threads_here
from engine.gguf.reader import Tensor
from engine.ops.base import Limits
from engine.ops.check_cases import MixCase, MoeCase, MoeSizes
from engine.ops.check_inputs import Inputs, SequenceRows, make_plan
from engine.ops.check_sequences import AttentionCase, AttentionSizes, DeltaCase, DeltaSizes
from engine.ops.host import HostOps
from engine.ops.reference import ReferenceOps

LIMITS = Limits(max_rows=8, max_window=8, num_slots=3, num_pages=20, threads=2)


@pytest.fixture(scope="module")
def host():
    ops = HostOps(LIMITS)
    yield ops
    ops.close()


def test_a_format_without_a_kernel_is_refused_with_a_sentence(host: HostOps):
    tensor = Tensor("blk.0.ffn_up.weight", GgmlType.TQ1_0, (2, 256), np.zeros(108, np.uint8))
    with pytest.raises(ModelFileError, match=r"blk.0.ffn_up.weight is stored as TQ1_0, .* another"):
        host.matrix(tensor)


def test_a_tensor_with_too_few_bytes_is_refused(host: HostOps):
    tensor = Tensor("short", GgmlType.Q8_0, (2, 32), np.zeros(67, np.uint8))
    with pytest.raises(ValueError, match="short has 67 bytes"):
        host.matrix(tensor)


def test_an_unknown_instruction_set_is_refused():
    with pytest.raises(ConfigError, match="'sse2'"):
        HostOps(LIMITS, "sse2")


@pytest.mark.parametrize(
    ("x_shape", "out_shape"), [((2, 31), (2, 5)), ((2, 32), (2, 4)), ((2, 32), (3, 5))]
)
def test_arrays_of_other_shapes_are_refused_and_nothing_is_written(host, x_shape, out_shape):
    matrix = host.matrix(Inputs(1).tensor(GgmlType.Q8_0, 5, 32))
    out = np.full(out_shape, 7.0, np.float32)
    with pytest.raises(ValueError, match="matmul"):
        host.matmul([matrix], np.zeros(x_shape, np.float32), [out])
    assert (out == 7.0).all()


def test_arrays_of_another_type_or_with_gaps_are_refused(host: HostOps):
    matrix = host.matrix(Inputs(1).tensor(GgmlType.F32, 5, 32))
    out = np.zeros((2, 5), np.float32)
    for x in (np.zeros((2, 32), np.float64), np.zeros((2, 64), np.float32)[:, ::2]):
        with pytest.raises(ValueError, match="matmul"):
            host.matmul([matrix], x, [out])


def test_table_rows_outside_are_refused(host: HostOps):
    table = host.matrix(Inputs(1).tensor(GgmlType.F32, 5, 4))
    for row in (-1, 5, 1 << 40):
        with pytest.raises(ValueError, match="gather_rows"):
            host.gather_rows(table, np.array([row], np.int64), np.zeros((1, 4), np.float32))


def test_expert_numbers_outside_are_refused(host: HostOps):
    case = MoeCase(GgmlType.F32, GgmlType.F32, MoeSizes(3, 1, 8, 8, 8), num_rows=1)
    original = host.route
    for bad in (3, 1 << 30):

        def wrong_route(weights, x, ids, chosen, bad=bad):
            ids[:] = bad

        host.route = wrong_route  # type: ignore[method-assign]
        try:
            with pytest.raises(ValueError, match="experts"):
                case.run(host, [1])
        finally:
            host.route = original  # type: ignore[method-assign]


def test_slots_and_pages_outside_are_refused(host: HostOps):
    delta = DeltaCase(DeltaSizes(1, 1, 4, 2), num_rows=2)

    def rows_in_slot_3(part, half, *, together):
        return [SequenceRows(3, half, 0, 2)], slice(0, 2)

    delta._rows = rows_in_slot_3  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="delta_mix"):
        delta.run(host, [2])
    attention = AttentionCase(AttentionSizes(1, 1, 4, 1, 4, 2, 2, 2, 2), num_rows=6)

    def plan_without_pages(sequences):
        plan = make_plan(sequences, rope_dim=2, block_ratio=2, pages_per_sequence=2)
        plan.page_table[:, 1] = -1
        return plan

    attention._plan = plan_without_pages  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="attention_append"):
        attention.run(host, [6])


def test_weights_that_do_not_fit_each_other_are_refused(host: HostOps):
    case = MixCase(GgmlType.F32, 2, 16, 8)
    case.up = Inputs(1).tensor(GgmlType.F32, 32, 9)
    with pytest.raises(ValueError, match="residual mix weights"):
        case.run(host, [1])


def test_a_matrix_of_other_operations_is_refused(host: HostOps):
    matrix = ReferenceOps(LIMITS).matrix(Inputs(1).tensor(GgmlType.F32, 5, 32))
    with pytest.raises(TypeError, match="another implementation"):
        host.matmul([matrix], np.zeros((1, 32), np.float32), [np.zeros((1, 5), np.float32)])


def test_closing_twice_and_forgetting_to_close_are_harmless():
    ops = HostOps(LIMITS)
    ops.close()
    ops.close()
    forgotten = HostOps(LIMITS)
    del forgotten
    gc.collect()


def test_the_number_of_threads_is_that_of_the_machine_unless_asked_for():
    assert default_threads_here() >= 1
    ops = HostOps(Limits(max_rows=1, max_window=1, num_slots=1, num_pages=1))
    assert ops.num_threads == default_threads_here()
    ops.close()


def test_no_rows_are_no_work(host: HostOps):
    matrix = host.matrix(Inputs(1).tensor(GgmlType.Q8_0, 5, 32))
    host.matmul([matrix], np.zeros((0, 32), np.float32), [np.zeros((0, 5), np.float32)])
