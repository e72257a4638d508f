"""Options: context, thinking, data folder, language, start at login, and what few need."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDoubleSpinBox,
    QFileDialog,
    QFormLayout,
    QHBoxLayout,
    QLineEdit,
    QPushButton,
    QToolButton,
    QWidget,
)

from engine.core.catalog import CatalogModel
from engine.core.config import Effort
from engine.core.setting_paths import whole_path
from installer.download.disk import free_bytes
from installer.offers import context_choices, suggested_context, suggested_effort
from installer.steps import Step
from installer.wizard.page import Page, text_label
from installer.wizard.pages.welcome import buddy, language_box
from installer.wizard.session import Session

_MOST_MB_PER_S = 10_000.0


class OptionsPage(Page):
    """What suits most people is chosen already."""

    step = Step.OPTIONS

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._model = session.installation.model
        self.context = QComboBox()
        self.effort = QComboBox()
        self.folder = QLineEdit(str(session.installation.data_dir))
        self.browse = QPushButton(session.texts.say("button.browse"))
        self.room = text_label(is_small=True)
        self.login = QCheckBox(self.say("login"))
        self.login.setChecked(session.installation.choices.starts_at_login)
        self.more = QToolButton()
        self.mirror = QLineEdit(session.installation.choices.mirror or "")
        self.proxy = QLineEdit(session.proxy or "")
        self.token = QLineEdit(session.token or "")
        self.search = QLineEdit(";".join(map(str, session.installation.choices.search)))
        self.limit = QDoubleSpinBox()
        self.draft_head = QCheckBox(self.say("draft_head"))
        self._fill_lists()
        self._lay_out()
        self._connect()
        self._check_folder()

    def leave(self) -> None:
        """Keep what was chosen."""
        session, choices = self.session, self.session.installation.choices
        session.proxy = self.proxy.text().strip() or None
        session.token = self.token.text().strip() or None
        folder = _folder(self.folder.text())
        searched = tuple(
            Path(part.strip()) for part in self.search.text().split(";") if part.strip()
        )
        session.installation.choose(
            choices.model_copy(
                update={
                    "context": self.context.currentData(),
                    "effort": Effort(self.effort.currentData()),
                    "data_dir": folder,
                    "starts_at_login": self.login.isChecked(),
                    "mirror": self.mirror.text().strip() or None,
                    "search": searched,
                    "max_mb_per_s": self.limit.value() or None,
                    "has_draft_head": self.draft_head.isChecked(),
                }
            )
        )

    # -- building ----------------------------------------------------------------------------------

    def _fill_lists(self) -> None:
        installation = self.session.installation
        choices = installation.choices
        if self._model is not None:
            suggested = suggested_context(self.session.recommendation, self._model)
            contexts = context_choices(installation.catalog, self._model, suggested)
            for context in contexts:
                is_best = context == suggested
                key = "context_recommended" if is_best else "context_choice"
                self.context.addItem(self.say(key, context=context), context)
            chosen = choices.context if choices.context in contexts else suggested
            self.context.setCurrentIndex(contexts.index(chosen))
        for effort in Effort:
            self.effort.addItem(self.say(f"effort_{effort.value}"), effort)
        suggestion = suggested_effort(self.session.recommendation, self._model)
        self.effort.setCurrentIndex(list(Effort).index(choices.effort or suggestion))
        self.limit.setRange(0.0, _MOST_MB_PER_S)
        self.limit.setDecimals(1)
        self.limit.setSuffix(self.say("limit_unit"))
        self.limit.setSpecialValueText(self.say("no_limit"))
        self.limit.setValue(choices.max_mb_per_s or 0.0)
        self.draft_head.setChecked(choices.has_draft_head)

    def _lay_out(self) -> None:
        form = QFormLayout()
        form.setRowWrapPolicy(QFormLayout.RowWrapPolicy.WrapLongRows)
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.ExpandingFieldsGrow)
        form.addRow(buddy(self.say("context"), self.context), self.context)
        form.addRow(text_label(self.say("context_hint"), is_small=True))
        form.addRow(buddy(self.say("effort"), self.effort), self.effort)
        folder = QHBoxLayout()
        folder.addWidget(self.folder, 1)
        folder.addWidget(self.browse)
        form.addRow(buddy(self.say("folder"), self.folder), folder)
        form.addRow(self.room)
        self.language = language_box(self)
        form.addRow(buddy(self.say("language"), self.language), self.language)
        form.addRow(self.login)
        self.more.setText(self.say("more"))
        self.more.setCheckable(True)
        self.more.setAutoRaise(True)
        self.more.setArrowType(Qt.ArrowType.RightArrow)
        self.more.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        form.addRow(self.more)
        self.body.addLayout(form)
        self._rare = QWidget()
        rare = QFormLayout(self._rare)
        rare.setRowWrapPolicy(QFormLayout.RowWrapPolicy.WrapLongRows)
        rare.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.ExpandingFieldsGrow)
        self.token.setEchoMode(QLineEdit.EchoMode.Password)
        for name, field in (
            ("mirror", self.mirror),
            ("search", self.search),
            ("limit", self.limit),
            ("proxy", self.proxy),
            ("token", self.token),
        ):
            rare.addRow(buddy(self.say(name), field), field)
            if isinstance(field, QLineEdit):
                field.setPlaceholderText(self.say(f"{name}_hint"))
                field.setAccessibleDescription(self.say(f"{name}_hint"))
        rare.addRow(self.draft_head)
        self._rare.hide()
        self.body.addWidget(self._rare)
        self.body.addStretch(1)

    def _connect(self) -> None:
        self.browse.clicked.connect(self._browse)
        self.folder.textChanged.connect(self._check_folder)
        self.more.toggled.connect(self._show_more)

    # -- doing -------------------------------------------------------------------------------------

    def _show_more(self, is_open: bool) -> None:  # Qt's signal
        self._rare.setVisible(is_open)
        arrow = Qt.ArrowType.DownArrow if is_open else Qt.ArrowType.RightArrow
        self.more.setArrowType(arrow)

    def _browse(self) -> None:
        dialog = QFileDialog(self, self.say("folder_dialog"), self.folder.text())
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setFileMode(QFileDialog.FileMode.Directory)
        dialog.setOption(QFileDialog.Option.ShowDirsOnly)
        dialog.fileSelected.connect(self.folder.setText)
        dialog.open()

    def _check_folder(self) -> None:
        folder = _folder(self.folder.text())
        self.room.setText(self._room_words(folder) if folder is not None else "")

    def _room_words(self, folder: Path) -> str:
        try:
            free = free_bytes(folder)
        except (OSError, ValueError):
            return self.say("folder_unknown")
        needed = _needed_bytes(self._model)
        if needed == 0:
            return self.say("folder_free", free_bytes=free)
        key = "folder_needs" if needed <= free else "folder_short"
        return self.say(key, free_bytes=free, needed_bytes=needed)


def _needed_bytes(model: CatalogModel | None) -> int:
    if model is None or model.is_bundled:
        return 0
    return model.known_bytes or model.needs.download_bytes


def _folder(text: str) -> Path | None:
    """What the person typed, as a whole path; None: the usual folder."""
    if not text.strip():
        return None
    return whole_path(text.strip())
