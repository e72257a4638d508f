"""Access from other devices: only together with a key; addresses, firewall, QR code for the phone page."""

from __future__ import annotations

import enum

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QCheckBox, QHBoxLayout, QLabel, QLineEdit, QVBoxLayout, QWidget

from app.look.icons import put_icon
from app.look.layouts import clear
from app.settings.config_draft import DEFAULT, is_loopback
from app.settings.config_fields import JsonValue
from app.settings.hub import Hub
from app.settings.network import EVERY_ADDRESS, firewall_commands, make_key, urls
from app.settings.page import (
    Notice,
    SettingsPage,
    button,
    copy_text,
    hint_label,
    plain_label,
    row_of,
)
from app.settings.problem_words import error_sentence
from app.settings.qr_widget import QrLabel
from engine.core.errors import EngineError


class Code(enum.Enum):
    """What the QR code says."""

    ADDRESS = enum.auto()
    KEY = enum.auto()


class NetworkPage(SettingsPage):
    """The page."""

    def __init__(self, hub: Hub) -> None:
        super().__init__(hub)
        self._code = Code.ADDRESS
        self.add_title(self.tr("Network"))
        self.notice = Notice()
        self.body.addWidget(self.notice)
        self.open = QCheckBox(self.tr("Other devices in my network may use the model"))
        self.open.clicked.connect(self._set_open)
        self.body.addWidget(self.open)
        self.add_hint(
            self.tr(
                "Off, only programs on this PC reach it. On, every device needs the key below. The "
                "connection is not encrypted: use it in networks that you trust."
            )
        )
        self.add_heading(self.tr("Key"))
        self.key = QLineEdit()
        self.key.setReadOnly(True)
        self.key.setEchoMode(QLineEdit.EchoMode.Password)
        self.key.setAccessibleName(self.tr("Key"))
        self.show_key = button(self.tr("Show"), "eye")
        self.show_key.setCheckable(True)
        self.show_key.toggled.connect(self._show_key)
        self.copy_key = button(self.tr("Copy"), "copy")
        self.copy_key.clicked.connect(lambda: copy_text(self.key.text()))
        self.make = button(self.tr("Make a key"), "key")
        self.make.clicked.connect(self._make_key)
        self.remove = button(self.tr("Remove the key"), "delete")
        self.remove.clicked.connect(self._remove_key)
        line = row_of(self.key, self.show_key, self.copy_key, stretch=False)
        line.setStretch(0, 1)
        self.body.addLayout(line)
        self.body.addLayout(row_of(self.make, self.remove))
        self.key_hint = self.add_hint("")
        self.reach = QWidget()
        inside = QVBoxLayout(self.reach)
        inside.setContentsMargins(0, 0, 0, 0)
        self._addresses = QVBoxLayout()
        self.qr = QrLabel()
        self.qr_hint = hint_label()
        self.firewall = plain_label()
        self.firewall_commands = QVBoxLayout()
        self.add_heading(self.tr("This PC in the network"))
        inside.addLayout(self._addresses)
        inside.addWidget(self.qr, 0, Qt.AlignmentFlag.AlignLeft)
        inside.addWidget(self.qr_hint)
        inside.addWidget(self.firewall)
        inside.addLayout(self.firewall_commands)
        self.body.addWidget(self.reach)
        self.closed_hint = self.add_hint(self.tr("No other device reaches it now."))
        self.body.addStretch(1)
        hub.saved.connect(self.enter)
        hub.config_changed.connect(self.enter)

    def enter(self) -> None:
        """Read what is saved."""
        config = self.hub.config()
        keys = config.api_keys
        has_config = self.hub.config_path is not None
        is_open = not is_loopback(config.host)
        self.open.setChecked(is_open)
        self.open.setEnabled(has_config)
        self.key.setText(keys[0] if keys else "")
        self.key.setPlaceholderText(self.tr("No key: programs on this PC need none"))
        for widget in (self.show_key, self.copy_key, self.remove):
            widget.setEnabled(bool(keys))
        self.remove.setEnabled(bool(keys) and not is_open)
        self.make.setEnabled(has_config)
        self.make.setText(self.tr("Make a new key") if keys else self.tr("Make a key"))
        self.key_hint.setText(
            self.tr("Programs on this PC need the key too. {n} more keys are in the file.").format(
                n=len(keys) - 1
            )
            if len(keys) > 1
            else self.tr("With a key, programs on this PC need it too.")
        )
        self._show_reach(is_open=is_open)

    def leave(self) -> None:
        """Hide the key."""
        self.show_key.setChecked(False)

    # -- changing ----------------------------------------------------------------------------------

    def _set_open(self, is_on: bool) -> None:  # a slot
        keys = self.hub.config().api_keys
        changes: dict[str, object] = {"host": EVERY_ADDRESS if is_on else DEFAULT}
        made: JsonValue = None
        if is_on and not keys:
            made = make_key()
            changes["api_keys"] = [made]
        if self._change(changes) and made is not None:
            self.notice.say(
                self.tr(
                    "A key was made. Each device and each program on this PC needs it from now on."
                )
            )

    def _make_key(self) -> None:
        keys = self.hub.config().api_keys
        if self._change({"api_keys": [make_key(), *keys[1:]]}) and keys:
            self.notice.say(self.tr("The former key works until the model is started again."))

    def _remove_key(self) -> None:
        self._change({"api_keys": DEFAULT})

    def _change(self, changes: dict[str, object]) -> bool:
        try:
            self.hub.change(changes)
        except EngineError as error:
            self.notice.say(error_sentence(error), is_problem=True)
            self.enter()
            return False
        self.notice.say("")
        return True

    # -- showing -----------------------------------------------------------------------------------

    def _show_key(self, is_shown: bool) -> None:  # a slot
        mode = QLineEdit.EchoMode.Normal if is_shown else QLineEdit.EchoMode.Password
        self.key.setEchoMode(mode)
        self.show_key.setText(self.tr("Hide") if is_shown else self.tr("Show"))
        put_icon(self.show_key, "eye-off" if is_shown else "eye")
        self._code = Code.KEY if is_shown else Code.ADDRESS
        self._show_qr()

    def _show_reach(self, *, is_open: bool) -> None:
        self.reach.setVisible(is_open)
        self.closed_hint.setVisible(not is_open)
        clear(self._addresses)
        clear(self.firewall_commands)
        if not is_open:
            self.qr.show_text("")
            return
        config = self.hub.config()
        found = urls(config)
        for url in found:
            self._addresses.addLayout(_copy_row(url, self.tr("Copy")))
        if not found:
            self._addresses.addWidget(QLabel(self.tr("This PC is in no network now.")))
        self.firewall.setText(
            self.tr(
                "When a device finds nothing there, the firewall keeps it out. This lets it in (in a "
                "command window of the administrator):"
            )
        )
        for command in firewall_commands(config.port):
            self.firewall_commands.addLayout(_copy_row(command, self.tr("Copy")))
        self._show_qr()

    def _show_qr(self) -> None:
        found = urls(self.hub.config())
        if not found:
            self.qr.show_text("")
            self.qr_hint.setText("")
            return
        if self._code is Code.KEY:
            self.qr.show_text(self.key.text())
            self.qr_hint.setText(
                self.tr("This code is the key: read it with the phone and put it into the page.")
            )
        else:
            self.qr.show_text(f"{found[0]}/")
            self.qr_hint.setText(
                self.tr(
                    "This code opens the chat page on a phone. It asks for the key once; “Show” turns "
                    "this into a code of the key."
                )
            )


def _copy_row(text: str, copy_word: str) -> QHBoxLayout:
    label = plain_label(text)
    copy = button(copy_word, "copy")
    copy.clicked.connect(lambda: copy_text(text))
    row = row_of(label, copy, stretch=False)
    row.setStretch(0, 1)
    return row
