"""The monitor: what model and machine do now, the last requests, and why it may be slow.

Nothing is sampled while the view is hidden: the timer stands still and no thread runs.
"""

from __future__ import annotations

import logging
import time

from PySide6.QtCore import QEvent, Qt, QTimer
from PySide6.QtGui import QHideEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QHeaderView,
    QLabel,
    QScrollArea,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from app.background import Operation, in_background
from app.context import AppContext
from app.engine_status import EngineMetrics, EngineStatus
from app.look.look import em, enlarge
from app.model_report import ModelReport
from app.monitor.measuring import measure, report_or_none
from app.monitor.model_panel import ModelPanel
from app.monitor.now_panel import NowPanel
from app.monitor.plots import IMPORTS, TileGrid, load_step
from app.monitor.rates import Rates, TokenRates
from app.monitor.recent import parse_recent
from app.monitor.recent_table import Column, RecentModel
from app.monitor.sampler import Sample, Sampler
from app.monitor.slow import Facts, Measured, reasons
from app.monitor.slow_panel import SlowPanel
from app.monitor.tile_set import TileSet
from app.supervisor.state import EngineState, Phase
from engine.core.errors import EngineError

logger = logging.getLogger(__name__)

_VISIBLE_ROWS = 8


class MonitorView(QWidget):
    """The view.

    Attributes:
        sampler: runs while the view is visible, and only then.
    """

    def __init__(self, context: AppContext) -> None:
        super().__init__()
        self._context = context
        self.sampler = Sampler(context, self)
        self.sampler.sampled.connect(self._show_sample)
        self._token_rates = TokenRates()
        self._rates = Rates()
        self._status: EngineStatus | None = None
        self._metrics: EngineMetrics | None = None
        self._sample: Sample | None = None
        self._report: ModelReport | None = None
        self._report_of: tuple[object, ...] | None = None
        self._measured = Measured()
        self._operations: dict[str, Operation] = {}
        self._can_plot = False
        self._scroll = QScrollArea()
        self._scroll.setWidgetResizable(True)
        self._scroll.setFrameShape(QFrame.Shape.NoFrame)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._scroll)
        self._build()
        context.supervisor.status_read.connect(self._note_status)
        context.supervisor.state_changed.connect(self._state_changed)
        context.look.changed.connect(self._recolour)

    # -- building ----------------------------------------------------------------------------------

    def _build(self) -> None:
        """Everything anew, in the language of now."""
        body = QWidget()
        self.now = NowPanel()
        self.tiles = TileSet()
        self._grid = TileGrid()
        self._grid.put(self.tiles.tiles())
        self.model_panel = ModelPanel()
        self.slow = SlowPanel()
        self.slow.look_wanted.connect(self._look_closer)
        self.recent = RecentModel()
        self.table = self._make_table()
        self._recent_title = QLabel(self.tr("Last requests"))
        enlarge(self._recent_title, 1.1, is_bold=True)
        layout = QVBoxLayout(body)
        layout.setContentsMargins(em(self), em(self), em(self), em(self))
        layout.setSpacing(em(self) * 2 // 3)
        layout.addWidget(self.now)
        layout.addWidget(self._grid)
        layout.addWidget(self.slow)
        layout.addWidget(self.model_panel)
        layout.addWidget(self._recent_title)
        layout.addWidget(self.table)
        layout.addStretch(1)
        self._scroll.setWidget(body)
        self._show_all()

    def _make_table(self) -> QTableView:
        table = QTableView()
        table.setModel(self.recent)
        table.setSelectionMode(QAbstractItemView.SelectionMode.NoSelection)
        table.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        table.setAlternatingRowColors(True)
        table.setShowGrid(False)
        table.verticalHeader().hide()
        table.verticalHeader().setDefaultSectionSize(round(1.6 * em(self)))
        header = table.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
        header.setSectionResizeMode(Column.ENDED, QHeaderView.ResizeMode.ResizeToContents)
        header.setHighlightSections(False)
        table.setMinimumHeight(round(1.6 * em(self) * (_VISIBLE_ROWS + 1.5)))
        table.setAccessibleName(self.tr("Last requests"))
        return table

    # -- being seen --------------------------------------------------------------------------------

    def showEvent(self, event: QShowEvent) -> None:  # Qt's name
        """Begin to look."""
        super().showEvent(event)
        if not event.spontaneous():
            self.sampler.start()
            QTimer.singleShot(0, self, self._load_plots)
            self._load_report()
            self._show_all()

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802  # Qt's name
        """Stop looking."""
        super().hideEvent(event)
        if not event.spontaneous():
            self._stop()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802  # Qt's name
        """Another language."""
        if event.type() is QEvent.Type.LanguageChange:
            self._build()
            if self._can_plot:
                self._add_plots()
        super().changeEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:  # Qt's name
        """As many plots side by side as there is room for."""
        self._grid.use_width(event.size().width() - 2 * em(self))
        super().resizeEvent(event)

    def _stop(self) -> None:
        self.sampler.stop()
        for operation in self._operations.values():
            operation.cancel()
        self._operations.clear()
        self.slow.end_look(has_looked=False)

    # -- what comes in -----------------------------------------------------------------------------

    def _note_status(self, status: EngineStatus) -> None:
        if not self.isVisible():
            return
        self._status = status
        self._rates = self._token_rates.note(status, time.monotonic())

    def _state_changed(self, state: EngineState) -> None:
        if state.phase in {Phase.STOPPED, Phase.FAILED, Phase.STARTING}:
            self._status = self._metrics = None
            self._rates, self._token_rates = Rates(), TokenRates()
        if self.isVisible():
            self._load_report()
            self._show_now()

    def _show_sample(self, sample: Sample) -> None:
        self._sample = sample
        self._metrics = sample.metrics or self._metrics
        if self.tiles.note(sample, self._rates):
            self._grid.put(self.tiles.tiles())
            if self._can_plot:
                self._add_plots()
        for tile in self.tiles.tiles():
            tile.draw()
        self._show_all()

    # -- showing -----------------------------------------------------------------------------------

    def _show_all(self) -> None:
        self._show_now()
        self.model_panel.show_counts(self._status, self._metrics)
        requests = parse_recent(self._status.raw) if self._status is not None else ()
        self.recent.show(requests)
        for widget in (self._recent_title, self.table):
            if widget.isHidden() == bool(requests):
                widget.setVisible(bool(requests))
        self.slow.show_reasons(reasons(self.facts()))

    def _show_now(self) -> None:
        self.now.show_state(self._context.supervisor.state, self._status, self._rates)

    def facts(self) -> Facts:
        """What is known now."""
        sample = self._sample
        return Facts(
            machine=sample.machine if sample is not None else None,
            cards=sample.cards if sample is not None else (),
            status=self._status,
            metrics=self._metrics,
            report=self._report,
            measured=self._measured,
            is_answering=self._rates.generating_per_s is not None,
            tokens_per_s=self._rates.generating_per_s,
        )

    def _recolour(self) -> None:
        for tile in self.tiles.tiles():
            tile.set_colours(is_dark=self._context.look.is_dark)
        self.model_panel.recolour()

    # -- what takes a moment -----------------------------------------------------------------------

    def _load_plots(self, number: int = 0) -> None:
        """One import a turn, so that the window stays alive between them."""
        if self._can_plot or not self.isVisible():
            return
        if number < len(IMPORTS):
            try:
                load_step(IMPORTS[number])
            except ImportError as error:  # the figures are there without it
                logger.warning("there are no plots: %s", error)
                return
            QTimer.singleShot(0, self, lambda: self._load_plots(number + 1))
            return
        self._can_plot = True
        self._add_plots()

    def _add_plots(self) -> None:
        for tile in self.tiles.tiles():
            if not tile.has_plot:
                tile.add_plot(is_dark=self._context.look.is_dark)

    def _load_report(self) -> None:
        """Where the model's parts live: once for each config, and again when its file changes."""
        path = self._context.supervisor.config_path
        changed = path.stat().st_mtime_ns if path is not None and path.exists() else 0
        key = (path, changed)
        if key == self._report_of or "report" in self._operations:
            return

        def done(report: ModelReport | None) -> None:
            self._operations.pop("report", None)
            self._report, self._report_of = report, key
            self.model_panel.show_report(report)

        def failed(error: EngineError) -> None:
            logger.info("the model is not described: %s", error)
            done(None)

        self._operations["report"] = in_background(
            self, lambda _task: report_or_none(path), on_success=done, on_failure=failed
        )

    def _look_closer(self) -> None:
        if "look" in self._operations:
            return
        state = self._context.supervisor.state
        config_path, data_dir = self._context.supervisor.config_path, self._context.data_dir
        is_idle = state.phase is not Phase.BUSY

        def done(measured: Measured) -> None:
            self._operations.pop("look", None)
            self._measured = measured
            self.slow.end_look(has_looked=True)
            self._show_all()

        def failed(error: EngineError) -> None:
            self._operations.pop("look", None)
            logger.warning("the closer look failed: %s", error)
            self.slow.end_look(has_looked=False)

        self.slow.begin_look()
        self._operations["look"] = in_background(
            self,
            lambda _task: measure(config_path, data_dir, state.pid, is_idle=is_idle),
            on_success=done,
            on_failure=failed,
        )
