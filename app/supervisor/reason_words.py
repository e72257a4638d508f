"""Why the engine does not run, and what to do about it, in the person's language."""

from __future__ import annotations

from PySide6.QtCore import QCoreApplication

from app.supervisor.state import Reason, ReasonCode


def explain(reason: Reason) -> str:
    """One or two sentences: the cause and the way out; then the engine's own words, where they help."""
    sentence = _sentence(reason)
    if reason.code in _WITH_DETAIL and reason.detail:
        # The engine's sentence names the file, the key or the sizes; it is English in every language.
        return f"{sentence}\n{reason.detail}"
    return sentence


_WITH_DETAIL = frozenset(
    {
        ReasonCode.OUT_OF_MEMORY,
        ReasonCode.VRAM_IN_USE,
        ReasonCode.GPU_DRIVER,
        ReasonCode.MODEL_DAMAGED,
        ReasonCode.MODEL_MISSING,
        ReasonCode.CONFIG_BROKEN,
        ReasonCode.PROGRAM_BROKEN,
        ReasonCode.PROCESSOR,
        ReasonCode.UNKNOWN,
    }
)


def _sentence(reason: Reason) -> str:
    code = reason.code
    if code is ReasonCode.PORT_IN_USE:
        return _port_in_use(reason)
    text = _of_pc(code) or _of_files(code) or _of_process(code)
    values = {key: "" if value is None else str(value) for key, value in reason.params.items()}
    for key in ("path", "seconds", "pid"):
        text = text.replace("{" + key + "}", values.get(key, "?"))
    return text


def _of_pc(code: ReasonCode) -> str:
    """Sentences about the machine; empty for another code."""
    translate = QCoreApplication.translate
    if code is ReasonCode.OUT_OF_MEMORY:
        return translate(
            "Reason",
            "The memory of this PC ran out. Close other programs, or choose a smaller model or a "
            "shorter context in the settings.",
        )
    if code is ReasonCode.KILLED:
        return translate(
            "Reason",
            "The system or another program ended the engine, most often because the memory of this "
            "PC ran out. If it happens again, close other programs, or choose a smaller model or a "
            "shorter context in the settings.",
        )
    if code is ReasonCode.VRAM_IN_USE:
        return translate(
            "Reason",
            "Other programs use the memory of the graphics card. Close them; the next question "
            "tries again.",
        )
    if code is ReasonCode.GPU_DRIVER:
        return translate(
            "Reason",
            "The graphics card or its driver does not work. Restart the PC; if that does not help, "
            "install the newest NVIDIA driver.",
        )
    if code is ReasonCode.PROCESSOR:
        return translate(
            "Reason",
            "This processor lacks instructions that the engine needs. Set “ops” to “reference” in "
            "the settings, which is slow but works.",
        )
    return ""


def _of_files(code: ReasonCode) -> str:
    """Sentences about files; empty for another code."""
    translate = QCoreApplication.translate
    if code is ReasonCode.MODEL_DAMAGED:
        return translate(
            "Reason",
            "The model file is damaged or of a kind that is not known, or its drive fails. Check "
            "the drive, and add the model again.",
        )
    if code is ReasonCode.MODEL_MISSING:
        return translate(
            "Reason",
            "The model file is not there. Connect its drive, or add the model again.",
        )
    if code is ReasonCode.NO_MODEL:
        return translate("Reason", "No model is installed yet. Add one to begin.")
    if code is ReasonCode.CONFIG_MISSING:
        return translate(
            "Reason",
            "The run config {path} is not there. Choose another model, or add the model again.",
        )
    if code is ReasonCode.CONFIG_BROKEN:
        return translate(
            "Reason",
            "A setting of the model cannot be used. Correct it in the settings, or add the model "
            "again.",
        )
    if code is ReasonCode.PROGRAM_BROKEN:
        return translate(
            "Reason",
            "A part of Stratum is missing or does not start. Run the setup again; it repairs what "
            "is missing.",
        )
    return ""


def _of_process(code: ReasonCode) -> str:
    """Sentences about the engine's process."""
    translate = QCoreApplication.translate
    if code is ReasonCode.NO_ANSWER:
        return translate("Reason", "The engine has not answered for {seconds} seconds. Try again.")
    if code is ReasonCode.START_HUNG:
        return translate(
            "Reason",
            "The engine did not get ready within {seconds} seconds. Try again; if it goes on, "
            "restart the PC.",
        )
    if code is ReasonCode.WILL_NOT_END:
        return translate(
            "Reason",
            "The engine (process {pid}) does not end, although it was forced to; the system still "
            "holds it. Its memory comes back when it ends, or after a restart of the PC.",
        )
    if code is ReasonCode.BUSY:
        return translate(
            "Reason",
            "A request is running. Wait for its end, or stop it; then try again.",
        )
    if code is ReasonCode.ENDED_OUTSIDE:
        return translate("Reason", "The engine was ended from outside of this window.")
    return translate("Reason", "The engine ended unexpectedly. Try again; its log says more.")


def _port_in_use(reason: Reason) -> str:
    translate = QCoreApplication.translate
    params = reason.params
    owner = params.get("owner")
    if owner:
        text = translate("Reason", "Port {port} is in use by another program ({owner}).")
    else:
        text = translate("Reason", "Port {port} is in use by another program.")
    text = text.format(port=params.get("port", "?"), owner=owner)
    offered = params.get("offered")
    if offered is None:
        way_out = translate("Reason", "End that program, or choose another port in the settings.")
    else:
        way_out = translate("Reason", "End that program, or use port {offered} instead.")
        way_out = way_out.format(offered=offered)
    return f"{text} {way_out}"
