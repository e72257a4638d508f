"""The messages of a conversation in one scrolled area: only what is seen is laid out.

Heights of what nobody has seen are guesses. When a guess turns out wrong, what the reader looks at
stays where it is: the row at the top of the view is the anchor, and the scroll bar follows it. At the
end of the conversation the end is the anchor.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from PySide6.QtCore import QEvent, QPoint, QPointF, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QGuiApplication, QPainter, QPaintEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QToolButton, QWidget

from app.chat.activity import Activity
from app.chat.view.theme import theme_of
from app.chat.view.transcript.block_views import Surroundings
from app.chat.view.transcript.code_view import CodeView
from app.chat.view.transcript.colouring import Colouring
from app.chat.view.transcript.column import Column
from app.chat.view.transcript.formulas import Formulas
from app.chat.view.transcript.overlay import Overlay
from app.chat.view.transcript.rows import BodyRow, Row, WidgetRow
from app.chat.view.transcript.sections import Section
from app.chat.view.transcript.selection import Position, Selection
from app.chat.view.transcript.widgets import MessageAction, icon_button
from app.history.records import Message
from app.look.icons import icon

_MAX_ROUNDS = 40
_FIGURES_S = 0.2  # figures that change faster cannot be read


class Transcript(QAbstractScrollArea):
    """See above; input is `TranscriptInput`'s business.

    Signals:
        action_wanted: a `MessageAction` and the message's id.
        answer_now_wanted: end the thinking.
        tool_answered: id of the call, allow, always.
        end_left: whether the reader is no longer at the end.
    """

    action_wanted = Signal(object, str)
    answer_now_wanted = Signal()
    tool_answered = Signal(str, bool, bool)
    end_left = Signal(bool)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName(self.tr("Conversation"))
        self.viewport().setCursor(Qt.CursorShape.IBeamCursor)
        self.viewport().setMouseTracking(True)
        self.selection = Selection()
        self.current: Section | None = None  # chosen by keyboard
        self.fetch: Callable[[str], Message] | None = None  # how to read a growing message again
        self.colouring = Colouring(self.viewport().update, self)
        self.formulas = Formulas(self)
        self.formulas.drawn.connect(self._formulas_drawn)
        self._by_id: dict[str, Section] = {}
        self._surroundings = Surroundings(theme_of(self), self.formulas)
        self._activity = Activity()
        self._told_at = 0.0
        self.column = Column(self._surroundings)
        self._overlay = Overlay(self, self.column, self._surroundings)
        self._is_at_end = True
        self._anchor: tuple[Section, Row | None, float] | None = None
        self._is_placing = False
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(0)
        self._timer.timeout.connect(self.lay_out)
        self.verticalScrollBar().valueChanged.connect(self._scrolled)
        self.end_button = QToolButton(self)
        self._set_up_end_button()

    @property
    def sections(self) -> list[Section]:
        """The messages, first to last."""
        return self.column.sections

    # -- what sections need ------------------------------------------------------------------------

    @property
    def surroundings(self) -> Surroundings:
        """What rows are drawn with."""
        return self._surroundings

    @property
    def activity(self) -> Activity:
        """What happens now."""
        return self._activity

    def latest(self, message: Message) -> Message:
        """A growing message with all that it has by now."""
        return self.fetch(message.id) if self.fetch is not None else message

    def act(self, action: MessageAction, message_id: str) -> None:
        """The person wants this done."""
        self.action_wanted.emit(action, message_id)

    def answer_now(self) -> None:
        """The person wants the thinking to end."""
        self.answer_now_wanted.emit()

    def answer_tool(self, call_id: str, *, allow: bool, always: bool) -> None:
        """The person has allowed or refused a call."""
        self.tool_answered.emit(call_id, allow, always)

    def copy_button(self, parent: QWidget, view: CodeView) -> QWidget:
        """A button that copies the code of a block."""

        def copy() -> None:
            QGuiApplication.clipboard().setText(view.group.code)
            button.setIcon(icon("check", self._surroundings.theme.accent))
            button.setToolTip(self.tr("Copied"))

        button = icon_button(
            parent, "copy", self.tr("Copy this code"), copy, self._surroundings.theme
        )
        return button

    def rows_changed(self) -> None:
        """Rows came, went or changed their height: lay out soon, once for many changes."""
        self._lay_out_soon()

    def _lay_out_soon(self) -> None:
        # Whoever is not looked at has nothing to do; `showEvent` catches up.
        if self.isVisible() and not self._timer.isActive():
            self._timer.start()

    # -- content -----------------------------------------------------------------------------------

    def clear(self) -> None:
        """Show nothing."""
        self.show_messages([], lambda _message_id: ())
        self._is_at_end = True
        self._anchor = None

    def show_messages(
        self, messages: Sequence[Message], versions_of: Callable[[str], tuple[str, ...]]
    ) -> None:
        """Show these messages; those that are shown already stay as they are."""
        known, self._by_id = self._by_id, {}
        kept: list[Section] = []
        for message in messages:
            versions = versions_of(message.id)
            section = known.pop(message.id, None)
            if section is None:
                section = Section(self, message, versions)
                section.set_width(self.column.width)
            elif section.versions != versions or section.message.state is not message.state:
                section.update(message, versions)
            section.index = len(kept)
            kept.append(section)
            self._by_id[message.id] = section
        for section in known.values():
            self._forget(section)
        self.column.sections = kept
        if known:
            self.selection.clear()
        if self.current is not None and self.current.message.id not in self._by_id:
            self.current = None
        if self._anchor is not None and self._anchor[0].message.id not in self._by_id:
            self._anchor = None
        self._lay_out_soon()

    def _forget(self, section: Section) -> None:
        for row in section.rows:
            self._overlay.release(row)

    def section(self, message_id: str) -> Section | None:
        """The section of a message that is shown."""
        return self._by_id.get(message_id)

    def update_message(self, message: Message, versions: tuple[str, ...]) -> None:
        """Anything but the end of its text has changed."""
        section = self._by_id.get(message.id)
        if section is not None:
            section.update(message, versions)
            self._lay_out_soon()

    def append_text(self, message_id: str, text: str) -> None:
        """The end of a growing answer."""
        section = self._by_id.get(message_id)
        if section is not None:
            section.append(text)

    def append_thinking(self, message_id: str, text: str) -> None:
        """The end of a growing answer's thinking."""
        section = self._by_id.get(message_id)
        if section is not None:
            section.append_thinking(text)

    def show_activity(self, activity: Activity) -> None:
        """Say what happens now, below the answer that grows; figures a few times a second."""
        now = time.monotonic()
        is_same = activity.phase is self._activity.phase
        self._activity = activity
        if is_same and now - self._told_at < _FIGURES_S:
            return
        self._told_at = now
        section = self._by_id.get(activity.message_id or "")
        if section is not None:
            section.show_activity()

    # -- layout ------------------------------------------------------------------------------------

    @property
    def is_at_end(self) -> bool:
        """Whether the view follows a growing answer."""
        return self._is_at_end

    def lay_out(self) -> None:
        """Measure what is seen, and keep the reader where he is."""
        self._timer.stop()
        self.column.fit(self.viewport().width(), self.devicePixelRatioF())
        height = float(self.viewport().height())
        value = 0.0
        for _round in range(_MAX_ROUNDS):
            self.column.place()
            value = self._wanted_value(height)
            if not self.column.measure(
                value, value + height, self.viewport(), is_at_end=self._is_at_end
            ):
                break
        self._place_bar(value, height)
        for row in self._overlay.place(float(self.verticalScrollBar().value()), height):
            self._want_colours(row)
        self._remember_anchor()
        self.viewport().update()

    def _wanted_value(self, height: float) -> float:
        most = max(0.0, self.column.height - height)
        if self._is_at_end:
            return most
        if self._anchor is None:
            return min(float(self.verticalScrollBar().value()), most)
        section, row, screen_y = self._anchor
        top = self.column.top_of(section)
        if row is not None and row.index < len(section.rows) and section.rows[row.index] is row:
            top += section.tops[row.index]
        return min(max(0.0, top - screen_y), most)

    def _place_bar(self, value: float, height: float) -> None:
        bar = self.verticalScrollBar()
        self._is_placing = True
        bar.setPageStep(int(height))
        bar.setSingleStep(round(self._surroundings.theme.em * 1.6))
        bar.setRange(0, max(0, round(self.column.height - height)))
        bar.setValue(round(value))
        self._is_placing = False

    def _scrolled(self, value: int) -> None:
        if self._is_placing:
            return
        bar = self.verticalScrollBar()
        self._set_at_end(is_at_end=value >= bar.maximum() - 2)
        self._anchor = None
        self._anchor = self._find_anchor()
        self.lay_out()

    def _set_at_end(self, *, is_at_end: bool) -> None:
        if is_at_end != self._is_at_end:
            self._is_at_end = is_at_end
            self.end_left.emit(not is_at_end)
        self._show_end_button()

    def _remember_anchor(self) -> None:
        self._anchor = self._find_anchor()
        self._show_end_button()

    def _find_anchor(self) -> tuple[Section, Row | None, float] | None:
        """The first seen row whose height is known, and where it is on the screen."""
        value = float(self.verticalScrollBar().value())
        first: tuple[Section, Row | None, float] | None = None
        for section, row, y in self.column.seen(value, value + self.viewport().height()):
            if first is None:
                first = (section, row, y - value)
            if row.is_measured and y + row.height > value:
                return section, row, y - value
        if first is None and self.sections:
            section = self.sections[self.column.place_at(value)]
            return section, None, self.column.top_of(section) - value
        return first

    def follow_end(self, *, is_wanted: bool) -> None:
        """Follow a growing answer, if its end is seen; or not for a while."""
        bar = self.verticalScrollBar()
        self._set_at_end(is_at_end=is_wanted and bar.value() >= bar.maximum() - 2)

    def scroll_to_end(self) -> None:
        """Show the end, and follow it."""
        self._set_at_end(is_at_end=True)
        self.lay_out()

    def show_message(self, message_id: str, text_offset: int = 0) -> None:
        """Show a message, or a place in its text, near the top."""
        section = self._by_id.get(message_id)
        if section is None:
            return
        self.column.fit(self.viewport().width(), self.devicePixelRatioF())
        section.build()
        row: Row | None = None
        passed = 0
        for candidate in section.body_rows():
            row = candidate
            passed += len(candidate.piece.text)
            if not candidate.is_muted and passed > text_offset:
                break
        self._set_at_end(is_at_end=False)
        self._anchor = (section, row if text_offset else None, self._surroundings.theme.em * 2)
        self.current = section
        self.lay_out()

    # -- widgets over the text ---------------------------------------------------------------------

    def _want_colours(self, row: BodyRow) -> None:
        for view in row.views:
            if isinstance(view, CodeView):
                self.colouring.want(view.group)

    def _formulas_drawn(self) -> None:
        for row in self._overlay.rows:
            if isinstance(row, BodyRow) and row.waits_for_formulas:
                row.forget()
        for section in self.sections:
            if not section.is_built:
                continue
            for row in section.body_rows():
                if row.waits_for_formulas and not row.is_growing:
                    row.forget()
        self._lay_out_soon()

    def _set_up_end_button(self) -> None:
        button = self.end_button
        button.setText(self.tr("To the end"))
        button.setToolTip(self.tr("Go to the end and follow the answer (Ctrl+End)"))
        button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        button.setIcon(icon("chevron-down"))
        button.setCursor(Qt.CursorShape.PointingHandCursor)
        button.clicked.connect(lambda _checked=False: self.scroll_to_end())
        button.hide()

    def _show_end_button(self) -> None:
        button = self.end_button
        is_wanted = not self._is_at_end and self.column.height > self.viewport().height()
        if is_wanted:
            size = button.sizeHint()
            place = self.viewport().geometry()
            button.setGeometry(
                place.center().x() - size.width() // 2,
                place.bottom() - size.height() - round(self._surroundings.theme.em * 0.6),
                size.width(),
                size.height(),
            )
            button.raise_()
        button.setVisible(is_wanted)

    # -- drawing -----------------------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw what is seen."""
        painter = QPainter(self.viewport())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        theme = self._surroundings.theme
        painter.fillRect(event.rect(), theme.base)
        value = float(self.verticalScrollBar().value())
        clip = event.rect()
        begin, end = value + clip.top(), value + clip.bottom()
        drawn: set[int] = set()
        for section, row, y in self.column.seen(begin, end):
            if section.index not in drawn:
                drawn.add(section.index)
                self._paint_ground(painter, section, value)
            if isinstance(row, BodyRow) and row.is_laid_out:
                chosen = self.selection.part_of(section, row)
                x = self.column.row_x(section, row)
                row.paint(painter, x, y - value, self._surroundings, chosen)
        painter.end()

    def _paint_ground(self, painter: QPainter, section: Section, value: float) -> None:
        theme = self._surroundings.theme
        top = self.column.top_of(section) - value
        if section is self.current and self.hasFocus():
            bar = QRectF(self.column.x - theme.em * 0.7, top, theme.em * 0.16, section.height)
            painter.fillRect(bar, theme.accent)
        bubble = section.bubble() if not section.message.is_answer else None
        if bubble is not None:
            width = section.bubble_width + 2 * self.column.bubble_margin
            rect = QRectF(
                self.column.x + self.column.width - width,
                top + bubble[0],
                width,
                bubble[1] - bubble[0],
            )
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(theme.bubble)
            painter.drawRoundedRect(rect, theme.em * 0.75, theme.em * 0.75)

    # -- events of the widget ----------------------------------------------------------------------

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Another width: lay out anew."""
        super().resizeEvent(event)
        for section in self.sections:
            section.bubble_width = 0.0
        self.lay_out()

    def showEvent(self, event: QShowEvent) -> None:
        """It is looked at again: lay out what has changed."""
        super().showEvent(event)
        self._lay_out_soon()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802  # Qt's name
        """Other colours or another font."""
        super().changeEvent(event)
        if event.type() in (
            QEvent.Type.PaletteChange,
            QEvent.Type.FontChange,
            QEvent.Type.StyleChange,
            QEvent.Type.ApplicationFontChange,
        ):
            self._take_theme()

    def _take_theme(self) -> None:
        theme = theme_of(self)
        if theme.key == self._surroundings.theme.key:
            return
        self._surroundings.theme = theme
        self.end_button.setIcon(icon("chevron-down"))
        self._overlay.drop_controls()
        for section in self.sections:
            section.bubble_width = 0.0
            for row in section.rows:
                if isinstance(row, WidgetRow):
                    self._overlay.release(row)
                row.forget()
        self._lay_out_soon()

    def sizeHint(self) -> QSize:
        """Wide enough for a column of text."""
        em = self.fontMetrics().height()
        return QSize(em * 40, em * 30)

    # -- positions ---------------------------------------------------------------------------------

    def position_at(self, point: QPoint) -> Position | None:
        """The place in the text nearest to a point of the view."""
        value = float(self.verticalScrollBar().value())
        end = value + self.viewport().height()
        return self.column.position_at(QPointF(point.x(), point.y() + value), value, end)

    def link_at(self, point: QPoint) -> str:
        """The address under a point of the view."""
        return self.column.link_at(QPointF(point.x(), point.y() + self.verticalScrollBar().value()))

    def last_code(self) -> str | None:
        """The code of the last code block, None if there is none."""
        for section in reversed(self.sections):
            section.build()
            for row in reversed(section.body_rows()):
                for view in reversed(row.parsed()):
                    if isinstance(view, CodeView):
                        return view.group.code
        return None

    def section_at(self, point: QPoint) -> Section | None:
        """The message under a point of the view."""
        return self.column.section_at(self.verticalScrollBar().value() + point.y())
