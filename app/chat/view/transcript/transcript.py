"""The messages of a conversation in one scrolled area: only what is seen is laid out.

Heights of what nobody has seen are guesses. When a guess turns out wrong, what the reader looks at
stays where it is: the row at the top of the view is the anchor, and the scroll bar follows it. At the
end of the conversation the end is the anchor.
"""

from __future__ import annotations

import itertools
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

from PySide6.QtCore import QEvent, QPoint, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QGuiApplication, QPainter, QPaintEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QToolButton, QWidget

from app.chat.activity import Activity
from app.chat.view.theme import theme_of
from app.chat.view.transcript.block_views import Surroundings
from app.chat.view.transcript.code_view import CodeView
from app.chat.view.transcript.colouring import Colouring
from app.chat.view.transcript.formulas import Formulas
from app.chat.view.transcript.rows import BodyRow, Control, Row, WidgetRow
from app.chat.view.transcript.sections import Section
from app.chat.view.transcript.selection import Position, Selection
from app.chat.view.transcript.widgets import MessageAction, icon_button
from app.history.records import Message
from app.look.icons import icon

_COLUMN_EMS = 50.0
_GAP_EMS = 0.9
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
        self.sections: list[Section] = []
        self._by_id: dict[str, Section] = {}
        self._surroundings = Surroundings(theme_of(self), self.formulas)
        self._activity = Activity()
        self._told_at = 0.0
        self._tops: list[float] = [0.0]
        self._width = 0.0
        self._x = 0.0
        self._is_at_end = True
        self._anchor: tuple[Section, Row | None, float] | None = None
        self._shown: dict[int, Row] = {}
        self._controls: dict[tuple[int, str], QWidget] = {}
        self._is_placing = False
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(0)
        self._timer.timeout.connect(self.lay_out)
        self.verticalScrollBar().valueChanged.connect(self._scrolled)
        self.end_button = QToolButton(self)
        self._set_up_end_button()

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

    def rows_changed(self, section: Section) -> None:  # noqa: ARG002
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
                section.set_width(self._width)
            elif section.versions != versions or section.message.state is not message.state:
                section.update(message, versions)
            section.index = len(kept)
            kept.append(section)
            self._by_id[message.id] = section
        for section in known.values():
            self._forget(section)
        self.sections = kept
        if known:
            self.selection.clear()
        if self.current is not None and self.current.message.id not in self._by_id:
            self.current = None
        if self._anchor is not None and self._anchor[0].message.id not in self._by_id:
            self._anchor = None
        self._lay_out_soon()

    def _forget(self, section: Section) -> None:
        for row in section.rows:
            self._release(row)

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

    @property
    def column(self) -> tuple[float, float]:
        """Left edge and width of the text."""
        return self._x, self._width

    def lay_out(self) -> None:
        """Measure what is seen, and keep the reader where he is."""
        self._timer.stop()
        self._fit_width()
        height = float(self.viewport().height())
        value = 0.0
        for _round in range(_MAX_ROUNDS):
            self._place_sections()
            value = self._wanted_value(height)
            if not self._measure_seen(value, height):
                break
        self._place_bar(value, height)
        self._place_widgets()
        self._remember_anchor()
        self.viewport().update()

    def _fit_width(self) -> None:
        em = self._surroundings.theme.em
        room = self.viewport().width() - 2 * em * 1.2
        width = float(max(60.0, min(room, em * _COLUMN_EMS)))
        self._x = round((self.viewport().width() - width) / 2)
        ratio = self.devicePixelRatioF()
        if width == self._width and ratio == self._surroundings.ratio:
            return
        self._width = width
        self._surroundings.ratio = ratio
        for section in self.sections:
            section.set_width(width)

    def _place_sections(self) -> None:
        gap = self._surroundings.theme.em * _GAP_EMS
        tops, y = [], self._surroundings.theme.em * 0.8
        for section in self.sections:
            tops.append(y)
            if section.is_built:
                section.tops  # noqa: B018  # sets the height anew
            y += section.height + gap
        tops.append(y)
        self._tops = tops

    @property
    def _content_height(self) -> float:
        return self._tops[-1]

    def _wanted_value(self, height: float) -> float:
        most = max(0.0, self._content_height - height)
        if self._is_at_end:
            return most
        if self._anchor is None:
            return min(float(self.verticalScrollBar().value()), most)
        section, row, screen_y = self._anchor
        top = self._tops[section.index]
        if row is not None and row.index < len(section.rows) and section.rows[row.index] is row:
            top += section.tops[row.index]
        return min(max(0.0, top - screen_y), most)

    def _seen(self, begin: float, end: float) -> Iterator[tuple[Section, Row, float]]:
        """Rows between two heights of the content, with their tops."""
        first = max(0, bisect_right(self._tops, begin) - 1)
        for section in itertools.islice(self.sections, first, None):
            top = self._tops[section.index]
            if top > end:
                return
            if not section.is_built:
                continue
            tops = section.tops
            for place in range(section.row_at(begin - top), len(section.rows)):
                y = top + tops[place]
                if y > end:
                    break
                yield section, section.rows[place], y

    def _measure_seen(self, value: float, height: float) -> bool:
        """Build and measure what is seen; whether a height has changed."""
        has_changed = False
        first = max(0, bisect_right(self._tops, value) - 1)
        for section in itertools.islice(self.sections, first, None):
            if self._tops[section.index] > value + height:
                break
            if not section.is_built:
                section.build()
                has_changed = True
            self._fit_bubble(section)
        if has_changed:
            return True
        if self._is_at_end:
            # From the end upwards: what is above the view then needs no look.
            seen = list(self._seen(value, value + height))
            seen.reverse()
        else:
            seen = list(self._seen(value, value + height))
        for section, row, _y in seen:
            if row.is_laid_out:
                continue
            before = row.height
            if isinstance(row, WidgetRow):
                row.parent = self.viewport()
            row.measure(self._row_width(section, row), self._surroundings)
            if row.height != before:
                section.heights_changed()
                has_changed = True
        return has_changed

    def _row_width(self, section: Section, row: Row) -> float:
        if row.is_in_bubble and section.bubble_width:
            return section.bubble_width
        return section.row_width(row)

    def _fit_bubble(self, section: Section) -> None:
        """The ground of a short message is only as wide as its text."""
        if section.message.is_answer or section.bubble_width:
            return
        rows = [row for row in section.rows if row.is_in_bubble]
        width = section.row_width(rows[0]) if rows else 0.0
        section.bubble_width = width
        if not 0 < len(rows) <= 8:
            return
        ideal = self._surroundings.theme.em
        for row in rows:
            if not isinstance(row, BodyRow):
                return
            row.measure(width, self._surroundings)
            if any(isinstance(view, CodeView) for view in row.views):
                return
            ideal = max(ideal, row.ideal_width)
        section.bubble_width = min(width, ideal)
        for row in rows:
            row.measure(section.bubble_width, self._surroundings)
        section.heights_changed()

    def _place_bar(self, value: float, height: float) -> None:
        bar = self.verticalScrollBar()
        self._is_placing = True
        bar.setPageStep(int(height))
        bar.setSingleStep(round(self._surroundings.theme.em * 1.6))
        bar.setRange(0, max(0, round(self._content_height - height)))
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
        for section, row, y in self._seen(value, value + self.viewport().height()):
            if first is None:
                first = (section, row, y - value)
            if row.is_measured and y + row.height > value:
                return section, row, y - value
        if first is None and self.sections:
            place = min(max(0, bisect_right(self._tops, value) - 1), len(self.sections) - 1)
            return self.sections[place], None, self._tops[place] - value
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
        self._fit_width()
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

    def _place_widgets(self) -> None:
        value = float(self.verticalScrollBar().value())
        height = self.viewport().height()
        seen: dict[int, Row] = {}
        wanted: set[tuple[int, str]] = set()
        # A little more than what is seen is kept, so that a turn of the wheel makes nothing anew.
        for section, row, y in self._seen(value - height, value + 2 * height):
            seen[id(row)] = row
            if y + row.height < value or y > value + height:
                if isinstance(row, WidgetRow) and row.widget is not None:
                    row.widget.hide()
                continue
            if isinstance(row, WidgetRow):
                self._place_widget(section, row, y - value)
            elif isinstance(row, BodyRow):
                self._want_colours(row)
                width = self._row_width(section, row)
                for control in row.controls(self._surroundings, width):
                    key = (id(row), control.key)
                    wanted.add(key)
                    self._place_control(key, control, self._row_x(section, row) + width, y - value)
        for key in [key for key in self._controls if key not in wanted]:
            self._drop_widget(self._controls.pop(key))
        for key_, row in list(self._shown.items()):
            if key_ not in seen:
                self._release(row)
        self._shown = seen

    def _release(self, row: Row) -> None:
        if isinstance(row, WidgetRow) and row.widget is not None:
            self._keep_focus(row.widget)
        row.release()

    def _keep_focus(self, widget: QWidget) -> None:
        focused = self.focusWidget()
        if focused is not None and (focused is widget or widget.isAncestorOf(focused)):
            self.setFocus(Qt.FocusReason.OtherFocusReason)

    def _drop_widget(self, widget: QWidget) -> None:
        self._keep_focus(widget)
        widget.hide()
        widget.deleteLater()

    def _row_x(self, section: Section, row: Row) -> float:
        if not row.is_in_bubble:
            return self._x
        width = section.bubble_width or section.row_width(row)
        return self._x + self._width - width - self._surroundings.theme.em * 0.8

    def _place_widget(self, section: Section, row: WidgetRow, y: float) -> None:
        if row.widget is None:
            return
        x = self._row_x(section, row)
        width = self._row_width(section, row)
        row.widget.setGeometry(round(x), round(y), round(width), round(row.height))
        row.widget.show()

    def _place_control(
        self, key: tuple[int, str], control: Control, right: float, y: float
    ) -> None:
        widget = self._controls.get(key)
        if widget is None:
            widget = self._controls[key] = control.make(self.viewport())
        size = widget.sizeHint()
        top = y + control.rect.top() + (control.rect.height() - size.height()) / 2
        widget.setGeometry(
            round(right - size.width() - self._surroundings.theme.em * 0.2),
            round(top),
            size.width(),
            size.height(),
        )
        widget.show()

    def _want_colours(self, row: BodyRow) -> None:
        for view in row.views:
            if isinstance(view, CodeView):
                self.colouring.want(view.group)

    def _formulas_drawn(self) -> None:
        for row in self._shown.values():
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
        is_wanted = not self._is_at_end and self._content_height > self.viewport().height()
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
        for section, row, y in self._seen(begin, end):
            if section.index not in drawn:
                drawn.add(section.index)
                self._paint_ground(painter, section, value)
            if isinstance(row, BodyRow) and row.is_laid_out:
                chosen = self.selection.part_of(section, row)
                x = self._row_x(section, row)
                row.paint(painter, x, y - value, self._surroundings, chosen)
        painter.end()

    def _paint_ground(self, painter: QPainter, section: Section, value: float) -> None:
        theme = self._surroundings.theme
        top = self._tops[section.index] - value
        if section is self.current and self.hasFocus():
            bar = QRectF(self._x - theme.em * 0.7, top, theme.em * 0.16, section.height)
            painter.fillRect(bar, theme.accent)
        bubble = section.bubble() if not section.message.is_answer else None
        if bubble is not None:
            width = section.bubble_width + 2 * theme.em * 0.8
            rect = QRectF(
                self._x + self._width - width, top + bubble[0], width, bubble[1] - bubble[0]
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
        for widget in self._controls.values():
            self._drop_widget(widget)
        self._controls = {}
        for section in self.sections:
            section.bubble_width = 0.0
            for row in section.rows:
                if isinstance(row, WidgetRow):
                    self._release(row)
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
        best: Position | None = None
        distance = float("inf")
        for section, row, y in self._seen(value, value + self.viewport().height()):
            if not isinstance(row, BodyRow) or not row.is_laid_out:
                continue
            top = y - value
            away = max(top - point.y(), point.y() - top - row.height, 0.0)
            if away < distance:
                distance = away
                local_y = min(max(point.y() - top, 0.0), max(row.height - 1, 0.0))
                x = point.x() - self._row_x(section, row)
                best = Position(section, row, row.hit(x, local_y, self._surroundings))
        return best

    def link_at(self, point: QPoint) -> str:
        """The address under a point of the view."""
        value = float(self.verticalScrollBar().value())
        for section, row, y in self._seen(value + point.y(), value + point.y()):
            if isinstance(row, BodyRow) and row.is_laid_out:
                x = point.x() - self._row_x(section, row)
                return row.link_at(x, point.y() - (y - value), self._surroundings)
        return ""

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
        y = self.verticalScrollBar().value() + point.y()
        place = bisect_right(self._tops, y) - 1
        return self.sections[place] if 0 <= place < len(self.sections) else None
