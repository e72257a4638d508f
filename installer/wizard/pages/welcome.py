"""Welcome: what will happen, and in which language."""

from __future__ import annotations

from PySide6.QtWidgets import QComboBox, QFormLayout, QLabel, QWidget

from engine.core.language import Language
from installer.steps import Step
from installer.wizard.page import Page, text_label
from installer.wizard.session import Session


class WelcomePage(Page):
    """The first page."""

    step = Step.WELCOME

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        em = self.fontMetrics().height()
        for number, key in enumerate(("first", "second", "third", "fourth"), start=1):
            label = text_label(f"{number}.  {self.say(key)}")
            label.setContentsMargins(em // 2, em // 3, 0, 0)
            self.body.addWidget(label)
        self.body.addSpacing(em)
        self.body.addWidget(text_label(self.say("safe")))
        self.body.addStretch(1)
        self.language = language_box(self)
        form = QFormLayout()
        form.addRow(self.say("language"), self.language)
        self.body.addLayout(form)


def language_box(page: Page) -> QComboBox:
    """A list of the languages, each in its own name; choosing one changes all texts."""
    box = QComboBox()
    for language in Language:
        box.addItem(language.own_name, language)
    box.setCurrentIndex(list(Language).index(page.session.texts.language))
    box.setAccessibleName(page.session.texts.say("welcome.language").replace("&", ""))
    box.activated.connect(lambda index: page.relabel.emit(list(Language)[index]))
    return box


def buddy(text: str, widget: QWidget) -> QLabel:
    """A label whose letter with `&` leads to a widget, and which is the widget's name."""
    label = QLabel(text)
    label.setBuddy(widget)
    widget.setAccessibleName(text.replace("&", ""))
    return label
