"""Where things are in a transcript, and what of it is laid out, for the tests of this folder."""

from PySide6.QtCore import QPoint

from app.chat.view.transcript.rows import BodyRow


def documents(transcript):
    """Documents that exist, by their views."""
    return {
        view: view._document
        for section in transcript.sections
        for row in section.rows
        if isinstance(row, BodyRow)
        for view in row.views
        if view._document is not None
    }


def top_of(transcript, section, row):
    value = transcript.verticalScrollBar().value()
    return transcript.column.top_of(section) + section.tops[row.index] - value


def centre(transcript, row, section, x=40):
    return QPoint(
        round(transcript.column.x) + x, round(top_of(transcript, section, row) + row.height / 3)
    )


def grow(transcript, message, text):
    transcript.append_text(message.id, text)
