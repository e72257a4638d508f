"""Samples machine and engine while somebody looks, and only then.

    sampler = Sampler(context)
    sampler.sampled.connect(view.show_sample)
    sampler.start()           # shown
    sampler.stop()            # hidden: no timer, no thread, nothing

Each sample is taken in a thread; when one takes longer than the interval the next is left out.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from PySide6.QtCore import QObject, Qt, QTimer, Signal

from app.background import Operation, in_background
from app.context import AppContext
from app.engine_http import EngineHttp, EngineHttpError
from app.engine_status import EngineMetrics, parse_metrics
from app.monitor.gpu_probe import GpuProbe, GpuSample
from app.monitor.machine_probe import MachineProbe, MachineSample
from engine.core.errors import EngineError

logger = logging.getLogger(__name__)

INTERVAL_MS = 1000
# The engine asks its graphics driver for each answer, so it is not asked every second.
METRICS_EVERY = 3


@dataclass(frozen=True, slots=True)
class Sample:
    """One look.

    Attributes:
        cards: empty without a graphics card.
        metrics: None when the engine was not asked this time, or does not answer.
    """

    machine: MachineSample
    cards: tuple[GpuSample, ...]
    metrics: EngineMetrics | None


class Sampler(QObject):
    """The clock.

    Signals:
        sampled: with a `Sample`, on the main thread.
    """

    sampled = Signal(object)

    def __init__(self, context: AppContext, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self._machine = MachineProbe()
        self._gpu = GpuProbe()
        self._operation: Operation | None = None
        self._round = 0
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.CoarseTimer)
        self._timer.setInterval(INTERVAL_MS)
        self._timer.timeout.connect(self._look)

    @property
    def is_running(self) -> bool:
        """Whether samples are taken."""
        return self._timer.isActive()

    def start(self) -> None:
        """Sample from now on."""
        if self.is_running:
            return
        self._round = 0
        self._machine, self._gpu = MachineProbe(), GpuProbe()
        self._timer.start()
        self._look()

    def stop(self) -> None:
        """Stop; a sample that is being taken is not shown any more."""
        if not self.is_running:
            return
        self._timer.stop()
        last, self._operation = self._operation, None
        if last is not None:
            last.cancel()
        gpu = self._gpu

        def close(_task: object) -> None:
            if last is not None:
                last.wait()
            gpu.close()

        in_background(None, close)

    def _look(self) -> None:
        if self._operation is not None and not self._operation.is_finished:
            return
        state = self._context.supervisor.state
        asks_engine = self._round % METRICS_EVERY == 0 and state.can_answer
        self._round += 1
        machine, gpu = self._machine, self._gpu
        http = self._context.http if asks_engine else None
        self._operation = in_background(
            self,
            lambda _task: _take(machine, gpu, state.pid, http),
            on_success=self.sampled.emit,
            on_failure=_note_failure,
        )


def _take(machine: MachineProbe, gpu: GpuProbe, pid: int | None, http: EngineHttp | None) -> Sample:
    sample = machine.sample(pid)
    metrics = None
    if http is not None:
        try:
            metrics = parse_metrics(http.get("/metrics?format=json", read_timeout_s=3.0))
        except EngineHttpError as error:
            logger.debug("no metrics: %s", error)
    return Sample(sample, gpu.sample(machine.engine_pids), metrics)


def _note_failure(error: EngineError) -> None:
    logger.warning("the machine could not be looked at: %s", error)
