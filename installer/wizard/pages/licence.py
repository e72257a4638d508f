"""Licence: the terms of the model's publisher, to be accepted before the download."""

from __future__ import annotations

from html import escape

from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QCheckBox

from installer.steps import Step
from installer.wizard.page import Page, WrappedLabel, text_label
from installer.wizard.session import Session


class LicencePage(Page):
    """Shown for models that have a licence to accept."""

    step = Step.LICENCE

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        installation = session.installation
        family = installation.family
        if family is None:
            raise ValueError("there is no licence without a model")
        licence = family.licence
        em = self.fontMetrics().height()
        self.body.addWidget(
            text_label(self.say("of", model=session.model_title, licence=licence.title))
        )
        link = f'<a href="{escape(licence.url, quote=True)}">{escape(licence.url)}</a>'
        read = WrappedLabel(escape(self.say("read", url="\0")).replace("\0", link))
        read.setTextFormat(Qt.TextFormat.RichText)
        read.setWordWrap(True)
        read.setTextInteractionFlags(Qt.TextInteractionFlag.TextBrowserInteraction)
        read.linkActivated.connect(lambda url: QDesktopServices.openUrl(QUrl(url)))
        self.body.addWidget(read)
        if not licence.is_verified:
            self.body.addWidget(text_label(self.say("unverified"), is_small=True))
        self.body.addSpacing(em)
        self.accept = QCheckBox(self.say("accept"))
        self.accept.setChecked(installation.choices.accepted_licence == licence.url)
        self.accept.toggled.connect(self._toggle)
        self.body.addWidget(self.accept)
        self.body.addStretch(1)

    def _toggle(self, is_checked: bool) -> None:  # Qt's signal
        self.session.installation.accept_licence(is_checked)
        self.changed.emit()
