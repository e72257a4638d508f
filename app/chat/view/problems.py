"""Problems in the person's language, by their code; an unknown code keeps its English sentence."""

from __future__ import annotations

from PySide6.QtCore import QCoreApplication

from app.history.records import Problem


def problem_words(problem: Problem) -> str:
    """The sentence for a problem."""
    sentence = _sentences().get(problem.code)
    if sentence is None:
        return problem.message
    try:
        return sentence.format(**{name: _shown(value) for name, value in problem.params.items()})
    except (KeyError, IndexError, ValueError):
        return problem.message  # the engine is of another version and says other things


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def note_words(note: str) -> str:
    """A remark under an answer or beside an attachment."""
    translate = QCoreApplication.translate
    return {
        "ended_in_thinking": translate(
            "ChatProblems",
            "The answer ended while the model was still thinking. The thinking is above; "
            "“Regenerate” tries again.",
        ),
        "out_of_context": translate(
            "ChatProblems",
            "The context is full. Begin a new conversation, or choose a larger context in the settings.",
        ),
        "tool_limit": translate(
            "ChatProblems", "The model has called tools as often as is allowed for one answer."
        ),
        "repeat": translate(
            "ChatProblems", "The answer was ended because the model repeated itself."
        ),
        "pdf_pages_without_text": translate(
            "ChatProblems", "Some pages have no text (scanned pictures); they are left out."
        ),
    }.get(note, note)


def _sentences() -> dict[str, str]:
    translate = QCoreApplication.translate
    return {}
