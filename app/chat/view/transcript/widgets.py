"""Small widgets of a transcript: they exist only while they are seen, so they hold no state."""

from __future__ import annotations

import enum
import json
from collections.abc import Callable

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QPaintEvent, QPalette
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QProgressBar,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.chat.activity import Activity, Phase
from app.chat.view import words
from app.chat.view.problems import note_words, problem_words
from app.chat.view.theme import Theme
from app.history.records import (
    Attachment,
    AttachmentKind,
    Message,
    Problem,
    ToolCall,
    ToolState,
)
from app.look.icons import icon

_MAX_SHOWN_CHARS = 20_000
_MAX_BODY_LINES = 14


class MessageAction(enum.StrEnum):
    """What a person can do with a message."""

    COPY = "copy"
    EDIT = "edit"
    REGENERATE = "regenerate"
    CONTINUE = "continue"
    BRANCH = "branch"
    OLDER = "older"
    NEWER = "newer"
    DELETE = "delete"


def icon_button(
    parent: QWidget, name: str, words_: str, on_click: Callable[[], None], theme: Theme
) -> QToolButton:
    """A flat button with an icon; its words are its tip and its accessible name."""
    button = QToolButton(parent)
    button.setAutoRaise(True)
    button.setIcon(icon(name, theme.muted))
    side = round(theme.em * 0.95)
    button.setIconSize(QSize(side, side))
    button.setToolTip(words_)
    button.setAccessibleName(words_)
    button.setCursor(Qt.CursorShape.PointingHandCursor)
    button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
    button.clicked.connect(lambda _checked=False: on_click())
    return button


def small_font(theme: Theme) -> QFont:
    """For what stands beside the text."""
    font = QFont(theme.font)
    if font.pointSizeF() > 0:
        font.setPointSizeF(font.pointSizeF() * 0.88)
    else:
        font.setPixelSize(max(1, round(font.pixelSize() * 0.88)))
    return font


def colour_text(widget: QWidget, colour: QColor) -> None:
    """Give a label's text a colour."""
    palette = widget.palette()
    palette.setColor(QPalette.ColorRole.WindowText, colour)
    palette.setColor(QPalette.ColorRole.ButtonText, colour)
    palette.setColor(QPalette.ColorRole.Text, colour)  # labels on a ground of Base take this one
    widget.setPalette(palette)


def label(parent: QWidget, text: str, theme: Theme, *, is_small: bool = True) -> QLabel:
    """A line of muted text, never taken for HTML."""
    made = QLabel(parent)
    made.setTextFormat(Qt.TextFormat.PlainText)
    made.setText(text)
    if is_small:
        made.setFont(small_font(theme))
    colour_text(made, theme.muted)
    return made


class Footer(QWidget):
    """Under a message: what can be done with it, its versions, and how the answer went."""

    def __init__(
        self,
        parent: QWidget,
        message: Message,
        versions: tuple[str, ...],
        theme: Theme,
        act: Callable[[MessageAction], None],
    ) -> None:
        super().__init__(parent)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(round(theme.em * 0.05))
        if not message.is_answer:
            layout.addStretch(1)

        def add(name: str, text: str, action: MessageAction) -> QToolButton:
            button = icon_button(self, name, text, lambda: act(action), theme)
            layout.addWidget(button)
            return button

        if len(versions) > 1:
            place = versions.index(message.id) if message.id in versions else 0
            older = add("chevron-left", self.tr("Older version"), MessageAction.OLDER)
            older.setEnabled(place > 0)
            count = label(self, f"{place + 1}/{len(versions)}", theme)
            count.setAccessibleName(self.tr("Version {0} of {1}").format(place + 1, len(versions)))
            layout.addWidget(count)
            newer = add("chevron-right", self.tr("Newer version"), MessageAction.NEWER)
            newer.setEnabled(place < len(versions) - 1)
        if message.can_continue:
            go_on = add("continue", self.tr("Continue this answer"), MessageAction.CONTINUE)
            go_on.setText(self.tr("Continue"))
            go_on.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
            go_on.setFont(small_font(theme))
        add("copy", self.tr("Copy this message"), MessageAction.COPY)
        add("edit", self.tr("Edit this message"), MessageAction.EDIT)
        again = self.tr("Another answer")
        add("refresh", again, MessageAction.REGENERATE)
        add("branch", self.tr("New conversation from here"), MessageAction.BRANCH)
        add("delete", self.tr("Delete this message"), MessageAction.DELETE)
        if message.is_answer:
            self._add_stats(layout, message, theme)
            layout.addStretch(1)

    def _add_stats(self, layout: QHBoxLayout, message: Message, theme: Theme) -> None:
        if message.stats is None:
            return
        shown = label(self, words.stats_line(message.stats), theme)
        details = words.stats_details(message.stats)
        shown.setToolTip(details)
        shown.setAccessibleDescription(details)
        layout.addSpacing(round(theme.em * 0.5))
        layout.addWidget(shown)


class StatusLine(QWidget):
    """Under a growing answer: what happens now, and how far it is."""

    def __init__(self, parent: QWidget, theme: Theme) -> None:
        super().__init__(parent)
        self._label = label(self, "", theme)
        self._bar = QProgressBar(self)
        self._bar.setTextVisible(False)
        self._bar.setFixedSize(round(theme.em * 9), max(4, round(theme.em * 0.32)))
        self._bar.setRange(0, 1000)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(round(theme.em * 0.6))
        layout.addWidget(self._label)
        layout.addWidget(self._bar)
        layout.addStretch(1)
        self._bar.hide()
        self.setFixedHeight(round(theme.em * 1.6))

    def show_activity(self, activity: Activity, call: ToolCall | None) -> None:
        """Say what happens now."""
        line = words.activity_words(activity)
        if activity.phase is Phase.WRITING_CALL and call is not None:
            written = len(call.arguments.encode("utf-8", "replace"))
            line = f"{line} ({words.size(written)})"
        extras = []
        if activity.phase is Phase.READING and activity.prompt_per_s > 0:
            extras.append(words.speed(activity.prompt_per_s))
        elif activity.tokens_per_s > 0:
            extras.append(words.speed(activity.tokens_per_s))
        if activity.elapsed_s >= 1:
            extras.append(words.duration(activity.elapsed_s))
        line = "  ·  ".join([line, *extras])
        if line != self._label.text():
            self._label.setText(line)
            self._bar.setAccessibleName(line)
        is_reading = activity.phase is Phase.READING and activity.prompt_tokens > 0
        is_loading = activity.phase is Phase.WAITING_FOR_ENGINE and activity.load_share > 0
        self._bar.setVisible(is_reading or is_loading)
        if is_reading:
            self._bar.setValue(round(1000 * activity.prompt_read / activity.prompt_tokens))
        elif is_loading:
            self._bar.setValue(round(1000 * activity.load_share))


class ThinkingHead(QWidget):
    """The fold over the thinking, with its time, and "Answer now" while it goes on."""

    def __init__(
        self,
        parent: QWidget,
        theme: Theme,
        *,
        is_open: bool,
        toggle: Callable[[], None],
        answer_now: Callable[[], None],
    ) -> None:
        super().__init__(parent)
        self._button = QToolButton(self)
        self._button.setAutoRaise(True)
        self._button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self._button.setIcon(icon("chevron-down" if is_open else "chevron-right", theme.muted))
        side = round(theme.em * 0.85)
        self._button.setIconSize(QSize(side, side))
        self._button.setFont(small_font(theme))
        colour_text(self._button, theme.muted)
        self._button.setAccessibleDescription(
            self.tr("Hides the thinking") if is_open else self.tr("Shows the thinking")
        )
        self._button.clicked.connect(lambda _checked=False: toggle())
        self._now = QToolButton(self)
        self._now.setText(self.tr("Answer now"))
        self._now.setToolTip(self.tr("End the thinking; the answer follows (Ctrl+Shift+Return)"))
        self._now.setFont(small_font(theme))
        self._now.clicked.connect(lambda _checked=False: answer_now())
        self._now.hide()
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._button)
        layout.addWidget(self._now)
        layout.addStretch(1)
        self.setFixedHeight(round(theme.em * 1.7))

    def show_time(self, seconds: float, *, is_live: bool, can_answer_now: bool) -> None:
        """Say how long it has taken, or took."""
        if is_live:
            text = self.tr("Thinking: {0}").format(words.duration(seconds))
        elif seconds >= 0.5:
            text = self.tr("Thought for {0}").format(words.duration(seconds))
        else:
            text = self.tr("Thinking")
        if text != self._button.text():
            self._button.setText(text)
        self._now.setVisible(can_answer_now)


class Notice(QWidget):
    """Why an answer ended as it did."""

    def __init__(
        self, parent: QWidget, theme: Theme, text: str, *, is_problem: bool = False
    ) -> None:
        super().__init__(parent)
        sign = QLabel(self)
        side = round(theme.em)
        colour = theme.danger if is_problem else theme.warning
        sign.setPixmap(icon("warning" if is_problem else "info", colour).pixmap(QSize(side, side)))
        sign.setAlignment(Qt.AlignmentFlag.AlignTop)
        shown = QLabel(self)
        shown.setTextFormat(Qt.TextFormat.PlainText)
        shown.setText(text)
        shown.setWordWrap(True)
        shown.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        colour_text(shown, colour)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(sign)
        layout.addWidget(shown, 1)

    def heightForWidth(self, width: int) -> int:  # noqa: N802  # Qt's name
        """As its label's."""
        layout = self.layout()
        return layout.heightForWidth(width) if layout is not None else 0

    def hasHeightForWidth(self) -> bool:  # noqa: N802  # Qt's name
        """The text wraps."""
        return True


def problem_notice(parent: QWidget, theme: Theme, problem: Problem) -> Notice:
    """A problem under an answer."""
    return Notice(parent, theme, problem_words(problem), is_problem=True)


def note_notice(parent: QWidget, theme: Theme, note: str) -> Notice:
    """A remark under an answer."""
    return Notice(parent, theme, note_words(note))


class Chips(QWidget):
    """Attachments of a message that was sent."""

    def __init__(self, parent: QWidget, theme: Theme, attachments: tuple[Attachment, ...]) -> None:
        super().__init__(parent)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addStretch(1)
        for attachment in attachments:
            layout.addWidget(Chip(self, theme, attachment))


class Chip(QFrame):
    """One attachment: icon, name, tokens."""

    def __init__(self, parent: QWidget, theme: Theme, attachment: Attachment) -> None:
        super().__init__(parent)
        self._theme = theme
        layout = QHBoxLayout(self)
        margin = round(theme.em * 0.35)
        layout.setContentsMargins(margin * 2, margin, margin * 2, margin)
        sign = QLabel(self)
        side = round(theme.em * 0.95)
        is_picture = attachment.kind is AttachmentKind.PICTURE
        sign.setPixmap(icon("picture" if is_picture else "file", theme.muted).pixmap(side, side))
        layout.addWidget(sign)
        name = QLabel(self)
        name.setTextFormat(Qt.TextFormat.PlainText)
        metrics = name.fontMetrics()
        name.setText(
            metrics.elidedText(attachment.name, Qt.TextElideMode.ElideMiddle, round(theme.em * 14))
        )
        name.setToolTip(attachment.name)
        layout.addWidget(name)
        size = (
            words.tokens(attachment.num_tokens)
            if attachment.num_tokens is not None
            else words.size(attachment.size_bytes)
        )
        layout.addWidget(label(self, size, theme))
        if attachment.note:
            self.setToolTip(note_words(attachment.note))
        self.setAccessibleName(f"{attachment.name}, {size}")

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002
        """A rounded ground."""
        _paint_ground(self, self._theme)


def _paint_ground(widget: QWidget, theme: Theme) -> None:
    painter = QPainter(widget)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(theme.line)
    painter.setBrush(theme.code_background)
    radius = theme.em * 0.4
    painter.drawRoundedRect(widget.rect().adjusted(0, 0, -1, -1), radius, radius)


class ToolCard(QFrame):
    """A tool call: folded to a line, with the question for consent when it is asked for."""

    def __init__(
        self,
        parent: QWidget,
        theme: Theme,
        call: ToolCall,
        *,
        is_open: bool,
        toggle: Callable[[], None],
        answer: Callable[[bool, bool], None],
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        layout = QVBoxLayout(self)
        margin = round(theme.em * 0.45)
        layout.setContentsMargins(margin, margin, margin, margin)
        layout.setSpacing(margin)
        layout.addLayout(self._head(call, is_open=is_open, toggle=toggle))
        is_asking = call.state is ToolState.ASKING
        if is_open or is_asking:
            layout.addWidget(self._body(_pretty(call.arguments), self.tr("Arguments")))
        if is_open and call.result:
            layout.addWidget(self._body(call.result, self.tr("Result")))
        if is_asking:
            layout.addLayout(self._question(call, answer))

    def _head(self, call: ToolCall, *, is_open: bool, toggle: Callable[[], None]) -> QHBoxLayout:
        theme = self._theme
        head = QHBoxLayout()
        button = QToolButton(self)
        button.setAutoRaise(True)
        button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        button.setIcon(icon("chevron-down" if is_open else "chevron-right", theme.muted))
        side = round(theme.em * 0.85)
        button.setIconSize(QSize(side, side))
        name = call.tool or call.name
        button.setText(f"{name} · {call.server}" if call.server else name)
        button.setAccessibleDescription(
            self.tr("Hides arguments and result")
            if is_open
            else self.tr("Shows arguments and result")
        )
        button.clicked.connect(lambda _checked=False: toggle())
        sign = QLabel(self)
        sign.setPixmap(icon("tool", theme.muted).pixmap(side, side))
        head.addWidget(sign)
        head.addWidget(button)
        head.addStretch(1)
        state = label(self, self._state(call), theme)
        if call.state in (ToolState.FAILED, ToolState.LOST):
            colour_text(state, theme.danger)
        elif call.state is ToolState.ASKING:
            colour_text(state, theme.warning)
        head.addWidget(state)
        return head

    def _state(self, call: ToolCall) -> str:
        written = words.size(len(call.arguments.encode("utf-8", "replace")))
        return {
            ToolState.WRITING: self.tr("The call is being written ({0})").format(written),
            ToolState.ASKING: self.tr("Waits for your consent"),
            ToolState.RUNNING: self.tr("Runs"),
            ToolState.DONE: self.tr("Done"),
            ToolState.FAILED: self.tr("Failed"),
            ToolState.REFUSED: self.tr("Refused"),
            ToolState.LOST: self.tr("The answer ended before"),
        }[call.state]

    def _body(self, text: str, name: str) -> QPlainTextEdit:
        body = QPlainTextEdit(self)
        body.setReadOnly(True)
        body.setFont(self._theme.mono)
        body.setFrameShape(QFrame.Shape.NoFrame)
        body.setAccessibleName(name)
        body.setPlaceholderText(self.tr("(empty)"))
        if len(text) > _MAX_SHOWN_CHARS:
            text = text[:_MAX_SHOWN_CHARS] + "…"
        body.setPlainText(text)
        lines = min(text.count("\n") + 1, _MAX_BODY_LINES)
        body.setFixedHeight(round((lines + 1.2) * body.fontMetrics().lineSpacing()))
        body.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        body.setTabChangesFocus(True)
        return body

    def _question(self, call: ToolCall, answer: Callable[[bool, bool], None]) -> QHBoxLayout:
        row = QHBoxLayout()
        question = QLabel(self)
        question.setTextFormat(Qt.TextFormat.PlainText)
        question.setText(
            self.tr("May {0} run with these arguments?").format(call.tool or call.name)
        )
        question.setWordWrap(True)
        row.addWidget(question, 1)
        for text, allow, always in (
            (self.tr("Refuse"), False, False),
            (self.tr("Always allow"), True, True),
            (self.tr("Allow"), True, False),
        ):
            button = QToolButton(self)
            button.setText(text)
            button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
            button.clicked.connect(lambda _c=False, a=allow, w=always: answer(a, w))
            row.addWidget(button)
        return row

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002
        """A rounded ground."""
        _paint_ground(self, self._theme)


def _pretty(arguments: str) -> str:
    """JSON as people write it; what is no JSON (yet) stays as it is."""
    if len(arguments) > _MAX_SHOWN_CHARS:
        return arguments
    try:
        return json.dumps(json.loads(arguments), ensure_ascii=False, indent=2)
    except ValueError:
        return arguments


class MoreButton(QWidget):
    """Unfolds a long message."""

    def __init__(
        self, parent: QWidget, theme: Theme, text: str, on_click: Callable[[], None]
    ) -> None:
        super().__init__(parent)
        button = QToolButton(self)
        button.setText(text)
        button.setAutoRaise(True)
        button.setFont(small_font(theme))
        button.clicked.connect(lambda _checked=False: on_click())
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(button)
        layout.addStretch(1)
