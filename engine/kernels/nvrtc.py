"""NVRTC, NVIDIA's compiler library, through ctypes: found in the wheels or on the system, and called.

It needs no driver, no card and no headers, so the same calls compile on a user's PC and in CI.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from engine.core.errors import ResourceError

_PATTERNS = (
    ("*/bin/nvrtc64_*.dll", "*/bin/*/nvrtc64_*.dll")
    if sys.platform == "win32"
    else ("*/lib/libnvrtc.so.*",)
)
_SYSTEM_NAMES = (
    ("nvrtc64_120_0.dll", "nvrtc64_130_0.dll")
    if sys.platform == "win32"
    else ("libnvrtc.so.12", "libnvrtc.so.13", "libnvrtc.so")
)
_MISSING = (
    "NVIDIA's compiler NVRTC is not installed; run the installer again, or install package "
    "nvidia-cuda-nvrtc-cu12."
)


class CompileError(ResourceError):
    """A source does not compile; the message holds the start of the compiler's log."""

    code = "gpu_compile"


class Nvrtc:
    """The loaded library.

    Attributes:
        version: (major, minor).
        architectures: that it can compile for, such as 89, ascending.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        library.nvrtcGetErrorString.restype = ctypes.c_char_p
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._check("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
        self.version = (major.value, minor.value)
        count = ctypes.c_int()
        self._check("nvrtcGetNumSupportedArchs", ctypes.byref(count))
        known = (ctypes.c_int * count.value)()
        self._check("nvrtcGetSupportedArchs", known)
        self.architectures = tuple(sorted(known))

    def compile(
        self, name: str, source: str, headers: Mapping[str, str], options: Sequence[str]
    ) -> tuple[bytes, str]:
        """Compile a source.

        Args:
            name: for messages.
            source: its text.
            headers: texts by the names under which they are included.
            options: with `--gpu-architecture=sm_..` the result is a cubin, with `compute_..` PTX.

        Returns:
            The image, and the compiler's log.

        Raises:
            CompileError: it does not compile.
        """
        program = ctypes.c_void_p()
        texts = (ctypes.c_char_p * len(headers))(*(text.encode() for text in headers.values()))
        names = (ctypes.c_char_p * len(headers))(*(key.encode() for key in headers))
        self._check(
            "nvrtcCreateProgram",
            ctypes.byref(program),
            source.encode(),
            name.encode(),
            len(headers),
            texts,
            names,
        )
        try:
            words = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
            status = self._library.nvrtcCompileProgram(program, len(options), words)
            log = self._text(program, "nvrtcGetProgramLog").rstrip(b"\0").decode(errors="replace")
            if status != 0:
                said = log.strip()[:4000] or self._library.nvrtcGetErrorString(status).decode()
                raise CompileError(f"The GPU kernels of {name} do not compile: {said}")
            is_ptx = any("=compute_" in option for option in options)
            return self._text(program, "nvrtcGetPTX" if is_ptx else "nvrtcGetCUBIN"), log
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))

    def _text(self, program: ctypes.c_void_p, name: str) -> bytes:
        size = ctypes.c_size_t()
        self._check(f"{name}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self._check(name, program, buffer)
        return buffer.raw[: size.value]

    def _check(self, name: str, *arguments: object) -> None:
        status = self._library[name](*arguments)
        if status != 0:
            said = self._library.nvrtcGetErrorString(status).decode()
            raise CompileError(f"NVIDIA's compiler NVRTC failed ({name}: {said}).")


@functools.cache
def load_nvrtc() -> Nvrtc:
    """The newest NVRTC of the installed wheels, else one of the system.

    Raises:
        ResourceError: there is none that can be loaded.
    """
    reasons = []
    for path in [*(str(path) for path in wheel_libraries()), *_SYSTEM_NAMES]:
        folder = Path(path).parent
        if sys.platform == "win32" and folder.is_absolute():
            os.add_dll_directory(str(folder))  # its builtins are beside it
        try:
            return Nvrtc(ctypes.CDLL(path))
        except (OSError, AttributeError) as error:
            if folder.is_absolute():
                reasons.append(f"{path}: {error}")
    raise ResourceError(f"{_MISSING} ({'; '.join(reasons)})" if reasons else _MISSING)


def wheel_libraries(roots: Sequence[Path] | None = None) -> list[Path]:
    """Files of NVRTC in wheels, the newest first.

    Args:
        roots: folders `nvidia` of site-packages; None for those of this Python.
    """
    if roots is None:
        spec = importlib.util.find_spec("nvidia")
        roots = [Path(folder) for folder in (spec and spec.submodule_search_locations) or ()]
    found = [
        path
        for root in roots
        for pattern in _PATTERNS
        for path in root.glob(pattern)
        if ".alt." not in path.name and "builtins" not in path.name
    ]
    return sorted(found, key=_version, reverse=True)


def _version(path: Path) -> int:
    """`libnvrtc.so.12` and `nvrtc64_120_0.dll` are 12."""
    match = re.search(r"nvrtc64_(\d+)\d_|so\.(\d+)", path.name)
    return int(match.group(1) or match.group(2)) if match else 0
