"""The residual mix with what a layer left to add, injections of every kind, many streams."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from engine.core.ggml_types import GgmlType
from engine.device.emulated import EmulatedDevice
from engine.ops.base import Limits
from engine.ops.check_inputs import Inputs
from engine.ops.cuda_streams import Pending
from engine.ops.reference import ReferenceOps
from engine.ops.weights import HyperConnectionWeights
from tests.support.cuda_mixers import KERNEL_FILES, MixerOps

LIMITS = Limits(max_rows=8, max_window=8, num_slots=1, num_pages=1)
ROWS = 5
UP_TYPES = [
    *(GgmlType.F32, GgmlType.F16, GgmlType.BF16, GgmlType.Q8_0, GgmlType.Q5_0, GgmlType.Q5_1),
    *(GgmlType.Q4_0, GgmlType.IQ4_NL, GgmlType.Q4_1),
]


@pytest.fixture(scope="module")
def card() -> Iterator[EmulatedDevice]:
    device = EmulatedDevice()
    products = {f"products_{t.name.lower()}" for t in UP_TYPES}
    device.load_kernels(sorted({*KERNEL_FILES, *products}))
    yield device
    device.close()


@pytest.fixture
def ops(card: EmulatedDevice) -> MixerOps:
    return MixerOps(LIMITS, card)


class Mix:
    """Weights and inputs of a mix of `streams` x `hidden`."""

    def __init__(self, streams: int, hidden: int, inject_type: GgmlType = GgmlType.F32) -> None:
        inputs = Inputs(streams * 1000 + hidden)
        self.norm = inputs.weight(streams, hidden)
        self.down = inputs.tensor(GgmlType.F32, 6, streams * hidden)
        self.up = inputs.tensor(GgmlType.F32, streams * hidden, 6)
        self.inject_rows = inputs.tensor(inject_type, streams, streams * hidden)
        self.streams = inputs.normal(ROWS, streams, hidden)
        self.last_inject = inputs.normal(ROWS, streams)
        self.y, self.late = inputs.normal(ROWS, hidden), inputs.normal(ROWS, hidden)

    def weights(self, ops: ReferenceOps) -> HyperConnectionWeights:
        matrices = (ops.matrix(t) for t in (self.down, self.up, self.inject_rows))
        down, up, inject = matrices
        return HyperConnectionWeights(self.norm, down, up, inject, 1e-6)

    def run(self, ops: ReferenceOps, streams: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x = np.zeros((ROWS, self.norm.shape[1]), np.float32)
        inject = np.zeros((ROWS, len(self.norm)), np.float32)
        ops.hc_mix(self.weights(ops), streams, x, inject)
        return x, inject


@pytest.mark.parametrize("has_late", [False, True])
@pytest.mark.parametrize(("streams", "hidden"), [(1, 7), (3, 40), (4, 300), (8, 33), (12, 20)])
def test_adding_what_is_pending_first_gives_the_bits_of_adding_it_alone(
    ops: MixerOps, streams: int, hidden: int, has_late: bool
):
    mix = Mix(streams, hidden)
    late = ops.up(mix.late) if has_late else None
    alone = ops.up(mix.streams)
    inject, y = ops.up(mix.last_inject), ops.up(mix.y)
    ops.streams.hc_combine(alone, inject, y, late)
    x, new_inject = mix.run(ops, alone.numpy())

    together = ops.up(mix.streams)
    to, to_inject = ops.empty(x), ops.empty(new_inject)
    weights = ops.uploaded(mix.weights(ops))
    ops.streams.hc_mix(weights, together, to, to_inject, Pending(inject, y, late))
    assert together.numpy().tobytes() == alone.numpy().tobytes()
    assert to.numpy().tobytes() == x.tobytes()
    assert to_inject.numpy().tobytes() == new_inject.tobytes()

    added = mix.y + mix.late if has_late else mix.y
    wanted = mix.streams + mix.last_inject[:, :, None] * added[:, None]
    np.testing.assert_allclose(alone.numpy(), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("inject_type", [GgmlType.F32, GgmlType.F16, GgmlType.BF16])
@pytest.mark.parametrize("streams", [2, 8, 9, 12])
def test_an_injection_of_any_format_and_number_of_streams(
    ops: MixerOps, inject_type: GgmlType, streams: int
):
    mix = Mix(streams, 24, inject_type)
    got = mix.run(ops, mix.streams)
    wanted = mix.run(ReferenceOps(LIMITS), mix.streams)
    np.testing.assert_allclose(got[0], wanted[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got[1], wanted[1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("streams", "hidden"), [(4, 64), (3, 96), (2, 30)])
@pytest.mark.parametrize("up_type", UP_TYPES, ids=lambda t: t.name)
def test_few_rows_in_few_launches_have_the_bits_of_many_rows(
    ops: MixerOps, up_type: GgmlType, streams: int, hidden: int
):
    inputs = Inputs(int(up_type))
    quantised = GgmlType.Q8_0 if streams * hidden % 32 == 0 else GgmlType.F16
    tensors = [
        inputs.tensor(quantised, 96, streams * hidden),
        inputs.tensor(up_type, streams * hidden, 96),
        inputs.tensor(GgmlType.F32, streams, streams * hidden),
    ]
    norm = inputs.weight(streams, hidden)
    values = inputs.normal(40, streams, hidden)

    def mix(on: ReferenceOps, part: slice) -> tuple[np.ndarray, np.ndarray]:
        weights = HyperConnectionWeights(norm, *(on.matrix(t) for t in tensors), 1e-6)
        rows = part.stop - part.start
        x, inject = np.zeros((rows, hidden), np.float32), np.zeros((rows, streams), np.float32)
        on.hc_mix(weights, values[part], x, inject)
        return x, inject

    whole = mix(ops, slice(0, 40))
    for few in (slice(0, 1), slice(1, 4), slice(4, 9), slice(9, 25)):
        x, inject = mix(ops, few)
        assert x.tobytes() == whole[0][few].tobytes()
        assert inject.tobytes() == whole[1][few].tobytes()
    wanted = mix(ReferenceOps(LIMITS), slice(0, 40))
    np.testing.assert_allclose(whole[0], wanted[0], atol=0.03)
    np.testing.assert_allclose(whole[1], wanted[1], atol=0.03)


class RecordedMix:
    """A mix whose x has whole records, and a matrix that reads x."""

    def __init__(self, ops: MixerOps) -> None:
        inputs = Inputs(5)
        matrices = [
            ops.matrix(inputs.tensor(GgmlType.Q8_0, *shape)) for shape in ((96, 256), (256, 96))
        ]
        norm = ops.up(inputs.weight(4, 64))
        self.weights = HyperConnectionWeights(norm, *matrices, None, 1e-6)
        self.reader = ops.matrix(inputs.tensor(GgmlType.Q8_0, 40, 64))
        self.products = ops.streams._products
        self.streams = ops.up(inputs.normal(ROWS, 4, 64))
        self.x = ops.launcher.space.empty((ROWS, 64))

    def read(self, ops: MixerOps) -> tuple[np.ndarray, int]:
        """What the matrix makes of x, and in how many launches."""
        out = ops.launcher.space.empty((ROWS, 40))
        ops.launcher.stream.synchronize()
        before = ops.launcher.device.num_launches
        self.products.matmul([self.reader], self.x, [out])
        return out.numpy(), ops.launcher.device.num_launches - before


def test_who_reads_a_mix_need_not_quantise_it_and_gets_the_same_bits(ops: MixerOps):
    mix = RecordedMix(ops)
    ops.streams.hc_mix(mix.weights, mix.streams, mix.x, None)
    with_records = mix.read(ops)
    mix.products.known_records.forget()
    without = mix.read(ops)
    assert with_records[0].tobytes() == without[0].tobytes()
    assert (with_records[1], without[1]) == (1, 2)


@pytest.mark.parametrize("operation", ["rms_norm", "fill", "add", "combine", "mix"])
def test_records_are_not_used_once_streams_went_on(ops: MixerOps, operation: str):
    mix = RecordedMix(ops)
    ops.streams.hc_mix(mix.weights, mix.streams, mix.x, None)
    other = ops.up(Inputs(6).normal(ROWS, 64))
    mix.x[...] = other  # as an operation behind the next ones would
    if operation == "rms_norm":
        ops.streams.rms_norm(other, ops.up(np.ones(64, np.float32)), 1e-6, other.copy())
    elif operation == "fill":
        ops.streams.fill_streams(other, mix.streams)
    elif operation == "add":
        ops.streams.add_to_streams(other, mix.streams)
    elif operation == "combine":
        ops.streams.hc_combine(mix.streams, ops.up(np.ones((ROWS, 4), np.float32)), other)
    else:
        many = ops.up(Inputs(7).normal(40, 4, 64))
        ops.streams.hc_mix(mix.weights, many, ops.launcher.space.empty((40, 64)), None)
    got = mix.read(ops)
    mix.products.known_records.forget()
    assert got[0].tobytes() == mix.read(ops)[0].tobytes()
