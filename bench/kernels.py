"""Speed of the host kernels: every format at several numbers of rows, and the operations on state.

Matrices are larger than the caches. For one row the figure that counts is the share of the bandwidth
with which the same threads read plain memory, measured right before and after each format, because
other work on the machine changes both; for many rows it is multiply-adds per nanosecond. Times are
the best of several runs; with one thread they are processor time, which other work changes least.

    python bench/kernels.py --threads 2 --isa avx512 --formats Q4_K,IQ3_S --rows 1,4,16,64
    python bench/kernels.py --state        # DeltaNet and attention at the published model's sizes
    python bench/kernels.py --experts      # experts of one layer: one row, and a prompt of 512
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from engine.core.ggml_types import GgmlType, row_bytes
from engine.gguf.reader import Tensor
from engine.ops.base import Limits
from engine.ops.check_inputs import Inputs, SequenceRows, delta_pool, kv_pool, make_plan
from engine.ops.check_sequences import AttentionCase, AttentionSizes, DeltaCase, DeltaSizes
from engine.ops.host import HOST_FORMATS, HostOps
from engine.ops.weights import MoeWeights

COLUMNS = 2560
HIDDEN, EXPERT_WIDTH, NUM_EXPERTS, NUM_USED = 2560, 640, 256, 10
PROMPT_ROWS = 512


class Clock:
    """Seconds of the fastest of some runs."""

    def __init__(self, num_threads: int) -> None:
        self._now = time.thread_time if num_threads == 1 else time.perf_counter

    def best(self, run: Callable[[], None], times: int) -> float:
        """The fastest of `times` runs."""
        best = float("inf")
        for _ in range(times):
            start = self._now()
            run()
            best = min(best, self._now() - start)
        return best


def tiled(ggml_type: GgmlType, *shape: int) -> Tensor:
    """A tensor of random blocks, the same 256 rows again and again."""
    width = row_bytes(ggml_type, shape[-1])
    few = Inputs(2).tensor(ggml_type, 256, shape[-1]).data.reshape(256, width)
    num_rows = int(np.prod(shape[:-1]))
    data: npt.NDArray[np.uint8] = np.resize(few, (num_rows, width))
    return Tensor("weights", ggml_type, shape, data.reshape(-1))


def bench_formats(
    ops: HostOps, clock: Clock, types: list[GgmlType], rows: list[int], megabytes: int
) -> None:
    """One line a format: GB/s of weights, its share of plain reading, multiply-adds per ns."""
    plain = np.ones(megabytes * 1_000_000 // 4, np.float32)
    x = Inputs(1).normal(max(rows), COLUMNS)
    for ggml_type in types:
        width = row_bytes(ggml_type, COLUMNS)
        num_rows = megabytes * 1_000_000 // width // 64 * 64
        tensor = tiled(ggml_type, num_rows, COLUMNS)
        line = f"{ggml_type.name:8}"
        for count in rows:
            used = num_rows if count <= 4 else max(64, num_rows * 2 // count // 64 * 64)
            part = Tensor("weights", ggml_type, (used, COLUMNS), tensor.data[: used * width])
            matrix = ops.matrix(part)
            out = np.zeros((count, used), np.float32)

            def run(
                matrix: object = matrix, count: int = count, out: npt.NDArray[np.float32] = out
            ) -> None:
                ops.matmul([matrix], x[:count], [out])  # type: ignore[list-item]

            floor = clock.best(lambda: ops.read_memory(plain), 3) / plain.nbytes
            seconds = clock.best(run, 7)
            floor = min(floor, clock.best(lambda: ops.read_memory(plain), 3) / plain.nbytes)
            line += f" | {count}: {used * COLUMNS * count / seconds / 1e9:6.1f} MAC/ns"
            if count <= 4:
                share = floor * used * width / seconds
                line += f" {used * width / seconds / 1e9:5.1f} GB/s {share:4.0%}"
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def bench_experts(ops: HostOps, clock: Clock, types: list[GgmlType]) -> None:
    """Experts of one layer: a single row reads its experts from memory; a prompt shares them."""
    inputs, random = Inputs(1), np.random.default_rng(3)
    plain = np.ones(25_000_000, np.float32)
    for ggml_type in types:
        down_type = ggml_type if ggml_type.block_values < 256 else GgmlType.Q8_0
        up = tiled(ggml_type, NUM_EXPERTS, EXPERT_WIDTH, HIDDEN)
        down = tiled(down_type, NUM_EXPERTS, HIDDEN, EXPERT_WIDTH)
        small = ops.matrix(inputs.tensor(GgmlType.F32, 32, HIDDEN))
        weights = MoeWeights(
            ops.matrix(inputs.tensor(GgmlType.F32, NUM_EXPERTS, HIDDEN)),
            *(ops.matrix(up), ops.matrix(up), ops.matrix(down)),
            NUM_USED,
            inputs.normal(HIDDEN),
            *(small, small, ops.matrix(inputs.tensor(GgmlType.F32, HIDDEN, 32))),
        )
        line = f"{ggml_type.name:8}/{down_type.name:5}"
        for count in (1, PROMPT_ROWS):
            x, out = inputs.normal(count, HIDDEN), np.zeros((count, HIDDEN), np.float32)
            shares = np.full((count, NUM_USED), 0.1, np.float32)

            def run(
                x: npt.NDArray[np.float32] = x,
                out: npt.NDArray[np.float32] = out,
                shares: npt.NDArray[np.float32] = shares,
                weights: MoeWeights = weights,
            ) -> None:
                ids = np.argsort(random.random((len(x), NUM_EXPERTS)), axis=1)[:, :NUM_USED]
                ops.experts(weights, x, ids.astype(np.int32), shares, out)

            seconds = clock.best(run, 60 if count == 1 else 3)
            macs = 3 * HIDDEN * EXPERT_WIDTH * NUM_USED * count
            line += f" | {count}: {seconds * 1e3:8.2f} ms {macs / seconds / 1e9:6.1f} MAC/ns"
            if count == 1:
                each = 2 * up.data.nbytes + down.data.nbytes
                read = each / NUM_EXPERTS * NUM_USED
                floor = clock.best(lambda: ops.read_memory(plain), 3) / plain.nbytes
                line += f" {read / seconds / 1e9:5.1f} GB/s {floor * read / seconds:4.0%}"
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def bench_state(ops: HostOps, clock: Clock) -> None:
    """DeltaNet for some numbers of rows, attention of one row for some lengths of context."""
    inputs = Inputs(1)
    delta = DeltaCase(DeltaSizes(16, 48, 128, 4), num_rows=1)._weights(ops)
    pools = [delta_pool(3, 8, 16, 48, 128, 4) for _ in range(6)]
    for count in (1, 2, 4, 8, 64):
        arrays = [inputs.normal(count, width) for width in (10240, 6144, 48, 48, 6144)]
        plan = make_plan([SequenceRows(1, 0, 64, count)])

        def run(arrays: list[npt.NDArray[np.float32]] = arrays, plan: object = plan) -> None:
            pools.append(pools.pop(0))
            ops.delta_mix(delta, pools[0], plan, *arrays)  # type: ignore[arg-type]

        seconds = clock.best(run, 20)
        sys.stdout.write(f"DeltaNet {count:3} rows: {seconds * 1e3:7.3f} ms\n")
    sizes = AttentionSizes(24, 2, 256, 4, 128, 64, 4, 512, 64)
    weights = AttentionCase(sizes, num_rows=1)._weights(ops)
    for context in (1024, 2048, 4096, 8192, 16384, 65536):
        num_pages = context // 64 + 1
        pool = kv_pool(3 * num_pages, 64, 4, 2, 256, 128, np.float16)
        for array in (pool.keys, pool.values, pool.index_pooled):
            array[:] = inputs.normal(*array.shape[1:]) + inputs.normal(
                *array.shape[:1], *(1,) * (array.ndim - 1)
            )
        plan = make_plan(
            [SequenceRows(1, 0, context, 1)],
            rope_dim=64,
            block_ratio=4,
            pages_per_sequence=num_pages,
        )
        q, index_q = inputs.normal(1, 24 * 512), inputs.normal(1, 512)
        out = np.zeros((1, 24 * 256), np.float32)

        def attend(
            pool: object = pool,
            plan: object = plan,
            q: npt.NDArray[np.float32] = q,
            index_q: npt.NDArray[np.float32] = index_q,
            out: npt.NDArray[np.float32] = out,
        ) -> None:
            ops.attention(weights, pool, plan, q, index_q, out)  # type: ignore[arg-type]

        seconds = clock.best(attend, 40)
        sys.stdout.write(f"attention, {context:6} tokens of context: {seconds * 1e3:7.3f} ms\n")


def main() -> None:
    """Measure what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--isa", help="avx512, avxvnni or avx2; default: the best")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--formats", help="names with commas; default: all")
    parser.add_argument("--rows", default="1,4,16,64")
    parser.add_argument("--megabytes", type=int, default=200, help="size of a matrix")
    parser.add_argument("--state", action="store_true", help="DeltaNet and attention")
    parser.add_argument("--experts", action="store_true", help="experts of one layer")
    options = parser.parse_args()
    names = (
        options.formats.split(",") if options.formats else [t.name for t in sorted(HOST_FORMATS)]
    )
    ops = HostOps(Limits(PROMPT_ROWS, 8, 3, 4, threads=options.threads), options.isa)
    clock = Clock(options.threads)
    plain = np.ones(50_000_000, np.float32)
    read = plain.nbytes / clock.best(lambda: ops.read_memory(plain), 5) / 1e9
    sys.stdout.write(f"{ops.isa}, {ops.num_threads} threads, plain reading {read:.1f} GB/s\n")
    if options.state:
        bench_state(ops, clock)
    elif options.experts:
        bench_experts(ops, clock, [GgmlType[name] for name in names])
    else:
        rows = [int(count) for count in options.rows.split(",")]
        bench_formats(ops, clock, [GgmlType[name] for name in names], rows, options.megabytes)
    ops.close()


if __name__ == "__main__":
    main()
