"""The side bar is readable whatever the colours were when it was made."""

from PySide6.QtCore import QEvent
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QApplication

from app.app_settings import Theme
from app.look.look import Look
from app.side_bar import SideBar
from app.views import View


def test_its_words_take_other_colours_with_the_theme(qtbot, qapp):
    look = Look(qapp, Theme.DARK)
    bar = SideBar()
    qtbot.addWidget(bar)
    bar.show()
    look.set_theme(Theme.LIGHT)
    # What Qt tells a window of a program that runs.
    QApplication.sendEvent(bar, QEvent(QEvent.Type.PaletteChange))
    text = QPalette.ColorRole.ButtonText
    expected = qapp.palette().color(text)
    button = bar.button(View.CHAT)
    qtbot.waitUntil(lambda: button.palette().color(text) == expected)
