"""The strip over the views that says why the model does not run, with the ways out as buttons."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton

from app.context import AppContext
from app.look.icons import put_icon
from app.look.layouts import clear
from app.look.look import em
from app.supervisor.reason_words import explain
from app.supervisor.state import EngineState, Phase, Reason, ReasonCode
from app.tray.state_icon import Sign, sign_icon
from app.views import View


class Banner(QFrame):
    """The strip; hidden while nothing is wrong."""

    def __init__(self, context: AppContext) -> None:
        super().__init__()
        self._context = context
        self._reason: Reason | None = None
        self._is_failure = False
        self.setAutoFillBackground(True)
        self.setBackgroundRole(QPalette.ColorRole.AlternateBase)
        unit = em(self)
        self._sign = QLabel()
        side = round(unit * 1.6)
        self._sign.setPixmap(sign_icon(Sign.ERROR).pixmap(QSize(side, side)))
        self.label = QLabel()
        self.label.setTextFormat(Qt.TextFormat.PlainText)
        self.label.setWordWrap(True)
        self.label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._buttons = QHBoxLayout()
        layout = QHBoxLayout(self)
        layout.setContentsMargins(unit, unit // 2, unit, unit // 2)
        layout.setSpacing(unit // 2)
        layout.addWidget(self._sign, 0, Qt.AlignmentFlag.AlignTop)
        layout.addWidget(self.label, 1)
        layout.addLayout(self._buttons)
        self.hide()
        context.supervisor.state_changed.connect(self.show_state)
        context.supervisor.command_refused.connect(self._say_refusal)
        self.show_state(context.supervisor.state)

    def show_state(self, state: EngineState) -> None:
        """Say what is wrong; nothing when all is well."""
        reason = state.reason if state.phase in {Phase.FAILED, Phase.STARTING} else None
        is_failure = state.phase is Phase.FAILED
        if (reason, is_failure) != (self._reason, self._is_failure):
            self._show(reason, is_failure=is_failure)

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802  # Qt's name
        """Speak the new language."""
        if event.type() is QEvent.Type.LanguageChange:
            self._show(self._reason, is_failure=self._is_failure)
        super().changeEvent(event)

    def _say_refusal(self, reason: Reason) -> None:
        self._show(reason, is_failure=False)

    def _show(self, reason: Reason | None, *, is_failure: bool) -> None:
        self._reason, self._is_failure = reason, is_failure
        clear(self._buttons)
        self.setVisible(reason is not None)
        if reason is None:
            return
        self.label.setText(explain(reason))
        requests, supervisor = self._context.requests, self._context.supervisor
        if not is_failure:
            self._add(self.tr("Close"), "close", lambda: self._show(None, is_failure=False))
            return
        if reason.code is ReasonCode.NO_MODEL:
            self._add(self.tr("Add a model…"), "add", requests.add_model.emit)
            return
        offered = reason.params.get("offered")
        if reason.code is ReasonCode.PORT_IN_USE and isinstance(offered, int):
            text = self.tr("Use port {port}").format(port=offered)
            self._add(text, "check", lambda: supervisor.use_port(offered))
        if reason.code is ReasonCode.CONFIG_BROKEN:
            self._add(
                self.tr("Open settings"),
                "settings",
                lambda: requests.open_view.emit(View.SETTINGS),
            )
        self._add(self.tr("Try again"), "refresh", supervisor.start)
        self._add(self.tr("Show log"), "log", requests.show_log.emit)

    def _add(self, text: str, icon: str, act: Callable[[], object]) -> None:
        button = QPushButton(text)
        put_icon(button, icon)
        button.clicked.connect(lambda _checked=False: act())
        self._buttons.addWidget(button)
