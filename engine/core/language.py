"""The languages of the windows, and which of them the system speaks."""

from __future__ import annotations

import enum
import locale
import os
import sys
from collections.abc import Mapping


class Language(enum.StrEnum):
    """A language that all texts exist in."""

    ENGLISH = "en"
    CHINESE = "zh"

    @property
    def own_name(self) -> str:
        """How its speakers call it."""
        return {"en": "English", "zh": "简体中文"}[self.value]


def language_of(tag: str) -> Language:
    """The best language for a locale such as `zh_CN.UTF-8` or `de-DE`.

    Traditional Chinese gets Simplified Chinese, which its readers understand.
    """
    return Language.CHINESE if tag.lower().startswith("zh") else Language.ENGLISH


def system_language(environment: Mapping[str, str] = os.environ) -> Language:
    """The language that the person's system is set to."""
    if sys.platform == "win32":
        import ctypes  # noqa: PLC0415  # its windll exists only there

        number = ctypes.windll.kernel32.GetUserDefaultUILanguage()
        return language_of(locale.windows_locale.get(number, ""))
    # As gettext does: LANGUAGE is a list, the first of the others that is set counts.
    for name in ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG"):
        value = environment.get(name, "").split(":")[0]
        if value:
            return language_of(value)
    return Language.ENGLISH
