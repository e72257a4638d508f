"""Errors in the person's language, by their code; where that has no sentence the English one is said.

English is the error's own sentence, made where its cause is known. Problems of a conversation and the
reasons why the engine does not run have tables of their own (`chat/view/problems.py`,
`supervisor/reason_words.py`), since they know more than a code.
"""

from __future__ import annotations

from PySide6.QtCore import QT_TRANSLATE_NOOP, QCoreApplication

from engine.core.errors import EngineError

# The English here is only what the translation is found by.
_SENTENCES = {
    "app_hangs": QT_TRANSLATE_NOOP(
        "Errors",
        "Stratum runs already, but does not answer. Wait a moment, or end it in the task manager, "
        "and start it again.",
    ),
    "config": QT_TRANSLATE_NOOP("Errors", "A setting has a value that cannot be used: {message}"),
    "child_not_started": QT_TRANSLATE_NOOP(
        "Errors", "A program cannot be started ({reason}). Run setup again."
    ),
    "context_too_long": QT_TRANSLATE_NOOP(
        "Errors",
        "The context of {context} tokens is longer than the model's {trained}. Choose at most that.",
    ),
    "engine_cut_off": QT_TRANSLATE_NOOP(
        "Errors", "The engine went away in the middle of its answer."
    ),
    "engine_not_running": QT_TRANSLATE_NOOP(
        "Errors", "The engine does not run. Start it, and try again."
    ),
    "engine_timeout": QT_TRANSLATE_NOOP(
        "Errors",
        "The engine at {url} did not answer in time. Try again; if it goes on, restart the engine.",
    ),
    "engine_unreachable": QT_TRANSLATE_NOOP(
        "Errors", "The engine at {url} cannot be reached. Start it, and try again."
    ),
    "file_not_readable": QT_TRANSLATE_NOOP(
        "Errors", "{path} cannot be read. Check that it is there and belongs to you."
    ),
    "file_not_writable": QT_TRANSLATE_NOOP(
        "Errors",
        "{path} cannot be written. Free some space or choose a folder that belongs to you.",
    ),
    "folder_not_ours": QT_TRANSLATE_NOOP(
        "Errors",
        "The folder {path} belongs to somebody else, or others can write in it. Remove it and "
        "start again.",
    ),
    "format_too_new": QT_TRANSLATE_NOOP(
        "Errors",
        "{path} was written by a newer version of Stratum (format {found}; this one reads up to "
        "{newest}). Update Stratum.",
    ),
    "login_start_failed": QT_TRANSLATE_NOOP(
        "Errors", "Starting at login could not be changed ({reason}). Everything else works."
    ),
    "not_an_engine": QT_TRANSLATE_NOOP("Errors", "What answers at {url} is not Stratum's engine."),
    "unexpected": QT_TRANSLATE_NOOP(
        "Errors", "Something unexpected happened ({reason}). The log has the details."
    ),
}


def error_words(error: EngineError) -> str:
    """What to show of an error."""
    source = _SENTENCES.get(error.code)
    if source is None:
        return error.message
    sentence = QCoreApplication.translate("Errors", str(source))
    if sentence == source:
        return error.message
    try:
        return sentence.format(**{**error.params, "message": error.message})
    except (KeyError, IndexError, ValueError):
        return error.message  # raised elsewhere under the same code, without these values
