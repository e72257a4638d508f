"""Settings of other programs to copy, with this engine's address, context and key."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from PySide6.QtGui import QFontDatabase
from PySide6.QtWidgets import QCheckBox, QComboBox, QFormLayout, QPlainTextEdit, QVBoxLayout

from app.background import Operation, in_background
from app.look.layouts import clear
from app.look.look import em
from app.settings.client_recipes import NO_KEY, PLACEHOLDER, Client, Engine, Piece, recipe
from app.settings.hub import Hub
from app.settings.network import THIS_PC, urls
from app.settings.page import (
    SettingsPage,
    button,
    copy_text,
    hint_label,
    plain_label,
    row_of,
)
from app.settings.resolved import ask_engine
from engine.core.placement import DEFAULT_CONTEXT

_MOST_LINES = 16
_AGENT_CONTEXT = 65_536
_NOTED = frozenset({Client.CLAUDE_CODE, Client.CODEX, Client.OPENCODE})


class ClientsPage(SettingsPage):
    """The page."""

    def __init__(self, hub: Hub) -> None:
        super().__init__(hub)
        self._operation: Operation | None = None
        self._context_tokens: int | None = None
        self._model = ""
        self.add_title(self.tr("Other programs"))
        self.add_hint(
            self.tr("Coding agents, chat programs and scripts can use the model at this address.")
        )
        self.client = QComboBox()
        for client in Client:
            self.client.addItem(client.value, client)
        self.address = QComboBox()
        self.with_key = QCheckBox(self.tr("Write the key itself into the texts"))
        form = QFormLayout()
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.FieldsStayAtSizeHint)
        for text, box in ((self.tr("Program"), self.client), (self.tr("Address"), self.address)):
            label = plain_label(text)
            label.setWordWrap(False)
            label.setBuddy(box)
            box.setAccessibleName(text)
            box.setMinimumWidth(18 * em(self))
            form.addRow(label, box)
        self.body.addLayout(form)
        self.body.addWidget(self.with_key)
        self.note = self.add_hint("")
        self.pieces = QVBoxLayout()
        self.body.addLayout(self.pieces)
        self.body.addStretch(1)
        self.client.activated.connect(self._show)
        self.address.activated.connect(self._show)
        self.with_key.toggled.connect(self._show)
        hub.saved.connect(self.enter)
        hub.config_changed.connect(self.enter)

    def enter(self) -> None:
        """Ask the engine for its context and name; until it answers the config counts."""
        config = self.hub.config()
        chosen = self.address.currentText()
        state = self.hub.context.supervisor.state
        own = state.base_url or f"http://{THIS_PC}:{config.port}"
        self.address.clear()
        self.address.addItems(list(dict.fromkeys([own, *urls(config)])))
        self.address.setCurrentIndex(max(0, self.address.findText(chosen)))
        self.with_key.setVisible(bool(config.api_keys))
        http = self.hub.context.http
        if self._operation is not None:
            self._operation.cancel()
        self._operation = in_background(
            self, lambda _task: ask_engine(http)[0], on_success=self._take_props
        )
        self._show()

    def leave(self) -> None:
        """Take the key out of the texts."""
        self.with_key.setChecked(False)

    @property
    def texts(self) -> list[Piece]:
        """What is shown."""
        client = self.client.currentData()
        return recipe(client, self._engine(), is_windows=sys.platform == "win32")

    def _take_props(self, props: Mapping[str, object]) -> None:
        defaults = props.get("default_generation_settings")
        context = defaults.get("n_ctx") if isinstance(defaults, dict) else None
        self._context_tokens = context if isinstance(context, int) else None
        name = props.get("model_alias")
        self._model = name if isinstance(name, str) else ""
        self._show()

    def _engine(self) -> Engine:
        config = self.hub.config()
        key = NO_KEY
        if config.api_keys:
            key = config.api_keys[0] if self.with_key.isChecked() else PLACEHOLDER
        return Engine(
            base_url=self.address.currentText(),
            model=self._model or config.model_name,
            context=self._context_tokens or config.context or DEFAULT_CONTEXT,
            key=key,
        )

    def _show(self) -> None:
        clear(self.pieces)
        client, engine = self.client.currentData(), self._engine()
        notes = []
        if client in _NOTED and engine.context < _AGENT_CONTEXT:
            notes.append(
                self.tr(
                    "The context is {n} tokens; agents work better with 65,536 or more (page “Model and "
                    "engine”)."
                ).format(n=engine.context)
            )
        if engine.key == PLACEHOLDER:
            notes.append(self.tr("Put the key in the place of {word}.").format(word=PLACEHOLDER))
        if client is Client.OPEN_WEBUI:
            notes.append(self.tr("In Open WebUI: Admin settings, Connections, OpenAI API."))
        self.note.setText(" ".join(notes))
        self.note.setVisible(bool(notes))
        for piece in self.texts:
            self._add_piece(piece)

    def _add_piece(self, piece: Piece) -> None:
        text = QPlainTextEdit(piece.text.rstrip("\n"))
        text.setReadOnly(True)
        text.setTabChangesFocus(True)
        text.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        text.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        lines = min(_MOST_LINES, piece.text.rstrip("\n").count("\n") + 1)
        text.setFixedHeight(text.fontMetrics().lineSpacing() * lines + 2 * em(self))
        text.setAccessibleName(piece.where)
        copy = button(self.tr("Copy"), "copy")
        copy.clicked.connect(lambda: copy_text(piece.text))
        line = row_of(hint_label(piece.where), copy, stretch=False)
        line.setStretch(0, 1)
        self.pieces.addLayout(line)
        self.pieces.addWidget(text)
