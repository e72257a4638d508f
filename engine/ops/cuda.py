"""The operations on an NVIDIA card, by the kernels of `engine/kernels/cuda`; what it lacks is the CPU's.

Arrays that operations made (`zeros`, `vector`) are `DeviceArray`s; those of `host_arrays` are numpy
arrays in pinned memory, which the card reads and writes by itself. Calls put work into one stream and
return; `synchronize` waits. Tables (embedding, n-grams) stay on the host, which gathers their rows;
stacked experts lie on the host too, with copies of the wanted ones on the card (`cuda_experts.py`).
What the operations compute is said in `engine/ops/base.py`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from engine.core.card_bytes import GRAPH_BYTES, OTHER_SCRATCH_BYTES
from engine.core.errors import ModelFileError
from engine.core.ggml_types import GgmlType
from engine.core.kv_type import KvType
from engine.core.model_sizes import expert_scratch_row_bytes
from engine.device.array import AnyArray, DeviceArray, is_on_card, on_card
from engine.device.base import Device, DeviceError, DeviceMemoryError, Stream
from engine.gguf.reader import Tensor
from engine.kernels.cuda_compile import kernel_files
from engine.ops.base import ChoiceCounter, FloatArray, IntArray, Limits, no_kernel_message
from engine.ops.cuda_balance import MemoryBalance
from engine.ops.cuda_experts import RESULTS, CudaExperts
from engine.ops.cuda_host_arrays import HostArrays
from engine.ops.cuda_launch import Launcher
from engine.ops.cuda_launches import Launches, make_launches
from engine.ops.cuda_layers import CudaLayerOps, as_numpy
from engine.ops.cuda_matrix import CudaMatrix, CudaRowTable, host_table
from engine.ops.cuda_product_structs import FLOAT_FORMATS
from engine.ops.cuda_recording import CudaRecording, GraphMemory, Steps
from engine.ops.cuda_settings import CudaSettings
from engine.ops.host import HostOps
from engine.ops.host_draw import DrawSettings, HostDraw
from engine.ops.host_structs import HOST_FORMATS
from engine.ops.plan import PassPlan
from engine.ops.recording import Part, Recording
from engine.ops.weights import (
    Matrix,
    MoeWeights,
    RowTable,
)

_log = logging.getLogger(__name__)


class CudaOps(CudaLayerOps):
    """The operations of one engine on one card; for one calling thread at a time.

    Attributes:
        device: the card; it is closed with the operations.
        host: the host operations that share the work.
        num_threads: of the host operations.
    """

    name = "cuda"
    kv_types = frozenset(KvType)
    adds_in_mix = True
    keeps_results = True
    chooses = True

    def __init__(
        self,
        limits: Limits,
        device: Device,
        settings: CudaSettings | None = None,
        launches: Callable[[Launcher, Limits], Launches] = make_launches,
        host: HostOps | None = None,
    ) -> None:
        """Start the CPU's threads; kernels are loaded when it is known which formats there are.

        Args:
            limits: sizes; `threads` are those of the host operations.
            device: the card.
            settings: of caches and sharing.
            launches: makes what puts kernels into the stream.
            host: the host operations, when they are another card's, who closes them.

        Raises:
            ResourceError: card or CPU cannot be used.
        """
        self.device = device
        self.limits = limits
        self.settings = CudaSettings() if settings is None else settings
        self._closed = False
        self._owns_host = host is None
        self.host = HostOps(limits) if host is None else host
        self.num_threads = self.host.num_threads
        self._types: set[GgmlType] = set()  # of the model's matrices
        self._launcher = Launcher(device)
        space = self._launcher.space
        super().__init__(space, HostArrays(space), launches(self._launcher, limits))
        self._steps = Steps(self._launcher.stream)
        self._graphs = GraphMemory(device, GRAPH_BYTES)
        self.moe_work = CudaExperts(
            self._launcher,
            self._launches.products,
            self._host_arrays,
            self.host,
            self._steps,
            self.settings,
        )
        self._paces = (device.new_event(), device.new_event())
        self._turn = 0
        self._balance: MemoryBalance | None = None  # once experts have their memory
        self._staged: dict[tuple[int, int], AnyArray] = {}  # rows of tables on their way

    @property
    def isa(self) -> str:
        """What the kernels were compiled for, such as `sm_89`."""
        major, minor = self.device.info.capability
        return f"sm_{major}{minor}"

    @property
    def stream(self) -> Stream:
        """The stream that everything is put into."""
        return self._launcher.stream

    @property
    def graph_bytes(self) -> int:
        """Card memory that recorded passes take, as far as the driver's numbers tell."""
        return self._graphs.num_bytes

    # -- weights and arrays ----------------------------------------------------------------------

    def matrix(self, tensor: Tensor) -> Matrix:
        """Handle of a 2-D tensor, copied to the card, or of stacked experts, which stay.

        Raises:
            ModelFileError: there are no kernels for its format.
            DeviceMemoryError: the card has no room for it.
        """
        _check_format(tensor)
        self._types.add(tensor.type)
        return CudaMatrix(tensor, self._space if len(tensor.shape) == 2 else None)

    def table(self, tensor: Tensor) -> Matrix:
        """Handle of a table, which stays on the host."""
        _check_format(tensor)
        return CudaMatrix(tensor, None)

    def row_table(self, table: RowTable) -> Matrix:
        """Handle of a table on the disk, which the host's operations read."""
        return CudaRowTable(self.host.row_table(table))

    def vector(self, tensor: Tensor) -> FloatArray:
        """The tensor's values on the card."""
        return as_numpy(self._space.upload(super().vector(tensor)))

    def zeros(self, shape: tuple[int, ...], dtype: npt.DTypeLike = np.float32) -> npt.NDArray[Any]:
        """A `DeviceArray`."""
        return as_numpy(self._space.zeros(shape, dtype))

    def upload(self, values: npt.NDArray[Any]) -> DeviceArray:
        """A copy of a host array on the card."""
        return self._space.upload(values)

    def host_arrays(self, *parts: tuple[tuple[int, ...], npt.DTypeLike]) -> list[npt.NDArray[Any]]:
        """Pinned arrays of one block."""
        return self._host_arrays.new_block(parts)

    def card_address(self, array: npt.NDArray[Any]) -> int:
        """Of an array of `host_arrays`."""
        return self._host_arrays.card_address(array)

    def lend(self, memory: FloatArray) -> None:
        """For what experts make of a row's choices."""
        self._launcher.lend(RESULTS, on_card(memory))

    def resize(self, limits: Limits) -> None:
        """Only what is planned for the largest pass depends on them."""
        self.limits = limits

    def free_card_bytes(self) -> int | None:
        """What the driver says."""
        return self.device.free_bytes()

    def share_block(self, owner: CudaOps, array: AnyArray) -> None:
        """Read a block of another card's host arrays too: the one that holds the array."""
        self._host_arrays.share(owner._host_arrays, array)

    def holds(self, array: FloatArray) -> bool:
        """Whether an array lies on this card."""
        return on_card(array).space is self._space

    def finish_loading(self, layers: Sequence[MoeWeights], draft: Sequence[MoeWeights]) -> None:
        """Load the kernels, and take what is left of the card's memory for experts.

        Raises:
            DeviceError: kernels do not compile or load.
        """
        unused = {f"products_{t.name.lower()}" for t in HOST_FORMATS - self._types}
        self.device.load_kernels([name for name in kernel_files() if name not in unused])
        groups = [*layers, *draft]
        num_bytes = self.settings.cache_bytes
        if num_bytes is None:
            self._space.drop_kept()
            taken = self.settings.reserve_bytes + self._scratch_bytes(groups)
            num_bytes = self.device.free_bytes() - taken
        self.moe_work.prepare(groups, len(draft), num_bytes)
        self._balance = self._new_balance(self._scratch_bytes(groups))

    def _new_balance(self, planned: int) -> MemoryBalance:
        """Keeps the reserve free; or less where a size of slots that was asked for left less of it.

        Args:
            planned: bytes that launches will take.
        """
        reserve, most = self.settings.reserve_bytes, self.moe_work.most_slot_bytes
        wished = self.settings.cache_bytes
        if wished is not None:
            reserve = min(reserve, max(0, self.device.free_bytes() - planned))
            most = min(most, wished)
        return MemoryBalance(
            *(self.device, self.moe_work, reserve, most),
            lambda: max(0, planned - self._launcher.scratch_bytes - self._graphs.num_bytes),
        )

    def _scratch_bytes(self, groups: Sequence[MoeWeights]) -> int:
        """About what the launches of the largest pass will take: experts' results most of all."""
        per_row = 0
        for group in groups:
            kinds = {group.gate.type, group.up.type, group.down.type}
            row = expert_scratch_row_bytes(
                *(group.down.rows, group.gate.rows, group.router.rows, group.num_used),
                is_gated=group.gate.type is group.up.type and kinds.isdisjoint(FLOAT_FORMATS),
            )
            per_row = max(per_row, row)
        return self.limits.max_rows * per_row + OTHER_SCRATCH_BYTES + GRAPH_BYTES

    def count_choices(self, counter: ChoiceCounter | None) -> bool:
        """Count what comes to the host anyway."""
        self.moe_work.counter = counter
        return True

    def watch_reads(self, watch: ChoiceCounter | None) -> bool:
        """Of the layers, what the CPU computes and what is copied to the card."""
        self.moe_work.read_watch = watch
        return True

    def tune(self, settings: Mapping[str, float]) -> None:
        """`pcie_frac` can be tuned."""
        self.moe_work.set_pcie_frac(settings.get("pcie_frac", self.settings.pcie_frac))

    def make_room(self, error: DeviceMemoryError, attempt: int = 0) -> bool:
        """Give up a part of the slots for experts, when there are any; once also recordings."""
        self.synchronize()
        needed = max(0, error.needed_bytes - error.free_bytes)
        made = self.moe_work.shrink(needed, attempt)
        if attempt == 1 or (attempt == 0 and not made):
            made = self._graphs.drop() or made
        return made

    def balance_memory(self) -> None:
        """Give slots back while less than the reserve is free, and take them again when there is more."""
        if self._balance is not None:
            self._balance.look()

    # -- passes ----------------------------------------------------------------------------------

    def begin_pass(self, plan: PassPlan) -> None:
        """Send the plan to the card."""
        self._steps.host(self.moe_work.begin_pass)
        self._host_arrays.upload_block(plan.token_ids)

    def pace(self) -> None:
        """Let the card be at most one layer behind."""
        self._turn = 1 - self._turn
        self._launcher.stream.record(self._paces[self._turn])
        self._paces[1 - self._turn].synchronize()

    def synchronize(self) -> None:
        """Wait for the card."""
        self._launcher.stream.synchronize()

    def record(self, parts: Sequence[Part], keep: Sequence[object]) -> Recording:
        """The parts as graphs, with what the host does between them."""
        return CudaRecording(self._steps, parts, keep, self._generation, self._graphs)

    def _generation(self) -> int:
        return self.moe_work.generation + self._launcher.generation

    def new_draw(self, settings: DrawSettings) -> HostDraw | None:
        """Tokens are drawn on the host, where the logits arrive."""
        return self.host.new_draw(settings)

    def close(self) -> None:
        """Give the card's memory and the CPU's threads back; idempotent."""
        if self._closed:
            return
        self._closed = True
        try:
            self.device.synchronize()
            self.moe_work.close()
        except DeviceError as error:  # it is lost, and what it holds with it
            _log.warning("the card gives nothing back: %s", error)
        self._launcher.release()
        self._host_arrays.close()
        if self._owns_host:
            self.host.close()
        self.device.close()

    # -- plain operations ------------------------------------------------------------------------

    def gather_rows(self, table: Matrix, rows: npt.NDArray[np.int64], out: FloatArray) -> None:
        """Gather on the host, where the table is, and send the rows."""
        target = on_card(out)
        num_rows, width = target.shape
        # Of a few sizes, or every length of a prompt leaves a block behind.
        most = max(num_rows, min(1 << (num_rows - 1).bit_length(), self.limits.max_rows))
        staged = self._staged.get((target.address, most))
        if staged is None:
            (staged,) = self._host_arrays.new_block([((most, width), np.float32)])
            self._staged[target.address, most] = staged
        values, source = staged[:num_rows], host_table(table)
        self._steps.host(lambda: self.host.gather_rows(source, rows, cast("FloatArray", values)))
        self._launcher.stream.upload(target.address, values)

    def fill_streams(self, x: FloatArray, streams: FloatArray) -> None:
        """`streams[:, s] = x`."""
        self._launches.streams.fill_streams(on_card(x), on_card(streams))

    def add_to_streams(self, x: FloatArray, streams: FloatArray) -> None:
        """`streams[:, s] += x`."""
        self._launches.streams.add_to_streams(on_card(x), on_card(streams))

    def take_rows(self, source: FloatArray, rows: IntArray, out: FloatArray) -> None:
        """Copies of runs of neighbouring rows."""
        values, target = on_card(source), on_card(out)
        first = 0
        for stop in range(1, len(rows) + 1):
            if stop == len(rows) or rows[stop] != rows[stop - 1] + 1:
                target[first:stop] = values[int(rows[first]) : int(rows[stop - 1]) + 1]
                first = stop

    def rms_norm(self, x: FloatArray, weight: FloatArray, eps: float, out: FloatArray) -> None:
        """`out = rms(x; weight)`."""
        self._launches.streams.rms_norm(on_card(x), on_card(weight), eps, on_card(out))

    def matmul(self, matrices: Sequence[Matrix], x: FloatArray, outs: Sequence[FloatArray]) -> None:
        """`outs[m] = x @ matrices[m].T`; results in host arrays are sent there."""
        targets = [self._target(index, out) for index, out in enumerate(outs)]
        self._launches.products.matmul(matrices, on_card(x), targets)
        for out, target in zip(outs, targets, strict=True):
            if not is_on_card(out):
                self._launcher.stream.download(out, target.address)

    def _target(self, index: int, out: FloatArray) -> DeviceArray:
        if is_on_card(out):
            return on_card(out)
        return self._scratch(f"matmul_out_{index}", out.shape, out.dtype)

    def _scratch(self, name: str, shape: tuple[int, ...], dtype: npt.DTypeLike) -> DeviceArray:
        kind = np.dtype(dtype)
        address = self._launcher.scratch(name, math.prod(shape) * kind.itemsize)
        return DeviceArray(self._space, address, shape, kind, None)

    def choose(self, matrix: Matrix, x: FloatArray, out: IntArray) -> None:
        """The token with the largest logit of each row; logits stay on the card."""
        logits = self._scratch("matmul_out_0", (len(x), matrix.rows), np.float32)
        ids = self._scratch("chosen_ids", (len(x),), np.int32)
        self._launches.products.matmul([matrix], on_card(x), [logits])
        self._launches.sampling.argmax(logits, ids)
        self._launcher.stream.download(out, ids.address)

    def best_logits(self, matrix: Matrix, x: FloatArray, out: IntArray) -> None:
        """The largest logits of each row; all of them lie where `choose` and products have theirs."""
        logits = self._scratch("matmul_out_0", (len(x), matrix.rows), np.float32)
        bests = self._scratch("best_logits", out.shape, np.int32)
        self._launches.products.matmul([matrix], on_card(x), [logits])
        self._launches.sampling.candidates(logits, bests)
        self._launcher.stream.download(out, bests.address)

    def fetch_logits(self, row: int, out: FloatArray) -> None:
        """All logits of a row of the newest `best_logits`."""
        address = self._launcher.scratch("matmul_out_0", 0)
        self._launcher.stream.download(out, address + row * out.nbytes)
        self._launcher.stream.synchronize()


def _check_format(tensor: Tensor) -> None:
    if tensor.type not in HOST_FORMATS:  # the same formats on the card
        raise ModelFileError(
            no_kernel_message(tensor.name, tensor.type.name),
            code="no_kernel",
            params={"name": tensor.name, "type": tensor.type.name},
        )
