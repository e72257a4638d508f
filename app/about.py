"""About: version, what it runs on, and where everything lies, ready to be copied."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import PySide6
from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QHBoxLayout,
    QLabel,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.context import AppContext
from app.look.icons import app_icon, put_icon
from app.look.look import em, enlarge
from app.program_folder import PROGRAM_DIR
from engine import __version__
from engine.core.settings import settings_path


def build_name(root: Path = PROGRAM_DIR) -> str:
    """What this copy was made from: the commit of a checkout, else empty."""
    git = root / ".git"
    try:
        head = (git / "HEAD").read_text("ascii").strip()
        if head.startswith("ref: "):
            reference = head.removeprefix("ref: ")
            path = git / reference
            head = path.read_text("ascii").strip() if path.exists() else _packed(git, reference)
    except (OSError, UnicodeDecodeError):
        return ""
    return head[:10]


def facts(context: AppContext) -> list[tuple[str, str]]:
    """Version and system, as name and value; untranslated values, since supporters read them."""
    build = build_name()
    return [
        ("Stratum", f"{__version__} ({build})" if build else __version__),
        ("Python", platform.python_version()),
        ("Qt", PySide6.__version__),
        ("System", f"{platform.system()} {platform.release()} {platform.machine()}"),
        ("Program", str(PROGRAM_DIR)),
        ("Data", str(context.data_dir)),
        ("Settings", str(settings_path().parent)),
        ("Logs", str(context.logs_dir)),
    ]


class AboutDialog(QDialog):
    """The window."""

    def __init__(self, context: AppContext, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(self.tr("About Stratum"))
        self._facts = facts(context)
        unit = em(self)
        picture = QLabel()
        picture.setPixmap(app_icon().pixmap(4 * unit, 4 * unit))
        name = QLabel("Stratum")
        enlarge(name, 1.6, is_bold=True)
        what = QLabel(self.tr("A large language model on this PC"))
        head = QVBoxLayout()
        head.addWidget(name)
        head.addWidget(what)
        top = QHBoxLayout()
        top.addWidget(picture)
        top.addLayout(head, 1)
        form = QFormLayout()
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        labels = {
            "Stratum": self.tr("Version"),
            "System": self.tr("System"),
            "Program": self.tr("Program"),
            "Data": self.tr("Models and chats"),
            "Settings": self.tr("Settings"),
            "Logs": self.tr("Logs"),
        }
        for key, value in self._facts:
            form.addRow(labels.get(key, key), self._value(key, value))
        form.addRow(self.tr("Licence"), QLabel(_licence_name()))
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        put_icon(buttons.button(QDialogButtonBox.StandardButton.Close), "close")
        copy = buttons.addButton(self.tr("Copy"), QDialogButtonBox.ButtonRole.ActionRole)
        put_icon(copy, "copy")
        copy.clicked.connect(self._copy)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(unit, unit, unit, unit)
        layout.setSpacing(unit)
        layout.addLayout(top)
        layout.addLayout(form)
        layout.addWidget(buttons)
        self.setMinimumWidth(34 * unit)

    def _value(self, key: str, value: str) -> QWidget:
        text = QLabel(value)
        text.setTextFormat(Qt.TextFormat.PlainText)
        text.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
            | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        if key not in {"Program", "Data", "Settings", "Logs"}:
            return text
        opener = QToolButton()
        opener.setAutoRaise(True)
        put_icon(opener, "folder")
        opener.setToolTip(self.tr("Open folder"))
        opener.setAccessibleName(self.tr("Open folder {folder}").format(folder=value))
        opener.clicked.connect(
            lambda _checked=False: QDesktopServices.openUrl(QUrl.fromLocalFile(value))
        )
        row = QWidget()
        layout = QHBoxLayout(row)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(text, 1)
        layout.addWidget(opener)
        return row

    def _copy(self) -> None:
        lines = (f"{key}: {value}" for key, value in self._facts)
        QGuiApplication.clipboard().setText("\n".join([*lines, f"Executable: {sys.executable}"]))


def _packed(git: Path, reference: str) -> str:
    for line in (git / "packed-refs").read_text("ascii").splitlines():
        if line.endswith(f" {reference}"):
            return line.split()[0]
    return ""


def _licence_name(root: Path = PROGRAM_DIR) -> str:
    try:
        with (root / "LICENSE").open(encoding="utf-8") as file:
            return file.readline().strip()
    except OSError:
        return ""
