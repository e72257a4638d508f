"""All texts that the installer shows, in English and Simplified Chinese.

Tables in Python and not Qt's `.ts` files: the tools that make those (lupdate, lrelease) are not part
of PySide6-essentials, and the headless installer needs the same sentences without Qt.
"""
