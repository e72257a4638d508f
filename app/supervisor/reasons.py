"""Why an engine ended or does not load, found from its exit status, its log and its own codes."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping, Sequence

from app.supervisor.state import Reason, ReasonCode
from engine.core.error_lines import parse_error_line
from engine.core.errors import EngineError, ParameterValue

# The engine's codes that have a sentence of their own here; whatever else a model file can be refused
# for begins with one of `_MODEL_PREFIXES`.
_BY_CODE = {
    "out_of_memory": ReasonCode.OUT_OF_MEMORY,
    "insufficient_ram": ReasonCode.OUT_OF_MEMORY,
    "insufficient_vram": ReasonCode.VRAM_IN_USE,
    "port_in_use": ReasonCode.PORT_IN_USE,
    "model_file": ReasonCode.MODEL_DAMAGED,
    "not_gguf": ReasonCode.MODEL_DAMAGED,
    "bad_tokenizer": ReasonCode.MODEL_DAMAGED,
    "file_missing": ReasonCode.MODEL_MISSING,
    "shard_missing": ReasonCode.MODEL_MISSING,
    "not_a_file": ReasonCode.MODEL_MISSING,
    "file_not_readable": ReasonCode.CONFIG_MISSING,
    "config": ReasonCode.CONFIG_BROKEN,
    "unusable_input": ReasonCode.CONFIG_BROKEN,
    "format_too_new": ReasonCode.CONFIG_BROKEN,
    "host_not_usable": ReasonCode.CONFIG_BROKEN,
    "context_too_long": ReasonCode.CONFIG_BROKEN,
    "before_load_failed": ReasonCode.CONFIG_BROKEN,
    "gpu_not_there": ReasonCode.CONFIG_BROKEN,
    "gpu_twice": ReasonCode.CONFIG_BROKEN,
    "gpus_too_small": ReasonCode.CONFIG_BROKEN,
    "kv_type_needs_card": ReasonCode.CONFIG_BROKEN,
    "cpu_too_old": ReasonCode.PROCESSOR,
    "package_missing": ReasonCode.PROGRAM_BROKEN,
    "gpu_driver": ReasonCode.GPU_DRIVER,
    "gpu_no_driver": ReasonCode.GPU_DRIVER,
    "gpu_driver_too_old": ReasonCode.GPU_DRIVER,
}
_MODEL_PREFIXES = ("file_", "gguf_", "shard_", "unknown_", "unsupported_tensor", "no_kernel")

# Exit statuses: POSIX signals (also as a shell gives them, 128 + number) and Windows' NTSTATUS.
_BY_STATUS = {
    0xC0000017: ReasonCode.OUT_OF_MEMORY,  # STATUS_NO_MEMORY
    0xC000012D: ReasonCode.OUT_OF_MEMORY,  # STATUS_COMMITMENT_LIMIT
    0xC0000006: ReasonCode.MODEL_DAMAGED,  # STATUS_IN_PAGE_ERROR: the drive is gone or damaged
    0xC000001D: ReasonCode.PROCESSOR,  # STATUS_ILLEGAL_INSTRUCTION
}
_BY_SIGNAL = {
    "SIGKILL": ReasonCode.KILLED,
    "SIGBUS": ReasonCode.MODEL_DAMAGED,  # the mapped file was changed, or the drive failed
    "SIGILL": ReasonCode.PROCESSOR,
}

# Words in a log, the first that matches counts.
_BY_WORDS = (
    (
        re.compile(
            r"\bMemoryError\b|Cannot allocate memory|std::bad_alloc|OutOfMemory|memory ran out",
            re.I,
        ),
        ReasonCode.OUT_OF_MEMORY,
    ),
    (
        re.compile(r"CUDA_ERROR|cudaError|NVML|libcuda|nvcuda|NVIDIA driver|CUDA driver|nvrtc"),
        ReasonCode.GPU_DRIVER,
    ),
    (re.compile(r"ModuleNotFoundError|No module named|ImportError"), ReasonCode.PROGRAM_BROKEN),
)
# How far back in the log a cause is looked for.
_LAST_LINES = 40
_MAX_DETAIL_CHARS = 400
_ALL_IS_WELL = re.compile(r"\S+ (DEBUG|INFO) ")


def reason_of_error(error: EngineError) -> Reason:
    """The reason in an error of the engine (or of reading its config)."""
    return reason_of_code(error.code, error.message, error.params)


def reason_of_code(code: str, message: str, params: Mapping[str, ParameterValue]) -> Reason:
    """The reason for a code of the engine: from its command line or from `/status`."""
    if code == "engine_failed":  # its model process crashed, again and again
        status = params.get("exit_status")
        kind = _of_status(status) if isinstance(status, int) else None
        kind = kind or _of_words([message]) or ReasonCode.UNKNOWN
    else:
        kind = _BY_CODE.get(code) or _of_model_code(code) or _of_words([message])
    return Reason(kind or ReasonCode.UNKNOWN, dict(params), _short(message), code)


def reason_of_exit(status: int | None, lines: Sequence[str]) -> Reason:
    """Why a process ended that should have gone on.

    Args:
        status: exit status; negative for a signal, None when nobody knows it.
        lines: the end of its log.
    """
    for line in reversed(lines):
        error = parse_error_line(line)
        if error is not None:
            return reason_of_error(error)
    last = [line for line in lines if line.strip()][-_LAST_LINES:]
    kind = _of_words(last)
    if kind is None and status is not None:
        kind = _of_status(status)
    params: dict[str, ParameterValue] = {} if status is None else {"exit_status": status}
    return Reason(kind or ReasonCode.UNKNOWN, params, _detail(last))


def is_final(reason: Reason) -> bool:
    """Whether another start would end in the same way, so that none is made without being asked."""
    return bool(reason.engine_code) or reason.code is ReasonCode.PROGRAM_BROKEN


def _of_model_code(code: str) -> ReasonCode | None:
    return ReasonCode.MODEL_DAMAGED if code.startswith(_MODEL_PREFIXES) else None


def _of_status(status: int) -> ReasonCode | None:
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    number = -status if status < 0 else status - 128
    try:
        return _BY_SIGNAL.get(signal.Signals(number).name)
    except ValueError:
        return None


def _of_words(lines: Sequence[str]) -> ReasonCode | None:
    for words, kind in _BY_WORDS:
        if any(words.search(line) for line in lines):
            return kind
    return None


def _detail(lines: Sequence[str]) -> str:
    """The engine's last words, if they are about something that went wrong."""
    if not lines or _ALL_IS_WELL.match(lines[-1]):
        return ""
    return _short(lines[-1])


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MAX_DETAIL_CHARS else text[: _MAX_DETAIL_CHARS - 1] + "…"
