"""The table of the last requests."""

from __future__ import annotations

import enum

from PySide6.QtCore import (
    QAbstractTableModel,
    QCoreApplication,
    QDateTime,
    QLocale,
    QModelIndex,
    QPersistentModelIndex,
    Qt,
)

from app.monitor.recent import EndedRequest

_Index = QModelIndex | QPersistentModelIndex


class Column(enum.IntEnum):
    """What is told of a request."""

    ENDED = 0
    KIND = 1
    PROMPT = 2
    CACHED = 3
    OUTPUT = 4
    FIRST_TOKEN = 5
    TOTAL = 6
    SPEED = 7
    END = 8


class RecentModel(QAbstractTableModel):
    """The requests, newest first."""

    def __init__(self) -> None:
        super().__init__()
        self._requests: tuple[EndedRequest, ...] = ()

    def show(self, requests: tuple[EndedRequest, ...]) -> None:
        """Show others; the same ones cost nothing."""
        if requests == self._requests:
            return
        self.beginResetModel()
        self._requests = requests
        self.endResetModel()

    def rowCount(self, parent: _Index | None = None) -> int:  # noqa: N802  # Qt's name
        """One for each request."""
        return 0 if parent is not None and parent.isValid() else len(self._requests)

    def columnCount(self, parent: _Index | None = None) -> int:  # noqa: N802  # Qt's name
        """All columns."""
        return 0 if parent is not None and parent.isValid() else len(Column)

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """A cell."""
        if not index.isValid():
            return None
        column = Column(index.column())
        if role == Qt.ItemDataRole.TextAlignmentRole and column not in (Column.KIND, Column.END):
            return int(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        if role == Qt.ItemDataRole.DisplayRole:
            return _cell(self._requests[index.row()], column)
        return None

    def headerData(  # noqa: N802  # Qt's name
        self,
        section: int,
        orientation: Qt.Orientation,
        role: int = Qt.ItemDataRole.DisplayRole,
    ) -> object:
        """A column's title."""
        if orientation is Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole:
            return column_title(Column(section))
        return None


def column_title(column: Column) -> str:
    """What a column is called."""
    translate = QCoreApplication.translate
    titles = {
        Column.ENDED: translate("Recent", "Ended"),
        Column.KIND: translate("Recent", "Interface"),
        Column.PROMPT: translate("Recent", "Prompt"),
        Column.CACHED: translate("Recent", "From memory"),
        Column.OUTPUT: translate("Recent", "Answer"),
        Column.FIRST_TOKEN: translate("Recent", "First token"),
        Column.TOTAL: translate("Recent", "In all"),
        Column.SPEED: translate("Recent", "Tokens/s"),
        Column.END: translate("Recent", "End"),
    }
    return titles[column]


def _cell(request: EndedRequest, column: Column) -> str:
    locale = QLocale()
    match column:
        case Column.ENDED:
            moment = QDateTime.fromSecsSinceEpoch(int(request.ended_at))
            return locale.toString(moment.time(), "HH:mm:ss")
        case Column.KIND:
            return _kind(request.protocol)
        case Column.PROMPT:
            return locale.toString(request.prompt_tokens)
        case Column.CACHED:
            return locale.toString(request.cached_tokens)
        case Column.OUTPUT:
            return locale.toString(request.generated)
        case Column.FIRST_TOKEN:
            return _seconds(request.first_token_s)
        case Column.TOTAL:
            return _seconds(request.elapsed_s)
        case Column.SPEED:
            speed = request.tokens_per_s
            return "" if speed is None else locale.toString(speed, "f", 1)
        case Column.END:
            return _end(request.finish)


def _kind(protocol: str) -> str:
    translate = QCoreApplication.translate
    names = {
        "chat": translate("Recent", "Chat"),
        "completions": translate("Recent", "Completion"),
        "responses": translate("Recent", "Responses"),
        "messages": translate("Recent", "Messages"),
    }
    return names.get(protocol, protocol)


def _end(finish: str) -> str:
    translate = QCoreApplication.translate
    words = {
        "stop": translate("Recent", "complete"),
        "length": translate("Recent", "length reached"),
        "tool_calls": translate("Recent", "tool call"),
        "cancelled": translate("Recent", "stopped"),
        "error": translate("Recent", "error"),
    }
    return words.get(finish, finish)


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return ""
    digits = 2 if seconds < 10 else 1 if seconds < 100 else 0
    number = QLocale().toString(seconds, "f", digits)
    return QCoreApplication.translate("Recent", "{number} s").format(number=number)
