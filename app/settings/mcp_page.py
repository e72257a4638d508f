"""MCP servers: the list with their state, adding, editing, switching off and removing them."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import (
    QCheckBox,
    QDialog,
    QDialogButtonBox,
    QFrame,
    QGridLayout,
    QLineEdit,
    QMessageBox,
    QPlainTextEdit,
    QVBoxLayout,
    QWidget,
)

from app.background import Operation, in_background
from app.look.layouts import clear
from app.look.look import em, enlarge
from app.settings.config_draft import DEFAULT
from app.settings.hub import Hub
from app.settings.mcp_entries import (
    BadPasteError,
    ServerState,
    entry_text,
    read_pasted,
    states_of,
    summary,
)
from app.settings.page import (
    Notice,
    SettingsPage,
    button,
    hint_label,
    plain_label,
    row_of,
)
from app.settings.problem_words import error_sentence
from engine.core.config_mcp import MCP_SERVERS, unwrap_servers
from engine.core.errors import EngineError

JsonObject = dict[str, object]

_LOOK_EVERY_MS = 3000


class McpPage(SettingsPage):
    """The page."""

    def __init__(self, hub: Hub) -> None:
        super().__init__(hub)
        self._operation: Operation | None = None
        self._states: dict[str, ServerState] | None = None  # None: nobody was asked yet
        self._rows: dict[str, ServerRow] = {}
        self._timer = QTimer(self)
        self._timer.setInterval(_LOOK_EVERY_MS)
        self._timer.timeout.connect(self._look)
        self.add_title(self.tr("Tools (MCP)"))
        self.add_hint(
            self.tr(
                "An MCP server is a program that offers tools: reading files, searching, writing "
                "tickets. Use only servers that you trust. Tools that change something ask first."
            )
        )
        self.notice = Notice()
        self.body.addWidget(self.notice)
        self.list = QVBoxLayout()
        self.body.addLayout(self.list)
        self.empty = self.add_hint(self.tr("No server is set up yet."))
        self.add = button(self.tr("Add a server"), "add")
        self.add.clicked.connect(self._add)
        self.body.addLayout(row_of(self.add))
        self.body.addStretch(1)
        hub.saved.connect(self.enter)
        hub.config_changed.connect(self.enter)

    def enter(self) -> None:
        """Read what is saved, and ask the engine for the states."""
        entries = self.entries()
        self.add.setEnabled(self.hub.config_path is not None)
        self.empty.setVisible(not entries)
        clear(self.list)
        self._rows = {}
        for name, entry in entries.items():
            row = ServerRow(name, entry)
            self._show_state(name, row, entry)
            row.switch.clicked.connect(
                lambda is_on, name=name: self._set_on(name, is_on=bool(is_on))
            )
            row.edit.clicked.connect(lambda _checked=False, name=name: self._edit(name))
            row.remove.clicked.connect(lambda _checked=False, name=name: self._ask_remove(name))
            self._rows[name] = row
            self.list.addWidget(row)
        if entries and self.isVisible():
            self._timer.start()
            self._look()

    def leave(self) -> None:
        """Ask no more."""
        self._timer.stop()
        if self._operation is not None:
            self._operation.cancel()
            self._operation = None

    def entries(self) -> dict[str, JsonObject]:
        """The servers as the file names them."""
        servers = unwrap_servers(self.hub.content().get(MCP_SERVERS))
        if not isinstance(servers, dict):
            return {}
        return {
            str(name): dict(entry) for name, entry in servers.items() if isinstance(entry, dict)
        }

    def put(self, entries: Mapping[str, JsonObject]) -> bool:
        """Save other servers; whether that was possible."""
        try:
            self.hub.change({MCP_SERVERS: dict(entries) if entries else DEFAULT})
        except EngineError as error:
            self.notice.say(error_sentence(error), is_problem=True)
            return False
        self.notice.say("")
        return True

    # -- what the person does ----------------------------------------------------------------------

    def _set_on(self, name: str, *, is_on: bool) -> None:
        entries = self.entries()
        entry = entries.get(name, {})
        entry.pop("disabled", None)
        if not is_on:
            entry["disabled"] = True
        self.put({**entries, name: entry})

    def _add(self) -> None:
        dialog = EntryDialog(self, "", "")
        dialog.taken.connect(lambda: self._take(dialog, None))
        dialog.open()

    def _edit(self, name: str) -> None:
        dialog = EntryDialog(self, name, entry_text(self.entries().get(name, {})))
        dialog.taken.connect(lambda: self._take(dialog, name))
        dialog.open()

    def _take(self, dialog: EntryDialog, former: str | None) -> None:
        try:
            found = read_pasted(dialog.text.toPlainText())
        except BadPasteError as error:
            dialog.notice.say(f"{error_sentence(error)} ({error.message})", is_problem=True)
            return
        name = dialog.name.text().strip()
        if name and len(found) == 1:
            found = {name: next(iter(found.values()))}
        entries = self.entries()
        if former is not None:
            entries = {key: value for key, value in entries.items() if key != former}
        if self.put({**entries, **found}):
            dialog.accept()

    def _ask_remove(self, name: str) -> None:
        box = QMessageBox(self)
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.setIcon(QMessageBox.Icon.Question)
        box.setWindowTitle(self.tr("Remove a server"))
        box.setText(self.tr("Remove {name} from the list?").format(name=name))
        box.setInformativeText(
            self.tr("To keep it without using it, switch it off instead. The program itself stays.")
        )
        remove = box.addButton(self.tr("Remove"), QMessageBox.ButtonRole.DestructiveRole)
        keep = box.addButton(QMessageBox.StandardButton.Cancel)
        box.setDefaultButton(keep)
        remove.clicked.connect(lambda: self.remove(name))
        box.open()

    def remove(self, name: str) -> None:
        """Take a server out."""
        self.put({key: value for key, value in self.entries().items() if key != name})

    # -- states ------------------------------------------------------------------------------------

    def _look(self) -> None:
        if self._operation is not None and not self._operation.is_finished:
            return
        if not self.hub.context.supervisor.state.can_answer:
            self._take_states(None)
            return
        http = self.hub.context.http
        self._operation = in_background(
            self,
            lambda _task: states_of(http.get("/mcp", read_timeout_s=5.0)),
            on_success=self._take_states,
            on_failure=lambda _error: self._take_states(None),
        )

    def _take_states(self, states: dict[str, ServerState] | None) -> None:
        self._states = states
        entries = self.entries()
        for name, row in self._rows.items():
            self._show_state(name, row, entries.get(name, {}))

    def _show_state(self, name: str, row: ServerRow, entry: Mapping[str, object]) -> None:
        if self._states is None and entry.get("disabled") is not True:
            runs = self.hub.context.supervisor.state.can_answer
            row.state.setText("" if runs else self.tr("Its state is shown when the model runs."))
        else:
            row.show_state((self._states or {}).get(name), entry)


class ServerRow(QFrame):
    """One server of the list."""

    def __init__(self, name: str, entry: Mapping[str, object]) -> None:
        super().__init__()
        self.setFrameShape(QFrame.Shape.StyledPanel)
        title = plain_label(name)
        enlarge(title, 1.05, is_bold=True)
        what = hint_label(summary(entry))
        self.state = plain_label()
        self.switch = QCheckBox(self.tr("On"))
        self.switch.setChecked(entry.get("disabled") is not True)
        self.switch.setAccessibleName(self.tr("{name}: on").format(name=name))
        self.edit = button(self.tr("Edit"), "edit")
        self.remove = button(self.tr("Remove"), "delete")
        layout = QGridLayout(self)
        layout.setContentsMargins(em(self) // 2, em(self) // 2, em(self) // 2, em(self) // 2)
        layout.addWidget(title, 0, 0)
        layout.addWidget(what, 1, 0)
        layout.addWidget(self.state, 2, 0, 1, 4)
        for column, widget in enumerate((self.switch, self.edit, self.remove), start=1):
            layout.addWidget(widget, 0, column, 2, 1)
        layout.setColumnStretch(0, 1)

    def show_state(self, state: ServerState | None, entry: Mapping[str, object]) -> None:
        """Say what the engine says."""
        self.state.setText(self._words(state, is_off=entry.get("disabled") is True))

    def _words(self, state: ServerState | None, *, is_off: bool) -> str:
        if is_off:
            return self.tr("Off")
        if state is None:
            return self.tr("The running engine does not know it yet.")
        words = {
            "starting": self.tr("Starts"),
            "ready": self.tr("Ready, with {n} tools: {names}").format(
                n=len(state.tools), names=", ".join(state.tools)
            ),
            "failed": self.tr("Does not work: {reason}").format(reason=state.error),
            "idle": self.tr("Starts with the next use"),
            "disabled": self.tr("Off"),
        }
        return words.get(state.status, state.status)


class EntryDialog(QDialog):
    """Name and JSON of a server, or of several that were pasted."""

    def __init__(self, parent: QWidget, name: str, text: str) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(self.tr("MCP server"))
        self.notice = Notice()
        self.name = QLineEdit(name)
        self.name.setPlaceholderText(self.tr("Name (several servers have their own)"))
        self.name.setAccessibleName(self.tr("Name"))
        self.text = QPlainTextEdit(text)
        self.text.setTabChangesFocus(True)
        self.text.setAccessibleName(self.tr("The server as JSON"))
        self.text.setPlaceholderText(
            '{"mcpServers": {"files": {"command": "npx", "args": ["-y", "some-server", "/folder"]}}}'
        )
        self.text.setMinimumHeight(12 * em(self))
        buttons = QDialogButtonBox(
            QDialogButtonBox.StandardButton.Save | QDialogButtonBox.StandardButton.Cancel
        )
        layout = QVBoxLayout(self)
        layout.addWidget(
            plain_label(
                self.tr(
                    "Paste what a program such as Claude Desktop has in its file, or write one entry: "
                    "“command” with “args” and “env”, or “url” with “headers”."
                )
            )
        )
        layout.addWidget(self.name)
        layout.addWidget(self.text, 1)
        layout.addWidget(self.notice)
        layout.addWidget(buttons)
        self.taken = buttons.accepted
        buttons.rejected.connect(self.reject)
        self.resize(40 * em(self), 28 * em(self))
        self.text.setFocus()
