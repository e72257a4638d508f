"""Translations: Qt Linguist files, compiled ones beside them; `update.py` makes both."""
