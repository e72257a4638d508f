"""What choosing tokens costs on a card: the largest logits there, against all of them over the bus."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.device.base import Device
from engine.ops.best_logits import ROW_WORDS
from engine.ops.cuda_launch import Launcher
from engine.ops.cuda_sampling import CudaSampling

Report = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ChoiceSizes:
    """How much is measured.

    Attributes:
        vocabulary: logits of a row.
        rows: of a window.
        repeats: of which the best counts.
    """

    vocabulary: int = 248_320
    rows: tuple[int, ...] = (1, 4, 16)
    repeats: int = 20

    @classmethod
    def small(cls) -> ChoiceSizes:
        """For the emulated card."""
        return cls(5_000, (1, 3), 1)


def measure_choice(
    device: Device, sizes: ChoiceSizes, progress: Callable[[str], None]
) -> list[Report]:
    """Milliseconds of each way, by the number of rows; the card is closed."""
    device.load_kernels(["sampling"])
    launcher = Launcher(device)
    reports = []
    for rows in sizes.rows:
        reports.append(_measure_rows(launcher, sizes, rows))
        progress(
            "{rows} rows of {vocabulary} logits: the best {argmax_ms:.3f} ms, the 64 best on the host "
            "{candidates_ms:.3f}, all {all_logits_ms:.3f}".format(**reports[-1])
        )
    launcher.release()
    device.close()
    return reports


def _measure_rows(launcher: Launcher, sizes: ChoiceSizes, rows: int) -> Report:
    device, space, stream = launcher.device, launcher.space, launcher.stream
    sampling = CudaSampling(launcher)
    shape = (rows, sizes.vocabulary)
    logits = space.upload(np.random.default_rng(5).standard_normal(shape).astype(np.float32) * 3)
    ids, bests = space.empty((rows,), np.int32), space.empty((rows, ROW_WORDS), np.int32)
    every, few = (device.pinned(array.nbytes) for array in (logits, bests))

    def candidates() -> None:
        sampling.candidates(logits, bests)
        stream.download(few.array, bests.address)

    report: Report = {"rows": rows, "vocabulary": sizes.vocabulary}
    works: dict[str, Callable[[], None]] = {
        "argmax_ms": lambda: sampling.argmax(logits, ids),
        "candidates_ms": candidates,
        "all_logits_ms": lambda: stream.download(every.array, logits.address),
    }
    for name, work in works.items():
        report[name] = _best_ms(launcher, work, sizes.repeats)
    stream.synchronize()
    every.free()
    few.free()
    return report


def _best_ms(launcher: Launcher, work: Callable[[], None], repeats: int) -> float:
    device, stream = launcher.device, launcher.stream
    begin, end = device.new_event(timed=True), device.new_event(timed=True)
    times = []
    for _ in range(repeats + 1):
        stream.record(begin)
        work()
        stream.record(end)
        end.synchronize()
        times.append(end.elapsed_ms(begin))
    return min(times)
