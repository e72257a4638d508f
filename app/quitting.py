"""The way out: the engine ends, its memory is given back, and only then the app goes.

    quitting = Quitting(supervisor)
    quitting.done.connect(app.quit)
    quitting.begin()

A large model needs up to a minute to give its memory back. From the second second on a small window
says so, and offers to end the engine at once.
"""

from __future__ import annotations

import logging
import time

from PySide6.QtCore import QObject, Qt, QTimer, Signal
from PySide6.QtGui import QCloseEvent, QKeyEvent
from PySide6.QtWidgets import QLabel, QProgressBar, QPushButton, QVBoxLayout, QWidget

from app.look.icons import app_icon
from app.look.look import em
from app.supervisor.supervisor import Supervisor

logger = logging.getLogger(__name__)

SHOW_AFTER_MS = 1000
# How long "all memory is free again" can be read before the window goes.
LAST_WORDS_MS = 1200


class Quitting(QObject):
    """One end of the program.

    Signals:
        done: no process of the engine lives any more.
    """

    done = Signal()

    def __init__(self, supervisor: Supervisor, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._supervisor = supervisor
        self._began = 0.0
        self.window: ReleaseWindow | None = None
        self._show_timer = QTimer(self)
        self._show_timer.setSingleShot(True)
        self._show_timer.timeout.connect(self._show)
        self._tick = QTimer(self)
        self._tick.timeout.connect(self._say_time)
        supervisor.stopped.connect(self._stopped)

    @property
    def has_begun(self) -> bool:
        """Whether the program is on its way out."""
        return self._began > 0

    def begin(self) -> None:
        """Start; once is enough."""
        if self.has_begun:
            return
        self._began = time.monotonic()
        logger.info("quitting")
        self._show_timer.start(SHOW_AFTER_MS)
        self._supervisor.quit()

    def _show(self) -> None:
        self.window = ReleaseWindow()
        self.window.end_now.connect(self._supervisor.stop)
        self._say_time()
        self._tick.start(1000)
        self.window.show()

    def _say_time(self) -> None:
        if self.window is not None:
            self.window.say_seconds(int(time.monotonic() - self._began))

    def _stopped(self) -> None:
        if not self.has_begun:
            return
        self._show_timer.stop()
        self._tick.stop()
        logger.info("the engine has ended after %.1f s", time.monotonic() - self._began)
        if self.window is None:
            self.done.emit()
            return
        self.window.say_free()
        QTimer.singleShot(LAST_WORDS_MS, self.done.emit)


class ReleaseWindow(QWidget):
    """The small window; it cannot be closed, since closing it would end nothing.

    Signals:
        end_now: the person does not want to wait.
    """

    end_now = Signal()

    def __init__(self) -> None:
        super().__init__(None, Qt.WindowType.Dialog | Qt.WindowType.WindowTitleHint)
        self.setWindowTitle("Stratum")
        self.setWindowIcon(app_icon())
        self.label = QLabel()
        self.label.setTextFormat(Qt.TextFormat.PlainText)
        self.label.setWordWrap(True)
        self._bar = QProgressBar()
        self._bar.setRange(0, 0)
        self._bar.setTextVisible(False)
        self._bar.setAccessibleName(self.tr("Giving memory back"))
        self.button = QPushButton(self.tr("End at once"))
        self.button.clicked.connect(self._end_now)
        unit = em(self)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(unit, unit, unit, unit)
        layout.setSpacing(unit // 2)
        layout.addWidget(self.label)
        layout.addWidget(self._bar)
        layout.addWidget(self.button, 0, Qt.AlignmentFlag.AlignRight)
        self.setFixedWidth(24 * unit)

    def say_seconds(self, seconds: int) -> None:
        """Say what is waited for, and for how long."""
        self.label.setText(
            self.tr("Stratum is ending. The model gives its memory back… ({seconds} s)").format(
                seconds=seconds
            )
        )

    def say_free(self) -> None:
        """Say that it is over."""
        self.label.setText(self.tr("All memory is free again."))
        self._bar.setRange(0, 1)
        self._bar.setValue(1)
        self.button.setEnabled(False)

    def closeEvent(self, event: QCloseEvent) -> None:  # Qt's name
        """Stay."""
        event.ignore()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802  # Qt's name
        """Escape ends nothing either."""
        if event.key() != Qt.Key.Key_Escape:
            super().keyPressEvent(event)

    def _end_now(self) -> None:
        self.button.setEnabled(False)
        self.end_now.emit()
