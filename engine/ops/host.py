"""The operations on the CPU, by the C++ kernels of `engine/kernels/host`.

Weights are used where they lie in the mapped file. A call passes the addresses of numpy array objects,
from which the library reads pointers, dimensions and strides: it costs about a microsecond. Shapes are
checked in the library; what the operations compute is said in `engine/ops/base.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Sequence

import numpy as np
import numpy.typing as npt

from engine.core.errors import ModelFileError, ResourceError
from engine.core.topology import default_threads_here, pinned_cpus, read_cores
from engine.gguf.reader import Tensor
from engine.kernels.library import MOST_MATRICES, HostFunction, choose_variant, load_library
from engine.ops.base import FloatArray, IntArray, Limits, Ops, no_kernel_message
from engine.ops.host_codebooks import set_codebooks
from engine.ops.host_draw import DrawSettings, HostDraw
from engine.ops.host_recording import RecordedCalls, Recorder
from engine.ops.host_replay import HostRecording
from engine.ops.host_runner import ListRunner, Sides
from engine.ops.host_structs import (
    HOST_FORMATS,
    HostMatrix,
    HostRowTable,
    address_of,
    prepare_attention,
    prepare_delta,
    prepare_hyper_connection,
    prepare_moe,
    prepare_ple,
    structure_of,
)
from engine.ops.plan import PassPlan
from engine.ops.pools import DeltaPool, KvPool, PlePool
from engine.ops.recording import Part, Recording
from engine.ops.weights import (
    AttentionWeights,
    DeltaWeights,
    HyperConnectionWeights,
    Matrix,
    MoeWeights,
    PleWeights,
    RowTable,
)

_log = logging.getLogger(__name__)

_WRONG_SHAPE, _NOT_READ = 1, 3  # Status of api.h
_NO_PAIRS = tuple((None,) * (2 * (MOST_MATRICES - n)) for n in range(MOST_MATRICES + 1))


class HostOps(Ops):
    """The operations of one engine, with its own worker threads; for one calling thread at a time.

    Attributes:
        isa: the variant that runs: `avx512`, `avxvnni` or `avx2`.
        num_threads: threads that share the work, the calling one included.
    """

    name = "host"
    records_numbers = False

    def __init__(self, limits: Limits, isa: str | None = None) -> None:
        """Load the library and start the threads.

        Args:
            limits: only `threads` is used; scratch grows to the largest call.
            isa: a variant by name, None for the best that this processor can run.

        Raises:
            ConfigError: no variant has this name.
            ResourceError: this machine cannot run the kernels.
        """
        self._context = 0
        self._library = load_library()
        self.isa = choose_variant(self._library, isa)
        self._context = self._library.create(
            limits.threads or default_threads_here(), object.__basicsize__
        )
        self.num_threads = self._library.threads(self._context)
        self._runner = ListRunner(self._library, self._context, self._fail)
        if limits.pin_threads:
            self._pin_threads()
        self._check_arrays()
        set_codebooks(self._library)
        self._functions = self._library.operations(self.isa)
        self._row_tables: list[RowTable] = []
        self._bind(self._functions)

    def _bind(self, call: dict[str, HostFunction]) -> None:
        """Which functions the operations call: the library's, or a recorder's."""
        self._read_memory = call["read_memory"]
        self._gather_rows = call["gather_rows"]
        self._read_rows = call["read_rows"]
        self._fill_streams = call["fill_streams"]
        self._add_to_streams = call["add_to_streams"]
        self._rms_norm = call["rms_norm"]
        self._matmul = call["matmul"]
        self._hc_mix = call["hc_mix"]
        self._hc_combine = call["hc_combine"]
        self._delta_mix = call["delta_mix"]
        self._delta_commit = call["delta_commit"]
        self._attention_append = call["attention_append"]
        self._attention = call["attention"]
        self._route = call["route"]
        self._experts = call["experts"]
        self._shared_expert = call["shared_expert"]
        self._ple_mix = call["ple_mix"]
        self._ple_commit = call["ple_commit"]

    def _pin_threads(self) -> None:
        cpus = pinned_cpus(read_cores(), self.num_threads)
        held = self._library.pin(self._context, cpus) if cpus else 0
        if held < self.num_threads - 1:
            others = self.num_threads - 1
            _log.warning("only %d of %d threads can be held to cores of their own", held, others)

    def _check_arrays(self) -> None:
        """Prove once that array objects look as the library expects.

        Raises:
            ResourceError: they do not, in this build of Python or numpy.
        """
        probe = np.zeros((3, 4, 5), np.float32)[:, 1:3]
        if not self._library.check_array(
            self._context, id(probe), probe.ctypes.data, probe.shape, probe.strides
        ):
            self.close()
            raise ResourceError(
                "This build of Python or numpy keeps arrays in a way that the host kernels do not "
                "know; the slow reference operations work with it."
            )

    @property
    def num_sides(self) -> int:
        """As many as threads, unless a table on the disk is read, which one thread does at a time."""
        return 1 if self._row_tables else self.num_threads

    def record(self, parts: Sequence[Part], keep: Sequence[object]) -> Recording:
        """The calls of the parts as a list that the library runs by itself."""
        return HostRecording(self._runner, self._record(parts, keep), self.num_threads)

    def record_sides(
        self,
        parts: Sequence[Part],
        keep: Sequence[object],
        new_sides: Callable[[Hashable], Sequence[Sequence[Part]]],
    ) -> Recording:
        """The same, with lists for threads that work side by side."""

        def record_them(cuts: Hashable) -> Sides:
            return Sides([self._record(side, (side,)) for side in new_sides(cuts)])

        calls = self._record(parts, keep)
        return HostRecording(self._runner, calls, self.num_threads, record_them)

    def _record(self, parts: Sequence[Part], keep: Sequence[object]) -> RecordedCalls:
        recorder = Recorder(self._library, self.isa)
        self._bind(recorder.functions)
        try:
            for part in parts:
                part()
                recorder.end_part()
        finally:
            self._bind(self._functions)
        return recorder.finish(keep)

    def new_draw(self, settings: DrawSettings) -> HostDraw | None:
        """The library draws where few candidates are enough."""
        if not settings.is_drawable:
            return None
        return HostDraw(self._library.draw, self._library.draw_window, settings)

    def close(self) -> None:
        """End the threads and free their memory; idempotent."""
        context, self._context = self._context, 0
        if context:
            self._runner.close()
            self._library.destroy(context)

    def __del__(self) -> None:
        """Threads end with the object."""
        self.close()

    def matrix(self, tensor: Tensor) -> Matrix:
        """Handle of a 2-D or 3-D tensor, in the file's own bytes."""
        if tensor.type not in HOST_FORMATS:
            raise ModelFileError(
                no_kernel_message(tensor.name, tensor.type.name),
                code="no_kernel",
                params={"name": tensor.name, "type": tensor.type.name},
            )
        matrix = HostMatrix(tensor)
        if self.isa == "avx512":
            matrix.lay_out(self._context, self._functions["row_tiles"])
        return matrix

    def row_table(self, table: RowTable) -> HostRowTable:
        """Handle of a table on the disk, which the library reads by itself."""
        self._row_tables.append(table)
        return HostRowTable(table)

    def _fail(self, status: int, operation: str) -> None:
        if status == _WRONG_SHAPE:
            raise ValueError(f"host operation {operation}: arrays do not fit the weights")
        if status == _NOT_READ:
            raise self._row_tables[-1].failure()  # a model has one
        raise ResourceError(f"There is not enough memory for the operation {operation}.")

    # -- plain operations ------------------------------------------------------------------------

    def read_memory(self, array: npt.NDArray[np.generic]) -> None:
        """Read all bytes of a contiguous array with all threads, for measuring the bandwidth."""
        status = self._read_memory(self._context, id(array))
        if status:
            self._fail(status, "read_memory")

    def gather_rows(self, table: Matrix, rows: npt.NDArray[np.int64], out: FloatArray) -> None:
        """`out[i] = table[rows.flat[i]]`."""
        if isinstance(table, HostRowTable):
            status = self._read_rows(self._context, table.reader, table.address, id(rows), id(out))
            if status:
                self._fail(status, "read_rows")
            return
        status = self._gather_rows(self._context, address_of(table), id(rows), id(out))
        if status:
            self._fail(status, "gather_rows")

    def fill_streams(self, x: FloatArray, streams: FloatArray) -> None:
        """`streams[:, s] = x`."""
        status = self._fill_streams(self._context, id(x), id(streams))
        if status:
            self._fail(status, "fill_streams")

    def add_to_streams(self, x: FloatArray, streams: FloatArray) -> None:
        """`streams[:, s] += x`."""
        status = self._add_to_streams(self._context, id(x), id(streams))
        if status:
            self._fail(status, "add_to_streams")

    def rms_norm(self, x: FloatArray, weight: FloatArray, eps: float, out: FloatArray) -> None:
        """`out = rms(x; weight)`."""
        status = self._rms_norm(self._context, id(x), id(weight), eps, id(out))
        if status:
            self._fail(status, "rms_norm")

    def matmul(self, matrices: Sequence[Matrix], x: FloatArray, outs: Sequence[FloatArray]) -> None:
        """`outs[m] = x @ matrices[m].T`; rows of x are quantised once for six matrices."""
        for first in range(0, len(matrices), MOST_MATRICES):
            pairs: list[int] = []
            for matrix, out in zip(
                matrices[first : first + MOST_MATRICES],
                outs[first : first + MOST_MATRICES],
                strict=True,
            ):
                pairs += (address_of(matrix), id(out))
            count = len(pairs) // 2
            status = self._matmul(self._context, id(x), count, *pairs, *_NO_PAIRS[count])
            if status:
                self._fail(status, "matmul")

    # -- residual streams ------------------------------------------------------------------------

    def hc_mix(
        self,
        weights: HyperConnectionWeights,
        streams: FloatArray,
        x: FloatArray,
        inject: FloatArray | None,
    ) -> None:
        """Gated residual mix."""
        status = self._hc_mix(
            self._context,
            structure_of(weights, prepare_hyper_connection),
            id(streams),
            id(x),
            None if inject is None else id(inject),
        )
        if status:
            self._fail(status, "hc_mix")

    def hc_combine(self, streams: FloatArray, inject: FloatArray, y: FloatArray) -> None:
        """`streams[r, s] += inject[r, s] * y[r]`."""
        status = self._hc_combine(self._context, id(streams), id(inject), id(y))
        if status:
            self._fail(status, "hc_combine")

    # -- Gated DeltaNet --------------------------------------------------------------------------

    def delta_mix(
        self,
        weights: DeltaWeights,
        pool: DeltaPool,
        plan: PassPlan,
        qkv: FloatArray,
        z: FloatArray,
        alpha: FloatArray,
        beta: FloatArray,
        out: FloatArray,
    ) -> None:
        """Convolution, gates, delta rule (as a recurrence), gated norm."""
        status = self._delta_mix(
            self._context,
            structure_of(weights, prepare_delta),
            id(pool.state),
            id(pool.conv),
            id(pool.window_conv),
            id(pool.window_k),
            id(pool.window_v),
            id(pool.window_decay),
            id(pool.window_beta),
            id(plan.seq_start),
            id(plan.seq_slot),
            id(plan.seq_half),
            id(qkv),
            id(z),
            id(alpha),
            id(beta),
            id(out),
        )
        if status:
            self._fail(status, "delta_mix")

    def delta_commit(
        self, weights: DeltaWeights, pool: DeltaPool, slot: int, half: int, num_tokens: int
    ) -> None:
        """The state after only the first tokens of the last pass, into the other half."""
        status = self._delta_commit(
            self._context,
            structure_of(weights, prepare_delta),
            id(pool.state),
            id(pool.conv),
            id(pool.window_conv),
            id(pool.window_k),
            id(pool.window_v),
            id(pool.window_decay),
            id(pool.window_beta),
            slot,
            half,
            num_tokens,
        )
        if status:
            self._fail(status, "delta_commit")

    # -- sparse attention ------------------------------------------------------------------------

    def attention_append(
        self,
        weights: AttentionWeights,
        pool: KvPool,
        plan: PassPlan,
        k: FloatArray,
        v: FloatArray,
        index_k: FloatArray,
    ) -> None:
        """Keys, values and index keys into the pages; completed blocks pooled."""
        status = self._attention_append(
            self._context,
            structure_of(weights, prepare_attention),
            id(pool.keys),
            id(pool.values),
            id(pool.index_raw),
            id(pool.index_pooled),
            id(plan.positions),
            id(plan.row_seq),
            id(plan.page_table),
            id(plan.rope_cos),
            id(plan.rope_sin),
            id(plan.block_rope_cos),
            id(plan.block_rope_sin),
            id(k),
            id(v),
            id(index_k),
        )
        if status:
            self._fail(status, "attention_append")

    def attention(
        self,
        weights: AttentionWeights,
        pool: KvPool,
        plan: PassPlan,
        q: FloatArray,
        index_q: FloatArray,
        out: FloatArray,
        selected: IntArray | None = None,
    ) -> None:
        """Choose blocks, attend to them and to the tail, gate."""
        status = self._attention(
            self._context,
            structure_of(weights, prepare_attention),
            id(pool.keys),
            id(pool.values),
            id(pool.index_pooled),
            id(plan.positions),
            id(plan.row_seq),
            id(plan.page_table),
            id(plan.rope_cos),
            id(plan.rope_sin),
            id(q),
            id(index_q),
            id(out),
            None if selected is None else id(selected),
        )
        if status:
            self._fail(status, "attention")

    # -- experts ---------------------------------------------------------------------------------

    def route(
        self, weights: MoeWeights, x: FloatArray, expert_ids: IntArray, expert_weights: FloatArray
    ) -> None:
        """Softmax, top-k, renormalise."""
        status = self._route(
            self._context,
            structure_of(weights, prepare_moe),
            id(x),
            id(expert_ids),
            id(expert_weights),
        )
        if status:
            self._fail(status, "route")

    def experts(
        self,
        weights: MoeWeights,
        x: FloatArray,
        expert_ids: IntArray,
        expert_weights: FloatArray,
        out: FloatArray,
    ) -> None:
        """Weighted sum of the chosen experts."""
        status = self._experts(
            self._context,
            structure_of(weights, prepare_moe),
            id(x),
            id(expert_ids),
            id(expert_weights),
            id(out),
        )
        if status:
            self._fail(status, "experts")

    def shared_expert(self, weights: MoeWeights, x: FloatArray, out: FloatArray) -> None:
        """Add the gated shared expert."""
        status = self._shared_expert(
            self._context, structure_of(weights, prepare_moe), id(x), id(out)
        )
        if status:
            self._fail(status, "shared_expert")

    # -- n-gram layer ----------------------------------------------------------------------------

    def ple_mix(
        self,
        weights: PleWeights,
        pool: PlePool,
        plan: PassPlan,
        key: FloatArray,
        value: FloatArray,
        streams: FloatArray,
    ) -> None:
        """Gate the n-gram value into the streams and add its dilated convolution."""
        status = self._ple_mix(
            self._context,
            structure_of(weights, prepare_ple),
            id(pool.conv),
            id(pool.window),
            id(plan.seq_start),
            id(plan.seq_slot),
            id(plan.seq_half),
            id(key),
            id(value),
            id(streams),
        )
        if status:
            self._fail(status, "ple_mix")

    def ple_commit(
        self, weights: PleWeights, pool: PlePool, slot: int, half: int, num_tokens: int
    ) -> None:
        """The convolution history after only the first tokens of the last pass."""
        status = self._ple_commit(
            self._context,
            structure_of(weights, prepare_ple),
            id(pool.conv),
            id(pool.window),
            slot,
            half,
            num_tokens,
        )
        if status:
            self._fail(status, "ple_commit")
