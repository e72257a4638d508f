"""Problems in the person's language, by their code; an unknown code keeps its English sentence."""

from __future__ import annotations

from PySide6.QtCore import QCoreApplication

from app.history.records import Problem
from app.supervisor.reason_words import explain
from app.supervisor.state import Reason, ReasonCode


def problem_words(problem: Problem) -> str:
    """The sentence for a problem."""
    reason = problem.code.removeprefix("engine_")
    if problem.code.startswith("engine_") and reason in set(ReasonCode):
        detail = str(problem.params.get("detail") or "")
        return explain(Reason(ReasonCode(reason), problem.params, detail))
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
            "“Another answer” tries again.",
        ),
        "out_of_context": translate(
            "ChatProblems",
            "The context is full. Begin a new conversation, or choose a larger context in the settings.",
        ),
        "interrupted": translate(
            "ChatProblems",
            "Stratum ended in the middle of this answer. What had arrived is kept; “Continue” goes on "
            "with it.",
        ),
        "tool_limit": translate(
            "ChatProblems", "The model has called tools as often as is allowed for one answer."
        ),
        "repeat": translate(
            "ChatProblems", "The answer was ended because the model repeated itself."
        ),
        "pdf_cut": translate(
            "ChatProblems", "The PDF is very long; only its beginning is attached."
        ),
        "pdf_pages_without_text": translate(
            "ChatProblems", "Some pages have no text (scanned pictures); they are left out."
        ),
    }.get(note, note)


def _sentences() -> dict[str, str]:
    translate = QCoreApplication.translate
    return {
        "nothing_to_send": translate(
            "ChatProblems",
            "There is nothing to send yet.",
        ),
        "nothing_to_answer": translate(
            "ChatProblems",
            "There is no message to answer.",
        ),
        "cannot_continue": translate(
            "ChatProblems",
            "This message is complete.",
        ),
        "answer_running": translate(
            "ChatProblems",
            "An answer is being made. Stop it, or wait for its end.",
        ),
        "attachment_pending": translate(
            "ChatProblems",
            "A file is still being read. Wait a moment.",
        ),
        "attachment_folder": translate(
            "ChatProblems",
            "{name} is a folder. Attach the files that are in it.",
        ),
        "attachment_unreadable": translate(
            "ChatProblems",
            "{name} cannot be read. Check that it is still there and belongs to you.",
        ),
        "attachment_empty": translate(
            "ChatProblems",
            "{name} is empty.",
        ),
        "attachment_too_large": translate(
            "ChatProblems",
            "{name} is too large: {size_bytes} bytes; at most {limit_bytes} can be attached. Attach the part that matters.",
        ),
        "attachment_office": translate(
            "ChatProblems",
            "{name} is an office document, which cannot be read. Save it as PDF or as text, and attach that.",
        ),
        "attachment_no_text": translate(
            "ChatProblems",
            "{name} is neither text nor PDF. Only text, code, PDF and pictures can be attached.",
        ),
        "attachment_no_picture": translate(
            "ChatProblems",
            "This is no picture that can be read. JPEG, PNG, WebP, GIF, BMP, TIFF, HEIC and AVIF can.",
        ),
        "image_unsupported": translate(
            "ChatProblems",
            "This model runs without its image encoder, so it cannot see pictures. Describe the picture in words, or copy its text.",
        ),
        "pdf_encrypted": translate(
            "ChatProblems",
            "{name} is protected by a password. Save it without one, and attach that.",
        ),
        "pdf_without_text": translate(
            "ChatProblems",
            "{name} has no text in it; its pages are pictures, as from a scanner. Run a text recognition over it first.",
        ),
        "pdf_damaged": translate(
            "ChatProblems",
            "{name} is damaged and cannot be read. Open it in a PDF viewer, save it again, and attach that.",
        ),
        "engine_not_running": translate(
            "ChatProblems",
            "The engine does not run. Start it, and try again.",
        ),
        "engine_unreachable": translate(
            "ChatProblems",
            "The engine cannot be reached. Start it, and try again.",
        ),
        "engine_timeout": translate(
            "ChatProblems",
            "The engine did not answer in time. Try again; if it goes on, restart the engine.",
        ),
        "engine_cut_off": translate(
            "ChatProblems",
            "The engine went away in the middle of its answer. What had arrived is kept; “Continue” goes on with it.",
        ),
        "engine_failed": translate(
            "ChatProblems",
            "The engine failed. What had arrived is kept; “Continue” goes on with it. The log says more.",
        ),
        "not_an_engine": translate(
            "ChatProblems",
            "What answers at {url} is not Stratum's engine. Another program uses its port.",
        ),
        "context_length_exceeded": translate(
            "ChatProblems",
            "The conversation is too long for the model: {n_prompt_tokens} tokens, and its context has {n_ctx}. Begin a new conversation, remove attachments, or choose a larger context in the settings.",
        ),
        "invalid_api_key": translate(
            "ChatProblems",
            "The engine asks for another key. Restart it, or put the key right in the settings.",
        ),
        "queue_full": translate(
            "ChatProblems",
            "Too many requests wait already. Try again in a moment.",
        ),
        "queue_timeout": translate(
            "ChatProblems",
            "The request waited too long behind others. Try again.",
        ),
        "insufficient_vram": translate(
            "ChatProblems",
            "Other programs use the graphics card's memory. Close them, and try again.",
        ),
        "load_failed": translate(
            "ChatProblems",
            "The model could not be loaded. The log says why.",
        ),
        "request_too_large": translate(
            "ChatProblems",
            "The message is too large to be sent. Remove an attachment.",
        ),
        "invalid_image": translate(
            "ChatProblems",
            "A picture cannot be read. Remove it, and try again.",
        ),
        "shutting_down": translate(
            "ChatProblems",
            "The engine is being stopped. Start it again, and repeat the question.",
        ),
        "history_disk_full": translate(
            "ChatProblems",
            "The conversation is not saved: the disk with {path} is full. It stays here, and is saved as soon as there is room.",
        ),
        "history_not_writable": translate(
            "ChatProblems",
            "The conversation is not saved: {path} cannot be written ({reason}). It stays here, and is saved as soon as that is possible.",
        ),
        "history_locked": translate(
            "ChatProblems",
            "The conversation is not saved yet: another program holds {path}. It stays here, and is saved as soon as that program lets go.",
        ),
        "history_not_saved": translate(
            "ChatProblems",
            "The conversation is not saved ({reason}). It stays here, and saving is tried again.",
        ),
        "history_unreadable": translate(
            "ChatProblems",
            "The conversations in {path} cannot be read ({reason}). Try again.",
        ),
        "history_repaired": translate(
            "ChatProblems",
            "The file with the conversations was damaged. All {conversations} conversations could be read; the damaged file is kept as {aside}.",
        ),
        "history_recovered": translate(
            "ChatProblems",
            "The file with the conversations was damaged. {conversations} conversations with {messages} messages could be saved from it, others are lost. The damaged file is kept as {aside}.",
        ),
        "history_too_new": translate(
            "ChatProblems",
            "The conversations were written by a newer version of Stratum. Until it is updated, conversations are kept in {elsewhere}.",
        ),
        "history_not_opened": translate(
            "ChatProblems",
            "The file with the conversations, {path}, cannot be opened ({reason}). Until then conversations are kept in {elsewhere}.",
        ),
        "import_refused": translate(
            "ChatProblems",
            "{path} cannot be imported. Choose a Markdown file or one that Stratum has exported.",
        ),
        "import_too_new": translate(
            "ChatProblems",
            "{path} was written by a newer version of Stratum. Update Stratum to import it.",
        ),
        "unexpected": translate(
            "ChatProblems",
            "Something unexpected happened ({reason}). Try again; the log has the details.",
        ),
    }
