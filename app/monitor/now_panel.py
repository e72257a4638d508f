"""What the model does now: its state, each running request, and how far it is."""

from __future__ import annotations

from PySide6.QtCore import QCoreApplication, QLocale, Qt
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QFrame, QLabel, QProgressBar, QVBoxLayout

from app.engine_status import EngineStatus, RunningRequest, ServerState
from app.look.look import em, enlarge
from app.monitor.rates import Rates
from app.state_words import state_explanation, state_title
from app.supervisor.state import EngineState


class NowPanel(QFrame):
    """The panel at the top."""

    def __init__(self) -> None:
        super().__init__()
        self.setFrameShape(QFrame.Shape.StyledPanel)
        self.setBackgroundRole(QPalette.ColorRole.Base)
        self.setAutoFillBackground(True)
        self.title = QLabel()
        enlarge(self.title, 1.5, is_bold=True)
        self.model = QLabel()
        self.lines = QLabel()
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setMaximumHeight(em(self) // 2)
        self.bar.setRange(0, 1000)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(em(self), em(self) // 2, em(self), em(self) // 2)
        for label in (self.title, self.model, self.lines):
            label.setTextFormat(Qt.TextFormat.PlainText)
            label.setWordWrap(True)
            layout.addWidget(label)
        layout.addWidget(self.bar)
        self.bar.hide()

    def show_state(self, state: EngineState, status: EngineStatus | None, rates: Rates) -> None:
        """Bring it up to date."""
        status = status if state.can_answer else None
        _put(self.title, state_title(state))
        _put(self.model, model_line(state, status))
        lines = [state_explanation(state)] if state_explanation(state) else []
        if status is not None:
            lines += [request_line(request, status) for request in status.requests]
        speed = speed_line(rates)
        if speed:
            lines.append(speed)
        _put(self.lines, "\n".join(lines))
        share = reading_share(state, status)
        self.bar.setVisible(share is not None)
        if share is not None:
            self.bar.setValue(round(share * 1000))


def model_line(state: EngineState, status: EngineStatus | None) -> str:
    """Name, implementation and context of the model."""
    parts = [state.model]
    if status is not None:
        parts.append(status.ops or "")
        if status.limits.context:
            text = QCoreApplication.translate("Now", "context of {n} tokens")
            parts.append(text.format(n=_number(status.limits.context)))
    return "  ·  ".join(part for part in parts if part)


def request_line(request: RunningRequest, status: EngineStatus) -> str:
    """One running request in words, with figures."""
    translate = QCoreApplication.translate
    if request.generated == 0 and request.prompt_read < request.prompt_tokens:
        text = translate("Now", "Reading {read} of {total} tokens ({cached} of them from memory)")
        return text.format(
            read=_number(request.prompt_read),
            total=_number(request.prompt_tokens),
            cached=_number(request.cached_tokens),
        )
    used = request.prompt_tokens + request.generated
    context = status.limits.context
    if context:
        text = translate(
            "Now", "{n} tokens written in {seconds} s; {used} of {context} of the context used"
        )
        return text.format(
            n=_number(request.generated),
            seconds=_number(round(request.elapsed_s)),
            used=_number(used),
            context=_number(context),
        )
    text = translate("Now", "{n} tokens written in {seconds} s")
    return text.format(n=_number(request.generated), seconds=_number(round(request.elapsed_s)))


def speed_line(rates: Rates) -> str:
    """The speeds of now."""
    translate = QCoreApplication.translate
    parts = []
    if rates.reading_per_s is not None:
        parts.append(
            translate("Now", "reading {n} tokens/s").format(n=_number(round(rates.reading_per_s)))
        )
    if rates.generating_per_s is not None:
        speed = QLocale().toString(rates.generating_per_s, "f", 1)
        parts.append(translate("Now", "writing {n} tokens/s").format(n=speed))
    return ", ".join(parts)


def reading_share(state: EngineState, status: EngineStatus | None) -> float | None:
    """How far loading or reading is, 0 to 1; None when neither happens."""
    if state.progress is not None:
        return state.progress.share
    if status is None or status.state is not ServerState.READING:
        return None
    total = sum(request.prompt_tokens for request in status.requests)
    read = sum(request.prompt_read for request in status.requests)
    return read / total if total else None


def _put(label: QLabel, text: str) -> None:
    if label.text() != text:
        label.setText(text)
        label.setVisible(bool(text))


def _number(value: int) -> str:
    return QLocale().toString(value)
