"""The side bar: the views, and below them what the engine does, with one button to start or stop it.

It folds to icons when the window is narrow.
"""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import (
    QButtonGroup,
    QFrame,
    QHBoxLayout,
    QLabel,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.look.icons import put_icon
from app.look.look import em
from app.state_words import state_explanation, state_title, tooltip_of
from app.supervisor.state import EngineState, Phase
from app.tray.state_icon import state_icon
from app.views import View

_STYLE = """
QToolButton { border: none; border-left: 3px solid transparent; padding: 7px 8px; text-align: left; }
QToolButton:checked { background: palette(base); border-left-color: palette(highlight); }
QToolButton:hover:!checked { background: palette(midlight); }
QToolButton:focus { border-left-color: palette(highlight); }
"""
_RUNS = frozenset({Phase.STARTING, Phase.LOADING, Phase.READY, Phase.BUSY})


class SideBar(QFrame):
    """The bar.

    Signals:
        view_chosen: with a `View`.
        start_wanted, stop_wanted: of the engine.
    """

    view_chosen = Signal(object)
    start_wanted = Signal()
    stop_wanted = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setAutoFillBackground(True)
        self.setBackgroundRole(QPalette.ColorRole.AlternateBase)
        self._is_folded = False
        self._state = EngineState()
        self._buttons: dict[View, QToolButton] = {}
        self._group = QButtonGroup(self)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, em(self) // 2, 0, em(self) // 2)
        layout.setSpacing(2)
        for number, view in enumerate(View, 1):
            button = self._make_button(view.value)
            button.setCheckable(True)
            button.setShortcut(f"Ctrl+{number}")
            button.clicked.connect(lambda _checked=False, view=view: self.view_chosen.emit(view))
            self._group.addButton(button)
            self._buttons[view] = button
            layout.addWidget(button)
        layout.addStretch(1)
        self.card = EngineCard()
        self.card.button.clicked.connect(self._toggle)
        layout.addWidget(self.card)
        self._say()

    def button(self, view: View) -> QToolButton:
        """The button that leads to a view."""
        return self._buttons[view]

    def check(self, view: View) -> None:
        """Mark the view that is shown."""
        self._buttons[view].setChecked(True)

    def show_state(self, state: EngineState) -> None:
        """Show what the engine does."""
        self._state = state
        self.card.show_state(state)

    def fold(self, *, is_folded: bool) -> None:
        """Show icons alone, or words beside them."""
        if is_folded == self._is_folded:
            return
        self._is_folded = is_folded
        style = (
            Qt.ToolButtonStyle.ToolButtonIconOnly
            if is_folded
            else Qt.ToolButtonStyle.ToolButtonTextBesideIcon
        )
        for button in self._buttons.values():
            button.setToolButtonStyle(style)
        self.card.fold(is_folded=is_folded)
        self.updateGeometry()

    def sizeHint(self) -> QSize:
        """After the font."""
        hint = super().sizeHint()
        return hint if self._is_folded else QSize(max(hint.width(), 11 * em(self)), hint.height())

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802  # Qt's name
        """Speak the new language."""
        if event.type() is QEvent.Type.LanguageChange:
            self._say()
            self.card.show_state(self._state)
        elif event.type() is QEvent.Type.PaletteChange:
            QTimer.singleShot(0, self, self._restyle)
        super().changeEvent(event)

    def _restyle(self) -> None:
        """Widgets with a style sheet keep the colours that they were made in (seen 2026-11-30)."""
        for button in self._buttons.values():
            button.setStyleSheet("")
            button.setPalette(QPalette())
            button.setStyleSheet(_STYLE)

    def _make_button(self, icon: str) -> QToolButton:
        button = QToolButton()
        button.setStyleSheet(_STYLE)
        button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        button.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        side = round(em(self) * 1.3)
        button.setIconSize(QSize(side, side))
        put_icon(button, icon)
        return button

    def _say(self) -> None:
        self.setAccessibleName(self.tr("Views"))
        names = {
            View.CHAT: self.tr("Chat"),
            View.MONITOR: self.tr("Monitor"),
            View.SETTINGS: self.tr("Settings"),
        }
        for number, (view, name) in enumerate(names.items(), 1):
            button = self._buttons[view]
            button.setText(name)
            button.setAccessibleName(name)
            button.setToolTip(f"{name} (Ctrl+{number})")
            button.setShortcut(f"Ctrl+{number}")  # a button's text takes it away

    def _toggle(self) -> None:
        if self._state.phase in _RUNS:
            self.stop_wanted.emit()
        else:
            self.start_wanted.emit()


class EngineCard(QWidget):
    """Sign, state and model in three lines, and the button."""

    def __init__(self) -> None:
        super().__init__()
        unit = em(self)
        self._sign = QLabel()
        self._title = QLabel()
        self._title.setTextFormat(Qt.TextFormat.PlainText)
        self._title.setWordWrap(True)
        self._model = QLabel()
        self._model.setTextFormat(Qt.TextFormat.PlainText)
        self._model.setWordWrap(True)
        self._model.setForegroundRole(QPalette.ColorRole.PlaceholderText)
        self.button = QToolButton()
        self.button.setAutoRaise(True)
        self.button.setIconSize(QSize(unit, unit))
        words = QVBoxLayout()
        words.setSpacing(0)
        words.addWidget(self._title)
        words.addWidget(self._model)
        self._words = QWidget()
        self._words.setLayout(words)
        words.setContentsMargins(0, 0, 0, 0)
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(unit // 2, 0, unit // 3, 0)
        self._row.setSpacing(unit // 3)
        self._row.addWidget(self._sign)
        self._row.addWidget(self._words, 1)
        self._row.addWidget(self.button)
        self._words.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)

    @property
    def title(self) -> str:
        """What it says about the state."""
        return self._title.text()

    def fold(self, *, is_folded: bool) -> None:
        """Show the sign alone, or words beside it."""
        self._words.setVisible(not is_folded)
        self.button.setVisible(not is_folded)

    def show_state(self, state: EngineState) -> None:
        """Show a state."""
        side = round(em(self) * 1.5)
        self._sign.setPixmap(state_icon(state).pixmap(QSize(side, side), self.devicePixelRatioF()))
        title = state_title(state)
        self._sign.setAccessibleName(title)
        self._title.setText(title)
        self._model.setText(state.model)
        self._model.setVisible(bool(state.model))
        explanation = state_explanation(state)
        self.setToolTip(tooltip_of(state) if explanation else state.model)
        runs = state.phase in _RUNS
        put_icon(self.button, "stop" if runs else "start")
        name = self.tr("Stop model") if runs else self.tr("Start model")
        self.button.setToolTip(name)
        self.button.setAccessibleName(name)
        self.button.setEnabled(state.phase is not Phase.STOPPING)
