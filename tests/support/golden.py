"""The golden models and their stored values, and the operations that are compared with them.

Tests are parametrised by the name of the operations (`OPS_NAMES`); an implementation that is not
there yet is skipped by name. Bounds are those of the specification's section 11.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from engine.device.array import host_copy
from engine.gguf.reader import GgufFile
from engine.model.limits import ModelLimits
from engine.model.trunk import Model
from engine.ops.base import Ops
from engine.ops.select import make_ops
from engine.sequence.batch import Batch, BatchEntry, LogitsWanted, PassResult
from engine.sequence.state import SequenceState
from tests.support.plain_launches import plain_ops

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
FLOAT_CASES = ("full", "nople", "odd")
QUANTISED_CASES = ("quant-Q4_K_M", "quant-Q2_0", "quant-IQ2_XS")
CPU_OPS_NAMES = ("reference", "host")
# `plain` are the CUDA operations with the reference's in the place of kernels. With the kernels everything
# takes much longer: see tests/engine/ops/cuda/test_emulated_engine.py.
OPS_NAMES = (*CPU_OPS_NAMES, "plain")
_EXACT_OPS = ("reference", "plain")

# Largest differences of logits and of probed values in float models (logits have a deviation of 1).
REFERENCE_BOUND = 5e-5
HOST_BOUND = 2e-3
MEAN_KL_BOUNDS = {"float": 1e-4, "quantised": 1e-3}


@functools.cache
def arrays(case: str) -> dict[str, npt.NDArray[Any]]:
    """The stored arrays of a case."""
    with np.load(GOLDEN / f"{case}.npz") as file:
        return {name: file[name] for name in file.files}


@functools.cache
def model_file(case: str) -> GgufFile:
    """The model of a case, opened once."""
    return GgufFile.open(GOLDEN / f"{case}.gguf")


def make_golden_ops(name: str, limits: ModelLimits) -> Ops:
    """Operations by name; skips the test when they do not exist yet."""
    if name == "host" and importlib.util.find_spec("engine.ops.host") is None:
        pytest.skip("the host operations are not written yet")
    if name == "plain":
        return plain_ops(limits.for_ops())
    return make_ops(name, limits.for_ops())


def golden_limits(**changes: Any) -> ModelLimits:
    """Small limits with several pages to a sequence, and float32 caches."""
    values: dict[str, Any] = {
        "max_rows": 256,
        "max_window": 8,
        "max_sequences": 3,
        "context": 256,
        "kv_type": "f32",
        "page_tokens": 32,
    }
    return ModelLimits(**(values | changes))


def load_golden(
    case: str, ops_name: str, *, mtp: str | None = None, record: bool = False, **changes: Any
) -> Model:
    """A freshly loaded golden model; with `record`, its `ops` is a `RecordingOps`."""
    limits = golden_limits(**changes)
    ops: Ops = make_golden_ops(ops_name, limits)
    if record:
        ops = RecordingOps(ops)
    return Model.load(
        model_file(case), ops, limits, mtp_file=None if mtp is None else model_file(mtp)
    )


def run_tokens(
    model: Model,
    sequence: SequenceState,
    tokens: Sequence[int],
    chunk: int | None = None,
) -> npt.NDArray[np.float32]:
    """Logits of all tokens, computed and committed in chunks."""
    size = len(tokens) if chunk is None else chunk
    logits = []
    for start in range(0, len(tokens), size):
        part = [int(t) for t in tokens[start : start + size]]
        result = forward(model, sequence, part)
        logits.append(result.logits.copy())
        sequence.commit(len(part))
    return np.concatenate(logits)


def forward(
    model: Model,
    sequence: SequenceState,
    tokens: Sequence[int],
    logits: LogitsWanted = LogitsWanted.ALL,
) -> PassResult:
    """One pass of one sequence, not committed."""
    return model.forward(Batch([BatchEntry(sequence, [int(t) for t in tokens], logits)]))


def mean_kl(wanted: npt.NDArray[np.floating], got: npt.NDArray[np.floating]) -> float:
    """Mean over rows of KL(softmax(wanted) || softmax(got))."""
    p, q = _log_softmax(wanted), _log_softmax(got)
    return float((np.exp(p) * (p - q)).sum(axis=-1).mean())


def _log_softmax(logits: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    wide = logits.astype(np.float64)
    wide = wide - wide.max(axis=-1, keepdims=True)
    return wide - np.log(np.exp(wide).sum(axis=-1, keepdims=True))


def bound(ops_name: str) -> float:
    """Largest difference of values inside a float model."""
    return REFERENCE_BOUND if ops_name in _EXACT_OPS else HOST_BOUND


def assert_logits(
    ops_name: str, case: str, got: npt.NDArray[np.float32], wanted: npt.NDArray[np.float32]
) -> None:
    """Compare logits within the bounds of these operations."""
    assert np.isfinite(got).all()
    if ops_name in _EXACT_OPS:
        assert np.abs(got - wanted).max() < REFERENCE_BOUND
        return
    kind = "quantised" if case in QUANTISED_CASES else "float"
    assert mean_kl(wanted, got) < MEAN_KL_BOUNDS[kind]
    same = (got.argmax(axis=-1) == wanted.argmax(axis=-1)).mean()
    assert same >= (0.95 if kind == "quantised" else 0.98)


class RecordingOps(Ops):
    """Operations that remember what went through them, for comparison with probed values."""

    def __init__(self, inner: Ops) -> None:
        self.inner = inner
        self.name = inner.name
        self.mixes: list[tuple[npt.NDArray[Any], npt.NDArray[Any] | None]] = []  # x, inject
        self.outputs: list[npt.NDArray[Any]] = []  # what is injected into the streams
        self.expert_ids: list[npt.NDArray[Any]] = []
        self.selected: list[npt.NDArray[Any]] = []
        self.table_rows: list[npt.NDArray[Any]] = []

    def matrix(self, tensor):
        return self.inner.matrix(tensor)

    def table(self, tensor):
        return self.inner.table(tensor)

    def vector(self, tensor):
        return self.inner.vector(tensor)

    def zeros(self, shape, dtype=np.float32):
        return self.inner.zeros(shape, dtype)

    def host_arrays(self, *parts):
        return self.inner.host_arrays(*parts)

    def finish_loading(self, layers, draft):
        self.inner.finish_loading(layers, draft)

    def begin_pass(self, plan):
        self.inner.begin_pass(plan)

    def synchronize(self):
        self.inner.synchronize()

    def take_rows(self, source, rows, out):
        self.inner.take_rows(source, rows, out)

    def gather_rows(self, table, rows, out):
        if rows.ndim == 2:
            self.table_rows.append(rows.copy())
        self.inner.gather_rows(table, rows, out)

    def fill_streams(self, x, streams):
        self.inner.fill_streams(x, streams)

    def add_to_streams(self, x, streams):
        self.inner.add_to_streams(x, streams)

    def rms_norm(self, x, weight, eps, out):
        self.inner.rms_norm(x, weight, eps, out)

    def matmul(self, matrices, x, outs):
        self.inner.matmul(matrices, x, outs)

    def hc_mix(self, weights, streams, x, inject):
        self.inner.hc_mix(weights, streams, x, inject)
        self.mixes.append((host_copy(x), None if inject is None else host_copy(inject)))

    def hc_combine(self, streams, inject, y):
        self.outputs.append(host_copy(y))
        self.inner.hc_combine(streams, inject, y)

    def delta_mix(self, weights, pool, plan, qkv, z, alpha, beta, out):
        self.inner.delta_mix(weights, pool, plan, qkv, z, alpha, beta, out)

    def delta_commit(self, weights, pool, slot, half, num_tokens):
        self.inner.delta_commit(weights, pool, slot, half, num_tokens)

    def attention_append(self, weights, pool, plan, k, v, index_k):
        self.inner.attention_append(weights, pool, plan, k, v, index_k)

    def attention(self, weights, pool, plan, q, index_q, out, selected=None):
        chosen = np.full((plan.num_rows, weights.top_blocks), -7, np.int32)
        self.inner.attention(weights, pool, plan, q, index_q, out, chosen)
        self.selected.append(chosen)

    def route(self, weights, x, expert_ids, expert_weights):
        self.inner.route(weights, x, expert_ids, expert_weights)
        self.expert_ids.append(host_copy(expert_ids))

    def experts(self, weights, x, expert_ids, expert_weights, out):
        self.inner.experts(weights, x, expert_ids, expert_weights, out)

    def shared_expert(self, weights, x, out):
        self.inner.shared_expert(weights, x, out)

    def ple_mix(self, weights, pool, plan, key, value, streams):
        self.inner.ple_mix(weights, pool, plan, key, value, streams)

    def ple_commit(self, weights, pool, slot, half, num_tokens):
        self.inner.ple_commit(weights, pool, slot, half, num_tokens)

    def commit_states(self, delta, ple, slot, half, num_tokens):
        self.inner.commit_states(delta, ple, slot, half, num_tokens)

    def close(self):
        self.inner.close()


def load_and_run(path: Path) -> None:
    """Load a model file of unknown goodness and compute three tokens (for the fuzz runs)."""
    limits = golden_limits(max_rows=4, max_sequences=1, context=32)
    with GgufFile.open(path) as file:
        model = Model.load(file, make_ops("reference", limits.for_ops()), limits)
        with np.errstate(all="ignore"):  # zeros and wild values are no news here
            forward(model, model.new_sequence(), [0, 1 % model.config.vocab_size, 0])
