"""What the engine's state is called, in the person's language.

One place for tray, window and notifications, so that all of them say the same word. Qt's widgets are
not needed here.
"""

from __future__ import annotations

from PySide6.QtCore import QCoreApplication

from app.supervisor.state import Activity, EngineState, Phase

CARD_CHECK = "card check"  # the engine's word for this step of loading


def state_title(state: EngineState) -> str:
    """The state in a few words, such as "Loading 42 %"."""
    translate = QCoreApplication.translate  # under this name the texts are found
    if state.phase is Phase.READY:
        if state.activity is Activity.RELEASING:
            return translate("State", "Giving memory back")
        return (
            translate("State", "Ready") if state.is_loaded else translate("State", "Memory is free")
        )
    if state.phase is Phase.BUSY:
        return _activity(state.activity)
    if state.phase is Phase.LOADING:
        if state.progress is None:
            return translate("State", "Loading")
        percent = int(state.progress.share * 100)
        if state.progress.step == CARD_CHECK:
            return translate("State", "Checking the graphics card, once: {percent} %").format(
                percent=percent
            )
        return translate("State", "Loading {percent} %").format(percent=percent)
    if state.phase is Phase.STARTING:
        return (
            translate("State", "Starting again") if state.reason else translate("State", "Starting")
        )
    if state.phase is Phase.STOPPING:
        return translate("State", "Giving memory back")
    if state.phase is Phase.FAILED:
        return translate("State", "Does not run")
    return translate("State", "Stopped")


def state_explanation(state: EngineState) -> str:
    """One more sentence where the title alone leaves a question; else empty."""
    if state.phase is Phase.READY and not state.is_loaded:
        return QCoreApplication.translate("State", "The next question loads the model again.")
    if state.queued > 0:
        return QCoreApplication.translate("State", "Requests that wait: {count}").format(
            count=state.queued
        )
    return ""


def tooltip_of(state: EngineState) -> str:
    """What the pointer sees over the sign beside the clock."""
    lines = [f"Stratum: {state_title(state)}", state.model, state_explanation(state)]
    return "\n".join(line for line in lines if line)


def _activity(activity: Activity) -> str:
    translate = QCoreApplication.translate  # under this name the texts are found
    if activity is Activity.READING:
        return translate("State", "Reading")
    if activity is Activity.THINKING:
        return translate("State", "Thinking")
    if activity is Activity.TOOL_CALL:
        return translate("State", "Calling a tool")
    if activity is Activity.RELEASING:
        return translate("State", "Giving memory back")
    return translate("State", "Answering")
