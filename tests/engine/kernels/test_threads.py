"""The worker pool, seen through an operation that is large enough to be shared."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from engine.core.ggml_types import GgmlType
from engine.core.topology import read_cores
from engine.ops.base import Limits
from engine.ops.check_inputs import Inputs
from engine.ops.host import HostOps
from engine.ops.host_recording import RecordedCalls
from engine.ops.host_runner import Sides


def make_ops(threads: int) -> HostOps:
    return HostOps(Limits(max_rows=8, max_window=8, num_slots=1, num_pages=1, threads=threads))


class Product:
    """A product of about a millisecond, and its result by one thread."""

    def __init__(self, seed: int) -> None:
        inputs = Inputs(seed)
        self.tensor = inputs.tensor(GgmlType.Q8_0, 2000, 512)
        self.x = inputs.normal(8, 512)
        alone = make_ops(1)
        self.wanted = self.compute(alone)
        alone.close()

    def compute(self, ops: HostOps) -> np.ndarray:
        out = np.zeros((8, 2000), np.float32)
        ops.matmul([ops.matrix(self.tensor)], self.x, [out])
        return out


def test_many_jobs_with_more_threads_than_cores_are_all_complete():
    product = Product(1)
    ops = make_ops(7)
    for i in range(150):
        assert np.array_equal(product.compute(ops), product.wanted), i
        if i % 50 == 0:
            time.sleep(0.005)  # workers fall asleep and must be woken
    ops.close()


class SideProducts:
    """Products of a row each, as lists for threads that work side by side."""

    def __init__(self, ops: HostOps, count: int) -> None:
        inputs = Inputs(5)
        self.matrix = ops.matrix(inputs.tensor(GgmlType.Q8_0, 256, 512))
        self.rows = [inputs.normal(1, 512) for _ in range(count)]
        self.outs = [np.zeros((1, 256), np.float32) for _ in range(count)]
        self.lists = [self._recorded(ops, i) for i in range(count)]
        for calls in self.lists:
            ops._runner.alone(calls, 0, 1)
        self.wanted = np.concatenate(self.outs)
        for out in self.outs:
            out[...] = 0

    def _recorded(self, ops: HostOps, i: int) -> RecordedCalls:
        return ops._record(
            [lambda: ops.matmul([self.matrix], self.rows[i], [self.outs[i]])], (self,)
        )


def test_more_and_fewer_sides_than_threads_are_all_computed():
    ops = make_ops(3)
    products, num_done = SideProducts(ops, 7), 0
    sides = [Sides(products.lists[:count]) for count in range(1, 8)]
    for i in range(200):
        count = 1 + i % 7
        ops._runner.sides(sides[count - 1], 0, 1)
        got = np.concatenate(products.outs[:count])
        num_done += np.array_equal(got, products.wanted[:count])
        for out in products.outs:
            out[...] = 0
        if i % 40 == 0:
            time.sleep(0.005)  # workers fall asleep and must be woken
    assert num_done == 200
    ops.close()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how often a thread slept")
def test_sides_leave_threads_asleep_that_they_do_not_need():
    before = set(tasks())
    ops = make_ops(6)
    workers = sorted(set(tasks()) - before)
    products = SideProducts(ops, 2)
    sides = Sides(products.lists)
    num_woken = []
    for _ in range(5):
        asleep = until_asleep(workers)
        ops._runner.sides(sides, 0, 1)
        while [times_slept(worker) for worker in workers] == asleep:
            time.sleep(0.001)  # the one that was woken has not run yet
        woken = until_asleep(workers)
        num_woken.append(sum(n != m for n, m in zip(woken, asleep, strict=True)))
    assert num_woken == [1] * 5
    ops.close()


def tasks() -> list[int]:
    """The threads of this process."""
    return [int(path.name) for path in Path("/proc/self/task").iterdir()]


def status_of(task: int) -> dict[str, str]:
    lines = Path(f"/proc/self/task/{task}/status").read_text(encoding="utf-8").splitlines()
    return dict(line.split(":", 1) for line in lines)


def times_slept(task: int) -> int:
    return int(status_of(task)["voluntary_ctxt_switches"])


def until_asleep(workers: list[int]) -> list[int]:
    """Wait until nobody looks for work any more, nor for the lock before falling asleep.

    Returns:
        How often each has slept.
    """
    deadline = time.monotonic() + 60
    before: list[int] = []
    while True:
        are_asleep = all("S" in status_of(worker)["State"].split() for worker in workers)
        slept = [times_slept(worker) for worker in workers]
        if are_asleep and slept == before:
            return slept
        before = slept
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_two_engines_work_side_by_side():
    products = [Product(2), Product(3)]
    right = [0, 0]

    def work(number: int) -> None:
        ops = make_ops(3)
        for _ in range(60):
            right[number] += np.array_equal(products[number].compute(ops), products[number].wanted)
        ops.close()

    threads = [threading.Thread(target=work, args=(n,)) for n in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert right == [60, 60]


def test_an_idle_engine_takes_no_processor_time():
    ops = make_ops(4)
    Product(4).compute(ops)
    process = psutil.Process()
    deadline = time.monotonic() + 60  # on a busy machine it takes a while until all have waited
    while True:
        before = sum(process.cpu_times()[:2])
        time.sleep(0.4)
        if sum(process.cpu_times()[:2]) - before < 0.1:
            break
        assert time.monotonic() < deadline
    ops.close()


def test_closing_ends_the_threads():
    process = psutil.Process()
    ops = make_ops(5)
    assert ops.num_threads == 5
    during = process.num_threads()
    ops.close()
    assert process.num_threads() <= during - 4


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not tell a thread's processors")
def test_pinned_workers_have_one_processor_each_and_the_caller_is_free():
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2 or len(read_cores()) < 2:
        pytest.skip("pinning needs two cores")
    before = {int(path.name) for path in Path("/proc/self/task").iterdir()}
    ops = HostOps(Limits(1, 1, 1, 1, threads=2, pin_threads=True))
    new = {int(path.name) for path in Path("/proc/self/task").iterdir()} - before
    assert [len(os.sched_getaffinity(thread)) for thread in new] == [1]
    assert sorted(os.sched_getaffinity(0)) == usable
    product = Product(6)
    assert np.array_equal(product.compute(ops), product.wanted)
    ops.close()


def test_more_pinned_threads_than_cores_run_unpinned_with_a_notice(caplog):
    ops = HostOps(Limits(1, 1, 1, 1, threads=len(read_cores()) + 2, pin_threads=True))
    assert "can be held to cores of their own" in caplog.text
    product = Product(7)
    assert np.array_equal(product.compute(ops), product.wanted)
    ops.close()
