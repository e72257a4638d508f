"""The widgets over a transcript's text: rows that are widgets, and the buttons in the text.

They exist while they are seen, or nearly: what is drawn costs nothing when nobody looks at it.
"""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractScrollArea, QWidget

from app.chat.view.transcript.block_views import Surroundings
from app.chat.view.transcript.column import Column
from app.chat.view.transcript.rows import BodyRow, Control, Row, WidgetRow
from app.chat.view.transcript.sections import Section

_EDGE_EMS = 0.2


class Overlay:
    """See the module; `area` gets the focus of a widget that goes."""

    def __init__(
        self, area: QAbstractScrollArea, column: Column, surroundings: Surroundings
    ) -> None:
        self._area, self._column, self._surroundings = area, column, surroundings
        self._kept: dict[int, Row] = {}  # rows that are seen, or nearly, by their id
        self._controls: dict[tuple[int, str], QWidget] = {}

    @property
    def rows(self) -> Iterable[Row]:
        """What is seen, or nearly."""
        return self._kept.values()

    def place(self, value: float, height: float) -> list[BodyRow]:
        """Put the widgets where they belong in a view that begins at `value`; the text that is seen."""
        kept: dict[int, Row] = {}
        wanted: set[tuple[int, str]] = set()
        texts: list[BodyRow] = []
        # A little more than what is seen is kept, so that a turn of the wheel makes nothing anew.
        for section, row, y in self._column.seen(value - height, value + 2 * height):
            kept[id(row)] = row
            if y + row.height < value or y > value + height:
                if isinstance(row, WidgetRow) and row.widget is not None:
                    row.widget.hide()
                continue
            if isinstance(row, WidgetRow):
                self._place_row(section, row, y - value)
            elif isinstance(row, BodyRow):
                texts.append(row)
                wanted |= self._place_controls(section, row, y - value)
        for key in [key for key in self._controls if key not in wanted]:
            self._drop(self._controls.pop(key))
        for row_id, row in self._kept.items():
            if row_id not in kept:
                self.release(row)
        self._kept = kept
        return texts

    def release(self, row: Row) -> None:
        """Free what a row has that is only for being seen."""
        if isinstance(row, WidgetRow) and row.widget is not None:
            self._keep_focus(row.widget)
        row.release()

    def drop_controls(self) -> None:
        """All buttons go: they have other colours now."""
        for widget in self._controls.values():
            self._drop(widget)
        self._controls = {}

    def _place_row(self, section: Section, row: WidgetRow, y: float) -> None:
        if row.widget is None:
            return
        x = self._column.row_x(section, row)
        width = self._column.row_width(section, row)
        row.widget.setGeometry(round(x), round(y), round(width), round(row.height))
        row.widget.show()

    def _place_controls(self, section: Section, row: BodyRow, y: float) -> set[tuple[int, str]]:
        width = self._column.row_width(section, row)
        right = self._column.row_x(section, row) + width
        keys = set()
        for control in row.controls(self._surroundings, width):
            key = (id(row), control.key)
            keys.add(key)
            self._place_control(key, control, right, y)
        return keys

    def _place_control(
        self, key: tuple[int, str], control: Control, right: float, y: float
    ) -> None:
        widget = self._controls.get(key)
        if widget is None:
            widget = self._controls[key] = control.make(self._area.viewport())
        size = widget.sizeHint()
        top = y + control.rect.top() + (control.rect.height() - size.height()) / 2
        left = right - size.width() - self._surroundings.theme.em * _EDGE_EMS
        widget.setGeometry(round(left), round(top), size.width(), size.height())
        widget.show()

    def _drop(self, widget: QWidget) -> None:
        self._keep_focus(widget)
        widget.hide()
        widget.deleteLater()

    def _keep_focus(self, widget: QWidget) -> None:
        focused = self._area.focusWidget()
        if focused is not None and (focused is widget or widget.isAncestorOf(focused)):
            self._area.setFocus(Qt.FocusReason.OtherFocusReason)
