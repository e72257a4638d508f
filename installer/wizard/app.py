"""Opens the wizard. Qt is imported first, the PC is looked at when the window is there.

sys.exit(run_wizard(Installation.open(load_catalog())))
"""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Callable
from types import TracebackType

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QApplication, QMessageBox

from engine.core.errors import EngineError
from installer.i18n.texts import Texts
from installer.steps import Installation, Step
from installer.wizard.background import run_in_background, unexpected
from installer.wizard.look import set_up_look
from installer.wizard.page import Page
from installer.wizard.session import Session
from installer.wizard.window import WizardWindow

logger = logging.getLogger(__name__)


def run_wizard(
    installation: Installation, check_program: Callable[[], object] | None = None
) -> int:
    """Show the wizard until it is closed; exit status 0.

    Args:
        installation: the steps.
        check_program: run in the background when the model is ready; its error is shown.
    """
    app = _application()
    # With a sign beside the clock the window may be hidden while the download goes on.
    app.setQuitOnLastWindowClosed(False)
    set_up_look(app)
    window = WizardWindow(Session(installation))
    window.show()
    _end_on_ctrl_c(app, window)
    sys.excepthook = _error_hook(window)
    if check_program is not None:
        _check_when_ready(window, check_program)
    return app.exec()


def run_care(texts: Texts) -> int:
    """Show the window for what comes after the installation until it is closed; exit status 0."""
    from installer.wizard.care_window import CareWindow  # noqa: PLC0415  # seldom wanted

    app = _application()
    set_up_look(app)
    window = CareWindow(texts)
    window.show()
    return app.exec()


def show_error(title: str, sentence: str) -> None:
    """Show one sentence until it is closed, for a start that does not come as far as the wizard."""
    app = _application()
    set_up_look(app)
    box = QMessageBox(QMessageBox.Icon.Warning, title, sentence)
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.setStandardButtons(QMessageBox.StandardButton.Close)
    box.finished.connect(app.quit)
    box.show()
    app.exec()


def _application() -> QApplication:
    app = QApplication.instance() or QApplication(sys.argv[:1])
    if not isinstance(app, QApplication):
        raise TypeError("another kind of Qt application runs already")
    app.setApplicationName("Stratum")
    app.setDesktopFileName("stratum-setup")
    return app


def _error_hook(
    window: WizardWindow,
) -> Callable[[type[BaseException], BaseException, TracebackType | None], None]:
    """What Qt calls for an error in one of our functions that nobody caught: it is shown."""

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if isinstance(error, EngineError):
            logger.info("ended with %s", error.code, exc_info=(kind, error, trace))
            window.say_error(error)
            return
        logger.error("the wizard failed", exc_info=(kind, error, trace))
        window.say_error(unexpected(error))

    return show


def _check_when_ready(window: WizardWindow, check_program: Callable[[], object]) -> None:
    """Once, behind the pages that come after the download."""
    is_begun = False

    def look(page: Page) -> None:
        nonlocal is_begun
        if is_begun or page.step not in (Step.TUNE, Step.DONE):
            return
        is_begun = True
        run_in_background(
            window,
            lambda _report: check_program(),
            on_success=lambda _result: None,
            on_failure=window.say_error,
        )

    window.shown.connect(look)
    look(window.page)


def _end_on_ctrl_c(app: QApplication, window: WizardWindow) -> None:
    """Ctrl-C closes: Python only sees it between two of Qt's events, so there must be some."""
    signal.signal(signal.SIGINT, lambda *_arguments: window.close_for_good())
    if hasattr(signal, "SIGTERM"):
        signal.signal(signal.SIGTERM, lambda *_arguments: window.close_for_good())
    timer = QTimer(app)
    timer.timeout.connect(lambda: None)
    timer.start(250)
