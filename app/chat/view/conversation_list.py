"""The list of conversations beside the chat: search, new, rename, delete with undo, export, import."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import (
    QModelIndex,
    QPersistentModelIndex,
    QPoint,
    QPointF,
    QRectF,
    QSize,
    Qt,
    QTimer,
    Signal,
)
from PySide6.QtGui import QKeyEvent, QPainter, QPalette, QTextCharFormat, QTextLayout
from PySide6.QtWidgets import (
    QFileDialog,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QListView,
    QMenu,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.chat.service import ChatService
from app.chat.view.conversation_model import ConversationModel, EntryRole
from app.chat.view.notice_bar import NoticeBar
from app.chat.view.problems import problem_words
from app.chat.view.theme import theme_of
from app.chat.view.transcript.widgets import small_font
from app.history.records import Problem, SearchHit
from app.look.icons import put_icon

_SEARCH_AFTER_MS = 120
_UNDO_S = 12.0

_Index = QModelIndex | QPersistentModelIndex


class EntryDelegate(QStyledItemDelegate):
    """Draws a line: title and time; of a hit also the words around it."""

    def sizeHint(self, option: QStyleOptionViewItem, index: _Index) -> QSize:
        """One line, or three with a snippet."""
        em = option.fontMetrics.height()
        lines = 3.1 if index.data(EntryRole.SNIPPET) else 1.0
        return QSize(em * 8, round(em * (lines + 0.95)))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: _Index) -> None:
        """Draw a line."""
        widget = self.parent()
        if not isinstance(widget, QWidget):
            return
        theme = theme_of(widget)
        em = theme.em
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        is_chosen = bool(option.state & QStyle.StateFlag.State_Selected)
        is_under = bool(option.state & QStyle.StateFlag.State_MouseOver)
        rect = QRectF(option.rect).adjusted(em * 0.3, 1, -em * 0.3, -1)
        if is_chosen or is_under:
            ground = theme.bubble if is_chosen else theme.code_background
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(ground)
            painter.drawRoundedRect(rect, em * 0.4, em * 0.4)
        if option.state & QStyle.StateFlag.State_HasFocus:
            painter.setPen(theme.accent)
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(rect.adjusted(0.5, 0.5, -0.5, -0.5), em * 0.4, em * 0.4)
        inner = rect.adjusted(em * 0.55, em * 0.4, -em * 0.55, -em * 0.3)
        right = self._paint_right(painter, inner, index, em)
        font = option.font
        font.setBold(bool(index.data(EntryRole.IS_UNREAD)))
        painter.setFont(font)
        painter.setPen(theme.text)
        line = QRectF(inner.left(), inner.top(), right - inner.left() - em * 0.4, em)
        title = str(index.data() or "")
        metrics = painter.fontMetrics()
        painter.drawText(
            line,
            Qt.AlignmentFlag.AlignVCenter,
            metrics.elidedText(title, Qt.TextElideMode.ElideRight, round(line.width())),
        )
        if index.data(EntryRole.SNIPPET):
            below = inner.adjusted(0, em * 1.2, 0, 0)
            self._paint_snippet(painter, below, index, widget)
        painter.restore()

    def _paint_right(self, painter: QPainter, inner: QRectF, index: _Index, em: float) -> float:
        """The time, or a dot while an answer is made; where it begins."""
        widget = self.parent()
        theme = theme_of(widget) if isinstance(widget, QWidget) else None
        if theme is None:
            return inner.right()
        if index.data(EntryRole.IS_BUSY) or index.data(EntryRole.IS_UNREAD):
            side = em * 0.5
            dot = QRectF(inner.right() - side, inner.top() + (em - side) / 2, side, side)
            painter.setPen(Qt.PenStyle.NoPen if index.data(EntryRole.IS_UNREAD) else theme.accent)
            painter.setBrush(
                theme.accent if index.data(EntryRole.IS_UNREAD) else Qt.BrushStyle.NoBrush
            )
            painter.drawEllipse(dot)
            return dot.left()
        painter.setFont(small_font(theme))
        painter.setPen(theme.muted)
        when = str(index.data(EntryRole.WHEN))
        width = painter.fontMetrics().horizontalAdvance(when) + 2
        painter.drawText(
            QRectF(inner.right() - width, inner.top(), width, em),
            Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight,
            when,
        )
        return inner.right() - width

    def _paint_snippet(
        self, painter: QPainter, rect: QRectF, index: _Index, widget: QWidget
    ) -> None:
        theme = theme_of(widget)
        layout = QTextLayout(str(index.data(EntryRole.SNIPPET)), small_font(theme))
        marked = QTextCharFormat()
        marked.setForeground(theme.text)
        marked.setBackground(theme.bubble)
        ranges = []
        for begin, end in index.data(EntryRole.MARKS):
            piece = QTextLayout.FormatRange()
            piece.start, piece.length, piece.format = begin, end - begin, marked
            ranges.append(piece)
        layout.setFormats(ranges)
        layout.beginLayout()
        y = 0.0
        for _line in range(2):
            line = layout.createLine()
            if not line.isValid():
                break
            line.setLineWidth(rect.width())
            line.setPosition(QPointF(0, y))
            y += line.height()
        layout.endLayout()
        painter.setPen(theme.muted)
        layout.draw(painter, rect.topLeft())


class _List(QListView):
    """The list itself; Delete and F2 work in it.

    Signals:
        delete_wanted: the chosen conversation.
        opened: the chosen line, by Enter or a click.
    """

    delete_wanted = Signal()
    opened = Signal(QModelIndex)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802  # Qt's name
        """Delete and Enter."""
        if event.key() == Qt.Key.Key_Delete:
            self.delete_wanted.emit()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and (
            self.state() != QListView.State.EditingState
        ):
            self.opened.emit(self.currentIndex())
        else:
            super().keyPressEvent(event)


class ConversationList(QWidget):
    """See above.

    Signals:
        chosen: id of a conversation, and of a message with an offset in its text if it was found.
        new_wanted: begin a conversation.
        deleted: id of a conversation that is gone.
    """

    chosen = Signal(str, str, int)
    new_wanted = Signal()
    deleted = Signal(str)

    def __init__(self, service: ChatService, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._service = service
        self.model = ConversationModel(service.is_busy, self)
        self.search = QLineEdit(self)
        self.search.setPlaceholderText(self.tr("Search conversations"))
        self.search.setAccessibleName(self.tr("Search conversations"))
        self.search.setClearButtonEnabled(True)
        self.new_button = QToolButton(self)
        self.more_button = QToolButton(self)
        self.view = _List(self)
        self.empty = QLabel(self)
        self.notice = NoticeBar(self)
        self._shown_id = ""
        self._export_path = Path()
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(_SEARCH_AFTER_MS)
        self._set_up()
        self._connect()
        self.refresh()

    def _set_up(self) -> None:
        em = self.fontMetrics().height()
        put_icon(self.new_button, "add")
        self.new_button.setText(self.tr("New chat"))
        self.new_button.setToolTip(self.tr("New conversation (Ctrl+N)"))
        self.new_button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        put_icon(self.more_button, "more")
        self.more_button.setAutoRaise(True)
        self.more_button.setToolTip(self.tr("Export and import"))
        self.more_button.setAccessibleName(self.tr("Export and import"))
        self.more_button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        menu = QMenu(self.more_button)
        menu.addAction(self.tr("Import conversations…"), self.import_file)
        menu.addAction(self.tr("Export all conversations…"), self.export_all)
        self.more_button.setMenu(menu)
        self.view.setModel(self.model)
        self.view.setItemDelegate(EntryDelegate(self.view))
        self.view.setFrameShape(QListView.Shape.NoFrame)
        self.view.setMouseTracking(True)
        self.view.setVerticalScrollMode(QListView.ScrollMode.ScrollPerPixel)
        self.view.setEditTriggers(QListView.EditTrigger.EditKeyPressed)
        self.view.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.view.setAccessibleName(self.tr("Conversations"))
        self.view.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.view.setLayoutMode(QListView.LayoutMode.Batched)
        palette = self.view.palette()
        palette.setColor(QPalette.ColorRole.Base, palette.color(QPalette.ColorRole.Window))
        self.view.viewport().setAutoFillBackground(False)
        self.empty.setTextFormat(Qt.TextFormat.PlainText)
        self.empty.setWordWrap(True)
        self.empty.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self.empty.hide()
        top = QHBoxLayout()
        top.addWidget(self.new_button, 1)
        top.addWidget(self.more_button)
        self.new_button.setSizePolicy(
            self.search.sizePolicy().horizontalPolicy(),
            self.new_button.sizePolicy().verticalPolicy(),
        )
        layout = QVBoxLayout(self)
        margin = round(em * 0.5)
        layout.setContentsMargins(margin, margin, margin, margin)
        layout.setSpacing(margin)
        layout.addLayout(top)
        layout.addWidget(self.search)
        layout.addWidget(self.empty)
        layout.addWidget(self.view, 1)
        layout.addWidget(self.notice)

    def _connect(self) -> None:
        service = self._service
        service.conversations_changed.connect(self.refresh)
        service.search_finished.connect(self._show_hits)
        service.busy_changed.connect(self.model.note_busy)
        service.answer_ended.connect(self._note_end)
        service.transfer_finished.connect(self._transferred)
        self.model.renamed.connect(service.rename)
        self.new_button.clicked.connect(lambda _checked=False: self.new_wanted.emit())
        self.search.textChanged.connect(lambda _text: self._timer.start())
        self.search.returnPressed.connect(self._open_first)
        self._timer.timeout.connect(self._search)
        self.view.clicked.connect(self._open)
        self.view.opened.connect(self._open)
        self.view.delete_wanted.connect(self.delete_current)
        self.view.customContextMenuRequested.connect(self._show_menu)

    # -- content -----------------------------------------------------------------------------------

    @property
    def is_searching(self) -> bool:
        """Whether hits are shown."""
        return bool(self.search.text().strip())

    def refresh(self) -> None:
        """Read the list again."""
        if self.is_searching:
            self._timer.start()
            return
        self.model.show_conversations(self._service.conversations())
        self._say_if_empty(self.tr("Your conversations will be listed here."))
        self.mark(self._shown_id)

    def _search(self) -> None:
        if self.is_searching:
            self._service.search(self.search.text())
        else:
            self.refresh()

    def _show_hits(self, query: str, hits: list[SearchHit]) -> None:
        if query != self.search.text():
            return
        self.model.show_hits(hits)
        self._say_if_empty(self.tr("Nothing found."))

    def _say_if_empty(self, words: str) -> None:
        self.empty.setText(words)
        self.empty.setVisible(not self.model.entries)

    def mark(self, conversation_id: str) -> None:
        """Show which conversation is open."""
        self._shown_id = conversation_id
        self.model.set_unread(conversation_id, is_unread=False)
        row = self.model.row_of(conversation_id)
        if self.is_searching:
            return
        if row < 0:
            self.view.clearSelection()
            self.view.setCurrentIndex(QModelIndex())
        else:
            self.view.setCurrentIndex(self.model.index(row))

    def _note_end(self, conversation_id: str, _message_id: str, _seconds: float) -> None:
        if conversation_id != self._shown_id or not self.isVisible():
            self.model.set_unread(conversation_id, is_unread=True)

    # -- what the person does ----------------------------------------------------------------------

    def _open(self, index: QModelIndex) -> None:
        if index.isValid():
            entry = self.model.entries[index.row()]
            self.chosen.emit(entry.conversation_id, entry.message_id or "", entry.text_offset)

    def _open_first(self) -> None:
        if self.model.entries:
            self._open(self.model.index(0))

    def step(self, direction: int) -> None:
        """Open the next or the previous conversation of the list."""
        count = len(self.model.entries)
        if count:
            row = self.view.currentIndex().row()
            place = row + direction if row >= 0 else 0
            index = self.model.index(min(max(place, 0), count - 1))
            self.view.setCurrentIndex(index)
            self._open(index)

    def rename_current(self) -> None:
        """Edit the title in the list."""
        index = self.view.currentIndex()
        if index.isValid():
            self.view.setFocus(Qt.FocusReason.ShortcutFocusReason)
            self.view.edit(index)

    def delete_current(self) -> None:
        """Delete the chosen conversation; a bar brings it back."""
        index = self.view.currentIndex()
        if index.isValid():
            self.delete(self.model.entries[index.row()].conversation_id)

    def delete(self, conversation_id: str) -> None:
        """Delete a conversation; a bar brings it back."""
        row = self.model.row_of(conversation_id)
        title = self.model.entries[row].title if row >= 0 else ""
        self._service.delete(conversation_id)
        self.notice.say(
            self.tr("“{0}” was deleted").format(_short(title)),
            seconds=_UNDO_S,
            action=self.tr("Undo"),
            on_action=lambda: self._restore(conversation_id),
        )
        self.deleted.emit(conversation_id)

    def _restore(self, conversation_id: str) -> None:
        self._service.restore(conversation_id)
        self.chosen.emit(conversation_id, "", 0)

    def _show_menu(self, point: QPoint) -> None:
        index = self.view.indexAt(point)
        if index.isValid():
            entry = self.model.entries[index.row()]
            self.menu_for(entry.conversation_id).popup(self.view.viewport().mapToGlobal(point))

    def menu_for(self, conversation_id: str) -> QMenu:
        """What can be done with a conversation."""
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.addAction(self.tr("Rename (F2)"), self.rename_current)
        menu.addAction(
            self.tr("Export as Markdown…"), lambda: self.export_markdown(conversation_id)
        )
        menu.addAction(self.tr("Export as JSON…"), lambda: self.export_one(conversation_id))
        menu.addSeparator()
        menu.addAction(self.tr("Delete (Del)"), lambda: self.delete(conversation_id))
        return menu

    # -- files -------------------------------------------------------------------------------------

    def export_markdown(self, conversation_id: str) -> None:
        """Ask for a file and write the conversation for people to read."""
        row = self.model.row_of(conversation_id)
        title = self.model.entries[row].title if row >= 0 else "chat"
        self._ask_to_save(
            _file_name(title) + ".md",
            self.tr("Markdown (*.md)"),
            lambda path: self._service.export_markdown(path, conversation_id),
        )

    def export_one(self, conversation_id: str) -> None:
        """Ask for a file and write the conversation without loss."""
        row = self.model.row_of(conversation_id)
        title = self.model.entries[row].title if row >= 0 else "chat"
        self._ask_to_save(
            _file_name(title) + ".json",
            self.tr("Conversations (*.json)"),
            lambda path: self._service.export_json(path, [conversation_id]),
        )

    def export_all(self) -> None:
        """Ask for a file and write all conversations."""
        self._ask_to_save(
            "stratum-chats.json", self.tr("Conversations (*.json)"), self._service.export_json
        )

    def import_file(self) -> None:
        """Ask for a file and add its conversations."""
        dialog = QFileDialog(self, self.tr("Import conversations"))
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.setNameFilter(self.tr("Conversations (*.json *.md)"))
        dialog.fileSelected.connect(lambda name: self._service.import_file(Path(name)))
        dialog.open()

    def _ask_to_save(self, name: str, pattern: str, save: Callable[[Path], None]) -> None:
        dialog = QFileDialog(self, self.tr("Export"))
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setNameFilter(pattern)
        dialog.setDefaultSuffix(Path(name).suffix.lstrip("."))
        dialog.selectFile(name)
        dialog.fileSelected.connect(lambda chosen: self._save(Path(chosen), save))
        dialog.open()

    def _save(self, path: Path, save: Callable[[Path], None]) -> None:
        self._export_path = path
        save(path)

    def _transferred(self, problem: object, imported: list[str]) -> None:
        if isinstance(problem, Problem):
            self.notice.say(problem_words(problem))
        elif imported:
            said = self.tr("%n conversation(s) imported", "", len(imported))
            self.notice.say(said, seconds=_UNDO_S)
        else:
            self.notice.say(self.tr("Exported to {0}").format(self._export_path), seconds=_UNDO_S)


def _short(title: str) -> str:
    return title if len(title) <= 40 else title[:39] + "…"


def _file_name(title: str) -> str:
    """A title as a name that every file system takes."""
    kept = "".join(char if char.isalnum() or char in " -_" else " " for char in title)
    return " ".join(kept.split())[:60] or "chat"
