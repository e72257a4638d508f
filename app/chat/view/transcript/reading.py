"""The transcript as people use it: selecting, copying, links, the keyboard, the context menu."""

from __future__ import annotations

import time
from functools import partial

from PySide6.QtCore import QPoint, Qt, QTimer, QUrl, Signal
from PySide6.QtGui import (
    QContextMenuEvent,
    QDesktopServices,
    QFocusEvent,
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QTextCursor,
)
from PySide6.QtWidgets import QApplication, QMenu, QWidget

from app.chat.view import words
from app.chat.view.markdown.parse import is_safe_link
from app.chat.view.transcript.rows import END, BodyRow
from app.chat.view.transcript.sections import Section
from app.chat.view.transcript.selection import Position
from app.chat.view.transcript.transcript import Transcript
from app.chat.view.transcript.widgets import MessageAction

_AUTOSCROLL_MS = 30
_SPOKEN_CHARS = 500


class ReadingTranscript(Transcript):
    """See above.

    Signals:
        typed: text that was typed here and belongs into the composer.
    """

    typed = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._pressed: QPoint | None = None
        self._pressed_link = ""
        self._moved = False
        self._last_double = 0.0
        self._pointer = QPoint()
        self._autoscroll = QTimer(self)
        self._autoscroll.setInterval(_AUTOSCROLL_MS)
        self._autoscroll.timeout.connect(self._scroll_while_selecting)

    # -- mouse -------------------------------------------------------------------------------------

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802  # Qt's name
        """Begin to select, or a click on a link."""
        if event.button() is not Qt.MouseButton.LeftButton:
            return
        point = event.position().toPoint()
        self._pressed, self._moved = point, False
        self._pressed_link = self.link_at(point)
        self.current = self.section_at(point)
        position = self.position_at(point)
        if position is None:
            self.selection.clear()
        elif time.monotonic() - self._last_double < QApplication.doubleClickInterval() / 1000:
            self._select(position, QTextCursor.SelectionType.BlockUnderCursor)
        elif (
            event.modifiers() & Qt.KeyboardModifier.ShiftModifier
            and self.selection.anchor is not None
        ):
            self.selection.cursor = position
        else:
            self.selection.anchor = self.selection.cursor = position
        self.viewport().update()

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:  # noqa: N802  # Qt's name
        """Select a word; a third click takes the paragraph."""
        if event.button() is not Qt.MouseButton.LeftButton:
            return
        position = self.position_at(event.position().toPoint())
        if position is not None:
            self._last_double = time.monotonic()
            self._select(position, QTextCursor.SelectionType.WordUnderCursor)

    def _select(self, position: Position, kind: QTextCursor.SelectionType) -> None:
        row = position.row
        if not isinstance(row, BodyRow):
            return
        begin, end = row.word_at(position.offset, kind)
        self.selection.anchor = Position(position.section, row, begin)
        self.selection.cursor = Position(position.section, row, end)
        self._pressed = None
        self.viewport().update()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802  # Qt's name
        """Select, or show that something is a link."""
        point = event.position().toPoint()
        if self._pressed is None or not event.buttons() & Qt.MouseButton.LeftButton:
            link = self.link_at(point)
            shape = Qt.CursorShape.PointingHandCursor if link else Qt.CursorShape.IBeamCursor
            self.viewport().setCursor(shape)
            self.viewport().setToolTip(link)
            return
        distance = (point - self._pressed).manhattanLength()
        if not self._moved and distance < QApplication.startDragDistance():
            return
        if not self._moved:
            self._moved = True
            self.follow_end(is_wanted=False)  # text must not run away below the pointer
        self._pointer = point
        self._select_to(point)
        is_outside = not 0 <= point.y() < self.viewport().height()
        if is_outside:
            self._autoscroll.start()
        else:
            self._autoscroll.stop()

    def _select_to(self, point: QPoint) -> None:
        position = self.position_at(point)
        if position is not None:
            if self.selection.anchor is None:
                self.selection.anchor = position
            self.selection.cursor = position
            self.viewport().update()

    def _scroll_while_selecting(self) -> None:
        y, height = self._pointer.y(), self.viewport().height()
        step = y if y < 0 else max(0, y - height)
        bar = self.verticalScrollBar()
        bar.setValue(bar.value() + step)
        self._select_to(QPoint(self._pointer.x(), min(max(y, 0), height - 1)))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802  # Qt's name
        """The end of a selection, or of a click on a link."""
        self._autoscroll.stop()
        if event.button() is Qt.MouseButton.LeftButton and self._pressed is not None:
            link = self.link_at(event.position().toPoint())
            if not self._moved and link and link == self._pressed_link:
                open_link(link)
        if self._moved:
            self.follow_end(is_wanted=True)
        self._pressed = None
        clipboard = QGuiApplication.clipboard()
        if clipboard.supportsSelection() and self._moved:
            clipboard.setText(self.selected_text(), clipboard.Mode.Selection)

    # -- selection ---------------------------------------------------------------------------------

    def selected_text(self) -> str:
        """What is selected."""
        return self.selection.text(self.sections)

    def copy(self) -> None:
        """Copy what is selected, or the message that was chosen by keyboard."""
        text = self.selected_text()
        if not text and self.current is not None:
            text = self.current.message.text
        if text:
            QGuiApplication.clipboard().setText(text)

    def select_all(self) -> None:
        """Select all messages."""
        ends = [section for section in self.sections if section.message.text]
        if not ends:
            return
        first, last = ends[0], ends[-1]
        for section in (first, last):
            section.build()
        first_rows, last_rows = first.body_rows(), last.body_rows()
        if first_rows and last_rows:
            self.selection.anchor = Position(first, first_rows[0], 0)
            self.selection.cursor = Position(last, last_rows[-1], END)
            self.lay_out()

    # -- keyboard ----------------------------------------------------------------------------------

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802  # Qt's name; a table
        """Scroll, go from message to message, copy."""
        key, modifiers = event.key(), event.modifiers()
        bar = self.verticalScrollBar()
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy()
        elif event.matches(QKeySequence.StandardKey.SelectAll):
            self.select_all()
        elif key in (Qt.Key.Key_Up, Qt.Key.Key_Down) and modifiers & (
            Qt.KeyboardModifier.AltModifier | Qt.KeyboardModifier.ControlModifier
        ):
            self.go_to_message(-1 if key == Qt.Key.Key_Up else 1)
        elif key == Qt.Key.Key_Home:
            bar.setValue(0)
        elif key == Qt.Key.Key_End:
            self.scroll_to_end()
        elif key == Qt.Key.Key_Escape and self.selection.ends is not None:
            self.selection.clear()
            self.viewport().update()
        elif key == Qt.Key.Key_Space:
            self._page(-1 if modifiers & Qt.KeyboardModifier.ShiftModifier else 1)
        elif key in _SCROLL_KEYS:
            super().keyPressEvent(event)
        elif event.text().isprintable() and event.text() and not modifiers & _NOT_TYPING:
            # Who types here means the composer.
            self.typed.emit(event.text())
        else:
            event.ignore()

    def _page(self, direction: int) -> None:
        bar = self.verticalScrollBar()
        bar.setValue(bar.value() + direction * round(self.viewport().height() * 0.9))

    def go_to_message(self, step: int) -> None:
        """Choose the next or the previous message, and say what it is."""
        if not self.sections:
            return
        if self.current is None or self.current.index >= len(self.sections):
            place = len(self.sections) - 1 if step < 0 else 0
            if self.is_at_end and step < 0:
                place = len(self.sections) - 1
        else:
            place = self.current.index + step
        place = min(max(place, 0), len(self.sections) - 1)
        self._choose(self.sections[place])

    def _choose(self, section: Section) -> None:
        if section.index == len(self.sections) - 1 and section.height < self.viewport().height():
            self.current = section
            self.scroll_to_end()
        else:
            self.show_message(section.message.id)
        self.setAccessibleDescription(self.spoken(section))
        self.setFocus(Qt.FocusReason.OtherFocusReason)

    def spoken(self, section: Section) -> str:
        """A message for a screen reader."""
        who = self.tr("Answer") if section.message.is_answer else self.tr("You")
        place = self.tr("{0} of {1}").format(section.index + 1, len(self.sections))
        text = section.message.text[:_SPOKEN_CHARS]
        return f"{who}, {place}, {words.moment(section.message.created_at)}: {text}"

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802  # Qt's name
        """Show which message is chosen."""
        super().focusInEvent(event)
        self.viewport().update()

    def focusOutEvent(self, event: QFocusEvent) -> None:  # noqa: N802  # Qt's name
        """The mark of the chosen message goes."""
        super().focusOutEvent(event)
        self.viewport().update()

    # -- context menu ------------------------------------------------------------------------------

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:  # noqa: N802  # Qt's name
        """What can be done with the message under the pointer, or with the chosen one."""
        is_keyboard = event.reason() is QContextMenuEvent.Reason.Keyboard
        point = self.viewport().mapFromGlobal(event.globalPos())
        section = self.current if is_keyboard else self.section_at(point)
        menu = self.menu_for(section, "" if is_keyboard else self.link_at(point))
        menu.popup(event.globalPos())

    def menu_for(self, section: Section | None, link: str) -> QMenu:
        """The menu; it deletes itself."""
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        selected = menu.addAction(self.tr("Copy"), self.copy)
        selected.setShortcut(QKeySequence.StandardKey.Copy)
        selected.setEnabled(self.selection.ends is not None)
        if link:
            clipboard = QGuiApplication.clipboard()
            menu.addAction(self.tr("Copy the link"), lambda: clipboard.setText(link))
        menu.addAction(self.tr("Select all"), self.select_all)
        if section is None:
            return menu
        menu.addSeparator()
        for action, text in self._actions(section):
            menu.addAction(text, partial(self.action_wanted.emit, action, section.message.id))
        if section.message.thinking:
            text = (
                self.tr("Hide the thinking")
                if section.is_thinking_open
                else self.tr("Show the thinking")
            )
            menu.addAction(text, section.toggle_thinking)
        return menu

    def _actions(self, section: Section) -> list[tuple[MessageAction, str]]:
        message = section.message
        found = [(MessageAction.COPY, self.tr("Copy this message"))]
        if section.is_growing:
            return found
        found.append((MessageAction.EDIT, self.tr("Edit this message")))
        found.append((MessageAction.REGENERATE, self.tr("Another answer")))
        if message.can_continue:
            found.append((MessageAction.CONTINUE, self.tr("Continue this answer")))
        place = section.versions.index(message.id) if message.id in section.versions else 0
        if place > 0:
            found.append((MessageAction.OLDER, self.tr("Older version")))
        if place < len(section.versions) - 1:
            found.append((MessageAction.NEWER, self.tr("Newer version")))
        found.append((MessageAction.BRANCH, self.tr("New conversation from here")))
        found.append((MessageAction.DELETE, self.tr("Delete this message")))
        return found


_SCROLL_KEYS = (Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_PageUp, Qt.Key.Key_PageDown)
_NOT_TYPING = (
    Qt.KeyboardModifier.ControlModifier
    | Qt.KeyboardModifier.AltModifier
    | Qt.KeyboardModifier.MetaModifier
)


def open_link(address: str) -> None:
    """Open a page of the web in the person's browser; nothing else is ever opened."""
    if is_safe_link(address):
        QDesktopServices.openUrl(QUrl(address, QUrl.ParsingMode.TolerantMode))
