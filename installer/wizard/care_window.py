"""The window for what comes after the installation: move the data folder, repair, go back a version."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import (
    QDialog,
    QFileDialog,
    QFrame,
    QGroupBox,
    QHBoxLayout,
    QLineEdit,
    QProgressBar,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from engine.core.catalog_file import PROGRAM_DIR, load_catalog
from engine.core.errors import EngineError
from engine.core.setting_paths import whole_path
from engine.core.settings import load_settings
from installer.care import entries_here, go_back, installed_version, move_lines, repair_lines
from installer.download.options import DownloadOptions
from installer.download.progress import DownloadProgress, ProgressCallback
from installer.i18n.texts import Texts
from installer.move_data import DataMove, MoveReport, pending_move
from installer.program import FormerProgram
from installer.progress_words import progress_words
from installer.repair import Repair, RepairReport
from installer.running import require_stopped
from installer.update import former_version
from installer.wizard.background import Report, run_in_background
from installer.wizard.look import heading
from installer.wizard.page import Details, text_label
from installer.wizard.pages.welcome import buddy

_STEPS = 1000
_WIDTH_EMS = 44
_HEIGHT_EMS = 33


@dataclass(frozen=True, slots=True)
class CareDoors:
    """Ways out of this window, so that a test can put something else there.

    Attributes:
        make_move: from one folder to another.
        make_repair: of everything in a data folder.
        former_version: what can be gone back to.
        go_back: does so; what to tell the person.
    """

    make_move: Callable[[Path, Path], DataMove] = DataMove
    make_repair: Callable[[Path], Repair] = lambda folder: Repair(
        load_catalog(), DownloadOptions(folder), PROGRAM_DIR
    )
    former_version: Callable[[], FormerProgram | None] = former_version
    go_back: Callable[[Texts], str] = lambda texts: go_back(texts, entries_here())


class CareWindow(QDialog):
    """The window. While something runs, closing it stops that first; the next start goes on."""

    def __init__(
        self, texts: Texts, doors: CareDoors | None = None, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._texts = texts
        self._doors = doors or CareDoors()
        self._stop_it: Callable[[], None] | None = None  # ends what runs now
        self._is_closing = False
        self._data_dir = load_settings().data_dir
        self.setWindowTitle(texts.say("care.title"))
        self.folder = QLineEdit()
        self.browse = QPushButton(texts.say("button.browse"))
        self.move_button = QPushButton(texts.say("care.move_start"))
        self.repair_button = QPushButton(texts.say("care.repair_start"))
        self.back_button = QPushButton()
        self.stop_button = QPushButton(texts.say("care.stop"))
        self.close_button = QPushButton(texts.say("care.close"))
        self.progress = QProgressBar()
        self.progress.setAccessibleName(texts.say("care.title"))
        self.status = text_label()
        self.details = Details(texts.say("button.details"))
        self._move_what = text_label()
        self._back_what = text_label()
        self._lay_out()
        self._connect()
        self.details.hide()
        self._look()
        self._set_busy(is_busy=False)

    # -- building ----------------------------------------------------------------------------------

    def _lay_out(self) -> None:
        em = self.fontMetrics().height()
        content = QWidget()
        whole = QVBoxLayout(content)
        whole.setContentsMargins(em, em, em, 0)
        title = text_label(self._texts.say("care.title"))
        heading(title, 1.5)
        whole.addWidget(title)
        row = QHBoxLayout()
        row.addWidget(self.folder, 1)
        row.addWidget(self.browse)
        row.addWidget(self.move_button)
        box, inside = self._box("care.move", self._move_what)
        inside.addWidget(buddy(self._texts.say("care.move_to"), self.folder))
        inside.addLayout(row)
        whole.addWidget(box)
        box, inside = self._box("care.repair", text_label(self._texts.say("care.repair_what")))
        inside.addLayout(_to_the_left(self.repair_button))
        whole.addWidget(box)
        box, inside = self._box("care.back", self._back_what)
        inside.addLayout(_to_the_left(self.back_button))
        whole.addWidget(box)
        whole.addWidget(self.details)
        whole.addStretch(1)
        scroll = QScrollArea()  # a small screen at a large scale has no room for all
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setWidget(content)
        below = QVBoxLayout()
        below.setContentsMargins(em, em // 2, em, em)
        below.addWidget(self.status)
        below.addWidget(self.progress)
        last = QHBoxLayout()
        last.addStretch(1)
        last.addWidget(self.stop_button)
        last.addWidget(self.close_button)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(scroll, 1)
        below.addLayout(last)
        outer.addLayout(below)
        self.resize(self.sizeHint())

    def sizeHint(self) -> QSize:  # Qt's name
        """After the font, and never larger than the screen."""
        em = self.fontMetrics().height()
        wanted = QSize(_WIDTH_EMS * em, _HEIGHT_EMS * em)
        return wanted.boundedTo(self.screen().availableSize() * 0.95)

    def _box(self, key: str, what: QWidget) -> tuple[QGroupBox, QVBoxLayout]:
        box = QGroupBox(self._texts.say(key))
        inside = QVBoxLayout(box)
        inside.addWidget(what)
        return box, inside

    def _connect(self) -> None:
        self.browse.clicked.connect(self._browse)
        self.move_button.clicked.connect(self.move_data)
        self.repair_button.clicked.connect(self.repair)
        self.back_button.clicked.connect(self.go_back)
        self.stop_button.clicked.connect(self._stop)
        self.close_button.clicked.connect(self.close)
        self.folder.textChanged.connect(lambda: self._set_busy(is_busy=self._stop_it is not None))

    def _look(self) -> None:
        """Show what is so now."""
        texts = self._texts
        pending = pending_move()
        if pending is not None:
            self._data_dir = pending.source
            self.folder.setText(str(pending.target))
            names = {"source": str(pending.source), "target": str(pending.target)}
            self._move_what.setText(texts.say("care.interrupted", **names))
        else:
            self._data_dir = load_settings().data_dir
            self._move_what.setText(texts.say("care.move_what", path=str(self._data_dir)))
        former, version = self._doors.former_version(), installed_version()
        self.back_button.setVisible(former is not None)
        if former is None:
            self._back_what.setText(texts.say("care.back_none", version=version))
        else:
            self.back_button.setText(texts.say("care.back_start", former=former.version))
            self._back_what.setText(
                texts.say("care.back_what", version=version, former=former.version)
            )

    # -- doing -------------------------------------------------------------------------------------

    def move_data(self) -> None:
        """Move the data folder to the one that was typed or chosen."""
        move = self._doors.make_move(self._data_dir, whole_path(self.folder.text().strip()))
        self._begin(move.stop, move.run, self._moved)

    def repair(self) -> None:
        """Verify everything, and fetch what is damaged."""
        repair = self._doors.make_repair(self._data_dir)
        self._begin(repair.stop, repair.run, self._repaired)

    def go_back(self) -> None:
        """Go back to the former version."""

        def work(_progress: ProgressCallback | None = None) -> str:
            require_stopped(self._data_dir)
            return self._doors.go_back(self._texts)

        self._begin(_nothing, work, lambda sentence: self._end([str(sentence)]))
        self.stop_button.setEnabled(False)  # it is done in a moment, and half of it is no use

    def _begin(
        self,
        stop: Callable[[], None],
        work: Callable[[ProgressCallback], object],
        on_success: Callable[[object], None],
    ) -> None:
        self._stop_it = stop
        self.status.setText("")
        self.details.set_lines([])
        self.details.hide()
        self.progress.setRange(0, 0)
        self._set_busy(is_busy=True)

        def run(report: Report[DownloadProgress]) -> object:
            return work(report)

        run_in_background(
            self, run, on_success=on_success, on_failure=self._fail, on_progress=self._show
        )

    def _show(self, progress: DownloadProgress) -> None:
        words = progress_words(progress, self._texts)
        self.status.setText(" · ".join(part for part in (words.what, words.figures) if part))
        self.progress.setRange(0, 0 if words.share is None else _STEPS)
        if words.share is not None:
            self.progress.setValue(round(words.share * _STEPS))

    def _moved(self, report: object) -> None:
        if isinstance(report, MoveReport):
            self.folder.clear()
            self._end(move_lines(report, self._texts))

    def _repaired(self, report: object) -> None:
        if isinstance(report, RepairReport):
            lines = repair_lines(report, self._texts)
            self._end(lines[-1:], lines)

    def _end(self, sentences: Sequence[str], details: Sequence[str] = ()) -> None:
        self._stop_it = None
        self.status.setText("\n".join(sentences))
        self.details.set_lines(list(details))
        self.details.setVisible(bool(details))
        self._look()
        self._set_busy(is_busy=False)
        if self._is_closing:
            self.close()

    def _fail(self, error: EngineError) -> None:
        self._end([self._texts.error(error)])

    def _set_busy(self, *, is_busy: bool) -> None:
        for control in (self.folder, self.browse, self.repair_button, self.back_button):
            control.setEnabled(not is_busy)
        self.move_button.setEnabled(not is_busy and bool(self.folder.text().strip()))
        self.stop_button.setVisible(is_busy)
        self.stop_button.setEnabled(is_busy)
        self.progress.setVisible(is_busy)
        self.close_button.setEnabled(not is_busy)

    def _browse(self) -> None:
        dialog = QFileDialog(self, self._texts.say("care.move_dialog"), str(self._data_dir.parent))
        dialog.setFileMode(QFileDialog.FileMode.Directory)
        dialog.setOption(QFileDialog.Option.ShowDirsOnly)
        dialog.fileSelected.connect(self.folder.setText)
        dialog.open()

    def _stop(self) -> None:
        if self._stop_it is not None:
            self.stop_button.setEnabled(False)
            self._stop_it()

    def reject(self) -> None:
        """Every way to close leads here: what runs is stopped first."""
        if self._stop_it is not None:
            self._is_closing = True
            self._stop()
            return
        super().reject()


def _nothing() -> None:
    """What cannot be stopped."""


def _to_the_left(button: QPushButton) -> QHBoxLayout:
    row = QHBoxLayout()
    row.addWidget(button)
    row.addStretch(1)
    return row
