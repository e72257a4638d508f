"""The settings: pages at the left, the page at the right, and what waits for a restart below.

A page is built when it is first opened. Another language builds all of them anew, so that no page needs
to know how to translate itself.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QHideEvent, QPalette, QResizeEvent, QShowEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QListWidget,
    QListWidgetItem,
    QPushButton,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from app.context import AppContext
from app.look.icons import icon
from app.look.look import em
from app.settings.clients_page import ClientsPage
from app.settings.config_fields import config_rows
from app.settings.config_texts import label_of
from app.settings.diagnostics_page import DiagnosticsPage
from app.settings.general_page import GeneralPage
from app.settings.hub import Hub
from app.settings.mcp_page import McpPage
from app.settings.models_page import ModelsPage
from app.settings.network_page import NetworkPage
from app.settings.page import SettingsPage, plain_label
from app.settings.run_page import RunPage

_NAMED = 3  # settings that the restart line names
_LIST_EMS = 14
_FOLDED_LIST_EMS = 3
# In less room than this the pages' names would leave their own texts too little.
_FOLD_BELOW_EMS = 44


class PageName(enum.StrEnum):
    """The pages, in their order."""

    GENERAL = "general"
    MODELS = "models"
    RUN = "run"
    NETWORK = "network"
    TOOLS = "tools"
    CLIENTS = "clients"
    DIAGNOSTICS = "diagnostics"


_PAGES: dict[PageName, tuple[str, Callable[[Hub], SettingsPage]]] = {
    PageName.GENERAL: ("settings", GeneralPage),
    PageName.MODELS: ("memory", ModelsPage),
    PageName.RUN: ("think", RunPage),
    PageName.NETWORK: ("network", NetworkPage),
    PageName.TOOLS: ("tool", McpPage),
    PageName.CLIENTS: ("link", ClientsPage),
    PageName.DIAGNOSTICS: ("info", DiagnosticsPage),
}


class SettingsView(QWidget):
    """The view."""

    def __init__(self, context: AppContext) -> None:
        super().__init__()
        self._context = context
        self.hub = Hub(context, self)
        self._pages: dict[PageName, SettingsPage] = {}
        self.list = QListWidget()
        self.list.setFrameShape(QFrame.Shape.NoFrame)
        self.list.setIconSize(QSize(round(1.1 * em(self)), round(1.1 * em(self))))
        self.list.setSpacing(em(self) // 6)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.setFixedWidth(_LIST_EMS * em(self))
        self._is_folded = False
        self.list.currentRowChanged.connect(self._show_row)
        self.stack = QStackedWidget()
        self.restart_bar = QFrame()
        self.restart_bar.setFrameShape(QFrame.Shape.StyledPanel)
        self.restart_bar.setAutoFillBackground(True)
        self.restart_bar.setBackgroundRole(QPalette.ColorRole.ToolTipBase)
        self.restart_text = plain_label()
        self.restart_button = QPushButton()
        self.restart_button.clicked.connect(context.supervisor.restart)
        line = QHBoxLayout(self.restart_bar)
        line.addWidget(self.restart_text, 1)
        line.addWidget(self.restart_button)
        right = QVBoxLayout()
        right.setSpacing(0)
        right.addWidget(self.stack, 1)
        right.addWidget(self.restart_bar)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.list)
        layout.addLayout(right, 1)
        self.hub.pending.changed.connect(self._show_pending)
        context.look.changed.connect(self._recolour)
        self._name_all()
        self.list.setCurrentRow(0)

    def open_page(self, name: PageName) -> SettingsPage:
        """Show a page."""
        self.list.setCurrentRow(list(PageName).index(name))
        return self._pages[name]

    @property
    def page(self) -> SettingsPage:
        """The page that is shown."""
        return self._pages[list(PageName)[self.list.currentRow()]]

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802  # Qt's name
        """Another language: everything anew."""
        if event.type() is QEvent.Type.LanguageChange:
            row = self.list.currentRow()
            for page in self._pages.values():
                page.leave()
                self.stack.removeWidget(page)
                page.hide()
                page.deleteLater()
            self._pages.clear()
            self._name_all()
            self._show_row(row)
        super().changeEvent(event)

    def showEvent(self, event: QShowEvent) -> None:  # Qt's name
        """Read again what may have changed."""
        super().showEvent(event)
        if not event.spontaneous():
            self.page.enter()

    def resizeEvent(self, event: QResizeEvent) -> None:  # Qt's name
        """Show the pages without their names where there is no room for these."""
        is_folded = event.size().width() < _FOLD_BELOW_EMS * em(self)
        if is_folded != self._is_folded:
            self._is_folded = is_folded
            ems = _FOLDED_LIST_EMS if is_folded else _LIST_EMS
            self.list.setFixedWidth(ems * em(self))
            self._name_all()
        super().resizeEvent(event)

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802  # Qt's name
        """Hide keys again."""
        super().hideEvent(event)
        if not event.spontaneous():
            self.page.leave()

    def _show_row(self, row: int) -> None:
        if row < 0:
            return
        before = self.stack.currentWidget()
        if isinstance(before, SettingsPage):
            before.leave()
        name = list(PageName)[row]
        if name not in self._pages:
            page = _PAGES[name][1](self.hub)
            self._pages[name] = page
            self.stack.addWidget(page)
        self.stack.setCurrentWidget(self._pages[name])
        self._pages[name].enter()

    def _name_all(self) -> None:
        titles = {
            PageName.GENERAL: self.tr("General"),
            PageName.MODELS: self.tr("Models"),
            PageName.RUN: self.tr("Model and engine"),
            PageName.NETWORK: self.tr("Network"),
            PageName.TOOLS: self.tr("Tools (MCP)"),
            PageName.CLIENTS: self.tr("Other programs"),
            PageName.DIAGNOSTICS: self.tr("Diagnostics"),
        }
        row = self.list.currentRow()
        self.list.blockSignals(True)
        self.list.clear()
        for name, title in titles.items():
            item = QListWidgetItem(icon(_PAGES[name][0]), "" if self._is_folded else title)
            item.setData(Qt.ItemDataRole.AccessibleTextRole, title)
            item.setToolTip(title if self._is_folded else "")
            item.setSizeHint(QSize(0, 2 * em(self)))
            self.list.addItem(item)
        self.list.setCurrentRow(row)
        self.list.blockSignals(False)
        self.list.setAccessibleName(self.tr("Pages of the settings"))
        self.restart_button.setText(self.tr("Restart the model now"))
        self._show_pending()

    def _recolour(self) -> None:
        for number, name in enumerate(PageName):
            self.list.item(number).setIcon(icon(_PAGES[name][0]))

    def _show_pending(self) -> None:
        keys = self.hub.pending.keys
        self.restart_bar.setVisible(bool(keys))
        if not keys:
            return
        labels = {row.key.partition(".")[0]: label_of(row) for row in config_rows()}
        labels |= {row.key: label_of(row) for row in config_rows()}
        names = ", ".join(labels.get(key, key) for key in keys[:_NAMED])
        if len(keys) > _NAMED:
            names = self.tr("{names} and {n} more").format(names=names, n=len(keys) - _NAMED)
        self.restart_text.setText(
            self.tr("These settings wait for a restart: {names}").format(names=names)
        )
