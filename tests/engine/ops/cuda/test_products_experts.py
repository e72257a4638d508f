"""Experts on the card: which of them are computed, where they lie, and how the choice is made."""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Iterator

import numpy as np
import pytest

from engine.core.ggml_types import GgmlType
from engine.device.emulated import EmulatedDevice
from engine.gguf.reader import Tensor
from engine.ops.base import Limits
from engine.ops.check_inputs import Inputs
from engine.ops.cuda_launch import pointer
from engine.ops.reference import ReferenceOps
from engine.ops.weights import MoeWeights
from tests.support.cuda_products import ProductOps, product_files

Q8_0, F32, Q4_K = GgmlType.Q8_0, GgmlType.F32, GgmlType.Q4_K
NUM_EXPERTS, USED, HIDDEN, WIDTH = 6, 3, 64, 32
ALL = range(NUM_EXPERTS)
BOUND = 0.12
REFERENCE = ReferenceOps(Limits(max_rows=1, max_window=1, num_slots=1, num_pages=1))


@pytest.fixture(scope="module")
def card() -> Iterator[EmulatedDevice]:
    device = EmulatedDevice()
    device.load_kernels(product_files([F32, Q8_0]))
    yield device
    device.close()


@pytest.fixture
def ops(card: EmulatedDevice) -> ProductOps:
    return ProductOps(card)


class Layer:
    """Experts, rows and choices, and what the reference makes of them."""

    def __init__(self, ops: ProductOps, num_rows: int, kinds: tuple[GgmlType, ...]) -> None:
        inputs = Inputs(4)
        gate, up, down = kinds
        self.tensors = {
            "router": inputs.tensor(F32, NUM_EXPERTS, HIDDEN),
            "gate": inputs.tensor(gate, NUM_EXPERTS, WIDTH, HIDDEN),
            "up": inputs.tensor(up, NUM_EXPERTS, WIDTH, HIDDEN),
            "down": inputs.tensor(down, NUM_EXPERTS, HIDDEN, WIDTH),
            "shared_gate": inputs.tensor(gate, WIDTH, HIDDEN),
            "shared_up": inputs.tensor(up, WIDTH, HIDDEN),
            "shared_down": inputs.tensor(down, HIDDEN, WIDTH),
        }
        self.shared_router = inputs.normal(HIDDEN)
        self.x = inputs.normal(num_rows, HIDDEN, scale=2.0)
        self.ids = np.array(
            [inputs.random.permutation(NUM_EXPERTS)[:USED] for _ in range(num_rows)], np.int32
        )
        self.weights = inputs.random.uniform(0.1, 1.0, self.ids.shape).astype(np.float32)
        self.ops = ops
        self.on_card = self.made_by(ops)

    def made_by(self, ops) -> MoeWeights:
        matrices = {name: ops.matrix(tensor) for name, tensor in self.tensors.items()}
        return MoeWeights(num_used=USED, shared_router=self.shared_router, **matrices)

    def computed(self, held, host=None, ids=None) -> np.ndarray:
        out = np.zeros_like(self.x)
        chosen = self.ids if ids is None else ids
        self.ops.some_experts(self.on_card, self.x, chosen, self.weights, out, held, host)
        return out

    def wanted(self, experts) -> np.ndarray:
        out = np.zeros_like(self.x)
        weights = np.where(np.isin(self.ids, list(experts)), self.weights, 0).astype(np.float32)
        REFERENCE.experts(self.made_by(REFERENCE), self.x, self.ids, weights, out)
        return out


def assert_near(got: np.ndarray, wanted: np.ndarray) -> None:
    assert np.abs(got - wanted).max() <= BOUND * np.sqrt(np.mean(wanted.astype(np.float64) ** 2))


@pytest.mark.parametrize("num_rows", [1, 2, 5])
def test_choices_without_a_slot_are_left_out(ops: ProductOps, num_rows: int):
    layer = Layer(ops, num_rows, (Q8_0, Q8_0, Q8_0))
    assert_near(layer.computed([[4, 1, 2]]), layer.wanted([4, 1, 2]))
    assert not layer.computed([[]]).any()


def test_negative_ids_are_left_out(ops: ProductOps):
    layer = Layer(ops, 4, (Q8_0, Q8_0, Q8_0))
    ids = np.where(np.isin(layer.ids, [0, 3]), -1, layer.ids).astype(np.int32)
    assert_near(layer.computed([list(ALL)], ids=ids), layer.wanted([1, 2, 4, 5]))


@pytest.mark.parametrize("num_rows", [1, 7])
def test_two_banks_give_the_bits_of_one(ops: ProductOps, num_rows: int):
    layer = Layer(ops, num_rows, (Q8_0, Q8_0, Q8_0))
    one = layer.computed([list(ALL)])
    assert layer.computed([[3, 0], [5, 1, 4, 2]]).tobytes() == one.tobytes()
    assert layer.computed([[], list(ALL)]).tobytes() == one.tobytes()


def test_what_another_place_computed_is_added(ops: ProductOps):
    layer = Layer(ops, 3, (Q8_0, Q8_0, Q8_0))
    host = Inputs(9).normal(*layer.x.shape)
    without = layer.computed([[0, 1]])
    np.testing.assert_array_equal(layer.computed([[0, 1]], host=host), without + host)


@pytest.mark.parametrize("kinds", [(Q8_0, F32, Q8_0), (F32, F32, Q8_0), (Q8_0, Q8_0, F32)])
def test_gate_up_and_down_may_have_formats_of_their_own(ops: ProductOps, kinds):
    layer = Layer(ops, 3, kinds)
    assert_near(layer.computed([list(ALL)]), layer.wanted(ALL))
    got = np.ones_like(layer.x)
    layer.ops.shared_expert(layer.on_card, layer.x, got)
    wanted = np.ones_like(layer.x)
    REFERENCE.shared_expert(layer.made_by(REFERENCE), layer.x, wanted)
    assert_near(got, wanted)


@pytest.mark.parametrize("num_rows", [20, 70, 130])
def test_prompts_give_the_bits_of_single_rows(ops: ProductOps, num_rows: int):
    layer = Layer(ops, num_rows, (Q8_0, Q8_0, Q8_0))
    whole = layer.computed([list(ALL)])
    assert_near(whole, layer.wanted(ALL))
    for r in (0, num_rows // 2, num_rows - 1):
        alone = np.zeros((1, HIDDEN), np.float32)
        row = slice(r, r + 1)
        ops.some_experts(
            layer.on_card, layer.x[row], layer.ids[row], layer.weights[row], alone, [list(ALL)]
        )
        assert alone.tobytes() == whole[row].tobytes()


@pytest.mark.parametrize("size", [1, 2, 4, 64])
@pytest.mark.parametrize("count", [1, 31, 32, 100, 256])
def test_pairs_are_grouped_alike_by_comparing_and_by_counting(
    ops: ProductOps, count: int, size: int
):
    slots = Inputs(count).random.integers(-2, 12, count).astype(np.int32)
    space, launch = ops.space, ops.launcher.launch
    device_slots, found = space.upload(slots), []
    for name in ("group_few_experts", "group_experts"):
        tiles, pairs = space.zeros((4 + 4 * count,), np.int32), space.zeros((count,), np.int32)
        arguments = [pointer(array) for array in (device_slots, tiles, pairs)]
        numbers = [count, size] if "few" in name else [count, 12, size]
        launch(
            name,
            (1, 1, 1),
            (256, 1, 1),
            *arguments,
            *(ctypes.c_int32(number) for number in numbers),
            shared_bytes=0 if "few" in name else 48,
        )
        num_tiles, num_pairs = tiles.numpy()[:2].tolist()
        rows = tiles.numpy()[4 : 4 + 4 * num_tiles].reshape(-1, 4)
        order = pairs.numpy()[:num_pairs]
        found.append(rows[:, :3].tolist())
        assert sorted(order.tolist()) == np.flatnonzero(slots >= 0).tolist()
        for slot, first, num in rows[:, :3].tolist():
            assert 1 <= num <= size
            assert (slots[order[first : first + num]] == slot).all()
        assert rows[:, 2].sum() == num_pairs
    assert found[0] == found[1]


def test_arrays_that_do_not_fit_are_refused(ops: ProductOps):
    layer = Layer(ops, 2, (Q8_0, Q8_0, Q8_0))
    layer.x = layer.x[:, :32]
    with pytest.raises(ValueError, match="do not fit"):
        layer.computed([list(ALL)])
    with pytest.raises(ValueError, match="do not fit"):
        ops.matmul([layer.on_card.router], layer.x, [np.zeros((2, NUM_EXPERTS), np.float32)])


def routed(ops: ProductOps, logits: np.ndarray, used: int) -> tuple[np.ndarray, np.ndarray]:
    """Route rows whose logits are these: the router is an identity."""
    count = logits.shape[1]
    router = Tensor(
        "router", F32, (count, count), np.eye(count, dtype="<f4").view(np.uint8).ravel()
    )
    layer = Layer(ops, 1, (Q8_0, Q8_0, Q8_0))
    weights = dataclasses.replace(layer.on_card, router=ops.matrix(router), num_used=used)
    ids = np.zeros((len(logits), used), np.int32)
    chosen = np.zeros((len(logits), used), np.float32)
    ops.route(weights, logits.astype(np.float32), ids, chosen)
    return ids, chosen


def test_equal_logits_choose_the_lower_experts(ops: ProductOps):
    logits = np.zeros((2, 40))
    logits[1, [37, 5, 20]] = 1.0
    ids, weights = routed(ops, logits, 4)
    assert ids.tolist() == [[0, 1, 2, 3], [5, 20, 37, 0]]
    np.testing.assert_array_equal(weights[0], np.full(4, 0.25, np.float32))


def test_all_experts_can_be_chosen_and_weights_sum_to_one(ops: ProductOps):
    logits = Inputs(2).normal(5, 33, scale=3.0)
    ids, weights = routed(ops, logits, 33)
    np.testing.assert_array_equal(ids, np.argsort(-logits, axis=1, kind="stable"))
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, rtol=1e-6)
    e = np.exp(np.take_along_axis(logits, ids, 1).astype(np.float64))
    np.testing.assert_allclose(weights, e / e.sum(axis=1, keepdims=True), rtol=1e-5)


def test_every_lane_of_a_warp_can_hold_several_of_the_chosen(ops: ProductOps):
    logits = Inputs(3).random.permutation(200).astype(np.float32)[None]
    logits[0, [5, 37, 69, 101, 133]] += 1000  # of one lane
    ids, _ = routed(ops, logits, 60)
    np.testing.assert_array_equal(ids, np.argsort(-logits, axis=1, kind="stable")[:, :60])


def test_a_large_matrix_is_computed_in_several_sets_of_rows(ops: ProductOps):
    """As many rows as give a block more than one set; the last set is not whole."""
    tensor, x = Inputs(5).tensor(Q8_0, 16 * 1024 * 3 + 5, 1056), Inputs(6).normal(1, 1056)
    out = np.zeros((1, tensor.shape[0]), np.float32)
    ops.matmul([ops.matrix(tensor)], x, [out])
    assert_near(out, x @ tensor.dequantise().T)


def test_extreme_logits_do_not_overflow(ops: ProductOps):
    ids, weights = routed(ops, np.array([[-1e30, 1e30, 3.0, 1e30]]), 3)
    assert ids.tolist() == [[1, 3, 2]]
    assert weights.tolist() == [[0.5, 0.5, 0.0]]


def test_logits_that_are_no_numbers_give_weights_that_are_none(ops: ProductOps):
    ids, weights = routed(ops, np.array([[1.0, np.nan, 2.0], [1.0, 3.0, 2.0]]), 2)
    assert np.isnan(weights[0]).all()
    assert set(ids[0].tolist()) <= {0, 1, 2}
    assert ids[1].tolist() == [1, 2]
