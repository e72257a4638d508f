"""Where a person writes: text that grows, attachments, send and stop.

It keeps nothing: every change is a signal, and the conversation's controller keeps the draft.
"""

from __future__ import annotations

import enum
from pathlib import Path

from PySide6.QtCore import (
    QBuffer,
    QByteArray,
    QEvent,
    QIODevice,
    QMimeData,
    QRect,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import (
    QDragEnterEvent,
    QDropEvent,
    QFocusEvent,
    QImage,
    QImageWriter,
    QInputMethodEvent,
    QKeyEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
)
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QMenu,
    QPlainTextEdit,
    QScrollArea,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.chat.view import words
from app.chat.view.theme import theme_of
from app.chat.view.transcript.widgets import Chip, colour_text, small_font
from app.history.records import Attachment
from app.look.icons import icon, icon_button, put_icon
from engine.core.config import Effort

_MAX_LINES = 12
_PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".heic", ".avif")


class SendState(enum.Enum):
    """What the round button does."""

    SEND = "send"
    STOP = "stop"
    STOPPING = "stopping"


class MessageEdit(QPlainTextEdit):
    """The text: Enter sends, Shift+Enter begins a line, files and pictures become attachments.

    Signals:
        submitted: Enter.
        escaped: Escape.
        recalled: the arrow up in an empty field.
        files_given: paths that were pasted or dropped.
        picture_given: PNG bytes of a picture that was pasted or dropped.
        focus_changed: the keyboard came or went.
    """

    focus_changed = Signal()
    submitted = Signal()
    escaped = Signal()
    recalled = Signal()
    files_given = Signal(list)
    picture_given = Signal(bytes)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setTabChangesFocus(True)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.viewport().setAutoFillBackground(False)
        self._is_composing = False
        self.document().documentLayout().documentSizeChanged.connect(lambda _size: self.fit())
        self.fit()

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802  # Qt's name
        """Tell."""
        super().focusInEvent(event)
        self.focus_changed.emit()

    def focusOutEvent(self, event: QFocusEvent) -> None:  # noqa: N802  # Qt's name
        """Tell."""
        super().focusOutEvent(event)
        self.focus_changed.emit()

    def fit(self) -> None:
        """Be as high as the text, up to some lines."""
        lines = max(1, round(self.document().size().height()))
        is_long = lines > _MAX_LINES
        policy = Qt.ScrollBarPolicy
        self.setVerticalScrollBarPolicy(
            policy.ScrollBarAsNeeded if is_long else policy.ScrollBarAlwaysOff
        )
        margin = 2 * self.document().documentMargin()
        height = round(min(lines, _MAX_LINES) * self.fontMetrics().lineSpacing() + margin + 2)
        if height != self.height() or self.minimumHeight() != height:
            self.setFixedHeight(height)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Another width makes other lines."""
        super().resizeEvent(event)
        self.fit()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802  # Qt's name
        """Another font makes other heights."""
        super().changeEvent(event)
        if event.type() is QEvent.Type.FontChange:
            self.fit()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802  # Qt's name
        """Enter and the arrow up."""
        modifiers = event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            if modifiers == Qt.KeyboardModifier.ShiftModifier:
                self.textCursor().insertBlock()
                self.ensureCursorVisible()
                return
            # While an input method composes, Enter accepts its letters.
            no_others = (Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.ControlModifier)
            if modifiers in no_others and not self._is_composing:
                self.submitted.emit()
                return
        elif event.key() == Qt.Key.Key_Escape:
            self.escaped.emit()
            return
        elif event.key() == Qt.Key.Key_Up and not self.toPlainText() and not modifiers:
            self.recalled.emit()
            return
        super().keyPressEvent(event)

    def inputMethodEvent(self, event: QInputMethodEvent) -> None:  # noqa: N802  # Qt's name
        """Know whether letters are being composed."""
        self._is_composing = bool(event.preeditString())
        super().inputMethodEvent(event)

    def canInsertFromMimeData(self, source: QMimeData) -> bool:  # noqa: N802  # Qt's name
        """Files and pictures too."""
        return source.hasImage() or source.hasUrls() or super().canInsertFromMimeData(source)

    def insertFromMimeData(self, source: QMimeData) -> None:  # noqa: N802  # Qt's name
        """Paste or drop."""
        if not self.take(source):
            super().insertFromMimeData(source)

    def take(self, source: QMimeData) -> bool:
        """Make attachments of what is no text; whether it was that."""
        files = [Path(url.toLocalFile()) for url in source.urls() if url.isLocalFile()]
        if files:
            self.files_given.emit(files)
            return True
        # A table copied from an office program brings a picture of itself beside the text.
        if source.hasImage() and not source.hasText():
            data = _png(source.imageData())
            if data:
                self.picture_given.emit(data)
            return True
        return False


def _png(image: object) -> bytes:
    if not isinstance(image, QImage) or image.isNull():
        return b""
    data = QByteArray()
    buffer = QBuffer(data)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    QImageWriter(buffer, QByteArray(b"png")).write(image)
    return bytes(data.data())


def is_picture(path: Path) -> bool:
    """Whether a file is a picture by its name."""
    return path.suffix.lower() in _PICTURES


class _RoundButton(QToolButton):
    """Send or stop: a filled circle, so that it is found without reading."""

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002
        """Draw the circle and the icon."""
        theme = theme_of(self)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        ground = theme.accent if self.isEnabled() else theme.code_head
        if self.isDown() or self.underMouse():
            ground = ground.darker(112)
        painter.setPen(theme.text if self.hasFocus() else Qt.PenStyle.NoPen)
        painter.setBrush(ground)
        side = min(self.width(), self.height()) - 2
        circle = QRect((self.width() - side) // 2, (self.height() - side) // 2, side, side)
        painter.drawEllipse(circle)
        colour = theme.highlighted_text if self.isEnabled() else theme.muted
        inner = round(side * 0.56)
        place = QRect(0, 0, inner, inner)
        place.moveCenter(circle.center())
        icon(self.property("icon_name"), colour).paint(painter, place)


class Composer(QFrame):
    """Text, attachments and buttons in a rounded frame.

    Signals:
        send_wanted: send what is written.
        stop_wanted: stop the answer.
        text_edited: the text after a change by the person.
        files_given, picture_given: see `MessageEdit`.
        attach_wanted: choose files.
        attachment_removed: id of an attachment to take away.
        recall_wanted: take back the last message to edit it.
        edit_cancelled: do not edit a message after all.
        effort_chosen: a thinking level, None for the default.
    """

    send_wanted = Signal()
    stop_wanted = Signal()
    text_edited = Signal(str)
    files_given = Signal(list)
    picture_given = Signal(bytes)
    attach_wanted = Signal()
    attachment_removed = Signal(str)
    recall_wanted = Signal()
    edit_cancelled = Signal()
    effort_chosen = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAcceptDrops(True)
        self._state = SendState.SEND
        self._is_editing = False
        self._is_filling = False
        self.edit = MessageEdit(self)
        self.edit.setPlaceholderText(self.tr("Write a message"))
        self.edit.setAccessibleName(self.tr("Message"))
        self.attach_button = icon_button(self, "attach", self.tr("Attach files (Ctrl+O)"))
        self.effort_button = QToolButton(self)
        self.effort_button.setAutoRaise(True)
        self.effort_button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.effort_button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        put_icon(self.effort_button, "think")
        self.effort_button.setToolTip(self.tr("How thoroughly the model thinks before it answers"))
        self._effort_menu = QMenu(self)
        self.effort_button.setMenu(self._effort_menu)
        self._hint = QLabel(self)
        self._hint.setTextFormat(Qt.TextFormat.PlainText)
        self.send_button = _RoundButton(self)
        self._editing = self._editing_bar()
        self._chips = QScrollArea(self)
        self._lay_out()
        self._connect()
        self.show_attachments((), 0)
        self.set_state(SendState.SEND)

    def _editing_bar(self) -> QWidget:
        bar = QWidget(self)
        layout = QHBoxLayout(bar)
        layout.setContentsMargins(0, 0, 0, 0)
        self._editing_words = QLabel(bar)
        self._editing_words.setTextFormat(Qt.TextFormat.PlainText)
        cancel = icon_button(self, "close", self.tr("Do not edit (Escape)"))
        cancel.clicked.connect(lambda _checked=False: self.edit_cancelled.emit())
        layout.addWidget(self._editing_words, 1)
        layout.addWidget(cancel)
        bar.hide()
        return bar

    def _lay_out(self) -> None:
        em = self.fontMetrics().height()
        side = round(em * 1.15)
        for button in (self.attach_button, self.effort_button, self.send_button):
            button.setIconSize(QSize(side, side))
        self.send_button.setFixedSize(round(em * 1.9), round(em * 1.9))
        layout = QVBoxLayout(self)
        margin = round(em * 0.6)
        layout.setContentsMargins(margin, margin, margin, round(em * 0.4))
        layout.setSpacing(round(em * 0.3))
        layout.addWidget(self._editing)
        self._chips.setFrameShape(QFrame.Shape.NoFrame)
        self._chips.setWidgetResizable(True)
        self._chips.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._chips.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._chips.viewport().setAutoFillBackground(False)
        layout.addWidget(self._chips)
        layout.addWidget(self.edit)
        row = QHBoxLayout()
        row.addWidget(self.attach_button)
        row.addWidget(self.effort_button)
        row.addWidget(self._hint, 1, Qt.AlignmentFlag.AlignRight)
        row.addWidget(self.send_button)
        layout.addLayout(row)

    def _connect(self) -> None:
        self.edit.focus_changed.connect(self.update)
        self.edit.submitted.connect(self._submit)
        self.edit.escaped.connect(self._escape)
        self.edit.recalled.connect(self.recall_wanted)
        self.edit.files_given.connect(self.files_given)
        self.edit.picture_given.connect(self.picture_given)
        self.edit.textChanged.connect(self._edited)
        self.attach_button.clicked.connect(lambda _checked=False: self.attach_wanted.emit())
        self.send_button.clicked.connect(lambda _checked=False: self._press())

    # -- what is shown -----------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """What is written."""
        return self.edit.toPlainText()

    def put_text(self, text: str) -> None:
        """Show another text; it is not reported as an edit."""
        self._is_filling = True
        self.edit.setPlainText(text)
        cursor = self.edit.textCursor()
        cursor.movePosition(cursor.MoveOperation.End)
        self.edit.setTextCursor(cursor)
        self._is_filling = False
        self._look_at_button()

    @property
    def is_editing(self) -> bool:
        """Whether another version of a message is being written."""
        return self._is_editing

    def set_editing(self, words_: str) -> None:
        """Say that another version of a message is being written; empty = it is not."""
        self._is_editing = bool(words_)
        self._editing_words.setText(words_)
        colour_text(self._editing_words, theme_of(self).muted)
        self._editing.setVisible(bool(words_))

    def set_state(self, state: SendState) -> None:
        """What the round button does."""
        if state is self._state and self.send_button.toolTip():
            return
        self._state = state
        is_send = state is SendState.SEND
        self.send_button.setProperty("icon_name", "send" if is_send else "stop")
        self.send_button.update()
        text = self.tr("Send (Enter)") if is_send else self.tr("Stop the answer (Escape)")
        self.send_button.setToolTip(text)
        self.send_button.setAccessibleName(text)
        self._look_at_button()

    def show_attachments(self, attachments: tuple[Attachment, ...], num_pending: int) -> None:
        """Show what is attached, and how many files are still being read."""
        theme = theme_of(self)
        strip = QWidget()
        layout = QHBoxLayout(strip)
        layout.setContentsMargins(0, 0, 0, 0)
        for attachment in attachments:
            chip = Chip(strip, theme, attachment)
            remove = icon_button(self, "close", self.tr("Remove {0}").format(attachment.name))
            chip_layout = chip.layout()
            if chip_layout is not None:
                chip_layout.addWidget(remove)
            remove.clicked.connect(
                lambda _c=False, i=attachment.id: self.attachment_removed.emit(i)
            )
            layout.addWidget(chip)
        if num_pending:
            waiting = QLabel(self.tr("%n file(s) being read", "", num_pending), strip)
            layout.addWidget(waiting)
        layout.addStretch(1)
        self._chips.setWidget(strip)
        self._chips.setFixedHeight(strip.sizeHint().height() + 2)
        self._chips.setVisible(bool(attachments or num_pending))
        self._num_attachments = len(attachments)
        counted = [a.num_tokens for a in attachments if a.num_tokens is not None]
        self._hint.setText(words.tokens(sum(counted)) if counted else "")
        self._hint.setFont(small_font(theme))
        colour_text(self._hint, theme.muted)
        self._look_at_button()

    def show_efforts(
        self, efforts: tuple[Effort, ...], chosen: Effort | None, default: Effort
    ) -> None:
        """The thinking levels to choose from."""
        menu = self._effort_menu
        menu.clear()
        standard = self.tr("Standard ({0})").format(words.effort_words(default))
        choices: list[tuple[str, Effort | None]] = [(standard, None)]
        choices += [(words.effort_words(effort), effort) for effort in efforts]
        for text, effort in choices:
            action = menu.addAction(text)
            action.setCheckable(True)
            action.setChecked(effort is chosen)
            action.triggered.connect(lambda _c=False, e=effort: self.effort_chosen.emit(e))
        shown = words.effort_words(chosen if chosen is not None else default)
        self.effort_button.setText(shown)
        self.effort_button.setAccessibleName(self.tr("Thinking: {0}").format(shown))

    def _look_at_button(self) -> None:
        has_something = bool(self.text.strip()) or getattr(self, "_num_attachments", 0) > 0
        is_enabled = {
            SendState.SEND: has_something,
            SendState.STOP: True,
            SendState.STOPPING: False,
        }[self._state]
        self.send_button.setEnabled(is_enabled)

    # -- what the person does ----------------------------------------------------------------------

    def _edited(self) -> None:
        self._look_at_button()
        if not self._is_filling:
            self.text_edited.emit(self.text)

    def _submit(self) -> None:
        # While an answer is made Enter must not lose what was written meanwhile.
        if self._state is SendState.SEND:
            self.send_wanted.emit()

    def _press(self) -> None:
        if self._state is SendState.SEND:
            self.send_wanted.emit()
        else:
            self.stop_wanted.emit()
        self.edit.setFocus(Qt.FocusReason.OtherFocusReason)

    def _escape(self) -> None:
        if self._is_editing:
            self.edit_cancelled.emit()
        elif self._state is SendState.STOP:
            self.stop_wanted.emit()

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:  # noqa: N802  # Qt's name
        """Files and pictures may be dropped anywhere here."""
        if event.mimeData().hasUrls() or event.mimeData().hasImage():
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:  # noqa: N802  # Qt's name
        """Attach what was dropped."""
        if self.edit.take(event.mimeData()):
            event.acceptProposedAction()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002
        """A rounded ground; its edge shows where the keyboard is."""
        theme = theme_of(self)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(theme.accent if self.edit.hasFocus() else theme.line)
        painter.setBrush(theme.base)
        radius = theme.em * 0.7
        painter.drawRoundedRect(self.rect().adjusted(1, 1, -1, -1), radius, radius)
