"""The wizard's window: list of steps, the page of the current step, and the buttons.

Which step comes next is decided in `installer/steps.py`; the window shows it. Changing the language
makes all pages anew, so that no page needs to know how to translate itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QCloseEvent, QResizeEvent
from PySide6.QtWidgets import (
    QApplication,
    QDialog,
    QFrame,
    QHBoxLayout,
    QMessageBox,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from engine.core.errors import EngineError
from engine.core.language import Language
from engine.core.settings import load_settings
from installer.steps import Step
from installer.wizard.look import heading
from installer.wizard.page import Page, text_label
from installer.wizard.pages.done import DonePage
from installer.wizard.pages.download import DownloadPage
from installer.wizard.pages.licence import LicencePage
from installer.wizard.pages.model import ModelPage
from installer.wizard.pages.options import OptionsPage
from installer.wizard.pages.pc import PcPage
from installer.wizard.pages.tune import TunePage
from installer.wizard.pages.welcome import WelcomePage
from installer.wizard.session import Session
from installer.wizard.step_list import StepList
from installer.wizard.tray import DownloadTray

logger = logging.getLogger(__name__)

_PAGES: dict[Step, Callable[[Session], Page]] = {
    Step.WELCOME: WelcomePage,
    Step.PC: PcPage,
    Step.MODEL: ModelPage,
    Step.OPTIONS: OptionsPage,
    Step.LICENCE: LicencePage,
    Step.DOWNLOAD: DownloadPage,
    Step.TUNE: TunePage,
    Step.DONE: DonePage,
}
# In heights of the font, so that the window grows with the person's font and the screen's scale.
_WIDTH_EMS = 52
_HEIGHT_EMS = 37
_LEAST_WIDTH_EMS = 26
_LEAST_HEIGHT_EMS = 18
_STEP_LIST_FROM_EMS = 38


class WizardWindow(QDialog):
    """The window.

    Attributes:
        page: the page that is shown.

    Signals:
        shown: another page is shown.
    """

    shown = Signal(object)

    def __init__(self, session: Session) -> None:
        super().__init__()
        # A dialogue, for its keys: Return is Next wherever no control takes it, Escape closes.
        self.setWindowFlags(
            Qt.WindowType.Window
            | Qt.WindowType.WindowMinimizeButtonHint
            | Qt.WindowType.WindowMaximizeButtonHint
            | Qt.WindowType.WindowCloseButtonHint
        )
        self._session = session
        self._may_close = False
        self._tray: DownloadTray | None = None
        self._steps = StepList()
        self._title = text_label()
        heading(self._title, 1.5)
        self._intro = text_label()
        self._scroll = QScrollArea()
        self._scroll.setWidgetResizable(True)
        self._scroll.setFrameShape(QFrame.Shape.NoFrame)
        self._scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._hint = text_label(is_small=True)
        self._hint.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.back_button = QPushButton()
        self.next_button = QPushButton()
        self.next_button.setDefault(True)
        self.care_button = QPushButton()
        self.care_button.setAutoDefault(False)
        self._lay_out()
        self.back_button.clicked.connect(self._go_back)
        self.care_button.clicked.connect(self.open_care)
        self.next_button.clicked.connect(self._go_on)
        self.page: Page = self._make_page()
        self._show_page()
        self.resize(self.sizeHint())  # of itself Qt takes at most two thirds of the screen

    def sizeHint(self) -> QSize:
        """After the font, and never larger than the screen."""
        em = self.fontMetrics().height()
        wanted = QSize(_WIDTH_EMS * em, _HEIGHT_EMS * em)
        return wanted.boundedTo(self.screen().availableSize() * 0.95)

    def reject(self) -> None:
        """Escape closes as the window's own button does."""
        self.close()

    def _lay_out(self) -> None:
        em = self.fontMetrics().height()
        room = self.screen().availableSize()
        self.setMinimumSize(
            QSize(_LEAST_WIDTH_EMS * em, _LEAST_HEIGHT_EMS * em).boundedTo(room * 0.9)
        )
        right = QVBoxLayout()
        right.setContentsMargins(em, em, em, em)
        right.setSpacing(round(em * 0.6))
        right.addWidget(self._title)
        right.addWidget(self._intro)
        right.addWidget(self._scroll, 1)
        line = QFrame()
        line.setFrameShape(QFrame.Shape.HLine)
        line.setFrameShadow(QFrame.Shadow.Sunken)
        right.addWidget(line)
        buttons = QHBoxLayout()
        buttons.addWidget(self.back_button)
        buttons.addWidget(self.care_button)
        buttons.addWidget(self._hint, 1)
        buttons.addWidget(self.next_button)
        right.addLayout(buttons)
        whole = QHBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.setSpacing(0)
        whole.addWidget(self._steps)
        whole.addLayout(right, 1)

    def resizeEvent(self, event: QResizeEvent) -> None:  # Qt's name
        """A narrow window has no room for the list of steps."""
        wide = event.size().width() >= _STEP_LIST_FROM_EMS * self.fontMetrics().height()
        self._steps.setVisible(wide)
        super().resizeEvent(event)

    # -- pages -------------------------------------------------------------------------------------

    def _make_page(self) -> Page:
        page = _PAGES[self._session.installation.step](self._session)
        page.changed.connect(self._look_at_buttons)
        page.advance.connect(self._go_on)
        page.go_to.connect(self._go_to)
        page.relabel.connect(self._change_language)
        return page

    def _replace_page(self) -> None:
        self.page = self._make_page()
        self._show_page()

    def _show_page(self) -> None:
        installation, texts, page = self._session.installation, self._session.texts, self.page
        self.setWindowTitle(texts.say("app.title"))
        self._title.setText(page.say("title"))
        self._intro.setText(page.intro)
        page.enter()  # before it is shown: its rows are there when its height is asked for
        self._scroll.setWidget(page)  # deletes the one before
        steps = installation.steps
        names = [texts.say(f"{step.value}.step") for step in steps]
        number = steps.index(page.step)
        self._steps.show_steps(names, number)
        self.setAccessibleDescription(
            texts.say(
                "step.position",
                number=number + 1,
                count=len(steps),
                title=names[number],
            )
        )
        self.back_button.setText(texts.say("button.back"))
        self.care_button.setText(texts.say("care.open"))
        self.care_button.setVisible(load_settings().active_config is not None)
        self._look_at_buttons()
        self._first_control().setFocus(Qt.FocusReason.OtherFocusReason)
        self.shown.emit(page)

    def _first_control(self) -> QWidget:
        """Where the keyboard begins: the page's first control, else Next."""
        control = self.page.nextInFocusChain()
        while control is not None and self.page.isAncestorOf(control):
            if control.focusPolicy() & Qt.FocusPolicy.TabFocus and control.isEnabled():
                return control
            control = control.nextInFocusChain()
        return self.next_button

    def _look_at_buttons(self) -> None:
        installation, texts = self._session.installation, self._session.texts
        is_last = installation.step is Step.DONE
        self.next_button.setText(texts.say("button.close" if is_last else "button.next"))
        can_go_on = self.page.can_go_on()
        self.next_button.setEnabled(is_last or can_go_on)
        self.back_button.setEnabled(installation.step is not Step.WELCOME)
        self.care_button.setEnabled(not self.page.is_busy())
        problem = installation.problem
        self._hint.setText(
            texts.say(f"problem.{problem.value}") if problem is not None and not can_go_on else ""
        )
        if self._tray is not None:
            self._tray.refresh(self.page)
            if not self.page.is_busy():
                self._come_back()

    def _go_on(self) -> None:
        if self._session.installation.step is Step.DONE:
            self.close()
        elif self.page.can_go_on():
            self._change(self._session.installation.next)

    def _go_back(self) -> None:
        self._change(self._session.installation.back)

    def _go_to(self, step: Step) -> None:
        self._change(lambda: self._session.installation.go_back_to(step))

    def _change(self, change: Callable[[], Step]) -> None:
        """Go to another step, and say so when that cannot be written down."""
        try:
            self.page.leave()
            change()
        except EngineError as error:
            self.say_error(error)
            return
        if self._session.installation.step is not self.page.step:
            self._replace_page()

    def _change_language(self, language: Language) -> None:
        try:
            self.page.leave()
            self._session.set_language(language)
        except EngineError as error:
            self.say_error(error)
            return
        self._replace_page()

    def open_care(self) -> None:
        """Open the window to move, repair and go back; what it changes is read anew afterwards."""
        from installer.wizard.care_window import CareWindow  # noqa: PLC0415  # seldom wanted

        try:
            self.page.leave()
        except EngineError as error:
            self.say_error(error)
            return
        care = CareWindow(self._session.texts, parent=self)
        care.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        care.finished.connect(self._care_ended)
        care.open()

    def _care_ended(self) -> None:
        try:
            self._session.installation.read_again()
        except EngineError as error:
            self.say_error(error)
            return
        self._replace_page()

    def say_error(self, error: EngineError) -> None:
        """Show an error that belongs to no page."""
        box = self._box(self._session.texts.say("app.title"), self._session.texts.error(error))
        box.setIcon(QMessageBox.Icon.Warning)
        box.addButton(self._session.texts.say("button.close"), QMessageBox.ButtonRole.AcceptRole)
        box.open()

    # -- closing -----------------------------------------------------------------------------------

    def closeEvent(self, event: QCloseEvent) -> None:
        """A running download goes on in the tray, where there is one; else the person is asked."""
        if self._may_close or not self.page.is_busy():
            try:
                self.page.leave()
            except EngineError:  # nobody is there to read it any more
                logger.exception("the last choices could not be kept")
            event.accept()
            if self._tray is not None:
                self._tray.hide()
            QApplication.quit()
            return
        event.ignore()
        if isinstance(self.page, DownloadPage) and DownloadTray.is_possible():
            self._go_to_tray(self.page)
        else:
            self._ask_to_close()

    def _go_to_tray(self, page: DownloadPage) -> None:
        if self._tray is None:
            self._tray = DownloadTray(self._session, self)
            self._tray.show_window.connect(self._come_back)
            self._tray.pause.connect(self._pause_from_tray)
            self._tray.quit.connect(self.close_for_good)
        self._tray.show(page)
        self.hide()

    def _pause_from_tray(self) -> None:
        if isinstance(self.page, DownloadPage):
            self.page.pause_or_resume()

    def _come_back(self) -> None:
        if self._tray is not None and not self.isVisible():
            self._tray.tell_end(self.page)
            self._tray.hide()
            self.show()
            self.raise_()
            self.activateWindow()

    def _ask_to_close(self) -> None:
        texts = self._session.texts
        box = self._box(texts.say("close.title"), texts.say("close.question"))
        yes = box.addButton(texts.say("close.yes"), QMessageBox.ButtonRole.DestructiveRole)
        box.setDefaultButton(
            box.addButton(texts.say("close.no"), QMessageBox.ButtonRole.RejectRole)
        )
        yes.clicked.connect(self.close_for_good)
        box.open()

    def close_for_good(self) -> None:
        """Close, whatever runs; what was fetched is kept."""
        self._may_close = True
        self.close()

    def _box(self, title: str, text: str) -> QMessageBox:
        box = QMessageBox(self)
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.setWindowTitle(title)
        box.setText(text)
        box.setTextFormat(Qt.TextFormat.PlainText)
        return box
