"""Bandwidth of a card, and the speed of its products against the floor."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.core.ggml_types import GgmlType, row_bytes
from engine.device.base import Device
from engine.gguf.reader import Tensor
from engine.ops.base import Limits
from engine.ops.check_inputs import Inputs
from engine.ops.cuda import CudaOps
from engine.ops.cuda_settings import CudaSettings
from engine.ops.host import HOST_FORMATS, HostOps

Report = dict[str, Any]

COLUMNS = 2560
# Integer multiply-adds that a multiprocessor of any supported card does in a nanosecond, about: four
# to an instruction, 64 such instructions a clock, 1.7 GHz.
_MACS_PER_NS = 4 * 64 * 1.7


@dataclass(frozen=True, slots=True)
class ProductSizes:
    """How much is measured.

    Attributes:
        matrix_bytes: of one matrix; distinct ones follow each other.
        total_bytes: of all matrices of a format.
        buffer_bytes: for bandwidths.
        rows: of activations.
        repeats: of which the best counts.
        formats: None = all.
    """

    matrix_bytes: int = 16 << 20
    total_bytes: int = 640 << 20
    buffer_bytes: int = 512 << 20
    rows: tuple[int, ...] = (1, 2, 4, 8, 16)
    repeats: int = 5
    formats: tuple[GgmlType, ...] | None = None

    @classmethod
    def small(cls) -> ProductSizes:
        """For the emulated card."""
        return cls(1 << 16, 1 << 17, 1 << 20, (1, 4), 1, (GgmlType.Q8_0, GgmlType.Q4_K))


def measure_memory(device: Device, sizes: ProductSizes) -> Report:
    """Bytes a second: copies within the card (read and write both count), over the bus, RAM read."""
    size = sizes.buffer_bytes
    first, second = device.alloc(size), device.alloc(size)
    pinned = device.pinned(min(size, 256 << 20))
    stream = device.new_stream()
    bus = pinned.array

    def best(work: Callable[[], None]) -> float:
        begin, end = device.new_event(timed=True), device.new_event(timed=True)
        times = []
        for _ in range(sizes.repeats + 1):
            stream.record(begin)
            work()
            stream.record(end)
            end.synchronize()
            times.append(end.elapsed_ms(begin))
        return max(min(times), 1e-6) / 1e3

    report = {
        "card_per_s": 2 * size / best(lambda: stream.copy(second.address, first.address, size)),
        "up_per_s": len(bus) / best(lambda: stream.upload(first.address, bus)),
        "down_per_s": len(bus) / best(lambda: stream.download(bus, first.address)),
    }
    for memory in (first, second, pinned):
        memory.free()
    host = HostOps(Limits(1, 1, 1, 1))
    plain = np.ones(min(size, 256 << 20) // 4, np.float32)
    seconds = []
    for _ in range(sizes.repeats):
        began_at = time.perf_counter()
        host.read_memory(plain)
        seconds.append(time.perf_counter() - began_at)
    report["ram_per_s"] = plain.nbytes / min(seconds)
    report["threads"] = host.num_threads
    host.close()
    device.close()
    for name in ("card_per_s", "up_per_s", "down_per_s", "ram_per_s"):
        print(f"  {name} {report[name] / 1e9:.1f} GB/s", flush=True)
    return report


def measure_products(
    device: Device,
    sizes: ProductSizes,
    memory: Report | None,
    progress: Callable[[str], None],
) -> list[Report]:
    """Products of each format and number of rows.

    Args:
        device: the card; it is closed.
        sizes: how much.
        memory: what `measure_memory` found; None or an error = no shares of the floor.
        progress: told a line for each format.
    """
    limits = Limits(max(sizes.rows), 1, 1, 1)
    ops = CudaOps(limits, device, CudaSettings(cache_bytes=0))
    ops.device.load_kernels()
    bandwidth = (memory or {}).get("card_per_s")
    reports: list[Report] = []
    for ggml_type in sizes.formats or sorted(HOST_FORMATS):
        found = _format(ops, ggml_type, sizes, bandwidth)
        reports += found
        progress(
            f"{ggml_type.name:8}"
            + "".join(
                f" | {r['rows']:2}: {r['bytes_per_s'] / 1e9:7.1f} GB/s"
                + (f" {r['floor_share']:4.0%}" if "floor_share" in r else "")
                for r in found
            )
        )
    ops.close()
    return reports


def _format(
    ops: CudaOps, ggml_type: GgmlType, sizes: ProductSizes, bandwidth: float | None
) -> list[Report]:
    width = row_bytes(ggml_type, COLUMNS)
    num_rows = max(64, sizes.matrix_bytes // width // 64 * 64)
    few = Inputs(2).tensor(ggml_type, 64, COLUMNS).data.reshape(64, width)
    data = np.resize(few, (num_rows, width)).reshape(-1)
    tensor = Tensor("weights", ggml_type, (num_rows, COLUMNS), data)
    count = max(2, sizes.total_bytes // len(data))
    matrices = [ops.matrix(tensor) for _ in range(count)]  # each a copy of its own on the card
    reports = []
    for rows in sizes.rows:
        x = ops.upload(Inputs(1).normal(rows, COLUMNS))
        out = ops.upload(np.zeros((rows, num_rows), np.float32))
        seconds = _best(ops, matrices, x, out, sizes.repeats)
        num_bytes, macs = count * len(data), count * num_rows * COLUMNS * rows
        report: Report = {
            "format": ggml_type.name,
            "rows": rows,
            "matrices_bytes": num_bytes,
            "bytes_per_s": num_bytes / seconds,
            "macs_per_s": macs / seconds,
        }
        if bandwidth:
            rate = _MACS_PER_NS * 1e9 * max(1, ops.device.info.num_multiprocessors)
            floor_s = max(num_bytes / bandwidth, macs / rate)
            report["bandwidth_share"] = num_bytes / bandwidth / seconds
            report["floor_share"] = floor_s / seconds
        reports.append(report)
    return reports


def _best(
    ops: CudaOps,
    matrices: Sequence[Any],
    x: Any,  # noqa: ANN401  # an array on the card, which operations take for numpy's
    out: Any,  # noqa: ANN401
    repeats: int,
) -> float:
    """Seconds on the card of all products, one after the other."""
    device, stream = ops.device, ops.stream
    begin, end = device.new_event(timed=True), device.new_event(timed=True)
    times = []
    for _ in range(repeats + 1):
        stream.record(begin)
        for matrix in matrices:
            ops.matmul([matrix], x, [out])
        stream.record(end)
        end.synchronize()
        times.append(end.elapsed_ms(begin) / 1e3)
    return max(min(times), 1e-9)
