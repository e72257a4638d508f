"""What is wrong with a setting, and other errors of this part, in the person's language."""

from __future__ import annotations

from PySide6.QtCore import QT_TRANSLATE_NOOP, QCoreApplication

from app.settings.config_draft import ConfigProblemError, Problem
from app.settings.config_fields import config_rows
from app.settings.config_texts import allowed_in_words, label_of
from engine.core.errors import EngineError
from engine.core.sizes import size_in_words

_SIZES = frozenset({"free", "needed"})


def problem_sentence(problem: Problem) -> str:
    """One problem of a draft."""
    translate = QCoreApplication.translate
    if problem.code == "key_needed":
        return translate(
            "Problems",
            "Others could reach the engine then, so it needs a key first. Make one on the page “Network”.",
        )
    row = next((row for row in config_rows() if row.key == problem.key), None)
    if row is None:
        return translate("Problems", "{key} cannot have this value.").format(key=problem.key)
    return translate("Problems", "It must be {allowed}.").format(allowed=allowed_in_words(row))


_SENTENCES = {
    "file_not_writable": QT_TRANSLATE_NOOP(
        "Problems",
        "{path} cannot be written. Free some space, or choose a folder that belongs to you.",
    ),
    "file_not_readable": QT_TRANSLATE_NOOP("Problems", "{path} cannot be read. Check the path."),
    "format_too_new": QT_TRANSLATE_NOOP(
        "Problems", "{path} was written by a newer version of Stratum. Update Stratum."
    ),
    "drive_short": QT_TRANSLATE_NOOP(
        "Problems",
        "{folder} has {free} free; the model needs {needed}. Choose another folder, or free some space.",
    ),
    "copy_differs": QT_TRANSLATE_NOOP(
        "Problems",
        "The copy of {file} is not what was copied, so nothing was changed. Check the drive, and try "
        "again.",
    ),
    "bad_paste": QT_TRANSLATE_NOOP(
        "Problems",
        "This is no list of MCP servers. Paste the JSON that a program such as Claude Desktop has, with "
        "“mcpServers” in it.",
    ),
    "already_there": QT_TRANSLATE_NOOP(
        "Problems", "{path} is there already. Choose another folder."
    ),
    "not_deleted": QT_TRANSLATE_NOOP(
        "Problems", "{path} cannot be deleted. Stop the model, and try again."
    ),
    "engine_unreachable": QT_TRANSLATE_NOOP(
        "Problems", "The engine does not run. Start it, and try again."
    ),
    "engine_not_running": QT_TRANSLATE_NOOP(
        "Problems", "The engine does not run. Start it, and try again."
    ),
    "child_not_started": QT_TRANSLATE_NOOP(
        "Problems", "The engine's command line does not answer. Run setup again."
    ),
}


def error_sentence(error: EngineError) -> str:
    """An error in words; one without a translation says its English sentence."""
    if isinstance(error, ConfigProblemError):
        row = next((row for row in config_rows() if row.key == error.problem.key), None)
        name = label_of(row) if row is not None else error.problem.key
        return f"{name}: {problem_sentence(error.problem)}"
    template = _SENTENCES.get(error.code)
    if template is None:
        return error.message
    words = {
        key: size_in_words(value) if key in _SIZES and isinstance(value, int) else value
        for key, value in error.params.items()
    }
    try:
        return QCoreApplication.translate("Problems", str(template)).format(**words)
    except KeyError:  # the error came without the values of our sentence
        return error.message
