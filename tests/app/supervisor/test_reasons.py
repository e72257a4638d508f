"""Why an engine ended, from what is left of it."""

import pytest

from app.supervisor.reasons import is_final, reason_of_code, reason_of_exit
from app.supervisor.state import ReasonCode
from engine.core.error_lines import error_line
from engine.core.errors import EngineError


@pytest.mark.parametrize(
    ("status", "lines", "code"),
    [
        (-9, ["INFO answering"], ReasonCode.KILLED),
        (137, [], ReasonCode.KILLED),
        (1, ["Traceback", "MemoryError"], ReasonCode.OUT_OF_MEMORY),
        (1, ["OSError: [Errno 12] Cannot allocate memory"], ReasonCode.OUT_OF_MEMORY),
        (-6, ["terminate called after throwing: std::bad_alloc"], ReasonCode.OUT_OF_MEMORY),
        (0xC0000017, [], ReasonCode.OUT_OF_MEMORY),
        (-7, [], ReasonCode.MODEL_DAMAGED),
        (0xC0000006, [], ReasonCode.MODEL_DAMAGED),
        (-4, [], ReasonCode.PROCESSOR),
        (0xC000001D, [], ReasonCode.PROCESSOR),
        (1, ["CUDA_ERROR_NO_DEVICE: no device"], ReasonCode.GPU_DRIVER),
        (1, ["NVMLError_LibraryNotFound: NVML Shared Library Not Found"], ReasonCode.GPU_DRIVER),
        (1, ["ModuleNotFoundError: No module named 'numpy'"], ReasonCode.PROGRAM_BROKEN),
        (1, ["something else", ""], ReasonCode.UNKNOWN),
        (-11, [], ReasonCode.UNKNOWN),
        (None, [], ReasonCode.UNKNOWN),
    ],
)
def test_the_exit_status_and_the_log_tell_the_reason(status, lines, code):
    assert reason_of_exit(status, lines).code is code


def test_an_unknown_reason_brings_the_last_line_that_says_something():
    reason = reason_of_exit(3, ["first", "  the   cause\n", "", " "])
    assert (reason.code, reason.detail) == (ReasonCode.UNKNOWN, "the cause")
    assert reason.params == {"exit_status": 3}


def test_that_all_was_well_is_no_reason():
    lines = ["13:44:57 WARNING engine: odd", "13:44:58 INFO engine.commands.serve: model: ready"]
    assert reason_of_exit(-9, lines).detail == ""
    assert reason_of_exit(-9, lines[:1]).detail == lines[0]


def test_words_of_long_ago_are_not_the_cause():
    lines = ["MemoryError", *(f"line {number}" for number in range(50))]
    assert reason_of_exit(1, lines).code is ReasonCode.UNKNOWN


def test_the_engines_own_error_comes_before_everything_else():
    error = EngineError("Port 8080 is in use.", code="port_in_use", params={"port": 8080})
    reason = reason_of_exit(2, ["MemoryError", error_line(error), "engine serve: Port 8080 ..."])
    assert reason.code is ReasonCode.PORT_IN_USE
    assert reason.params == {"port": 8080}
    assert reason.detail == "Port 8080 is in use."
    assert is_final(reason)


@pytest.mark.parametrize(
    ("code", "params", "found"),
    [
        ("gpu_not_there", {"card": "1"}, ReasonCode.CONFIG_BROKEN),
        ("gpu_twice", {}, ReasonCode.CONFIG_BROKEN),
        ("gpus_too_small", {}, ReasonCode.CONFIG_BROKEN),
        ("kv_type_needs_card", {}, ReasonCode.CONFIG_BROKEN),
        ("gpu_no_driver", {}, ReasonCode.GPU_DRIVER),
        ("gpu_driver_too_old", {}, ReasonCode.GPU_DRIVER),
        ("insufficient_ram", {}, ReasonCode.OUT_OF_MEMORY),
        ("out_of_memory", {}, ReasonCode.OUT_OF_MEMORY),
        ("insufficient_vram", {}, ReasonCode.VRAM_IN_USE),
        ("file_truncated", {}, ReasonCode.MODEL_DAMAGED),
        ("gguf_version", {}, ReasonCode.MODEL_DAMAGED),
        ("file_missing", {}, ReasonCode.MODEL_MISSING),
        ("config", {}, ReasonCode.CONFIG_BROKEN),
        ("format_too_new", {}, ReasonCode.CONFIG_BROKEN),
        ("cpu_too_old", {}, ReasonCode.PROCESSOR),
        ("package_missing", {}, ReasonCode.PROGRAM_BROKEN),
        ("engine_failed", {"exit_status": -9}, ReasonCode.KILLED),
        ("engine_failed", {"exit_status": -7}, ReasonCode.MODEL_DAMAGED),
        ("engine_failed", {"exit_status": 3}, ReasonCode.UNKNOWN),
        ("engine_failed", {}, ReasonCode.UNKNOWN),
        ("something_new", {}, ReasonCode.UNKNOWN),
    ],
)
def test_a_code_of_the_engine_has_its_reason(code, params, found):
    reason = reason_of_code(code, "A sentence.", params)
    assert reason.code is found
    assert reason.engine_code == code
    assert reason.detail == "A sentence."
