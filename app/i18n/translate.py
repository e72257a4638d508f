"""Puts a language's texts into Qt: ours and those of Qt's own buttons.

English is in the code. A change of the language is seen by widgets as `QEvent.LanguageChange`.
"""

from __future__ import annotations

import logging
from pathlib import Path

from PySide6.QtCore import QCoreApplication, QLibraryInfo, QLocale, QTranslator

from engine.core.language import Language

logger = logging.getLogger(__name__)

FOLDER = Path(__file__).parent
LOCALES = {Language.ENGLISH: "en", Language.CHINESE: "zh_CN"}


class Translations:
    """The texts of one language at a time."""

    def __init__(self) -> None:
        self._installed: list[QTranslator] = []
        self._language: Language | None = None

    @property
    def language(self) -> Language:
        """What is spoken now."""
        return self._language or Language.ENGLISH

    def speak(self, language: Language) -> None:
        """Speak a language from now on."""
        if language is self._language:
            return
        for translator in self._installed:
            QCoreApplication.removeTranslator(translator)
        self._installed = []
        self._language = language
        name = LOCALES[language]
        # Figures and dates: of the person's country where the language is the system's.
        system = QLocale.system()
        wanted = QLocale(name)
        QLocale.setDefault(system if system.language() == wanted.language() else wanted)
        qt_folder = Path(QLibraryInfo.path(QLibraryInfo.LibraryPath.TranslationsPath))
        for folder, file in ((qt_folder, f"qtbase_{name}"), (FOLDER, name)):
            path = folder / f"{file}.qm"
            if not path.exists():  # English needs none
                continue
            translator = QTranslator()
            if translator.load(str(path)):
                self._installed.append(translator)
                QCoreApplication.installTranslator(translator)
            else:
                logger.warning("the texts in %s cannot be used", path)
